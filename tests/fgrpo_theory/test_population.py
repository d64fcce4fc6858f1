"""The tail miss of a population: beta-binomial sums up to N = 2000, quadrature of 40 digits up to N = 1e12, and limits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from fgrpo_theory import population_tail_miss_probability, tail_miss_probability
from tests.fgrpo_theory.law_oracles import ORACLES
from tests.fgrpo_theory.oracles import judge

ORACLE = next(oracle for oracle in ORACLES if oracle.name == "population_tail_miss_probability")
LARGE = [
    (1e5, 0.5, 0.5, 0.1),
    (1e6, 2.0, 5.0, 1e-4),
    (1e9, 1.0, 1.0, 1e-6),
    (1e9, 0.3, 4.0, 1e-9),
    (1e12, 0.5, 2.0, 1e-9),
    (1e12, 1.0, 0.1, 1e-3),
]


def quadrature(n: float, alpha: float, beta: float, fraction: float) -> mpf:
    """Lemma 3.1 against the Beta density, in u = logit(mu), by mpmath's own rule on pieces of unit length."""
    size, a, b, r = int(n), mpf(alpha), mpf(beta), mpf(fraction)

    def integrand(u: mpf) -> mpf:
        mu, wrong = 1 / (1 + mpmath.exp(-u)), 1 / (1 + mpmath.exp(u))
        miss = (1 - r * mu) ** size - (mu - r * mu) ** size - wrong**size
        return miss * mu**a * wrong**b

    # The two sides fall like exp(a u) N and exp(-b u) or faster.
    low, high = -(60 + float(mpmath.log(size))) / min(alpha, 1.0), 60 / beta + 40
    pieces = mpmath.linspace(max(low, -400), min(high, 700), 160)
    return mpmath.quad(integrand, pieces, maxdegree=6) / mpmath.beta(a, b)


def test_relative_error_on_the_grid() -> None:
    verdict = judge(ORACLE, ORACLE.default)
    assert verdict.points == ORACLE.default
    assert verdict.worst <= 1e-12, verdict


@pytest.mark.slow
def test_relative_error_on_the_full_grid() -> None:
    verdict = judge(ORACLE, ORACLE.points)
    assert verdict.points >= 5000
    assert verdict.worst <= 1e-12, verdict


@pytest.mark.parametrize("case", LARGE[:2])
def test_large_groups_agree_with_quadrature(case: tuple[float, float, float, float]) -> None:
    with mp.workdps(40):
        assert abs(population_tail_miss_probability(*case) / quadrature(*case) - 1) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE[2:])
def test_the_largest_groups_agree_with_quadrature(case: tuple[float, float, float, float]) -> None:
    with mp.workdps(40):
        assert abs(population_tail_miss_probability(*case) / quadrature(*case) - 1) < 1e-12


def test_uniform_population_in_closed_form() -> None:
    """alpha = beta = 1: (1 - (1-r)^(N+1)) / (r (N+1)) - (1-r)^N / (N+1) - 1 / (N+1)."""
    for n, r in ((2, 0.5), (8, 0.1), (50, 0.25), (1000, 0.01)):
        with mp.workdps(60):
            kept = 1 - mpf(r)
            exact = ((1 - kept ** (n + 1)) / r - kept**n - 1) / (n + 1)
        assert abs(population_tail_miss_probability(n, 1.0, 1.0, r) / exact - 1) < 1e-13


@pytest.mark.parametrize("n", [2, 8, 64, 4096])
def test_a_narrow_population_is_its_mean_prompt(n: int) -> None:
    """Beta(c mu, c (1 - mu)) closes in on mu; the difference falls as 1 / c."""
    single = tail_miss_probability(n, 0.3, 0.003)
    gaps = [abs(population_tail_miss_probability(n, 0.3 * c, 0.7 * c, 0.01) / single - 1) for c in (1e6, 1e7, 1e8)]
    assert gaps[2] < 1e-4
    assert gaps[0] == pytest.approx(10 * gaps[1], rel=0.05)
    assert gaps[1] == pytest.approx(10 * gaps[2], rel=0.05)


def test_exact_zeros_and_shapes() -> None:
    assert population_tail_miss_probability(1, 2.0, 3.0, 0.1) == 0
    assert population_tail_miss_probability(8, 2.0, 3.0, 1.0) == 0
    table = population_tail_miss_probability([[2], [8]], 2.0, 3.0, [0.1, 0.5, 1.0])
    assert table.shape == (2, 3)
    assert table[1, 0] == population_tail_miss_probability(8, 2.0, 3.0, 0.1)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 10**9), st.floats(0.05, 20), st.floats(0.05, 20), st.floats(1e-6, 0.5))
def test_bounds_and_monotonicity(n: int, alpha: float, beta: float, fraction: float) -> None:
    values = population_tail_miss_probability(n, alpha, beta, np.array([fraction, 1.5 * fraction, 2 * fraction]))
    assert ((values >= 0) & (values <= 1)).all()
    assert (np.diff(values) <= 1e-13 * values[0]).all()
