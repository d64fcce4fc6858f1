"""`fgrpo maze`: make mazes, train the maze model, and run the group-size study of section 5.2."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.checks import as_whole, require
from fgrpo_theory.foundation.files import read_json
from fgrpo_theory.foundation.printing import Row, add_form, render

PRESET_NAMES = ("smoke", "laptop", "paper")
SHOWN = (
    "run",
    "pass_at_1",
    "pass_at_16",
    "pass_at_256",
    "never_solved",
    "start_pass_at_k",
    "lowest_pass_at_k",
    "lowest_step",
)
"""Columns of the study's table on the terminal."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands to the `fgrpo maze` parser."""
    commands = parser.add_subparsers(dest="maze_command", metavar="COMMAND", required=True)
    for add in (_add_generate, _add_show, _add_sft, _add_train, _add_evaluate, _add_study):
        add(commands)


def _add_generate(commands: Any) -> None:
    parser = commands.add_parser(
        "generate",
        help="draw distinct mazes into a file",
        description="Draws distinct mazes by randomised Prim, packed (14 bytes each at 17 x 17), or with --maxrl in the columns "
        "that the MaxRL pipeline reads. Example: fgrpo maze generate --size 17 --count 100000 --out results/maze/train.parquet",
    )
    parser.add_argument("--size", type=int, default=17, metavar="S", help="side of the grid, odd (17)")
    parser.add_argument("--count", type=int, default=1000, metavar="K", help="mazes (1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="root of the random streams (0)")
    parser.add_argument(
        "--maxrl", action="store_true", help="columns prompt, answer, extra_info instead of packed walls"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="parquet file")
    parser.set_defaults(run=run_generate)


def _add_show(commands: Any) -> None:
    parser = commands.add_parser(
        "show",
        help="look at a maze, its right path, and the paths that a trained policy draws",
        description="Prints a held-out maze with its path (# wall, S start, G goal, . right path, o wrong path, X the wall that is "
        "hit), or what a run's policy draws on it. Example: fgrpo maze show --size 11 --number 3",
    )
    parser.add_argument("run_folder", nargs="?", type=Path, metavar="RUN", help="a finished run: draw with its policy")
    parser.add_argument("--size", type=int, default=11, metavar="S", help="side of the grid, odd (11)")
    parser.add_argument("--number", type=int, default=0, metavar="I", help="which maze (0)")
    parser.add_argument("--samples", type=int, default=3, metavar="N", help="paths of the policy (3)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="root of the random streams (0)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also write the maze with its right path as a picture")
    parser.set_defaults(run=run_show)


def _add_sft(commands: Any) -> None:
    parser = commands.add_parser(
        "sft",
        help="train the start: a policy that solves some mazes",
        description="Trains a fresh model by supervision on right paths into OUT/start. "
        "Example: fgrpo maze sft --preset laptop --out results/maze/sft",
    )
    _add_preset(parser)
    parser.add_argument("--steps", type=int, metavar="K", help="updates (the preset's)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="run folder (results/maze/sft-PRESET)")
    parser.set_defaults(run=run_sft)


def _add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="RL of one arm from a start, evaluated on held-out mazes",
        description="Trains one arm; the same command goes on with a run that was stopped. "
        "Example: fgrpo maze train --preset laptop --group-size 8 --gamma 1 --out results/maze/N8-g1",
    )
    _add_preset(parser)
    parser.add_argument("--objective", default="grpo", metavar="NAME", help="grpo, maxrl, rloo or ds_grpo (grpo)")
    parser.add_argument("--group-size", type=int, default=8, metavar="N", help="rollouts a prompt (8)")
    parser.add_argument("--gamma", type=float, default=0.0, metavar="G", help="focal exponent (0)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="root of the random streams (0)")
    parser.add_argument("--start", metavar="FOLDER", help="RL's first policy (the preset's)")
    _add_settings(parser)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="run folder (results/maze/train)")
    parser.set_defaults(run=run_train)


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="pass@k of finished runs on held-out mazes",
        description="Samples held-out mazes and prints pass@k; writes nothing. "
        "Example: fgrpo maze evaluate results/maze/train --samples 2048",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="finished run folders")
    parser.add_argument("--samples", type=int, default=256, metavar="N", help="samples a maze (256)")
    parser.add_argument("--mazes", type=int, default=128, metavar="M", help="held-out mazes (128)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="root of the sampling streams (0)")
    add_form(parser)
    parser.set_defaults(run=run_evaluate)


def _add_study(commands: Any) -> None:
    parser = commands.add_parser(
        "study",
        help="group sizes x gamma x seeds from one start, in tables",
        description="Trains and evaluates every arm and writes the study's tables; the same command goes on with a study that was "
        "stopped, and may add arms or seeds. Example: fgrpo maze study --preset smoke --out results/maze/smoke",
    )
    _add_preset(parser)
    parser.add_argument("--group-sizes", type=int, nargs="+", metavar="N", help="rollouts a prompt (the preset's)")
    parser.add_argument("--gammas", type=float, nargs="+", metavar="G", help="focal exponents (the preset's)")
    parser.add_argument("--objectives", nargs="+", metavar="NAME", help="grpo, maxrl, rloo, ds_grpo (the preset's)")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="S", help="seeds (the preset's)")
    _add_settings(parser)
    parser.add_argument("--workers", type=int, default=2, metavar="W", help="runs at once, in processes (2)")
    parser.add_argument("--threads", type=int, default=1, metavar="T", help="threads a run; 0 is PyTorch's choice (1)")
    parser.add_argument("--ray", nargs="?", const="", metavar="ADDRESS",
                        help="compute the runs on this Ray cluster, which must share the folder (or on a local Ray)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="study folder (results/maze/PRESET)")
    add_form(parser)
    parser.set_defaults(run=run_study)


def _add_preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=PRESET_NAMES, default="laptop", metavar="NAME",
                        help=f"{', '.join(PRESET_NAMES)} (laptop)")  # fmt: skip


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", dest="settings",
                        help="fields of the RL run by dotted name, e.g. steps=200")  # fmt: skip


