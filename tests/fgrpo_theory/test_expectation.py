"""Exact expectations: equal to enumeration as fractions, to mpmath as floats, and with the properties they must have."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_theory import (
    expected_baseline,
    expected_mass_changes,
    expected_sampled_mass,
    expected_unsampled_correct_mass,
)
from tests.fgrpo_theory import enumeration as en
from tests.fgrpo_theory.oracles import judge
from tests.fgrpo_theory.policy_oracles import POLICY_ORACLES

SURROGATES = ["probability", "ratio"]
# The policy of section 5.1: p_anchor, p_leaf, p_wrong.
_WEIGHT = np.exp([5.0, 3.0, 0.0])
SIZE = np.array([1.0, 9999.0, 118000.0])
PAPER = (_WEIGHT / (_WEIGHT * SIZE).sum(), SIZE, np.array([True, True, False]))


def classes(policy: en.Policy) -> tuple[list[Fraction], list[int], list[bool]]:
    """Actions of equal probability and correctness as one class."""
    kinds = sorted(set(zip(policy.p, policy.correct, strict=True)))
    size = [list(zip(policy.p, policy.correct, strict=True)).count(kind) for kind in kinds]
    return [p for p, _ in kinds], size, [c for _, c in kinds]


def truth(policy: en.Policy, size: int, rule: en.Rule) -> tuple[en.Number, en.Number]:
    """Both expectations by enumeration."""
    return (
        en.expectation(policy, size, lambda d: en.correct_change(policy, d, rule)),
        en.expectation(policy, size, lambda d: en.unsampled_change(policy, d, rule)),
    )


@pytest.mark.parametrize(("policy", "size"), en.POLICIES)
def test_equal_enumeration_as_fractions(policy: en.Policy, size: int) -> None:
    for rule in en.RULES:
        found = expected_mass_changes(*classes(policy), size, **en.options(rule))
        assert found == truth(policy, size, rule), rule
        assert all(isinstance(x, Fraction) for x in found)


@pytest.mark.parametrize("rule", en.RULES[4::8])
def test_equal_enumeration_of_the_largest_case(rule: en.Rule) -> None:
    policy, size = en.LARGE
    assert expected_mass_changes(*classes(policy), size, **en.options(rule)) == truth(policy, size, rule)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_equal_enumeration_for_random_policies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    actions, size = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    weights = np.maximum(rng.integers(0, 8, actions) * rng.choice([1, 1, 100], actions), np.arange(actions) == 0)
    policy = en.policy([int(w) for w in weights], "".join(rng.choice(["+", "-"], actions)))
    for rule in en.RULES[seed % 3 :: 3]:
        assert expected_mass_changes(*classes(policy), size, **en.options(rule)) == truth(policy, size, rule), rule


@pytest.mark.parametrize(("policy", "size"), en.POLICIES)
def test_float_rules_agree_with_enumeration(policy: en.Policy, size: int) -> None:
    p, number, correct = classes(policy)
    for rule in en.FLOAT_RULES:
        found = expected_mass_changes([float(x) for x in p], number, correct, size, **en.options(rule))
        np.testing.assert_allclose(found, [float(x) for x in truth(policy, size, rule)], rtol=1e-10, atol=1e-16)


@pytest.mark.parametrize(("policy", "size"), [*en.POLICIES, en.LARGE])
def test_masses_equal_enumeration_as_fractions(policy: en.Policy, size: int) -> None:
    found = expected_unsampled_correct_mass(policy.p, policy.correct, size)
    assert found == en.expectation(policy, size, lambda d: en.unsampled_correct_mass(policy, d))
    assert isinstance(found, Fraction)
    p, number, correct = classes(policy)
    for k in range(size + 1):
        pos = en.given_correct(policy, size, k, lambda d: en.sampled_mass(policy, d, True))
        if pos is None:
            continue
        neg = en.given_correct(policy, size, k, lambda d: en.sampled_mass(policy, d, False))
        assert expected_sampled_mass(policy.p, policy.correct, size, k) == (pos, neg)
        assert expected_sampled_mass(p, correct, size, k, size=number) == (pos, neg)


def test_impossible_counts_are_nan() -> None:
    assert np.isnan(expected_sampled_mass([0.5, 0.5], [False, False], 3, [0, 1])[0]).tolist() == [False, True]
    assert np.isnan(expected_sampled_mass([0.5, 0.5], [True, True], 3, [2, 3])[1]).tolist() == [True, False]


@pytest.mark.parametrize("oracle", POLICY_ORACLES, ids=lambda o: o.name)
def test_relative_error_on_the_grid(oracle) -> None:
    verdict = judge(oracle, oracle.default)
    assert verdict.points == oracle.default
    assert verdict.worst <= 1e-12, verdict


@pytest.mark.slow
@pytest.mark.parametrize("oracle", POLICY_ORACLES, ids=lambda o: o.name)
def test_relative_error_on_the_full_grid(oracle) -> None:
    verdict = judge(oracle, oracle.points)
    assert verdict.points >= 5000
    assert verdict.worst <= 1e-12, verdict


@st.composite
def policies(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two to five classes with both sides, probabilities over many magnitudes, up to 50 actions each."""
    number = draw(st.integers(2, 5))
    logits = np.array(draw(st.lists(st.floats(-15, 15), min_size=number, max_size=number)))
    size = np.array(draw(st.lists(st.integers(1, 50), min_size=number, max_size=number)))
    correct = np.arange(number) < draw(st.integers(1, number - 1))
    weight = np.exp(logits - logits.max())
    return weight / (weight * size).sum(), size, correct


