"""Language-model studies as the figures read them: runs by arm and seed, spreads over seeds and problems, pass@k.

A study (`fgrpo llm study`) trains several arms (methods), each with several seeds, from one start on one task. Only seeds
that every arm has finished are read: outcomes differ far more between seeds than between arms, so arms with different
seeds are no comparison. Intervals are 95 % percentile bootstraps over seeds and problems, both redrawn in each draw, with
the same seeds and problems for the two sides of a difference. With two seeds such an interval hardly reaches past the two
seeds' own values; every figure and table therefore shows each seed. Left out on purpose: a correction for many comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

import fgrpo_theory as theory
from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.seeds import generator

from . import style
from .inputs import Columns, Results

Floats = NDArray[np.float64]
Numbers = dict[str, Any]

PLAIN, LOW_LR, START = "grpo", "low-lr", "start"
LEVEL, DRAWS = 0.95, 2000


@dataclass(frozen=True)
class Study:
    """A study's finished runs."""

    name: str
    """of its folder"""
    task: str
    arms: tuple[str, ...]
    """GRPO first, then focal exponents in rising order, then controls"""
    seeds: tuple[int, ...]
    """those that every arm has"""
    runs: Mapping[tuple[str, int], str]
    """name of the run of (arm, seed)"""

    @property
    def label(self) -> str:
        """How figures call it."""
        return self.name if self.name == self.task else f"{self.name} ({self.task})"


def studies(results: Results) -> list[Study]:
    """Every study of the results folder, by name. Raises ValueError for one without a seed that all its arms have."""
    table = results["study_summary"]
    return [_study(str(name), rows_of(table, study=name)) for name in np.unique(table["study"].astype(str))]


def _study(name: str, table: Columns) -> Study:
    runs = {
        (str(arm), int(seed)): str(run)
        for arm, seed, run in zip(table["arm"], table["seed"], table["run"], strict=True)
        if arm != START
    }
    arms = sorted({arm for arm, _ in runs}, key=_place)
    shared = sorted({seed for _, seed in runs if all((arm, seed) in runs for arm in arms)})
    require(bool(shared), "a study must have a seed that every arm has finished", study=name)
    return Study(name, str(table["task"][0]), tuple(arms), tuple(shared), runs)


def focal_exponent(arm: str) -> float | None:
    """The exponent of `focal-GAMMA`, 0 for GRPO, None for every other arm."""
    if arm == PLAIN:
        return 0.0
    return float(arm.removeprefix("focal-")) if arm.startswith("focal-") else None


def focal_arms(study: Study) -> list[str]:
    """The arms with a focal weight."""
    return [arm for arm in study.arms if focal_exponent(arm)]


def _place(arm: str) -> tuple[float, str]:
    gamma = focal_exponent(arm)
    return (np.inf if gamma is None else gamma, arm)


def gamma_name(gamma: float) -> str:
    """How a legend calls a focal exponent."""
    return f"γ = {gamma:g}" if gamma else "GRPO (γ = 0)"


def arm_label(arm: str) -> str:
    """How a legend calls an arm."""
    gamma = focal_exponent(arm)
    if gamma is not None:
        return gamma_name(gamma)
    return {LOW_LR: "GRPO, low learning rate", START: "start (before RL)"}.get(arm, arm)


def arm_look(arm: str) -> style.Look:
    """The look of an arm: that of its γ everywhere, one of its own for the start and the low learning rate."""
    gamma = focal_exponent(arm)
    if gamma is not None:
        return style.gamma_look(gamma)
    return {START: style.Look(style.GREY, (0, (4, 2)), "x"), LOW_LR: style.SERIES[4]}.get(arm, style.SERIES[6])


def rows_of(table: Columns, **equal: object) -> Columns:
    """The rows in which every named column has the given value; may be none."""
    keep = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, value in equal.items():
        keep &= table[name] == value
    return {name: column[keep] for name, column in table.items()}


