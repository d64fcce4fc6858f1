"""Sizes of the advantages and of the mean update, to 1e-12 of mpmath, and the identities that tie them together."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from fgrpo_theory import (
    advantage_magnitudes,
    expected_update_scale,
    focal_advantage,
    group_advantage_magnitudes,
    learning_rate_multiplier,
)
from tests.fgrpo_theory.law_oracles import ORACLES
from tests.fgrpo_theory.oracles import judge

LAWS = ["advantage_magnitudes", "group_advantage_magnitudes", "expected_update_scale", "learning_rate_multiplier"]
NAMED = {oracle.name: oracle for oracle in ORACLES}


@pytest.mark.parametrize("name", LAWS)
def test_relative_error_on_the_grid(name: str) -> None:
    oracle = NAMED[name]
    verdict = judge(oracle, oracle.default)
    assert verdict.points == oracle.default
    assert verdict.worst <= 1e-12, verdict


@pytest.mark.slow
def test_relative_error_of_the_update_scale_on_the_full_grid() -> None:
    verdict = judge(NAMED["expected_update_scale"], NAMED["expected_update_scale"].points)
    assert verdict.points >= 5000
    assert verdict.worst <= 1e-12, verdict


@pytest.mark.parametrize(
    ("correct", "ddof", "plus", "minus"),
    [
        (1, 1, 0.7071, 0.7071),
        (1, 0, 1.0, 1.0),
        (3, 1, 0.5, 1.5),
        (3, 0, 0.5774, 1.7321),
    ],
)
def test_cases_that_broke_trainers(correct: int, ddof: int, plus: float, minus: float) -> None:
    """Rewards [1, 0] and [1, 1, 1, 0]."""
    size = 2 if correct == 1 else 4
    assert group_advantage_magnitudes(size, correct, 0.0, ddof=ddof) == (
        pytest.approx(plus, abs=5e-5),
        pytest.approx(minus, abs=5e-5),
    )


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 40), st.integers(0, 40), st.floats(0, 5), st.integers(0, 1), st.sampled_from([0.0, 1e-6, 1e-4]))
def test_magnitudes_are_those_of_the_rollouts(n: int, k: int, gamma: float, ddof: int, eps: float) -> None:
    """The closed form against `focal_advantage` on actual rewards, with a gap of 2."""
    k = min(n, k)
    success = np.arange(n) < k
    advantage = focal_advantage(np.where(success, 1.0, -1.0), success, gamma, ddof=ddof, eps=eps)
    plus, minus = group_advantage_magnitudes(n, k, gamma, ddof=ddof, eps=eps, reward_gap=2.0)
    np.testing.assert_allclose(advantage, np.where(success, plus, -minus), rtol=1e-12, atol=1e-14)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 10**9), st.floats(1e-9, 1), st.floats(0, 3))
def test_the_finite_group_meets_the_limit(n: int, share: float, gamma: float) -> None:
    """With the population std and k = mu N the group's magnitudes are the limit's, at every N."""
    k = min(n - 1, max(1, round(share * n)))
    np.testing.assert_allclose(
        group_advantage_magnitudes(n, k, gamma, ddof=0), advantage_magnitudes(k / n, gamma), rtol=1e-6
    )


def test_centred_advantages_balance() -> None:
    """k A+ = (N - k) A-."""
    k = np.arange(1, 64)
    plus, minus = group_advantage_magnitudes(64, k, 0.7)
    np.testing.assert_allclose(k * plus, (64 - k) * minus, rtol=1e-14)


def test_the_mean_update_by_hand() -> None:
    """N = 2: active with chance 2 mu (1 - mu), both magnitudes 1 (ddof 0) or 1/sqrt(2) (ddof 1), g = 2^-gamma."""
    for mu in (0.0, 1e-300, 0.3, 1.0):
        for gamma in (0.0, 1.0, 2.5):
            value = 2 * mu * (1 - mu) * 2.0**-gamma
            assert expected_update_scale(2, mu, gamma, ddof=0) == pytest.approx(value, rel=1e-14, abs=0)
            assert expected_update_scale(2, mu, gamma, ddof=1) == pytest.approx(value / 2**0.5, rel=1e-14, abs=0)


def test_the_mean_update_of_a_large_group_is_the_limit() -> None:
    """E[g |A|] -> 2 (1 - mu)^gamma sqrt(mu (1 - mu)), with an error that falls as 1/N."""
    for mu in (0.1, 0.5, 0.9):
        limit = 2 * (1 - mu) ** 0.5 * (mu * (1 - mu)) ** 0.5
        gaps = [abs(expected_update_scale(n, mu, 0.5) / limit - 1) for n in (10**4, 10**5, 10**6)]
        assert gaps[2] < 1e-5
        assert gaps[0] == pytest.approx(10 * gaps[1], rel=0.01)


def test_the_mean_update_falls_in_gamma_and_broadcasts() -> None:
    mu, n = np.array([[0.05], [0.5], [0.95]]), np.array([2, 8, 64])
    scale = [expected_update_scale(n, mu, gamma) for gamma in (0.0, 0.5, 1.0, 2.0)]
    assert (np.diff(scale, axis=0) < 0).all()
    assert scale[1][2, 1] == expected_update_scale(8, 0.95, 0.5)


def test_matched_learning_rate_is_the_mean_over_uniform_prompts() -> None:
    """m_gamma is the mean of 2 g sqrt(mu (1 - mu)) over mu, divided by that of gamma = 0: appendix N by quadrature."""

    def mean(gamma: float) -> mpf:
        return mpmath.quad(lambda m: (1 - m) ** mpf(gamma) * mpmath.sqrt(m * (1 - m)), [0, 0.5, 1])

    with mp.workdps(30):
        for gamma in (0.0, 0.5, 1.0, 2.0, 7.3):
            assert learning_rate_multiplier(gamma) == pytest.approx(float(mean(gamma) / mean(0)), rel=1e-12)


def test_matched_learning_rate_of_the_paper() -> None:
    """Appendix N: m_0.5 = 0.679, so 1e-6 becomes 6.8e-7; whole gammas are rational."""
    assert round(float(learning_rate_multiplier(0.5)), 3) == 0.679
    np.testing.assert_allclose(learning_rate_multiplier([0, 1, 2, 3]), [1, 1 / 2, 5 / 16, 7 / 32], rtol=1e-13)


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 1e7))
def test_recurrence_of_the_multiplier(gamma: float) -> None:
    """m(gamma + 1) = m(gamma) (gamma + 3/2) / (gamma + 3)."""
    step = learning_rate_multiplier(gamma) * (gamma + 1.5) / (gamma + 3)
    assert learning_rate_multiplier(gamma + 1) == pytest.approx(step, rel=1e-12)
