"""Checkpoints that are whole or absent, and hold all that a run needs to go on bit for bit on one CPU.

    step-00000003/
      weights.safetensors     every parameter that is trained, by name (tied ones once)
      optimizer.safetensors   the optimizer's moments, as `parameter/key`
      random.safetensors      torch's generator states
      state.json              step, learning rates, and the learner's own state (data position)

A checkpoint is written into a hidden folder, flushed to disk, then renamed: a kill or a full disk leaves the previous one.
Random streams of a run are functions of (seed, name, step, group), so the step is their state; torch's global generators
are kept for models that draw from them. No pickles. Left out on purpose: frozen weights, which the source holds.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import read_json, write_json

_NAME = re.compile(r"step-(\d{8})")


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that have a gradient, by name; a tied one once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any], *, keep: int
) -> Path:
    """Write the checkpoint of `step` (steps done so far), then delete all but the newest `keep`; return its folder.

    Raises OSError if it cannot be written; earlier checkpoints are then as they were.
    """
    target = folder / f"step-{step:08d}"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{target.name}.{token_hex(4)}.partial"
    try:
        partial.mkdir()
        _write(partial, step, model, optimizer, state)
        for path in (*partial.iterdir(), partial):
            _flush(path)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _flush(folder)
    for old in _found(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def load_checkpoint(checkpoint: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Put weights, optimizer and generators back in place; return {"step": ..., **state}.

    Raises ValueError if the checkpoint is of a model with other parameters.
    """
    parameters = trained_parameters(model)
    weights = load_file(checkpoint / "weights.safetensors")
    require(weights.keys() == parameters.keys(), "the checkpoint must hold the model's parameters",
            checkpoint=str(checkpoint), parameters=len(weights))  # fmt: skip
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    plain = read_json(checkpoint / "state.json")
    moments: dict[int, dict[str, Tensor]] = {}
    order = {name: index for index, name in enumerate(parameters)}
    for key, value in load_file(checkpoint / "optimizer.safetensors").items():
        name, _, kind = key.rpartition("/")
        moments.setdefault(order[name], {})[kind] = value
    optimizer.load_state_dict({"state": moments, "param_groups": plain["param_groups"]})
    _set_generators(load_file(checkpoint / "random.safetensors"))
    return {"step": plain["step"], **plain["state"]}


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint, or None."""
    found = _found(folder)
    return found[-1] if found else None


def clear_partial(folder: Path) -> None:
    """Delete what kills in the middle of a save have left."""
    for path in folder.glob(".step-*.partial"):
        shutil.rmtree(path)


def _found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if _NAME.fullmatch(path.name))


def _write(partial: Path, step: int, model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    parameters = trained_parameters(model)
    save_file(
        {name: value.detach().contiguous() for name, value in parameters.items()}, partial / "weights.safetensors"
    )
    plain = optimizer.state_dict()
    names = list(parameters)
    moments = {
        f"{names[index]}/{kind}": value.contiguous()
        for index, values in plain["state"].items()
        for kind, value in values.items()
    }
    save_file(moments, partial / "optimizer.safetensors")
    save_file(_generators(), partial / "random.safetensors")
    write_json(partial / "state.json", {"step": step, "param_groups": plain["param_groups"], "state": dict(state)})


def _generators() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda-{index}": value for index, value in enumerate(torch.cuda.get_rng_state_all())}
    return states


def _set_generators(states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    for name, value in states.items():
        if name.startswith("cuda-") and int(name[5:]) < torch.cuda.device_count():
            torch.cuda.set_rng_state(value, int(name[5:]))


def _flush(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