def spread(values: Floats | Sequence[float]) -> Numbers:
    """Mean, interval and each seed's mean. values: a seed a row, and a problem a column if there are any.

    The interval is a bootstrap with problems, Student's t without; None for one seed without problems.
    """
    table = np.asarray(values, dtype=np.float64)
    low, high = interval(table) if table.ndim == 2 else seed_interval(table)
    return {
        "mean": float(table.mean()),
        "low": low,
        "high": high,
        "seeds": table.reshape(len(table), -1).mean(1).tolist(),
    }


def seed_interval(values: Floats) -> tuple[float | None, float | None]:
    """Student's t interval of the mean over seeds; None, None for one seed.

    >>> [round(limit, 3) for limit in seed_interval(np.array([1.0, 3.0]))]
    [-10.706, 14.706]
    """
    if len(values) < 2:
        return None, None
    half = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def decide(differences: Floats) -> bool | None:
    """Whether differences[seed, problem] (or [seed]) are above 0: True, False (below 0), or None, undecided.

    With problems every seed must say so by itself, by its own bootstrap over problems; without, the t interval over seeds
    must. One seed decides nothing.

    >>> [decide(np.array(seeds)) for seeds in ([0.3, 0.31], [-0.3, -0.31], [0.3, 0.9], [0.3])]
    [True, False, None, None]
    """
    if len(differences) < 2:
        return None
    if differences.ndim == 2:
        limits = [interval(differences[seed : seed + 1]) for seed in range(len(differences))]
    else:
        low, high = seed_interval(differences)
        limits = [(low, high)] if low is not None and high is not None else []
    if all(low > 0 for low, _ in limits):
        return True
    return False if all(high < 0 for _, high in limits) else None


def interval(values: Floats) -> tuple[float, float]:
    """Percentile bootstrap of the mean of values[seed, problem] over seeds and problems.

    >>> interval(np.array([[1.0, 1.0], [1.0, 1.0]]))
    (1.0, 1.0)
    """
    seeds, problems = values.shape
    means = np.einsum("ds,sp,dp->d", _weights("seeds", seeds), values, _weights("problems", problems), optimize=True)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    # Summation in another order than the mean's can leave a constant by an ulp.
    return float(max(low, values.min())), float(min(high, values.max()))


@cache
def _weights(name: str, size: int) -> Floats:
    """Share of each of `size` things in each bootstrap draw, a draw a row: the same for every arm and quantity."""
    picks = generator(0, f"figures bootstrap {name}", size).integers(size, size=(DRAWS, size))
    return np.asarray((picks[:, :, None] == np.arange(size)).mean(axis=1))


@dataclass(frozen=True)
class PassAtK:
    """pass@k of a study's held-out problems."""

    ks: tuple[int, ...]
    values: Mapping[str, Floats]
    """By arm, and for the start: values[k, seed, problem]; the start has one "seed"."""

    def at(self, arm: str, k: int) -> Floats:
        """values[seed, problem] at one k."""
        values: Floats = self.values[arm][self.ks.index(k)]
        return values

    def over(self, arm: str, base: str, k: int) -> Floats:
        """The differences of an arm and `base`, by seed and problem."""
        return self.at(arm, k) - self.at(base, k)


def pass_at_k(results: Results, study: Study) -> PassAtK:
    """pass@k for k = 1, 2, 4, ... up to what every problem has scorable answers for.

    Raises ValueError if runs were evaluated on different problems.
    """
    table = rows_of(results["study_counts"], study=study.name)
    start = rows_of(table, run=START)
    groups = {START: [start]} | {
        arm: [rows_of(table, run=study.runs[arm, seed]) for seed in study.seeds] for arm in study.arms
    }
    for rows in (rows for group in groups.values() for rows in group):
        same = rows["problem"].tolist() == start["problem"].tolist()
        require(same, "runs must be evaluated on the same problems", study=study.name)
    most = min(int(rows["scorable"].min()) for group in groups.values() for rows in group)
    ks = tuple(2**power for power in range(most.bit_length()))
    values = {
        arm: np.array([[theory.pass_at_k(rows["scorable"], rows["correct"], k) for rows in group] for k in ks])
        for arm, group in groups.items()
    }
    return PassAtK(ks, values)
