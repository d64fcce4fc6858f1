"""Eq. 7 and Lemma 3.1: to 1e-12 of mpmath on the grids, equal to enumeration, and with the properties of probabilities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_theory import (
    active_probability,
    conditional_tail_miss_probability,
    log_tail_miss_probability,
    tail_miss_probability,
)
from tests.fgrpo_theory import enumeration as en
from tests.fgrpo_theory.law_oracles import ORACLES
from tests.fgrpo_theory.oracles import SMALLEST_NORMAL, judge, rows_of, truths_of

NAMED = {oracle.name: oracle for oracle in ORACLES}
LAWS = [
    "active_probability",
    "tail_miss_probability",
    "log_tail_miss_probability",
    "conditional_tail_miss_probability",
]


@pytest.mark.parametrize("name", LAWS)
def test_relative_error_on_the_grid(name: str) -> None:
    verdict = judge(NAMED[name], NAMED[name].points)
    assert verdict.points >= 5000
    assert verdict.worst <= 1e-12, verdict


def test_the_grid_reaches_every_corner() -> None:
    """5000 values that are normal float64, 500 of them below 1e-280, and 1000 in each of three ranges of N."""
    oracle = NAMED["tail_miss_probability"]
    values = np.array([float(t[0]) for t in truths_of(oracle, oracle.points)])
    n = np.array([row[0] for row in rows_of(oracle, oracle.points)])
    assert ((values > SMALLEST_NORMAL) & (values < 1e-280)).sum() >= 500
    assert (values > SMALLEST_NORMAL).sum() >= 5000
    for low, high in ((1, 100), (100, 1e6), (1e6, 1e12 + 1)):
        assert ((n >= low) & (n < high)).sum() >= 1000


def test_subtraction_in_float64_would_fail_on_the_grid() -> None:
    """What the stable form is for: the lemma as printed is off by more than a millionth somewhere."""
    oracle = NAMED["tail_miss_probability"]
    n, mu, tau = np.array(rows_of(oracle, oracle.points)).T
    truth = np.array([float(t[0]) for t in truths_of(oracle, oracle.points)])
    normal = truth > SMALLEST_NORMAL
    plain = (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n
    assert (np.abs(plain / np.where(normal, truth, 1) - 1)[normal]).max() > 1e-6


@pytest.mark.parametrize(("policy", "size"), [*en.POLICIES, en.LARGE])
def test_lemma_and_activity_equal_enumeration(policy: en.Policy, size: int) -> None:
    """Every subset of the correct actions that has probability."""
    right = [i for i, c in enumerate(policy.correct) if c]
    mu = sum((policy.p[i] for i in right), start=Fraction(0))
    active = en.expectation(policy, size, lambda d: int(0 < en.successes(policy, d) < size))
    assert active_probability(size, float(mu)) == pytest.approx(float(active), rel=1e-14)
    for code in range(1, 2 ** len(right)):
        rare = frozenset(i for bit, i in enumerate(right) if code >> bit & 1)
        tau = sum(policy.p[i] for i in rare)
        if tau:
            miss = en.expectation(policy, size, lambda d: en.tail_missed(policy, d, rare))  # noqa: B023
            found = tail_miss_probability(size, float(mu), min(float(tau), float(mu)))
            assert found == pytest.approx(float(miss), rel=1e-13, abs=0)


def test_known_values() -> None:
    assert active_probability(8, 0.5) == 1 - 2 / 2**8
    assert tail_miss_probability(2, 0.5, 0.25) == 0.25
    assert tail_miss_probability(3, 0.5, 0.25) == pytest.approx(0.75**3 - 0.25**3 - 0.5**3, rel=1e-15)
    assert conditional_tail_miss_probability(2, 0.5, 0.25) == pytest.approx(0.5, rel=1e-15)


@pytest.mark.parametrize(
    "case", [(1, 0.3, 0.03), (1, 1.0, 1e-15), (1, 1e-15, 1e-15), (7, 1.0, 0.2), (10**12, 1.0, 1e-9), (9, 0.4, 0.4)]
)
def test_exact_zeros(case: tuple[int, float, float]) -> None:
    assert tail_miss_probability(*case) == 0
    assert log_tail_miss_probability(*case) == -np.inf


@pytest.mark.parametrize("case", [(1, 0.3), (1, 0.0), (5, 0.0), (5, 1.0)])
def test_no_activity(case: tuple[int, float]) -> None:
    assert active_probability(*case) == 0


def test_conditional_is_nan_only_where_no_group_is_active() -> None:
    assert np.isnan(conditional_tail_miss_probability(1, 0.3, 0.1))
    assert np.isnan(conditional_tail_miss_probability(8, 1.0, 0.1))
    assert conditional_tail_miss_probability(8, 0.3, 0.3) == 0
    assert conditional_tail_miss_probability(10**9, 0.3, 1e-12) == pytest.approx(np.exp(-1e-3), rel=1e-9)


GROUP = st.integers(1, 10**12), st.floats(1e-15, 1 - 1e-15), st.floats(1e-9, 1)


@settings(max_examples=400, deadline=None)
@given(*GROUP)
def test_bounds_and_relations_between_the_laws(n: int, mu: float, rho: float) -> None:
    tau = rho * mu
    miss, active = tail_miss_probability(n, mu, tau), active_probability(n, mu)
    assert 0 <= miss <= active <= 1
    assert miss <= np.exp(n * np.log1p(-tau)) * (1 + 1e-12)
    log_miss = log_tail_miss_probability(n, mu, tau)
    assert log_miss <= 0
    if miss > 1e-300:
        assert np.exp(log_miss) == pytest.approx(miss, rel=1e-12)
        assert conditional_tail_miss_probability(n, mu, tau) == pytest.approx(miss / active, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 2**20 - 1), st.integers(1, 2**20 - 1))
def test_symmetric_in_wrong_and_common_correct_mass(n: int, x: int, y: int) -> None:
    """s^N - a^N - b^N does not know which of a and b is wrong; on a grid of dyadic numbers that hold 1 - x exactly."""
    tau_, mu_ = sorted((x, y))
    mu, tau = mu_ / 2**20, tau_ / 2**20
    swapped = 1 - mu + tau
    assert tail_miss_probability(n, mu, tau) == tail_miss_probability(n, swapped, tau)
    assert active_probability(n, mu) == active_probability(n, 1 - mu)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**9), st.floats(1e-12, 1), st.floats(1e-6, 1), st.floats(1e-6, 1))
def test_a_likelier_subset_is_missed_less(n: int, mu: float, one: float, two: float) -> None:
    low, high = sorted((one * mu, two * mu))
    assert tail_miss_probability(n, mu, high) <= tail_miss_probability(n, mu, low) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 60), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_one_more_rollout(n: int, mu: float, rho: float) -> None:
    """Conditioning on the last rollout: f(N+1) = (1 - tau) f(N) + a b^N + b a^N."""
    tau = rho * mu
    a, b = 1 - mu, mu - tau
    step = (1 - tau) * tail_miss_probability(n, mu, tau) + a * b**n + b * a**n
    assert tail_miss_probability(n + 1, mu, tau) == pytest.approx(step, rel=1e-12)


def test_arrays_equal_scalars_to_the_bit_whatever_their_layout() -> None:
    rng = np.random.default_rng(0)
    mu = rng.uniform(0.01, 1, (40, 1, 50))
    tau, n = mu * rng.uniform(1e-6, 1, (40, 30, 50)), rng.integers(1, 1000, (30, 1))
    for law in (tail_miss_probability, log_tail_miss_probability, conditional_tail_miss_probability):
        whole = law(n, mu, tau)
        assert whole.shape == (40, 30, 50)
        assert whole.dtype == np.float64
        np.testing.assert_array_equal(whole[3, 5, 7], law(n[5, 0], mu[3, 0, 7], tau[3, 5, 7]))
        np.testing.assert_array_equal(whole.T, law(n.T[..., None], mu.T, tau.T))
        np.testing.assert_array_equal(whole[:, ::2], law(n[::2], mu, tau[:, ::2]))
    assert isinstance(tail_miss_probability(8, 0.3, 0.03), np.float64)


def test_large_arrays_equal_their_parts() -> None:
    rng = np.random.default_rng(1)
    mu = rng.uniform(0, 1, 100_003)
    tau, n = mu * rng.uniform(0.0001, 1, mu.shape), rng.integers(1, 10**6, mu.shape)
    whole = tail_miss_probability(n, mu, tau)
    parts = [tail_miss_probability(n[i : i + 777], mu[i : i + 777], tau[i : i + 777]) for i in range(0, mu.size, 777)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_inputs_are_left_as_they_were() -> None:
    n, mu, tau = np.array([1.0, 8.0]), np.array([0.3, 1.0]), np.array([0.1, 0.2])
    copies = n.copy(), mu.copy(), tau.copy()
    tail_miss_probability(n, mu, tau)
    for array, copy in zip((n, mu, tau), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
