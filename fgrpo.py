"""The front door: the `fgrpo` command, one sub-command a package, each imported only when it is used.

    fgrpo theory tail-miss --mu 0.3 --rho 0.1
    fgrpo reproduce

Exit codes: 0 done, 1 a check that the command makes has failed, 2 bad input (one line, no traceback), 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# sub-command: (module with `configure(parser)`, one line of help, the extra that installs what it needs)
COMMANDS = {
    "theory": ("fgrpo_theory.cli", "closed forms: tail miss, worst and safe group sizes, exact drift, proofs", ""),
    "sims": ("sims.cli", "categorical simulations and the cross-check of sampling against the closed forms", "sims"),
    "figures": ("figures.cli", "draw the figures and the report from result tables", "figures"),
    "reproduce": ("figures.reproduce", "rebuild the paper's theory and simulations, and the report", "sims,figures"),
}


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
        print("fgrpo: interrupted; finished work is kept, the same command goes on from there", file=sys.stderr)
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


def _missing(chosen: str | None, error: ModuleNotFoundError) -> int:
    extra = COMMANDS[chosen][2] if chosen in COMMANDS else ""
    if not extra or (error.name or "").split(".")[0] in ("fgrpo_theory", "sims", "figures"):
        raise error
    print(
        f"fgrpo {chosen}: error: {error.name} is not installed; pip install 'fgrpo[{extra}]' brings it", file=sys.stderr
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
