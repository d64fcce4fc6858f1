"""Where a sweep's runs are computed: this process, local processes, or a Ray cluster (foundation.workers). Same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrpo_theory.foundation import workers as pools

from .config import SimConfig
from .sparse import SparseEngine
from .tracking import Row, trajectory

Results = Iterator[tuple[int, list[Row]]]


def compute(config: SimConfig) -> list[Row]:
    """The trajectory of one run by the sparse engine."""
    return list(trajectory(SparseEngine(config)))


def local(configs: Sequence[SimConfig], workers: int) -> Results:
    """Compute in so many processes (1: in this one), in the order given; yields as runs finish."""
    return pools.local(compute, configs, workers)


def cluster(configs: Sequence[SimConfig], address: str | None, workers: int) -> Results:
    """Compute on the Ray cluster at `address` (None: a local Ray of so many cores). Raises as `workers.cluster`."""
    return pools.cluster(compute, configs, address, workers)
