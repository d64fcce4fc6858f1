"""Eqs. 5, 9, 10, 17, 18 and 19 against the same step typed action by action, with fractions, for every group of draws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_theory import (
    logit_update,
    sampled_moments,
    softmax_change,
    subset_mass_change,
    total_mass_change,
    unsampled_mass_change,
)
from tests.fgrpo_theory import enumeration as en

GROUPS = [*en.POLICIES, en.LARGE]


def groups(policy: en.Policy, size: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """The distinct groups as drawn actions, and as counts."""
    drawn = sorted({tuple(sorted(d)) for d, _ in en.sequences(policy, size)})
    return drawn, np.array([en.counts(policy, d) for d in drawn])


@pytest.mark.parametrize(("policy", "size"), GROUPS)
@pytest.mark.parametrize("rule", en.RULES[::3])
def test_the_laws_equal_the_typed_step_as_fractions(policy: en.Policy, size: int, rule: en.Rule) -> None:
    drawn, n = groups(policy, size)
    total = total_mass_change(policy.p, policy.correct, n, **en.options(rule))
    unsampled = unsampled_mass_change(policy.p, policy.correct, n, **en.options(rule))
    assert list(total) == [en.correct_change(policy, d, rule) for d in drawn]
    assert list(unsampled.total) == [en.unsampled_change(policy, d, rule) for d in drawn]
    assert list(unsampled.total) == list(unsampled.direct + unsampled.coupling)
    assert all(isinstance(x, Fraction) for x in [*total, *unsampled.total])


@pytest.mark.parametrize(("policy", "size"), GROUPS)
@pytest.mark.parametrize("rule", en.RULES[1::5])
def test_updates_changes_and_moments_equal_the_typed_step(policy: en.Policy, size: int, rule: en.Rule) -> None:
    drawn, n = groups(policy, size)
    dz = logit_update(policy.p, policy.correct, n, **en.options(rule))
    dp = softmax_change(policy.p, dz)
    moments = sampled_moments(
        policy.p, policy.correct, n, reward_correct=float(rule.good), reward_wrong=float(rule.bad)
    )
    correct, probability = np.array(policy.correct), np.array(policy.p, dtype=object)
    assert list(subset_mass_change(policy.p, dz, correct)) == list(dp[:, correct].sum(-1))
    for row, d in enumerate(drawn):
        typed = en.logit_changes(policy, d, rule)
        assert list(dz[row]) == typed
        assert list(dp[row]) == en.probability_changes(policy, typed)
        hit = np.isin(np.arange(len(probability)), d)
        square = probability**2
        assert moments.P_pos[row] == en.sampled_mass(policy, d, True)
        assert moments.P_neg[row] == en.sampled_mass(policy, d, False)
        assert (moments.Q_pos[row], moments.Q_neg[row]) == (probability[correct].sum(), probability[~correct].sum())
        assert moments.Q_u_pos[row] == en.unsampled_correct_mass(policy, d)
        assert moments.A2[row] == square[hit & correct].sum()
        assert moments.B2[row] == square[hit & ~correct].sum()
        assert (moments.U_pos2[row], moments.U_neg2[row]) == (
            square[~hit & correct].sum(),
            square[~hit & ~correct].sum(),
        )
        assert moments.U2[row] == square[~hit].sum()
        assert moments.S_R[row] == rule.good * moments.P_pos[row] + rule.bad * moments.P_neg[row]


@pytest.mark.parametrize(("policy", "size"), en.POLICIES)
@pytest.mark.parametrize("rule", [*en.FLOAT_RULES, *en.RULES[2::7]])
def test_float_laws_agree_with_the_typed_step(policy: en.Policy, size: int, rule: en.Rule) -> None:
    drawn, n = groups(policy, size)
    p = np.array(policy.p, dtype=float)
    total = total_mass_change(p, policy.correct, n, **en.options(rule))
    unsampled = unsampled_mass_change(p, policy.correct, n, **en.options(rule)).total
    truth = [float(en.correct_change(policy, d, rule)) for d in drawn]
    truth_unsampled = [float(en.unsampled_change(policy, d, rule)) for d in drawn]
    np.testing.assert_allclose(total, truth, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(unsampled, truth_unsampled, rtol=1e-10, atol=1e-14)


@st.composite
def float_groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(p, correct, counts) of up to 30 actions and any group, probabilities over many magnitudes."""
    actions = draw(st.integers(1, 30))
    logits = np.array(draw(st.lists(st.floats(-20, 20), min_size=actions, max_size=actions)))
    correct = np.array(draw(st.lists(st.booleans(), min_size=actions, max_size=actions)))
    n = np.array(draw(st.lists(st.integers(0, 5), min_size=actions, max_size=actions)))
    n[draw(st.integers(0, actions - 1))] += 1
    weight = np.exp(logits - logits.max())
    return weight / weight.sum(), correct, n


