"""The front door: the `fgrpo` command, one sub-command a package, each imported only when it is used.

    fgrpo theory tail-miss --mu 0.3 --rho 0.1
    fgrpo reproduce

Exit codes: 0 done, 1 a check that the command makes has failed, 2 bad input (one line, no traceback), 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

# sub-command: (module with `configure(parser)`, one line of help, the extra that installs what it needs)
COMMANDS = {
    "theory": ("fgrpo_theory.cli", "closed forms: tail miss, worst and safe group sizes, exact drift, proofs", ""),
    "sims": ("sims.cli", "categorical simulations and the cross-check of sampling against the closed forms", "sims"),
    "llm": ("llm.cli", "train, evaluate and compare language models with GRPO and its focal twins", "llm"),
    "maze": ("maze.cli", "the maze study: one right path a prompt, group sizes from 4 to 128", "maze"),
    "figures": ("figures.cli", "draw the figures and the report from result tables", "figures"),
    "diagnose": (
        "figures.diagnosis.cli",
        "a verdict on your own runs: reads rollout logs of TRL, verl and others",
        "figures",
    ),
    "verl": ("llm.adapters.verl_cli", "check that verl sees the advantage estimator fgrpo", "verl"),
    "reproduce": (
        "fgrpo",
        "rebuild theory, simulations, small training runs, mazes and the report",
        "sims,figures,llm,maze",
    ),
}


# What `fgrpo reproduce` runs, in order; {out} is the results folder. Every step skips what it has already finished.
REPRODUCE = (
    "theory prove --out {out}/theory/proofs.json",
    "sims sweep --preset paper --out {out}/sims/paper",
    "sims sweep --preset surrogates --out {out}/sims/surrogates",
    "sims sweep --preset gammas --out {out}/sims/gammas",
    "sims crosscheck --out {out}/sims/crosscheck",
    "llm train --preset tiny --out {out}/llm/tiny",
    "llm train --preset tiny --gamma 1 --out {out}/llm/tiny-focal",
    "maze study --preset smoke --out {out}/maze/smoke",
    "figures draw all --results {out} --out {out}/figures",
    "figures report --results {out} --out {out}/report.html",
)


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line; every sub-parser inherits it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser(chosen: str | None) -> Parser:
    """The full parser, with the options of the `chosen` sub-command only, so that nothing else is imported."""
    parser = Parser(prog="fgrpo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traceback", action="store_true", help="show the full traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, (module, help_line, _) in COMMANDS.items():
        sub = commands.add_parser(name, help=help_line, description=help_line)
        if name == chosen:
            importlib.import_module(module).configure(sub)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if words is None else words)
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        arguments = build_parser(chosen).parse_args(words)
        return int(arguments.run(arguments) or 0)
    except ModuleNotFoundError as error:
        return _missing(chosen, error)
    except KeyboardInterrupt:
        print("fgrpo: interrupted; runs that a sweep or a training has finished are kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone; give the interpreter a working stdout to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if "--traceback" in words:
            raise
        print(f"fgrpo {chosen}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fgrpo reproduce`."""
    parser.add_argument(
        "--out", default="results", metavar="FOLDER", help="where results, figures and the report go (results)"
    )
    parser.set_defaults(run=run_reproduce)


def run_reproduce(arguments: argparse.Namespace) -> int:
    """Run every step as the command that is printed before it; 1 if a check failed, but the report is written all the same."""
    out = _results_folder(arguments.out)
    start, failed = time.monotonic(), []
    for step in REPRODUCE:
        words = [word.format(out=out) for word in step.split()]
        print(f"\n$ fgrpo {shlex.join(words)}", file=sys.stderr, flush=True)
        code = main(words)
        if code not in (0, 1):
            return code
        failed += [words] if code else []
    for words in failed:
        print(f"fgrpo reproduce: a check has failed in: fgrpo {shlex.join(words)}", file=sys.stderr)
    print(f"report: {out}/report.html ({time.monotonic() - start:.0f} s)")
    return int(bool(failed))


def _results_folder(name: str) -> Path:
    """The folder, made now: a wrong one must be refused before the work, not after it."""
    folder = Path(name)
    if not name.strip() or (folder.exists() and not folder.is_dir()):
        raise ValueError(f"out must be a folder, got out={name!r}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out must be a folder that can be written, got out={name!r} ({error.strerror})") from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"out must be a folder that can be written, got out={name!r}")
    return folder


def _missing(chosen: str | None, error: ModuleNotFoundError) -> int:
    extra = COMMANDS[chosen][2] if chosen in COMMANDS else ""
    if not extra or (error.name or "").split(".")[0] in ("fgrpo_theory", "sims", "llm", "maze", "figures"):
        raise error
    print(
        f"fgrpo {chosen}: error: {error.name} is not installed; pip install 'fgrpo[{extra}]' brings it", file=sys.stderr
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