@settings(max_examples=60, deadline=None)
@given(policies(), st.integers(1, 40), st.sampled_from(SURROGATES), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_a_class_of_m_actions_equals_m_classes_of_one(policy, n: int, surrogate: str, gamma: float) -> None:
    p, size, correct = policy
    size = np.minimum(size, 6)
    p = p / (p * size).sum()
    spread = np.repeat(p, size), np.ones(size.sum()), np.repeat(correct, size)
    together = expected_mass_changes(p, size, correct, n, surrogate=surrogate, gamma=gamma)
    apart = expected_mass_changes(*spread, n, surrogate=surrogate, gamma=gamma)
    np.testing.assert_allclose(together, apart, rtol=1e-11, atol=1e-15 / n)
    assert expected_unsampled_correct_mass(p, correct, n, size=size) == pytest.approx(
        expected_unsampled_correct_mass(spread[0], spread[2], n), rel=1e-12
    )


@settings(max_examples=100, deadline=None)
@given(policies(), st.integers(2, 60))
def test_sampled_mass_is_monotone_in_the_count(policy, n: int) -> None:
    """Lemma H.1 and Corollary H.2 (R_w <= 0)."""
    p, size, correct = policy
    k = np.arange(n + 1)
    pos, neg = expected_sampled_mass(p, correct, n, k, size=size)
    assert (np.diff(pos) >= -1e-15 * pos[-1]).all()
    assert (np.diff(neg) <= 1e-15 * neg[0]).all()
    for bad in (0.0, -1.0):
        assert (np.diff(expected_baseline(p, correct, n, k, size=size, reward_wrong=bad)) >= -1e-15).all()


def test_the_baseline_may_fall_where_wrong_answers_are_rewarded() -> None:
    """Corollary H.2 needs R_w <= 0: with R_w near R_c, losing wrong mass costs more than gaining correct mass."""
    p, correct = [0.1, 0.3, 0.3, 0.3], [True, False, False, False]
    values = expected_baseline(p, correct, 3, [0, 1, 2, 3], reward_correct=1.0, reward_wrong=0.9)
    assert (np.diff(values)[1:] < 0).all()


@settings(max_examples=100, deadline=None)
@given(policies(), st.integers(1, 200), st.sampled_from([0.0, 0.3, 1.0, 2.0]), st.booleans())
def test_correct_mass_never_falls_in_expectation_for_the_ratio_surrogate(
    policy, n: int, gamma: float, std: bool
) -> None:
    total, _ = expected_mass_changes(*policy, n, surrogate="ratio", gamma=gamma, std_scaled=std)
    assert total >= 0


@settings(max_examples=50, deadline=None)
@given(policies(), st.integers(1, 60), st.sampled_from([0.0, 0.5, 2.0]))
def test_only_the_gap_of_the_rewards_matters_to_the_ratio_surrogate(policy, n: int, gamma: float) -> None:
    one = np.array(
        expected_mass_changes(*policy, n, surrogate="ratio", gamma=gamma, reward_correct=1.0, reward_wrong=0.0)
    )
    two = expected_mass_changes(*policy, n, surrogate="ratio", gamma=gamma, reward_correct=13.0, reward_wrong=10.0)
    np.testing.assert_allclose(two, 3 * one, rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(policies(), st.integers(1, 60), st.sampled_from(SURROGATES), st.floats(1e-6, 1e3))
def test_linear_in_the_learning_rate_and_in_the_rewards(policy, n: int, surrogate: str, factor: float) -> None:
    plain = np.array(expected_mass_changes(*policy, n, surrogate=surrogate))
    atol = 1e-15 * factor
    faster = expected_mass_changes(*policy, n, surrogate=surrogate, learning_rate=factor)
    larger = expected_mass_changes(*policy, n, surrogate=surrogate, reward_correct=factor, reward_wrong=-factor)
    np.testing.assert_allclose(faster, factor * plain, rtol=1e-12, atol=atol)
    np.testing.assert_allclose(larger, factor * plain, rtol=1e-12, atol=atol)


@settings(max_examples=50, deadline=None)
@given(policies(), st.integers(1, 60), st.sampled_from(SURROGATES))
def test_the_order_of_classes_and_empty_probability_do_not_matter(policy, n: int, surrogate: str) -> None:
    plain = expected_mass_changes(*policy, n, surrogate=surrogate)
    turned = expected_mass_changes(*(x[::-1] for x in policy), n, surrogate=surrogate)
    p, size, correct = policy
    padded = (np.append(p, [0.0, 0.0]), np.append(size, [3, 9]), np.append(correct, [True, False]))
    np.testing.assert_allclose(turned, plain, rtol=1e-12, atol=1e-15)
    assert expected_mass_changes(*padded, n, surrogate=surrogate) == plain


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gamma_near_zero_meets_the_plain_method(surrogate: str) -> None:
    plain = expected_mass_changes(*PAPER, 64, surrogate=surrogate)
    assert expected_mass_changes(*PAPER, 64, surrogate=surrogate, gamma=0.0) == plain
    np.testing.assert_allclose(expected_mass_changes(*PAPER, 64, surrogate=surrogate, gamma=1e-13), plain, rtol=1e-11)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_one_rollout(surrogate: str) -> None:
    """N = 1: no group statistics, so no ratio update; eq. 5 is the plain policy gradient on distinct actions."""
    total, unsampled = expected_mass_changes([0.5, 0.5], [1, 1], [True, False], 1, surrogate=surrogate)
    assert (total == 0) == (surrogate == "ratio")
    assert (unsampled == 0) == (surrogate == "ratio")


def test_the_focal_weight_slows_the_loss_of_unsampled_mass_for_the_papers_policy() -> None:
    losses = [expected_mass_changes(*PAPER, 8, surrogate="ratio", gamma=g)[1] for g in (0.0, 0.5, 1.0, 2.0)]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1] < 0


def test_the_papers_policy_by_its_numbers() -> None:
    """Section 4 of the paper's setup: Q_pos 0.630, and the mean unsampled mass typed directly."""
    p, size, correct = PAPER
    assert (p * size)[correct].sum() == pytest.approx(0.630, abs=5e-4)
    for n in (8, 131072):
        direct = sum(m * x * (1 - x) ** n for x, m in zip(p[:2], size[:2], strict=True))
        assert expected_unsampled_correct_mass(p, correct, n, size=size) == pytest.approx(direct, rel=1e-10)
