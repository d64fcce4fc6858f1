"""One way to print rows: an aligned table for people, JSON or CSV for programs."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Mapping, Sequence

import numpy as np

from .checks import as_choice
from .files import to_plain

Row = Mapping[str, object]


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--csv`, the flags of every command that prints rows; `form` is then what `render` takes."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="table", help="print JSON")
    form.add_argument("--csv", dest="form", action="store_const", const="csv", help="print CSV in full precision")


def render(rows: Sequence[Row], form: str = "table", *, digits: int = 6) -> str:
    """Rows that share their keys, as "table", "json" or "csv"; numbers of the table are cut to `digits` digits.

    >>> print(render([{"N": 8, "miss": 0.43046721}, {"N": 16, "miss": 0.18530202}], digits=3))
     N   miss
     8   0.43
    16  0.185
    """
    as_choice("form", form, ("table", "json", "csv"))
    if form == "json":
        return json.dumps(list(rows), indent=2, default=to_plain)
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: to_cell(value) for key, value in row.items()} for row in rows)
        return text.getvalue().rstrip("\n")
    return _aligned(rows, digits)


def to_cell(value: object) -> object:
    """A CSV cell: numbers in full precision, nothing for None."""
    return "" if value is None else value.item() if isinstance(value, np.generic) else value


def number(value: object, digits: int) -> str:
    """A number as people read it: whole numbers in full, others to at most `digits` significant digits."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, float):
        return "-" if value is None else str(value)
    return f"{value:.{digits}g}"


def _aligned(rows: Sequence[Row], digits: int) -> str:
    if not rows:
        return "(no rows)"
    names = list(rows[0])
    cells = [names, *([number(row[name], digits) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = [isinstance(rows[0][name], str) for name in names]
    lines = (
        "  ".join(
            cell.ljust(w) if is_left else cell.rjust(w) for cell, w, is_left in zip(line, widths, left, strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)
