"""Binomial and hypergeometric weights against integers and mpmath, and wrong recurrences that the same grids refuse."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import comb

import mpmath
import numpy as np
import pytest

from fgrpo_theory.binomial import binomial_expectation, binomial_weights
from fgrpo_theory.foundation.seeds import generator
from fgrpo_theory.hypergeometric import hypergeometric_weights

TOLERANCE = 1e-12


@cache
def laws() -> tuple[tuple[int, float], ...]:
    """1,700 log-spread laws, N from 1 to 1e7, mu from 1e-15 to 1 - 1e-15, and the corners."""
    rng = generator(0, "test binomial laws")
    spread = [(int(10 ** rng.uniform(0, 7)), 10 ** rng.uniform(-15, 0)) for _ in range(1700)]
    corners = [
        (1, 0.5),
        (2, 1e-15),
        (2, 1 - 1e-15),
        (64, 1e-15),
        (65, 0.5),
        (10**9, 0.3),
        (10**9, 1e-15),
        (10**9, 1 - 1e-15),
        (10**9, 1e-9),
        (10**5, 1e-100),
    ]
    return (*((n, 1 - mu if i % 3 == 0 and mu > 1e-16 else mu) for i, (n, mu) in enumerate(spread)), *corners)


def exact_moments(size: int, mu: float) -> tuple[Fraction, ...]:
    """E[X], E[X (X - 1)], E[N - X]."""
    chance = Fraction(mu)
    return size * chance, size * (size - 1) * chance**2, size * (1 - chance)


def test_expectations_agree_with_exact_moments() -> None:
    points, worst = 0, 0.0
    for size, mu in laws():
        functions = (lambda k: k, lambda k: k * (k - 1.0), lambda k, size=size: size - k)
        for function, truth in zip(functions, exact_moments(size, mu), strict=True):
            if truth > Fraction(1, 10**300):
                points += 1
                worst = max(worst, abs(float(Fraction(binomial_expectation(size, mu, function)) / truth - 1)))
    assert points >= 5000
    assert worst < 1e-13


def log_pmf(size: int, mu: float, count: int) -> mpmath.mpf:
    chance = mpmath.mpf(mu)
    coefficient = mpmath.loggamma(size + 1) - mpmath.loggamma(count + 1) - mpmath.loggamma(size - count + 1)
    return coefficient + count * mpmath.log(chance) + (size - count) * mpmath.log1p(-chance)


def test_weights_agree_with_mpmath() -> None:
    rng = generator(0, "test binomial weights")
    points, worst = 0, 0.0
    with mpmath.workdps(50):
        for size, mu in laws():
            first, weights = binomial_weights(size, mu)
            seen = np.flatnonzero(weights > max(1e-300, 1e-30 * weights.max()))
            for place in rng.choice(seen, min(4, seen.size), replace=False).tolist():
                points += 1
                truth = mpmath.exp(log_pmf(size, mu, first + place))
                worst = max(worst, abs(float(weights[place] / truth - 1)))
    assert points >= 5000
    assert worst < 2 * TOLERANCE


def test_the_far_tail_at_1e9_is_cut_where_stated() -> None:
    first, weights = binomial_weights(10**9, 0.3)
    assert weights[0] < 1e-59 * weights.max()
    assert weights[-1] < 1e-59 * weights.max()
    assert weights[0] >= 1e-60 * weights.max()
    assert first > 0
    assert weights.sum() == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("size", [1, 2, 17, 64])
@pytest.mark.parametrize("mu", [0.0, 1e-15, 0.3, 0.5, 1 - 1e-15, 1.0])
def test_small_laws_are_whole_and_exact(size: int, mu: float) -> None:
    first, weights = binomial_weights(size, mu)
    chance = Fraction(mu)
    truth = [float(comb(size, k) * chance**k * (1 - chance) ** (size - k)) for k in range(size + 1)]
    assert first == 0
    assert np.asarray(weights) == pytest.approx(np.array(truth), rel=1e-14, abs=1e-307)


def test_tiny_chances_keep_the_first_counts() -> None:
    first, weights = binomial_weights(10**9, 1e-100)
    assert first == 0
    assert weights[2] == pytest.approx(0.5e-182 * (1 - 1e-9), rel=TOLERANCE, abs=0)


WRONG_RATIOS: dict[str, Callable[[int, float, int], float]] = {
    "N - k + 1 for N - k": lambda n, mu, k: (n - k + 1) / (k + 1) * mu / (1 - mu),
    "k for k + 1": lambda n, mu, k: (n - k) / max(k, 1) * mu / (1 - mu),
    "odds left out": lambda n, mu, k: (n - k) / (k + 1) * mu,
    "Poisson": lambda n, mu, k: n * mu / (k + 1),
}


@pytest.mark.parametrize("name", WRONG_RATIOS)
def test_the_moments_refuse_wrong_recurrences(name: str) -> None:
    size, mu = 20, 0.3
    weights = np.cumprod([1.0, *(WRONG_RATIOS[name](size, mu, k) for k in range(size))])
    weights /= weights.sum()
    truth = exact_moments(size, mu)
    counts = np.arange(size + 1)
    errors = [
        abs(float(weights @ counts) / float(truth[0]) - 1),
        abs(float(weights @ (counts * (counts - 1))) / float(truth[1]) - 1),
    ]
    assert max(errors) > 1e-3


@pytest.mark.parametrize(
    "case",
    [
        (1, 0, 1),
        (1, 1, 1),
        (5, 3, 5),
        (6, 3, 3),
        (1024, 700, 256),
        (1024, 1, 1000),
        (2048, 1024, 1024),
        (40, 40, 7),
        (40, 0, 7),
    ],
)
def test_hypergeometric_agrees_with_integers(case: tuple[int, int, int]) -> None:
    population, successes, draws = case
    first, weights = hypergeometric_weights(*case)
    ways = comb(population, draws)
    truth = [comb(successes, y) * comb(population - successes, draws - y) / ways for y in range(draws + 1)]
    kept = slice(first, first + weights.size)
    assert np.asarray(weights) == pytest.approx(np.array(truth[kept]), rel=TOLERANCE, abs=1e-290)
    assert sum(truth[:first]) + sum(truth[first + weights.size :]) < 1e-290


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5), "group_size must be a whole number of at least 1, got group_size=0"),
        ((-3, 0.5), "group_size must be a whole number of at least 1, got group_size=-3"),
        ((2.5, 0.5), "group_size must be a whole number of at least 1, got group_size=2.5"),
        ((float("nan"), 0.5), "group_size must not be NaN, got group_size=nan"),
        ((10**9 + 1, 0.5), "group_size must be at most 1e9, got group_size=1000000001"),
        (([4, 8], 0.5), r"group_size must be a single number, got group_size.shape=\(2,\)"),
        ((4, [0.5, 0.6]), r"mu must be a single number, got mu.shape=\(2,\)"),
        ((4, []), r"mu must be a single number, got mu.shape=\(0,\)"),
        ((4, -1e-9), r"mu must lie in \[0, 1\], got mu=-1e-09"),
        ((4, 1.5), r"mu must lie in \[0, 1\], got mu=1.5"),
        ((4, float("nan")), "mu must not be NaN, got mu=nan"),
        ((4, "half"), "mu must be a real number or an array of them, got mu='half'"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    for call in (binomial_weights, lambda *args: binomial_expectation(*args, lambda k: k)):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call(*arguments)
