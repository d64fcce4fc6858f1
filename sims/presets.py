"""Named simulations and sweeps.

`SIMULATIONS` are single runs, `SWEEPS` are grids over them: a sweep's runs are all combinations of its lists.
"paper" is section 5.1 and figure 2 in full; the others are small, and each states what it is for.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from .config import ActionClass, SimConfig, Subset

PAPER = SimConfig(
    classes=(ActionClass(5.0, 1, True), ActionClass(3.0, 9_999, True), ActionClass(0.0, 118_000, False)),
    group_size=256,
    subsets=(Subset("anchor", 0, 1), Subset("leaf", 1, 1), Subset("leaves100", 1, 100)),
)
SMOKE = SimConfig(
    classes=(ActionClass(3.0, 1, True), ActionClass(1.0, 99, True), ActionClass(0.0, 900, False)),
    steps=60,
    record_every=20,
    subsets=(Subset("anchor", 0, 1), Subset("leaves10", 1, 10)),
)
SIMULATIONS = {"paper": PAPER, "smoke": SMOKE}


@dataclass(frozen=True)
class SweepConfig:
    """A grid of runs around one simulation."""

    base: SimConfig
    """what all runs share"""
    group_sizes: tuple[int, ...]
    """values of N"""
    gammas: tuple[float, ...] = (0.0, 1.0)
    """focal exponents"""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """seeds; each run's stream depends on its seed and all of its other settings"""
    surrogates: tuple[str, ...] = ("ratio",)
    """surrogates"""

    def runs(self) -> Iterator[SimConfig]:
        """Every run of the grid, in the order of the combined tables."""
        grid = itertools.product(self.surrogates, self.group_sizes, self.gammas, self.seeds)
        for surrogate, group_size, gamma, seed in grid:
            yield dataclasses.replace(self.base, surrogate=surrogate, group_size=group_size, gamma=gamma, seed=seed)


SWEEPS = {
    # Figure 2: 136 runs.
    "paper": SweepConfig(PAPER, group_sizes=tuple(2**k for k in range(1, 18))),
    # The same policy, few and short runs: a look at the whole path in seconds.
    "smoke": SweepConfig(SMOKE, group_sizes=(2, 16, 128), seeds=(0, 1)),
    # Which surrogate gives figure 2: an N on each side of the zone and one inside.
    "surrogates": SweepConfig(
        PAPER, group_sizes=(2, 256, 131072), gammas=(0.0,), seeds=(0, 1), surrogates=("ratio", "probability")
    ),
    # Retained mass against gamma, inside the zone.
    "gammas": SweepConfig(PAPER, group_sizes=(256, 2048, 8192), gammas=(0.0, 0.25, 0.5, 1.0, 2.0, 4.0), seeds=(0, 1)),
}
