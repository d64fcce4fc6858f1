"""`fgrpo figures list | draw | studies | mazes | report`.

fgrpo figures draw figure1 worst_group_size --formats png
fgrpo figures draw all
fgrpo figures report
fgrpo figures explore --out explore.html
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgrpo_theory.foundation.printing import add_form, render

from . import catalogue
from .inputs import SOURCES, MissingResult, Results
from .registry import FORMATS, draw, entry


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = commands.add_parser(
        "list",
        help="every figure, where it comes from and what it needs",
        description="The figures by name, and the commands whose results each of them still lacks. "
        "Example: fgrpo figures list --results results",
    )
    listing.add_argument("--results", default="results", help="folder with the result tables (default: results)")
    add_form(listing)
    listing.set_defaults(run=run_list)

    drawing = commands.add_parser(
        "draw",
        help="draw figures, with their numbers as JSON beside them",
        description="Draws from result tables alone, with the numbers as JSON beside each picture. With `all`, figures whose "
        "tables are missing are left out and named. Example: fgrpo figures draw figure1 worst_group_size --formats png",
    )
    drawing.add_argument("names", nargs="*", default=["all"], metavar="NAME", help="figures by name, or all (default)")
    drawing.add_argument("--results", default="results", help="folder with the result tables (default: results)")
    drawing.add_argument("--out", help="folder for the pictures (default: RESULTS/figures)")
    drawing.add_argument("--formats", nargs="+", default=list(FORMATS), metavar="FORMAT", help=" ".join(FORMATS))
    drawing.add_argument("--strict", action="store_true", help="with all: exit 1 if a figure's table is missing")
    drawing.set_defaults(run=run_draw)

    comparing = commands.add_parser(
        "studies",
        help="the language-model studies as one table: every arm at equal steps and at equal mu",
        description="Prints pass@k, exact masses and rare NLL of every study and arm, with 95 %% intervals, each seed, and the "
        "difference to GRPO. Example: fgrpo figures studies --results results --csv",
    )
    comparing.add_argument("--results", default="results", help="folder with the result tables (default: results)")
    add_form(comparing)
    comparing.set_defaults(run=run_studies)

    mazes = commands.add_parser(
        "mazes",
        help="the maze study as one table, beside table 4 of the paper",
        description="Prints pass@1 and pass@k of every run at the end with 95 %% intervals over mazes, the drop on the way, and "
        "the published values. Example: fgrpo figures mazes --results results --csv",
    )
    mazes.add_argument("--results", default="results", help="folder with the result tables (default: results)")
    mazes.add_argument(
        "--order", action="store_true", help="instead, the order of the exponents at the end for every N"
    )
    add_form(mazes)
    mazes.set_defaults(run=run_mazes)

    reporting = commands.add_parser(
        "report",
        help="one self-contained HTML file: claims, figures, tables, provenance",
        description="Writes one HTML file with every claim, figure and table that the results allow. "
        "Example: fgrpo figures report --results results --out report.html",
    )
    reporting.add_argument("--results", default="results", help="folder with the result tables (default: results)")
    reporting.add_argument("--out", help="the file to write (default: RESULTS/report.html)")
    reporting.set_defaults(run=run_report)

    exploring = commands.add_parser(
        "explore",
        help="the interactive page: N, mu, rare fraction and gamma as sliders",
        description="Writes one HTML file that computes the closed forms itself and needs no network. "
        "Example: fgrpo figures explore --out explore.html",
    )
    exploring.add_argument("--out", default="results/explore.html", help="the file to write (results/explore.html)")
    exploring.set_defaults(run=run_explore)


def run_list(arguments: argparse.Namespace) -> None:
    """Print the register."""
    results = Results(arguments.results)
    rows = []
    for name in catalogue.ORDER:
        figure = entry(name)
        missing = dict.fromkeys(SOURCES[need].command for need in results.missing(figure.needs))
        rows.append(
            {"figure": name, "paper": figure.source, "title": figure.title, "to do first": "; ".join(missing) or "-"}
        )
    print(render(rows, arguments.form))


def run_draw(arguments: argparse.Namespace) -> int:
    """Draw the named figures, or all whose tables exist; say which were left out and why."""
    results = Results(arguments.results)
    everything = arguments.names == ["all"]
    names = list(catalogue.ORDER) if everything else arguments.names
    for name in names:
        entry(name)
    out = Path(arguments.out or Path(arguments.results) / "figures")
    left_out = 0
    for name in names:
        try:
            paths = draw(name, results, out, arguments.formats)
        except MissingResult as error:
            if not everything:
                raise
            left_out += 1
            print(f"not drawn: {error}", file=sys.stderr)
        else:
            print(f"{name}: {', '.join(path.name for path in paths)}", file=sys.stderr)
    print(f"{len(names) - left_out} of {len(names)} figures are in {out}")
    return int(bool(left_out and arguments.strict))


def run_studies(arguments: argparse.Namespace) -> None:
    """Print the table of the studies."""
    from .study_table import table_rows

    print(render(table_rows(Results(arguments.results)), arguments.form, digits=4))


def run_mazes(arguments: argparse.Namespace) -> None:
    """Print the table of the maze study."""
    from .maze_order import order_rows
    from .maze_table import table_rows

    rows = order_rows if arguments.order else table_rows
    print(render(rows(Results(arguments.results)), arguments.form, digits=4))


def run_report(arguments: argparse.Namespace) -> None:
    """Write the report."""
    from .report import write_report

    print(f"the report is {write_report(arguments.results, arguments.out or Path(arguments.results) / 'report.html')}")


def run_explore(arguments: argparse.Namespace) -> None:
    """Write the interactive page."""
    from .explore import write_page

    print(f"the page is {write_page(arguments.out)}")
