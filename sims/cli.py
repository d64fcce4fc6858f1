"""`fgrpo sims`: one simulation, a sweep over group sizes, and the cross-check of sampling against the closed forms."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.files import read_table
from fgrpo_theory.foundation.printing import add_form, render
from fgrpo_theory.foundation.runs import new_run
from fgrpo_theory.foundation.signals import tidy_on_sigterm

from .config import OPTIMIZERS, SURROGATES, ActionClass, SimConfig, Subset, field_help
from .presets import SIMULATIONS, SWEEPS, SweepConfig

# Fields of SimConfig with an option of their own: one number or word each.
_NUMBERS = {
    "group_size": int,
    "gamma": float,
    "learning_rate": float,
    "eps": float,
    "weight_decay": float,
    "reward_correct": float,
    "reward_wrong": float,
    "temperature": float,
    "steps": int,
    "record_every": int,
    "seed": int,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands to the `fgrpo sims` parser."""
    from .crosscheck.cli import configure_crosscheck

    commands = parser.add_subparsers(dest="sims_command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_sweep(commands)
    configure_crosscheck(commands)


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="one simulation; prints its trajectory",
        description="Runs one categorical policy and prints a row every --record-every steps. Options change the preset. "
        "Example: fgrpo sims run --preset paper --group-size 256 --gamma 1",
    )
    parser.add_argument(
        "--preset", choices=sorted(SIMULATIONS), default="paper", help="start from this simulation (paper)"
    )
    described = field_help(SimConfig)
    for name, kind in _NUMBERS.items():
        parser.add_argument(_flag(name), type=kind, metavar="N" if kind is int else "X", help=described[name])
    parser.add_argument("--surrogate", choices=SURROGATES, help=described["surrogate"])
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help=described["optimizer"])
    parser.add_argument("--betas", type=float, nargs=2, metavar=("B1", "B2"), help=described["betas"])
    parser.add_argument("--raw-rewards", action="store_true", help="do not subtract the batch mean from the rewards")
    parser.add_argument(
        "--classes",
        type=_action_class,
        nargs="+",
        metavar="LOGIT:SIZE:KIND",
        help="classes of start logits, KIND correct or wrong, e.g. 3:100:correct 0:900:wrong",
    )
    parser.add_argument(
        "--subsets",
        type=_subset,
        nargs="*",
        metavar="NAME:CLASS:SIZE",
        help="watch the tail miss of the first SIZE actions of class number CLASS (from 0)",
    )
    parser.add_argument(
        "--engine",
        choices=("sparse", "dense"),
        default="sparse",
        help="sparse: fast and exact; dense: the torch reference, on cuda where there is one (sparse)",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="also keep the run, as a run folder")
    add_form(parser)
    parser.set_defaults(run=run_one)


def _add_sweep(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "sweep",
        help="a grid of simulations over N, gamma and seeds; resumable",
        description="Computes every run of a preset that OUT lacks, then writes OUT/sweep.parquet (last rows) and "
        "OUT/trajectories.parquet. Stop it as you like; the same command goes on from there. "
        "Example: fgrpo sims sweep --preset paper (figure 2, 136 runs)",
    )
    parser.add_argument("--preset", choices=sorted(SWEEPS), default="paper", help="the grid (paper)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="results (results/sims/PRESET)")
    parser.add_argument("--group-sizes", type=int, nargs="+", metavar="N", help="replace the preset's group sizes")
    parser.add_argument("--gammas", type=float, nargs="+", metavar="X", help="replace the preset's focal exponents")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="replace the preset's seeds")
    parser.add_argument("--surrogates", choices=SURROGATES, nargs="+", help="replace the preset's surrogates")
    parser.add_argument("--steps", type=int, metavar="N", help="replace the preset's number of updates")
    parser.add_argument(
        "--workers", type=int, default=_cores(), metavar="N", help=f"processes, or cores of --ray ({_cores()})"
    )
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="compute on the Ray cluster at ADDRESS, or on a local Ray without one",
    )
    add_form(parser)
    parser.set_defaults(run=run_sweep)


