"""Exact variances against enumeration of every group, and their properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_theory import total_mass_change_variance, unsampled_mass_change_variance
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
    for rule in (rule for rule in RULES if rule.surrogate == "ratio"):

        def change(policy: en.Policy, drawn: tuple[int, ...], rule: en.Rule = rule) -> en.Number:
            return en.unsampled_change(policy, drawn, rule)

        truth = float(en.variance(policy, size, lambda d: change(policy, d)))
        given_ = {k: v for k, v in en.options(rule).items() if k != "surrogate"}
        found = unsampled_mass_change_variance(*actions(policy), size, **given_)
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
    together = unsampled_mass_change_variance(p, size, correct, n, gamma=gamma)
    assert together == pytest.approx(unsampled_mass_change_variance(*spread, n, gamma=gamma), rel=1e-8, abs=1e-17)


@pytest.mark.parametrize("law", [total_mass_change_variance, unsampled_mass_change_variance])
@pytest.mark.parametrize("n", [2, 8, 131072])
def test_scales_with_the_square_of_the_learning_rate_and_of_the_reward_gap(law, n: int) -> None:
    plain = law(*PAPER, n, **({"surrogate": "ratio"} if law is total_mass_change_variance else {}))
    kind = {"surrogate": "ratio"} if law is total_mass_change_variance else {}
    assert plain > 0
    assert law(*PAPER, n, learning_rate=3.0, **kind) == pytest.approx(9 * plain, rel=1e-9)
    assert law(*PAPER, n, reward_correct=1.0, reward_wrong=0.0, **kind) == pytest.approx(plain / 4, rel=1e-9)


def test_one_rollout_and_one_sided_policies_do_not_vary_the_ratio_update() -> None:
    for group in (([0.5, 0.5], [1, 1], [True, False], 1), ([0.5], [2], [True], 8), ([0.5], [2], [False], 8)):
        assert total_mass_change_variance(*group, surrogate="ratio") == 0
        assert unsampled_mass_change_variance(*group) == 0


def test_fractions_are_refused() -> None:
    with pytest.raises(ValueError, match="must be floats for a variance"):
        total_mass_change_variance([en.Fraction(1, 2)] * 2, [1, 1], [True, False], 3)
