"""`fgrpo diagnose LOGS`: a verdict on your own runs.

    fgrpo diagnose run/completions
    fgrpo diagnose rollouts.parquet --column prompt=question --column reward=score --success-threshold 0.5
    fgrpo diagnose rollout_data --html diagnosis.html

Exit codes: 0 diagnosed (also where data are too few for a verdict), 2 the logs or options cannot be used.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fgrpo_theory.foundation.files import to_plain
from fgrpo_theory.foundation.printing import add_form, render

from .layouts import FORMATS, ROLES, parse_mapping
from .reading import Options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Reads rollout logs of TRL, verl, lm-evaluation-harness, this package, or any table, and says how many groups are "
        "active, how often rare correct answers are missed, and which group size and focal exponent to use. "
        "Example: fgrpo diagnose outputs/completions --html diagnosis.html"
    )
    parser.add_argument("logs", nargs="+", metavar="LOGS", help="files or folders (parquet, jsonl, jsonl.gz, csv)")
    parser.add_argument("--log-format", choices=FORMATS, help="the format of the logs, if it is not to be recognised")
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="ROLE=NAME",
        help=f"the column of a role ({', '.join(ROLES)}); repeatable",
    )
    parser.add_argument(
        "--success-threshold",
        type=float,
        metavar="R",
        help="a reward of at least R is a success (needed unless binary)",
    )
    parser.add_argument("--filter", metavar="NAME", help="lm-evaluation-harness: rows of this answer filter")
    parser.add_argument(
        "--rare", type=float, default=0.1, metavar="RHO", help="share of the correct answers not to be lost (0.1)"
    )
    parser.add_argument("--max-miss", type=float, default=0.05, metavar="P", help="largest tail miss allowed (0.05)")
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page with plots")
    add_form(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Diagnose and print."""
    from .diagnosis import diagnose

    if arguments.html is not None:
        _check_place(Path(arguments.html))
    mapping = parse_mapping(arguments.column)
    options = Options(arguments.log_format, mapping, arguments.success_threshold, arguments.filter)
    found = diagnose(
        arguments.logs,
        options,
        rare=arguments.rare,
        max_miss=arguments.max_miss,
        progress=_progress(sys.stderr.isatty()),
    )
    if arguments.html is not None:
        from .page import write_page

        write_page(found, arguments.html)
        print(f"page: {arguments.html}", file=sys.stderr)
    print(_printed(found, arguments.form))


def _printed(found: dict[str, object], form: str) -> str:
    from .tables import as_text, flat_rows

    if form == "json":
        return json.dumps(found, indent=2, default=to_plain, allow_nan=False)
    return render(flat_rows(found), "csv") if form == "csv" else as_text(found)


def _check_place(path: Path) -> None:
    """The page must be writable before the logs are read, not after."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ValueError(f"html must be a file in a folder that can be written, got html={str(path)!r}")


def _progress(visible: bool) -> Callable[[int, int, int], None] | None:
    """A line on stderr, rewritten twice a second."""
    if not visible:
        return None
    last = [0.0]

    def show(number: int, files: int, rows: int) -> None:
        if time.monotonic() - last[0] > 0.5:
            last[0] = time.monotonic()
            print(f"\rfile {number} of {files}, {rows} rows", end="", file=sys.stderr, flush=True)

    return show