@tidy_on_sigterm()
def run_one(arguments: argparse.Namespace) -> None:
    """Run `fgrpo sims run`."""
    from .sweep import save_run
    from .tracking import trajectory

    config = _config(arguments)
    if arguments.out is not None:
        new_run(arguments.out)
    rows = list(trajectory(_engine(arguments.engine, config)))
    if arguments.out is not None:
        print(f"fgrpo sims run: wrote {save_run(arguments.out, config, rows)}", file=sys.stderr)
    print(render([_visible(row, arguments.form) for row in rows], arguments.form, digits=4))


def _engine(name: str, config: SimConfig) -> Any:
    if name == "dense":
        from .dense import DenseEngine

        return DenseEngine(config)
    from .sparse import SparseEngine

    return SparseEngine(config)


@tidy_on_sigterm()
def run_sweep(arguments: argparse.Namespace) -> None:
    """Run `fgrpo sims sweep`."""
    from . import workers
    from .sweep import sweep

    grid = _grid(arguments)
    if arguments.ray is None:
        backend: Any = functools.partial(workers.local, workers=arguments.workers)
    else:
        backend = functools.partial(workers.cluster, address=arguments.ray or None, workers=arguments.workers)
    table = sweep(grid, arguments.out or Path("results") / "sims" / arguments.preset, backend)
    print(f"fgrpo sims sweep: wrote {table}", file=sys.stderr)
    columns = read_table(table)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    print(render([_visible(row, arguments.form) for row in rows], arguments.form, digits=4))


def _visible(row: dict[str, Any], form: str) -> dict[str, Any]:
    """For people the values of figure 2 and a few more; for programs everything."""
    shown = (
        "surrogate",
        "group_size",
        "gamma",
        "seed",
        "step",
        "Q_pos",
        "M_ret",
        "Q_u_pos",
        "worst_drop_relative",
        "entropy",
        "S_R",
        "active_share",
    )
    return (
        {name: row[name] for name in shown if name in row}
        if form == "table"
        else {name: None if value != value else value for name, value in row.items()}
    )


def _config(arguments: argparse.Namespace) -> SimConfig:
    names = [*_NUMBERS, "surrogate", "optimizer"]
    changes: dict[str, Any] = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.betas:
        changes["betas"] = tuple(arguments.betas)
    if arguments.raw_rewards:
        changes["centre_rewards"] = False
    if arguments.classes:
        # The preset's subsets are those of its own classes.
        changes |= {"classes": tuple(arguments.classes), "subsets": ()}
    if arguments.subsets is not None:
        changes["subsets"] = tuple(arguments.subsets)
    return dataclasses.replace(SIMULATIONS[arguments.preset], **changes)


def _grid(arguments: argparse.Namespace) -> SweepConfig:
    grid = SWEEPS[arguments.preset]
    names = ("group_sizes", "gammas", "seeds", "surrogates")
    changes: dict[str, Any] = {
        name: tuple(dict.fromkeys(values)) for name in names if (values := getattr(arguments, name))
    }
    if arguments.steps is not None:
        changes["base"] = dataclasses.replace(grid.base, steps=arguments.steps)
    return dataclasses.replace(grid, **changes)


def _action_class(text: str) -> ActionClass:
    try:
        logit, size, kind = text.split(":")
        right = {"correct": True, "wrong": False}[kind]
        return ActionClass(float(logit), int(size), right)
    except (KeyError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"must be LOGIT:SIZE:correct or LOGIT:SIZE:wrong, got {text!r}") from error


def _subset(text: str) -> Subset:
    try:
        name, index, size = text.split(":")
        return Subset(name, int(index), int(size))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be NAME:CLASS:SIZE, got {text!r}") from error


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
