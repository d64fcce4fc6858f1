"""A run from its configuration to its folder: model, task, supervised phase, RL phase, the trained model.

    OUT/config.json, metrics.jsonl, provenance.json     as every run of this project
    OUT/start/                                           the policy at the start of RL, where it was trained here
    OUT/model/                                           the trained policy: safetensors and tokenizer
    OUT/rollouts/                                        with log_rollouts: a table a step, for `fgrpo diagnose`
    OUT/checkpoints/                                     while the run lasts (then it is OUT.partial)

`train_run` makes the model and the task from the configuration; `run_phases` takes them ready-made, for packages that
bring their own (the maze study does). The same command goes on with a run that was stopped or killed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fgrpo_theory.foundation.runs import RunFolder

from .config import ModelConfig, TrainConfig
from .distributed import World, pick_device, start_world
from .loop import Pace, Records, stop_on_signals, train
from .memory import keep_freed_memory
from .metrics import loggers
from .models import LanguageModel, LoraSettings, encode_prompt, load_model, save_model, unwrap
from .probe import ExactProbe
from .rollout_log import FOLDER
from .scratch import scratch_model
from .sft import SupervisedTrainer
from .tasks import Task, load_task
from .trainer import Trainer

Probe = Callable[[Path, int], Mapping[str, float]]
"""Measures the policy in memory: (the folder of the run in progress, steps done) -> numbers."""


def train_run(config: TrainConfig, out: Path | str, *, log_rollouts: bool = False) -> Path:
    """Train, or go on training, into `out`; returns the finished folder. log_rollouts: keep every rollout there.

    Raises FileExistsError if the run is finished, ValueError if a partial run there has another configuration, and
    loop.Interrupted if it was asked to stop (a checkpoint is saved).
    """
    with start_world(pick_device(config.model.device)) as world:
        policy = make_policy(config.model, config.seed, world.device)
        task = load_task(
            config.task.name,
            config.task.options,
            token_count=lambda prompt: len(encode_prompt(policy.tokenizer, prompt)),
        )
        try:
            return run_phases(policy, task, config, Path(out), world, log_rollouts=log_rollouts)
        finally:
            task.close()


def make_policy(config: ModelConfig, seed: int, device: torch.device) -> LanguageModel:
    """The model of a configuration. Raises ValueError or OSError where there is none."""
    dtype = "bfloat16" if config.precision == "bf16-pure" else "float32"
    if config.source == "scratch":
        policy = scratch_model(config.scratch, seed, device)
        policy.model.to(getattr(torch, dtype))
    else:
        lora = LoraSettings(config.lora_rank, config.lora_alpha) if config.lora_rank else None
        policy = load_model(resolve_source(config.source), dtype=dtype, device=str(device), lora=lora)
    if config.gradient_checkpointing:
        model = unwrap(policy.model)
        # transformers has two names for it: older releases lack the first, newer ones deprecate the second.
        newer = hasattr(model, "activation_checkpointing_enable")
        enable = model.activation_checkpointing_enable if newer else model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return policy


def resolve_source(source: str) -> str:
    """A folder for the models that we fetch; any other source as it is."""
    from .fetch import NAME, fetch_smollm2

    return str(fetch_smollm2()) if source == NAME else source


def run_phases(
    policy: LanguageModel,
    task: Task,
    config: TrainConfig,
    out: Path,
    world: World,
    *,
    probe: Probe | None = None,
    log_groups: bool = False,
    log_rollouts: bool = False,
) -> Path:
    """The supervised phase and the RL phase of one run (those that have steps), with a ready model and task.

    probe: called every `probe_every` steps of RL with the run's folder and the step, in place of the exact probe; its
    numbers become a row of phase "probe". log_groups: each row of RL also holds its groups' counts, under "groups".
    log_rollouts: each step of RL writes its rollouts; a run that did so before it stopped goes on doing so.
    """
    keep_freed_memory()
    folder = RunFolder(out, config.resolved(), resume=True) if world.is_first else None
    root = out.with_name(out.name + ".partial")
    world.barrier()
    try:
        rollouts = root / FOLDER if world.any(log_rollouts or (root / FOLDER).exists()) else None
        _phases(policy, task, config, root, world, folder, probe, log_groups, rollouts)
    finally:
        if folder is not None:
            folder.close()
    if folder is not None:
        if not (root / "model").exists():
            save_model(root / "model", policy)
        folder.finish(seed=config.seed)
        # Only now: a kill before the rename must find them.
        shutil.rmtree(out / "checkpoints")
    world.barrier()
    return out


def _phases(
    policy: LanguageModel,
    task: Task,
    config: TrainConfig,
    root: Path,
    world: World,
    folder: RunFolder | None,
    probe: Probe | None,
    log_groups: bool,
    rollout_folder: Path | None,
) -> None:
    pace = Pace(config.checkpoint_every, config.keep_checkpoints, config.probe_every)
    names = config.loggers if world.is_first else ()
    with stop_on_signals() as request, loggers(names, root, config.resolved()) as opened:
        records = Records(folder, opened)
        if config.sft.steps:
            train(SupervisedTrainer(policy, task, config, world), root, world, pace, records, request)
            if folder is not None and not (root / "start").exists():
                save_model(root / "start", policy)
        train(
            Trainer(policy, task, config, world, log_groups=log_groups, rollout_folder=rollout_folder),
            root,
            world,
            pace,
            records,
            request,
            partial(probe, root) if probe is not None else _exact_probe(policy, task, config, root),
        )


def _exact_probe(policy: LanguageModel, task: Any, config: TrainConfig, root: Path) -> ExactProbe | None:
    # Every rank measures the same; the file of the start's laws is written once and is the same on each.
    if not config.probe_every or not hasattr(task, "correct_answers"):
        return None
    sampling = config.sampling
    return ExactProbe(policy, task, group_size=sampling.group_size, temperature=sampling.temperature, folder=root)
