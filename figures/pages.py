"""HTML pages of one file: jinja2 with escaping on, style and script by their digests, pictures as data URIs.

A page's content policy allows nothing but what it holds, so a text from a log cannot run, and nothing is fetched.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from fgrpo_theory.foundation.printing import number

from . import style
from .registry import to_bytes

TEMPLATES = Path(__file__).parent / "templates"


def template(name: str) -> jinja2.Template:
    """A template of this package; every value is escaped, and a missing one is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = number
    return environment.get_template(name)


def block(text: str) -> tuple[Markup, str]:
    """(text for a style or script element, its digest for the content policy); the template may add no space around it."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"


def stylesheet(name: str) -> dict[str, Any]:
    """`css` and `style_hash` of one of the package's style sheets."""
    css, digest = block((TEMPLATES / name).read_text(encoding="utf-8"))
    return {"css": css, "style_hash": digest}


def data_uri(picture: Figure) -> str:
    """A figure as a PNG inside the page."""
    return "data:image/png;base64," + base64.b64encode(to_bytes(picture, "png")).decode()


def laid_out(picture: Figure) -> Figure:
    """The figure with its layout fixed, in the style of all figures."""
    with style.applied():
        picture.draw_without_rendering()
        picture.set_layout_engine("none")
    return picture
