"""Are two models' pass@k different? The paired subsampling test, as an exact convolution instead of draws.

Source: F-GRPO (arXiv 2602.06717) appendix Q, after Politis et al. 1999: of n answers a problem draw m without
replacement, for each model independently, and take the difference D of the two mean pass@k. The paper draws 50,000
times. Ours: the correct count of a subsample is hypergeometric, so D is a sum of independent terms on a lattice
whenever pass@k of m answers takes values on one: H / m for k = 1, {0, 1} for k = m. Else each term is rounded down and
up on a fine grid; the two laws bracket that of D, and so the p-value.

Convention: p = 2 min(P(D <= 0), P(D >= 0)), at most 1. A tie D = 0 counts on both sides, as half of a two-sided p of 1.
The mean of D is the difference of the full-sample pass@k, since pass@k is unbiased.

Left out on purpose: problems as a random sample (they are fixed here, as in the paper), and a rescaling from m to n.
For k = 1 D spreads sqrt(n / m - 1) times as widely as new samples of size n would: 1.7 times for the paper's m = n / 4,
so its test errs towards "not significant". Past m = n / 2 it errs the other way; at m = n its p-value means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, gcd
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from .foundation.checks import ArrayLike, FloatArray, as_probability, as_whole, require, together
from .hypergeometric import hypergeometric_weights
from .lattice_law import LatticeLaw, difference_law, law_of_values, sum_law
from .pass_at_k import pass_at_k

# A lattice of pass@k finer than this (and than 1/m) is rounded to a grid of 2**16 steps, or for 128 problems and more
# of fewer, so that the work stays within seconds.
_EXACT_UNITS = 256
_LARGEST_GRID, _WORK, _SMALLEST_GRID = 16, 23, 10
_LARGEST_SUBSAMPLE = 10**5
_TIE = 1e-12
_MONTE_CARLO_CONFIDENCE = 1e-6
_DRAW_ELEMENTS = 2**20


@dataclass(frozen=True)
class SubsamplingTest:
    """The verdict on focal minus baseline. All but the p-values are in units of pass@k."""

    difference: float
    """Focal minus baseline pass@k of all samples; also the mean of D."""
    standard_deviation: float
    """Of D."""
    p_value: float
    """Two-sided; the upper one of its bounds where the law of D is bracketed."""
    p_value_bounds: tuple[float, float]
    """Of the exact p-value; for Monte Carlo, a Clopper-Pearson interval that fails once in 1e6."""
    interval: tuple[float, float]
    """The level / 2 and 1 - level / 2 quantiles of D, the outer ones where the law is bracketed."""
    significant: bool
    """p_value <= level."""
    method: str
    """exact, bounds or monte-carlo."""


class _Plan(NamedTuple):
    """Checked input: one entry a problem, and pass@k of a subsample as [low, high][count], in units of 1 / units."""

    baseline: list[int]
    focal: list[int]
    samples: list[int]
    subsample: int
    units: int
    low: list[int]
    high: list[int]
    level: float
    difference: float
    standard_deviation: float


def subsampling_test(
    baseline_correct: ArrayLike,
    focal_correct: ArrayLike,
    samples: ArrayLike,
    subsample: ArrayLike,
    k: ArrayLike,
    *,
    level: float = 0.05,
) -> SubsamplingTest:
    """The test of appendix Q on the difference of mean pass@k, without Monte Carlo.

    baseline_correct, focal_correct: correct answers of the two models, one entry a problem; samples: answers a problem,
    one number or one a problem; subsample, k: single numbers with k <= subsample <= samples.
    Exact (method "exact") where pass@k of `subsample` answers lies on a lattice of at most max(subsample, 256) steps,
    as for k = 1 and k = subsample; else ("bounds") with rigorous bounds of the p-value, up to 10 % of it apart for
    500 problems, less for fewer. Exact p-values keep their relative accuracy down to 1e-36; below, the bounds say less.

    Source: the module's docstring. Raises ValueError if counts are not whole or not in range, shapes do not broadcast
    to one list of problems, there is no problem, subsample exceeds 1e5, or level is not in (0, 1).

    >>> test = subsampling_test([0, 1], [2, 2], samples=2, subsample=1, k=1)
    >>> test.difference, test.p_value, test.interval, test.method
    (0.75, 0.0, (0.5, 1.0), 'exact')
    """
    plan = _plan(baseline_correct, focal_correct, samples, subsample, k, level)
    exact = plan.low == plan.high
    lowest = _difference_law(plan, plan.low, plan.high)
    highest = lowest if exact else _difference_law(plan, plan.high, plan.low)
    at_most = highest.at_most(0)[0], lowest.at_most(0)[1]
    at_least = lowest.mirrored().at_most(0)[0], highest.mirrored().at_most(0)[1]
    bounds = tuple(min(1.0, 2 * min(sides)) for sides in zip(at_most, at_least, strict=True))
    scale = plan.units * len(plan.samples)
    interval = lowest.quantile(level / 2) / scale, highest.quantile(1 - level / 2) / scale
    return _verdict(plan, bounds[1], (bounds[0], bounds[1]), interval, "exact" if exact else "bounds")


def subsampling_test_monte_carlo(
    baseline_correct: ArrayLike,
    focal_correct: ArrayLike,
    samples: ArrayLike,
    subsample: ArrayLike,
    k: ArrayLike,
    *,
    draws: int,
    generator: np.random.Generator,
    level: float = 0.05,
) -> SubsamplingTest:
    """The same test by `draws` random subsamples, as the paper does it with 50,000; for checking `subsampling_test`.

    The p-value is a plain frequency, so it can be 0; its bounds are not. The standard deviation is the exact one.

    Source: appendix Q. Raises ValueError as `subsampling_test`, and unless draws >= 1.
    """
    plan = _plan(baseline_correct, focal_correct, samples, subsample, k, level)
    as_whole("draws", draws)
    values = np.asarray(pass_at_k(plan.subsample, np.arange(plan.subsample + 1), k))
    block = max(1, _DRAW_ELEMENTS // len(plan.samples))
    differences = np.concatenate(
        [
            _draw(plan, plan.focal, values, size, generator) - _draw(plan, plan.baseline, values, size, generator)
            for size in np.diff([*range(0, draws, block), draws]).tolist()
        ]
    )
    # Sums of equal terms in another order differ in their last digits; that is a tie.
    hits = min(int(np.sum(differences <= _TIE)), int(np.sum(differences >= -_TIE)))
    tail = _MONTE_CARLO_CONFIDENCE / 2
    low = float(betaincinv(hits, draws - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, draws - hits, 1 - tail)) if hits < draws else 1.0
    edges = np.quantile(differences, [level / 2, 1 - level / 2], method="inverted_cdf").tolist()
    return _verdict(
        plan, min(1.0, 2 * hits / draws), (min(1.0, 2 * low), min(1.0, 2 * high)), (edges[0], edges[1]), "monte-carlo"
    )


def _verdict(
    plan: _Plan, p_value: float, bounds: tuple[float, float], interval: tuple[float, float], method: str
) -> SubsamplingTest:
    return SubsamplingTest(
        difference=plan.difference,
        standard_deviation=plan.standard_deviation,
        p_value=p_value,
        p_value_bounds=bounds,
        interval=interval,
        significant=p_value <= plan.level,
        method=method,
    )


def _plan(
    baseline_correct: ArrayLike,
    focal_correct: ArrayLike,
    samples: ArrayLike,
    subsample: ArrayLike,
    k: ArrayLike,
    level: float,
) -> _Plan:
    rights = {
        name: as_whole(name, value, least=0)
        for name, value in (("baseline_correct", baseline_correct), ("focal_correct", focal_correct))
    }
    baseline, focal, sizes = together(**rights, samples=as_whole("samples", samples))
    require(
        sizes.ndim == 1 and sizes.size > 0,
        "baseline_correct must be one non-empty list of problems",
        **{"baseline_correct.shape": sizes.shape},
    )
    single = {
        "subsample": as_whole("subsample", subsample),
        "k": as_whole("k", k),
        "level": as_probability("level", level, open_ends=True),
    }
    for name, array in single.items():
        require(array.ndim == 0, f"{name} must be a single number", **{f"{name}.shape": array.shape})
    require(baseline <= sizes, "baseline_correct must be at most samples", baseline_correct=baseline, samples=sizes)
    require(focal <= sizes, "focal_correct must be at most samples", focal_correct=focal, samples=sizes)
    require(
        single["subsample"] <= sizes, "subsample must be at most samples", subsample=single["subsample"], samples=sizes
    )
    require(single["subsample"] <= _LARGEST_SUBSAMPLE, "subsample must be at most 1e5", subsample=single["subsample"])
    require(
        single["k"] <= single["subsample"], "k must be at most subsample", k=single["k"], subsample=single["subsample"]
    )
    size, tries = int(single["subsample"]), int(single["k"])
    units, low, high = _values_on_lattice(size, tries, _grid(sizes.size))
    full = np.asarray(pass_at_k(sizes, np.stack([baseline, focal]), tries))
    values = np.asarray(pass_at_k(size, np.arange(size + 1), tries))
    variance = sum(
        _variance(population, right, size, values, mean)
        for population, right, mean in zip(
            [*_ints(sizes)] * 2, [*_ints(baseline), *_ints(focal)], full.ravel().tolist(), strict=True
        )
    )
    return _Plan(
        _ints(baseline),
        _ints(focal),
        _ints(sizes),
        size,
        units,
        low,
        high,
        float(single["level"]),
        difference=float((full[1] - full[0]).mean()),
        standard_deviation=float(np.sqrt(variance)) / sizes.size,
    )


def _ints(array: FloatArray) -> list[int]:
    return [int(element) for element in array]


def _variance(population: int, right: int, subsample: int, values: FloatArray, mean: float) -> float:
    first, weights = hypergeometric_weights(population, right, subsample)
    return float(np.sum(weights * (values[first : first + weights.size] - mean) ** 2))


def _grid(problems: int) -> int:
    return 1 << max(_SMALLEST_GRID, min(_LARGEST_GRID, _WORK - problems.bit_length()))


def _values_on_lattice(subsample: int, k: int, grid: int) -> tuple[int, list[int], list[int]]:
    """(units, low, high): low[y] <= units * pass_at_k(subsample, y, k) <= high[y], equal if that lattice is coarse."""
    total = comb(subsample, k)
    missed = [total]
    for rest in range(subsample, 0, -1):
        missed.append(missed[-1] * max(0, rest - k) // rest)
    common = total
    for part in missed:
        common = gcd(common, part)
        if total // common > max(_EXACT_UNITS, subsample):
            low = [(total - part) * grid // total for part in missed]
            return grid, low, [-((part - total) * grid // total) for part in missed]
    exact = [(total - part) // common for part in missed]
    return total // common, exact, exact


def _difference_law(plan: _Plan, focal_values: list[int], baseline_values: list[int]) -> LatticeLaw:
    """The law of the sum over problems of focal minus baseline, in units, for the given value of each count."""
    known: dict[tuple[int, int, int], LatticeLaw] = {}
    for case in zip(plan.samples, plan.focal, plan.baseline, strict=True):
        if case not in known:
            size, focal, baseline = case
            known[case] = difference_law(
                _value_law(size, focal, plan.subsample, focal_values),
                _value_law(size, baseline, plan.subsample, baseline_values),
            )
    cases = zip(plan.samples, plan.focal, plan.baseline, strict=True)
    return sum_law([known[case] for case in cases], transform=plan.low != plan.high)


def _value_law(population: int, right: int, subsample: int, values: list[int]) -> LatticeLaw:
    first, weights = hypergeometric_weights(population, right, subsample)
    return law_of_values(np.array(values[first : first + weights.size], dtype=np.int64), weights)


def _draw(plan: _Plan, rights: list[int], values: FloatArray, draws: int, generator: np.random.Generator) -> FloatArray:
    right = np.asarray(rights)
    counts = generator.hypergeometric(right, np.asarray(plan.samples) - right, plan.subsample, (draws, right.size))
    return np.asarray(values[counts].mean(axis=1))
