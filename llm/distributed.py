"""Data parallelism over whole groups: `torchrun -m fgrpo llm train ...` or `accelerate launch`.

Group i of a rollout batch belongs to rank i mod size. Every sum that the loss or a metric divides by is added over the
ranks first, and gradients are added, not averaged, so that any number of ranks has one process's gradient.
Weights are whole on every rank. Left out on purpose: sharded weights (FSDP, DeepSpeed); beyond this, use TRL or verl.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

_BUCKET = 2**24
"""Gradient numbers added in one call: 64 MiB in float32."""


@dataclass(frozen=True)
class World:
    """This process among all: one process alone unless a launcher has set RANK and WORLD_SIZE."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and progress."""
        return self.rank == 0

    def share(self, total: int) -> list[int]:
        """The groups of a batch of `total` that are this rank's."""
        return list(range(self.rank, total, self.size))

    def add_numbers(self, numbers: Sequence[float]) -> list[float]:
        """Each number added over the ranks, in float64."""
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def largest(self, numbers: Sequence[float]) -> list[float]:
        """Each number's largest value over the ranks."""
        return self._reduced(numbers, dist.ReduceOp.MAX)

    def _reduced(self, numbers: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.size == 1:
            return [float(number) for number in numbers]
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, operation)
        result: list[float] = tensor.tolist()
        return result

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return self.largest([float(flag)])[0] > 0

    def gathered(self, items: list[Any]) -> list[list[Any]]:
        """The lists of all ranks, in the order of the ranks."""
        if self.size == 1:
            return [items]
        parts: list[list[Any]] = [[] for _ in range(self.size)]
        dist.all_gather_object(parts, items)
        return parts

    def union(self, names: Iterable[str]) -> list[str]:
        """The names of all ranks, sorted."""
        return sorted({name for part in self.gathered(list(names)) for name in part})

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over the ranks; a missing one counts as 0."""
        if self.size == 1:
            return
        for bucket in _buckets(parameters):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            for gradient, added in zip(bucket, torch.split(flat, [g.numel() for g in bucket]), strict=True):
                gradient.copy_(added.view_as(gradient))

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.size > 1:
            dist.barrier()


def _buckets(parameters: Iterable[nn.Parameter]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if bucket and (
            sum(g.numel() for g in bucket) + parameter.numel() > _BUCKET or bucket[0].dtype != parameter.dtype
        ):
            yield bucket
            bucket = []
        bucket.append(parameter.grad)
    if bucket:
        yield bucket


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA (the local rank's) where there is one. Raises ValueError for CUDA without a device."""
    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device must be available, got device={name!r}")
    return device


@contextmanager
def start_world(device: torch.device) -> Iterator[World]:
    """Join the launcher's process group (nccl on CUDA, gloo elsewhere), or stand alone; leave it at the end."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        yield World(device=device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(dist.get_rank(), size, device)
    finally:
        dist.destroy_process_group()
