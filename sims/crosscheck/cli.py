"""`fgrpo sims crosscheck`: sampling that knows no law, against every law of fgrpo_theory.

fgrpo sims crosscheck
fgrpo sims crosscheck --replace tail-keeps-all-wrong     must exit 1
fgrpo sims crosscheck --list-wrong

Exit code 0: every cell passes and every wrong law is refused. 1: a cell fails or a wrong law survives.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import secrets
import sys
import time
from collections.abc import Sequence

from fgrpo_theory.foundation.checks import as_whole
from fgrpo_theory.foundation.files import output_folder
from fgrpo_theory.foundation.printing import add_form, render
from fgrpo_theory.foundation.signals import tidy_on_sigterm

from . import report
from .cells import FALSE_ALARM_RATE, Outcome, Suite, WrongLaw
from .registry import PROFILES, suite
from .runner import cells_of, draw_all, failures, judge_all, judge_wrong, survivors
from .wrong_laws import WRONG_LAWS, wrong_law

_OUT = "results/sims/crosscheck"


def configure_crosscheck(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command `crosscheck`."""
    parser = subparsers.add_parser(
        "crosscheck",
        help="check every law of fgrpo_theory against sampling code that knows none of them",
        description="Draws groups with code that knows no law, and sets every law against them; wrong laws must be refused. "
        "Exit code 1 if a cell fails or a wrong law survives. Example: fgrpo sims crosscheck --profile quick",
    )
    parser.add_argument(
        "--seed", type=int, help="root of the random streams (default: fresh entropy, which is printed)"
    )
    parser.add_argument(
        "--profile", choices=tuple(PROFILES), default="full", help="full, or quick: a sixteenth of the groups"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="threads (default: all cores); the result is the same"
    )
    parser.add_argument(
        "--replace", metavar="WRONG", help="put this wrong law in place of the right one; the check must then exit 1"
    )
    parser.add_argument("--list-wrong", action="store_true", help="list the wrong laws and stop")
    parser.add_argument("--out", help=f"folder for the results (default: {_OUT}; with --replace: nothing is written)")
    add_form(parser)
    parser.set_defaults(run=run_crosscheck)


@tidy_on_sigterm()
def run_crosscheck(arguments: argparse.Namespace) -> int:
    """Draw, judge, print, write. Raises ValueError for an unknown wrong law, a negative seed or no worker."""
    if arguments.list_wrong:
        print(
            render(
                [
                    {"wrong law": wrong.name, "in place of": wrong.replaces, "mistake": wrong.mistake}
                    for wrong in WRONG_LAWS.values()
                ],
                arguments.form,
            )
        )
        return 0
    replaced = None if arguments.replace is None else wrong_law(arguments.replace)
    seed = secrets.randbits(48) if arguments.seed is None else int(as_whole("seed", arguments.seed, least=0))
    workers = int(as_whole("workers", arguments.workers))
    out = None if replaced is not None and not arguments.out else output_folder(arguments.out or _OUT)
    print(f"seed {seed}", file=sys.stderr)
    begun = time.perf_counter()
    checked = suite(arguments.profile)
    totals = draw_all(checked.scenarios, seed, workers)
    right = judge_all(checked, totals, replaced)
    wrong = [] if replaced else judge_wrong(checked, totals, WRONG_LAWS.values())
    seconds = time.perf_counter() - begun
    _print(checked, right, wrong, replaced, arguments.form)
    if out is not None:
        about = {"seed": seed, "profile": arguments.profile, "seconds": seconds, "replaced": arguments.replace}
        report.write_results(out, checked, right, wrong, **about)
    print(_verdict(right, wrong, seconds), file=sys.stderr)
    return int(bool(failures(right) or survivors(wrong)))


def _print(
    checked: Suite, right: Sequence[Outcome], wrong: Sequence[Outcome], replaced: WrongLaw | None, form: str
) -> None:
    """The cells (with a replaced law: its own), and for people two tables more."""
    touched = {cell.label for cell in cells_of(checked, replaced)} if replaced else set()
    shown = [
        outcome
        for outcome in right
        if replaced is None or (outcome.law == replaced.replaces and outcome.cell in touched)
    ]
    print(
        render(
            [dataclasses.asdict(outcome) for outcome in shown] if form != "table" else list(map(_row, shown)),
            form,
            digits=5,
        )
    )
    if form == "table" and wrong:
        print()
        print(render(report.by_law(right), digits=3))
        print()
        print(render(report.by_wrong_law(wrong), digits=4))


def _row(outcome: Outcome) -> dict[str, object]:
    return {name: value for name, value in dataclasses.asdict(outcome).items() if name != "wrong_law"}


def _verdict(right: Sequence[Outcome], wrong: Sequence[Outcome], seconds: float) -> str:
    failed, alive = failures(right), survivors(wrong)
    names = len({outcome.wrong_law for outcome in wrong})
    lines = [
        f"{len(right) - len(failed)} of {len(right)} cells pass at a false-alarm rate of {FALSE_ALARM_RATE:g} for the suite "
        f"({seconds:.0f} s)"
    ]
    if wrong:
        lines.append(
            f"{names - len(alive)} of {names} wrong laws are refused" + (f"; not {', '.join(alive)}" if alive else "")
        )
    lines += [f"fails: {outcome.law}: {outcome.cell} (z {outcome.z:.2f})" for outcome in failed]
    return "\n".join(lines)
