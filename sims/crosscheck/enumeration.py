"""Exact moments of whatever one group shows, by going through all groups that a small policy can draw.

A group is a vector of counts; there are C(N + K - 1, K - 1) of them, each with a multinomial probability. That gives the
mean, the standard deviation and the range of any function of the counts, hence the exact spread of a cell and the exact
value of any wrong formula. Left out on purpose: policies with more than a million groups; those are only checked by laws
that have exact variances of their own.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb, lgamma

import numpy as np

from fgrpo_theory import total_mass_change, unsampled_mass_change

from .scenarios import Policy, StepOptions

_MOST_GROUPS = 1_000_000


class Groups:
    """All groups of N draws from a policy: counts "group action", probability "group"."""

    def __init__(self, policy: Policy, group_size: int) -> None:
        self.p, self.correct, self.size = policy.p, policy.is_correct, group_size
        self.counts = _compositions(group_size, len(self.p))
        log_factorial = np.array([lgamma(k + 1) for k in range(group_size + 1)])
        logs = log_factorial[group_size] - log_factorial[self.counts].sum(1) + self.counts @ np.log(self.p)
        self.probability = np.exp(logs)
        self.right = self.counts @ self.correct
        self.drawn = self.counts > 0

    def mean(self, values: np.ndarray) -> float:
        """Expectation of a value of each group."""
        return float(self.probability @ values)

    def spread(self, values: np.ndarray) -> float:
        """Standard deviation."""
        return float(np.sqrt(self.probability @ (values - self.mean(values)) ** 2))

    def reach(self, values: np.ndarray) -> float:
        """Largest |value - mean|."""
        return float(np.abs(values - self.mean(values)).max())

    def given_count(self, values: np.ndarray) -> np.ndarray:
        """E[value | X], at each group's X."""
        weight = np.bincount(self.right, self.probability, self.size + 1)
        total = np.bincount(self.right, self.probability * values, self.size + 1)
        return np.asarray(np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)[self.right])


def is_small(policy: Policy, group_size: int) -> bool:
    """Whether all its groups can be listed."""
    actions = len(policy.p)
    return comb(group_size + actions - 1, actions - 1) <= _MOST_GROUPS


@lru_cache(maxsize=8)
def all_groups(policy: Policy, group_size: int) -> Groups:
    """The groups of a small policy; those used last are kept."""
    return Groups(policy, group_size)


@lru_cache(maxsize=64)
def step_values(policy: Policy, group_size: int, options: StepOptions) -> tuple[np.ndarray, np.ndarray]:
    """(dQ_pos, dQ_u,pos) of every group, eqs. 17 and 10 or their ratio forms."""
    groups = all_groups(policy, group_size)
    total = total_mass_change(groups.p, groups.correct, groups.counts, **vars(options))
    unsampled = unsampled_mass_change(groups.p, groups.correct, groups.counts, **vars(options)).total
    return np.asarray(total), np.asarray(unsampled)


def _compositions(total: int, parts: int) -> np.ndarray:
    """All ways to write `total` as an ordered sum of `parts` counts."""
    rows = np.zeros((1, 0), dtype=np.int64)
    left = np.array([total])
    for _ in range(parts - 1):
        repeat = left + 1
        first = np.repeat(np.cumsum(repeat) - repeat, repeat)
        taken = np.arange(repeat.sum()) - first
        rows = np.column_stack([np.repeat(rows, repeat, axis=0), taken])
        left = np.repeat(left, repeat) - taken
    return np.column_stack([rows, left])