def run_generate(arguments: argparse.Namespace) -> None:
    """Write the mazes and say what they are."""
    from .generation import generate
    from .storage import export_parquet, write_mazes

    as_whole("count", arguments.count)
    mazes = generate(arguments.count, arguments.size, arguments.seed)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    if arguments.maxrl:
        export_parquet(mazes, arguments.out, "train")
    else:
        write_mazes(arguments.out, mazes)
    mean = mazes.solution_lengths().mean()
    print(f"{arguments.out}: {len(mazes)} mazes of {mazes.size} x {mazes.size}, mean path {mean:.2f}")


def run_show(arguments: argparse.Namespace) -> None:
    """Print a maze with its path, or the paths of a policy."""
    from .generation import generate
    from .render import ascii_art, picture, write_png

    if arguments.run_folder is not None:
        _show_policy(arguments)
        return
    require(arguments.number >= 0, "number must be a whole number of at least 0", number=arguments.number)
    maze = generate(arguments.number + 1, arguments.size, arguments.seed, unique=False)[arguments.number]
    path = maze.solutions()[0]
    print(ascii_art(maze, path))
    if arguments.png is not None:
        write_png(arguments.png, picture(maze, path))


def _show_policy(arguments: argparse.Namespace) -> None:
    from .evaluation import sampled_paths
    from .policy import load_policy
    from .render import ascii_art
    from .tokens import from_text, leading_actions

    config, task = _finished(arguments.run_folder)
    table = sampled_paths(
        load_policy(arguments.run_folder / "model"), task, mazes=arguments.number + 1, samples=arguments.samples,
        max_new_tokens=config.sampling.max_new_tokens, seed=arguments.seed,
    )  # fmt: skip
    for maze, text, reason in zip(table["maze"], table["completion"], table["reason"], strict=True):
        if maze == arguments.number:
            print(ascii_art(task.heldout_mazes[maze], leading_actions(from_text(text))))
            print(f"{reason or 'right'}\n")