@settings(max_examples=200, deadline=None)
@given(float_groups(), st.sampled_from(["probability", "ratio"]), st.floats(0, 3), st.sampled_from(en.REWARDS))
def test_closed_laws_equal_summed_changes(
    group: tuple[np.ndarray, np.ndarray, np.ndarray], surrogate: str, gamma: float, rewards: tuple[float, float]
) -> None:
    p, correct, n = group
    given_ = {"surrogate": surrogate, "gamma": gamma, "reward_correct": rewards[0], "reward_wrong": rewards[1]}
    dp = softmax_change(p, logit_update(p, correct, n, **given_))
    size = np.abs(dp).sum() + np.abs(logit_update(p, correct, n, **given_) * p).sum() + 1e-300
    change = unsampled_mass_change(p, correct, n, **given_)
    assert abs(dp.sum()) <= 1e-13 * size
    assert abs(dp[correct].sum() - total_mass_change(p, correct, n, **given_)) <= 1e-13 * size
    assert abs(dp[correct & (n == 0)].sum() - change.total) <= 1e-13 * size
    if surrogate == "ratio":
        assert change.direct == 0


def test_ratio_update_leaves_unsampled_actions_alone_and_moves_them_by_normalization_only() -> None:
    p, correct, n = [0.5, 0.2, 0.1, 0.2], [True, True, False, False], [2, 0, 1, 0]
    dz = logit_update(p, correct, n, surrogate="ratio")
    assert dz[1] == dz[3] == 0
    assert unsampled_mass_change(p, correct, n, surrogate="ratio").total == pytest.approx(
        -0.2 * (np.array(p) * dz).sum()
    )


def test_more_correct_mass_can_go_with_less_unsampled_correct_mass() -> None:
    """The point of Prop. 3.2: dQ_pos > 0 and dQ_u,pos < 0."""
    for surrogate in ("probability", "ratio"):
        group = ([0.5, 0.2, 0.3], [True, True, False], [3, 0, 1])
        assert total_mass_change(*group, surrogate=surrogate) > 0
        assert unsampled_mass_change(*group, surrogate=surrogate).total < 0


@pytest.mark.parametrize("surrogate", ["probability", "ratio"])
def test_focal_weight_scales_the_step_and_gamma_zero_is_plain(surrogate: str) -> None:
    group = ([0.4, 0.2, 0.4], [True, True, False], [3, 0, 1])
    plain = logit_update(*group, surrogate=surrogate)
    assert (logit_update(*group, surrogate=surrogate, gamma=0.0) == plain).all()
    np.testing.assert_allclose(logit_update(*group, surrogate=surrogate, gamma=2.0), plain / 16, rtol=1e-15)


@pytest.mark.parametrize("n", [[4, 0, 0], [2, 2, 0], [0, 0, 3]])
def test_inactive_groups_do_not_move_the_ratio_surrogate(n: list[int]) -> None:
    for std in (False, True):
        dz = logit_update([0.4, 0.2, 0.4], [True, True, False], n, surrogate="ratio", std_scaled=std)
        assert (dz == 0).all()


def test_rewards_are_only_centred_for_the_ratio_surrogate() -> None:
    group = ([0.4, 0.2, 0.4], [True, True, False], [3, 0, 1])
    one = logit_update(*group, surrogate="ratio", reward_correct=1.0, reward_wrong=0.0)
    np.testing.assert_allclose(logit_update(*group, surrogate="ratio", reward_correct=11.0, reward_wrong=10.0), one)
    np.testing.assert_allclose(logit_update(*group, surrogate="ratio", reward_correct=3.0, reward_wrong=0.0), 3 * one)
    scaled = [
        logit_update(*group, surrogate="ratio", reward_correct=r, reward_wrong=0.0, std_scaled=True) for r in (1.0, 7.0)
    ]
    np.testing.assert_allclose(*scaled)
