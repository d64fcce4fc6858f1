"""Exact variances against enumeration of every group, and their properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_theory import total_mass_change_variance, unsampled_mass_change, unsampled_mass_change_variance
from tests.fgrpo_theory import enumeration as en

RULES = [*en.RULES[::5], *en.FLOAT_RULES]
WEIGHT = np.exp([5.0, 3.0, 0.0])
SIZE = np.array([1.0, 9999.0, 118000.0])
PAPER = (WEIGHT / (WEIGHT * SIZE).sum(), SIZE, np.array([True, True, False]))


def actions(policy: en.Policy) -> tuple[list[float], list[int], list[bool]]:
    """Each action as a class."""
    return [float(x) for x in policy.p], [1] * len(policy.p), list(policy.correct)


def tolerance(policy: en.Policy, size: int, change) -> dict[str, float]:
    """1e-10 of the variance, and rounding of the second moment where that is much larger."""
    second = float(en.expectation(policy, size, lambda d: change(policy, d) ** 2))
    return {"rtol": 1e-10, "atol": 1e-15 * second}


@pytest.mark.parametrize(("policy", "size"), en.POLICIES)
def test_variance_of_correct_mass_agrees_with_enumeration(policy: en.Policy, size: int) -> None:
    for rule in RULES:

        def change(policy: en.Policy, drawn: tuple[int, ...], rule: en.Rule = rule) -> en.Number:
            return en.correct_change(policy, drawn, rule)

        truth = float(en.variance(policy, size, lambda d: change(policy, d)))
        found = total_mass_change_variance(*actions(policy), size, **en.options(rule))
        np.testing.assert_allclose(found, truth, **tolerance(policy, size, change), err_msg=str(rule))


@pytest.mark.parametrize(("policy", "size"), en.POLICIES)
def test_variance_of_unsampled_mass_agrees_with_enumeration(policy: en.Policy, size: int) -> None:
    for rule in RULES:

        def change(policy: en.Policy, drawn: tuple[int, ...], rule: en.Rule = rule) -> en.Number:
            return en.unsampled_change(policy, drawn, rule)

        truth = float(en.variance(policy, size, lambda d: change(policy, d)))
        found = unsampled_mass_change_variance(*actions(policy), size, **en.options(rule))
        np.testing.assert_allclose(found, truth, **tolerance(policy, size, change), err_msg=str(rule))


@st.composite
def policies(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two to four classes with both sides, up to 6 actions each."""
    number = draw(st.integers(2, 4))
    logits = np.array(draw(st.lists(st.floats(-6, 6), min_size=number, max_size=number)))
    size = np.array(draw(st.lists(st.integers(1, 6), min_size=number, max_size=number)))
    correct = np.arange(number) < draw(st.integers(1, number - 1))
    weight = np.exp(logits - logits.max())
    return weight / (weight * size).sum(), size, correct


@settings(max_examples=60, deadline=None)
@given(policies(), st.integers(1, 30), st.sampled_from(["probability", "ratio"]), st.sampled_from([0.0, 0.5, 2.0]))
def test_a_class_of_m_actions_equals_m_classes_of_one(policy, n: int, surrogate: str, gamma: float) -> None:
    p, size, correct = policy
    spread = np.repeat(p, size), np.ones(size.sum()), np.repeat(correct, size)
    together = total_mass_change_variance(p, size, correct, n, surrogate=surrogate, gamma=gamma)
    apart = total_mass_change_variance(*spread, n, surrogate=surrogate, gamma=gamma)
    assert together == pytest.approx(apart, rel=1e-9, abs=1e-17)
    together = unsampled_mass_change_variance(p, size, correct, n, surrogate=surrogate, gamma=gamma)
    apart = unsampled_mass_change_variance(*spread, n, surrogate=surrogate, gamma=gamma)
    assert together == pytest.approx(apart, rel=1e-8, abs=1e-17)


@pytest.mark.parametrize("law", [total_mass_change_variance, unsampled_mass_change_variance])
@pytest.mark.parametrize("n", [2, 8, 131072])
def test_scales_with_the_square_of_the_learning_rate_and_of_the_reward_gap(law, n: int) -> None:
    plain = law(*PAPER, n, surrogate="ratio")
    assert plain > 0
    assert law(*PAPER, n, surrogate="ratio", learning_rate=3.0) == pytest.approx(9 * plain, rel=1e-9)
    halved = law(*PAPER, n, surrogate="ratio", reward_correct=1.0, reward_wrong=0.0)
    assert halved == pytest.approx(plain / 4, rel=1e-9)


def test_one_rollout_and_one_sided_policies_do_not_vary_the_ratio_update() -> None:
    for group in (([0.5, 0.5], [1, 1], [True, False], 1), ([0.5], [2], [True], 8), ([0.5], [2], [False], 8)):
        assert total_mass_change_variance(*group, surrogate="ratio") == 0
        assert unsampled_mass_change_variance(*group, surrogate="ratio") == 0


@pytest.mark.parametrize("n", [1, 2, 16, 1024])
def test_the_probability_surrogate_on_the_paper_policy_scales_with_the_square_of_the_rewards(n: int) -> None:
    plain = unsampled_mass_change_variance(*PAPER, n, gamma=1.0)
    assert plain > 0
    doubled = unsampled_mass_change_variance(*PAPER, n, gamma=1.0, reward_correct=2.0, reward_wrong=-2.0)
    assert doubled == pytest.approx(4 * plain, rel=1e-12)


def test_without_wrong_actions_the_probability_surrogate_still_varies() -> None:
    """Two equal correct actions and two rollouts: both hit, or one hit and the other unsampled, each with chance 1/2."""
    both, one = 0.0, float(unsampled_mass_change([0.5, 0.5], [True, True], [2, 0]).total)
    assert one != both
    found = unsampled_mass_change_variance([0.5], [2], [True], 2)
    assert found == pytest.approx((one - both) ** 2 / 4, rel=1e-14)


def test_a_chain_that_is_too_large_is_refused_before_it_is_built() -> None:
    policy = (np.full(8, 1e-3), np.full(8, 120), np.arange(8) < 7)
    policy[0][7] = (1 - 7 * 120 * 1e-3) / 120
    unsampled_mass_change_variance(*policy, 8)
    with pytest.raises(ValueError, match=r"group_size and the correct classes must make at most .*group_size=131072"):
        unsampled_mass_change_variance(*policy, 131072)


def test_fractions_are_refused() -> None:
    with pytest.raises(ValueError, match="must be floats for a variance"):
        total_mass_change_variance([en.Fraction(1, 2)] * 2, [1, 1], [True, False], 3)
