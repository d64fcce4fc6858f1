"""What a step reports. Each metric is defined once, in docs/trainer.md; a test holds the two together.

`Means` adds weighted sums, so that parts of unequal size and several ranks give the mean over all of them: parts [1] and
[0, 0, 0] have mean 0.25. A mean over nothing is left out of the report.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.focal import focal_weight, success_rate

from .distributed import World
from .objectives import is_active
from .objectives.settings import ObjectiveConfig


class Means:
    """Named weighted means that can be added in parts."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, values: Mapping[str, tuple[float, float]]) -> None:
        """Add (weighted sum, weight) of each name."""
        for name, (total, weight) in values.items():
            old_total, old_weight = self._sums.get(name, (0.0, 0.0))
            self._sums[name] = (old_total + total, old_weight + weight)

    def result(self, world: World) -> dict[str, float]:
        """The means over all ranks; a rank that has nothing of a name adds nothing to it."""
        names = world.union(self._sums)
        numbers = world.add_numbers([number for name in names for number in self._sums.get(name, (0.0, 0.0))])
        pairs = zip(names, numbers[::2], numbers[1::2], strict=True)
        return {name: total / weight for name, total, weight in pairs if weight}


def group_metrics(
    config: ObjectiveConfig,
    rewards: Float[Tensor, "prompt rollout"],
    success: Bool[Tensor, "prompt rollout"],
    scorable: Bool[Tensor, "prompt rollout"],
    rare_fraction: float,
) -> dict[str, tuple[float, float]]:
    """(sum, weight) of what the verifier's word says about each group and rollout. Rewards are those of the verifier."""
    counted = scorable.any(-1)
    groups, rollouts = float(counted.sum()), float(scorable.sum())
    active = is_active(success, scorable)
    weight = focal_weight(success_rate(success, scorable), config.gamma)
    right, wrong = (success & scorable).any(-1), (~success & scorable).any(-1)
    missed = expected_tail_miss(success, scorable, rare_fraction)
    return {
        "reward": (float(torch.where(scorable, rewards, 0.0).sum()), rollouts),
        "success": (float((success & scorable).sum()), rollouts),
        "unscorable": (float((~scorable).sum()), float(scorable.numel())),
        "skipped": (float((~counted).sum()), float(len(counted))),
        "active": (float(active.sum()), groups),
        "all_correct": (float((right & ~wrong).sum()), groups),
        "all_wrong": (float((wrong & ~right).sum()), groups),
        "focal_weight": (float((weight * active).sum()), float(active.sum())),
        "tail_miss": (float(missed.sum()), groups),
    }


def expected_tail_miss(
    success: Bool[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"], rare_fraction: float
) -> Float[Tensor, " prompt"]:
    """[0 < X < N] (1 - rho)^X: the probability that a group with X correct rollouts is active and misses a subset that
    holds the share rho of the correct mass.

    Ours: each correct rollout lies in the subset with probability rho, whatever mu is, so the mean of this over
    X ~ Binomial(N, mu) is Lemma 3.1 at tau = rho * mu exactly. It is an unbiased estimate from the batch alone.
    """
    correct = (success & scorable).sum(-1)
    return is_active(success, scorable) * (1.0 - rare_fraction) ** correct.double()


def peak_memory(device: torch.device) -> float:
    """Largest memory so far, in MiB: of the device on CUDA, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


class Loggers:
    """TensorBoard and Weights & Biases beside metrics.jsonl, imported only where asked for."""

    def __init__(self, names: tuple[str, ...], folder: Path, config: Mapping[str, Any]) -> None:
        self._tensorboard: Any = None
        self._wandb: Any = None
        if "tensorboard" in names:
            from torch.utils.tensorboard import SummaryWriter

            self._tensorboard = SummaryWriter(str(folder / "tensorboard"))
        if "wandb" in names:
            import wandb

            self._wandb = wandb.init(project="fgrpo", dir=str(folder), config=dict(config))

    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """Send one step's numbers."""
        numbers = {f"{phase}/{name}": value for name, value in values.items()}
        if self._tensorboard is not None:
            for name, value in numbers.items():
                self._tensorboard.add_scalar(name, value, step)
            self._tensorboard.flush()
        if self._wandb is not None:
            self._wandb.log({**numbers, f"{phase}/step": step})

    def close(self) -> None:
        """Flush and end."""
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.finish()


@contextlib.contextmanager
def loggers(names: tuple[str, ...], folder: Path, config: Mapping[str, Any]) -> Iterator[Loggers]:
    """Loggers that are closed at the end of the block."""
    opened = Loggers(names, folder, config)
    try:
        yield opened
    finally:
        opened.close()
