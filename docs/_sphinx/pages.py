"""What the site adds to the pages while it reads them, so that nothing is written twice.

- `<!-- map: Lemma 3.1 -->` becomes function, test and figure from the row of README's map that begins with those words.
- `<!-- README -->` becomes README, which is the site's first page.
- `<!-- rest -->` in a table of contents becomes every page that is not named there.
- A link to a file outside docs/ stays a link (the site keeps a copy of the file); one to a folder becomes its path.
- A notebook becomes a page: its text, and its code as code.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
MAP_HEADING = "## From equation to figure"
MARKER = re.compile(r"<!-- map: (.+?) -->")
FRONT_MARKER = "<!-- README -->"
REST_MARKER = "<!-- rest -->"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def equation_map() -> dict[str, list[str]]:
    """README's map: paper's number (first column) -> function, test, figure."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition(MAP_HEADING)[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {first: rest for first, *rest in cells}


def where(number: str) -> str:
    """One line: the function, test and figure of an equation. Raises ValueError for a number that is not in the map."""
    known = equation_map()
    if number not in known:
        raise ValueError(f"map must name a row of README's map, got {number!r}")
    function, test, figure = known[number]
    return f"*Function:* {function}. *Test:* {test}." + (f" *Figure:* {figure}." if figure else "")


def read_page(app: Sphinx, docname: str, content: list[str]) -> None:
    """Fill the markers and mend the links of one page."""
    source = Path(app.env.doc2path(docname))
    page, text = source.parent, content[0]
    text = notebook_text(json.loads(text), source.name) if source.suffix == ".ipynb" else text
    text = MARKER.sub(lambda found: where(found[1]), mend_links(text, page, page))
    readme = mend_links((ROOT / "README.md").read_text(encoding="utf-8"), ROOT, page)
    content[0] = text.replace(FRONT_MARKER, readme).replace(REST_MARKER, "\n".join(_rest(app, text)))


def _rest(app: Sphinx, text: str) -> list[str]:
    """Pages that the text does not name on a line of their own, the front page apart."""
    named = set(text.splitlines()) | {"index"}
    return sorted(name for name in app.env.found_docs if name not in named)


def mend_links(text: str, base: Path, page: Path) -> str:
    """Relative links of a text written for the folder `base`, as a page of the folder `page` needs them."""
    return _LINK.sub(lambda found: _mended(found, base, page), text)


def _mended(found: re.Match[str], base: Path, page: Path) -> str:
    image, label, path, anchor = found.groups()
    target = (base / path).resolve()
    if target.is_dir():
        return f"{label} ({target.relative_to(ROOT)}/)"
    target = DOCS / "index.md" if target == ROOT / "README.md" else target
    address = os.path.relpath(target, page) + (anchor or "")
    # MyST would offer a copy of a page that is no source of the site for download.
    return f'<a href="{address}">{label}</a>' if target.suffix == ".html" else f"{image}[{label}]({address})"


def notebook_text(notebook: dict[str, Any], name: str) -> str:
    """The cells of a notebook as one Markdown text, and a link to the file of that name."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join([*parts, f"{{download}}`The notebook <{name}>`"]) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the reader."""
    app.connect("source-read", read_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
