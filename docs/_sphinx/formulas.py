"""Formulas as MathML, converted while the site is built (a Sphinx math renderer).

latex2mathml knows less of LaTeX than a browser script would; what it does not know it passes through. So the result is
checked: it must be XML, and hold no command or alignment mark as text. Anything else is a warning, and thereby an error.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

_LEFT_OVER = re.compile(r"\\|&(?!#?\w+;)")
_logger = logging.getLogger(__name__)


def to_mathml(latex: str, display: str) -> str:
    """A <math> element. Raises ValueError for LaTeX that does not convert in full."""
    result: str = convert(latex, display=display)
    try:
        text = "".join(ElementTree.fromstring(result).itertext())
    except ElementTree.ParseError as error:
        raise ValueError(f"formula does not become MathML: {latex} ({error})") from error
    if _LEFT_OVER.search(text):
        raise ValueError(f"formula holds LaTeX that is not known: {latex}")
    return result


def _append(translator: Any, node: nodes.Element, display: str, before: str, after: str) -> None:
    try:
        translator.body.append(before + to_mathml(node.astext(), display) + after)
    except ValueError as error:
        _logger.warning(str(error), location=node)
    raise nodes.SkipNode


def _visit_inline(translator: Any, node: nodes.Element) -> None:
    _append(translator, node, "inline", "", "")


def _visit_block(translator: Any, node: nodes.Element) -> None:
    _append(
        translator, node, "block", '<div class="formula" tabindex="0" role="group" aria-label="formula">', "</div>\n"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer as `mathml`."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
