"""The same sweep on a local Ray of two workers writes the same bytes. Needs the extra "cluster" (`make test-ray`)."""

from __future__ import annotations

import functools

import pytest

from sims.presets import SWEEPS
from sims.sweep import sweep
from sims.workers import cluster, local


@pytest.mark.ray
def test_a_local_ray_writes_the_same_bytes(tmp_path):
    grid = SWEEPS["smoke"]
    sweep(grid, tmp_path / "local", functools.partial(local, workers=1), quiet=True)
    sweep(grid, tmp_path / "ray", functools.partial(cluster, address=None, workers=2), quiet=True)
    for name in ("sweep.parquet", "trajectories.parquet"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