def run_sft(arguments: argparse.Namespace) -> int:
    """Train the start."""
    from llm.config import changed

    from .presets import PRESETS

    config = PRESETS[arguments.preset].sft
    config = config if arguments.steps is None else changed(config, {"sft.steps": arguments.steps})
    return _train(config, arguments.out or Path("results") / "maze" / f"sft-{arguments.preset}", None)


def run_train(arguments: argparse.Namespace) -> int:
    """Train one arm."""
    from llm.config import ModelConfig, assignments

    from .presets import PRESETS, arm
    from .study import with_settings

    preset = with_settings(PRESETS[arguments.preset], assignments(arguments.settings))
    rl = preset.rl if arguments.start is None else replace(preset.rl, model=ModelConfig(source=arguments.start))
    require(
        rl.model.source != "start", "start must be given for this preset (see fgrpo maze sft)", preset=arguments.preset
    )
    config = arm(rl, arguments.objective, arguments.group_size, arguments.gamma, arguments.seed)
    return _train(config, arguments.out or Path("results") / "maze" / "train", preset.plan)


def _train(config: Any, out: Path, plan: Any) -> int:
    from llm.loop import Interrupted

    from .training import train_mazes

    try:
        print(train_mazes(config, out, plan))
    except Interrupted as stopped:
        print(f"fgrpo maze: {stopped}; the same command goes on", file=sys.stderr)
        return 130
    return 0


def run_evaluate(arguments: argparse.Namespace) -> None:
    """Print pass@k of runs."""
    from llm.evaluation import pass_at_k_rows

    from .evaluation import heldout_counts
    from .policy import load_policy
    from .presets import EvaluationPlan
    from .study import KS

    rows: list[Row] = []
    plan = EvaluationPlan(mazes=arguments.mazes)
    for run in arguments.runs:
        config, task = _finished(run)
        table = heldout_counts(
            load_policy(run / "model"), task, plan, samples=arguments.samples,
            max_new_tokens=config.sampling.max_new_tokens, seed=arguments.seed,
        )  # fmt: skip
        rows += [{"run": run.name, **row} for row in pass_at_k_rows(table["samples"], table["correct"], KS)]
    print(render(rows, arguments.form))


def run_study(arguments: argparse.Namespace) -> int:
    """Train and evaluate what is missing, write the tables, print a row a run."""
    from tqdm import tqdm

    from fgrpo_theory.foundation import workers
    from llm.config import assignments
    from llm.loop import Interrupted

    from .presets import PRESETS
    from .study import arms, collect, compute, grid_of, jobs_of, keep, train_start, with_settings

    settings, out = (
        assignments(arguments.settings),
        (arguments.out or Path("results") / "maze" / arguments.preset).resolve(),
    )
    preset = with_settings(PRESETS[arguments.preset], settings)
    axes = {name: getattr(arguments, name) for name in ("group_sizes", "gammas", "objectives", "seeds")}
    grid = grid_of(preset, axes)
    out.mkdir(parents=True, exist_ok=True)
    keep(out, arguments.preset, settings, preset.plan)
    try:
        runs = arms(preset, grid, train_start(preset, out, arguments.threads))
        jobs = jobs_of(runs, preset.plan, out, arguments.threads)
        if arguments.ray is None:
            results = workers.local(compute, jobs, arguments.workers)
        else:
            results = workers.cluster(compute, jobs, arguments.ray or None, arguments.workers)
        for _, name in tqdm(results, total=len(jobs), desc="study", unit="run", file=sys.stderr):
            print(f"{name} is finished", file=sys.stderr)
    except Interrupted as stopped:
        print(f"fgrpo maze: {stopped}; the same command goes on", file=sys.stderr)
        return 130
    rows = collect(out)
    brief = [{name: row[name] for name in SHOWN if name in row} for row in rows]
    print(render(brief if arguments.form == "table" else rows, arguments.form))
    return 0


def _finished(run: Path) -> tuple[Any, Any]:
    from llm.config import TrainConfig

    from .training import task_of

    require((run / "model").is_dir(), "run must be a finished run folder", run=str(run))
    config = TrainConfig.from_json(read_json(run / "config.json"))
    return config, task_of(config)
