"""The sampling code of the cross-check, against exact binomials and gradients taken by hand."""

import numpy as np
import pytest

from sims.crosscheck import samplers, step_sampler
from sims.crosscheck.decisions import event_score
from sims.crosscheck.scenarios import Policy, StepOptions

POLICY = Policy("four", (0.45, 0.05, 0.3, 0.1), (True, True, False, False), (1, 1, 1, 2))
COUNTS = np.array([2, 0, 1, 0, 3])


def test_drawn_actions_have_the_policys_probabilities():
    rng, groups, size = np.random.default_rng(5), 4000, 100
    total, counts = np.zeros(5, dtype=np.int64), np.empty(5, dtype=np.int64)
    for _ in range(groups):
        samplers.draw_counts(rng, POLICY.arrays[1], size, counts)
        assert counts.sum() == size
        total += counts
    scores = [event_score(int(k), groups * size, p) for k, p in zip(total, POLICY.p, strict=True)]
    # 5 actions: beyond 5 a fair sampler falls once in 3e5 suites. A bias of 1 % of the rarest action would score 7.
    assert np.abs(scores).max() < 5
    assert abs(event_score(int(total[1]), groups * size, POLICY.p[1] * 1.05)) > 5


def softmax(z):
    return np.exp(z) / np.exp(z).sum()


def objective(z, option):
    """The probability surrogate of a drawn group, from its words: distinct actions, raw rewards."""
    reward = np.where(POLICY.is_correct, option.reward_correct, option.reward_wrong)
    return float(softmax(z) @ (reward * (COUNTS > 0)))


def ratio_objective(z, option):
    """The ratio surrogate: over rollouts, advantage times p / p(old)."""
    reward = np.repeat(np.where(POLICY.is_correct, option.reward_correct, option.reward_wrong), COUNTS)
    advantage = reward - reward.mean()
    if option.std_scaled:
        advantage = advantage / (reward.std(ddof=option.ddof) + option.eps)
    return float(advantage @ np.repeat(softmax(z) / POLICY.p, COUNTS))


def gradient(function, z, option):
    steps = 1e-6 * np.eye(z.size)
    return np.array([(function(z + step, option) - function(z - step, option)) / 2e-6 for step in steps])


@pytest.mark.parametrize("rewards", [(1.0, -1.0), (1.0, 0.0), (2.0, 0.3)])
def test_probability_update_is_the_gradient_of_its_surrogate(rewards):
    option, dz = StepOptions(reward_correct=rewards[0], reward_wrong=rewards[1]), np.empty(5)
    step_sampler.probability_update(POLICY.p, POLICY.is_correct, COUNTS, np.array(option.row), dz)
    np.testing.assert_allclose(dz, gradient(objective, np.log(POLICY.p), option), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "scaled", [{}, {"std_scaled": True, "ddof": 0, "eps": 0.1}, {"std_scaled": True, "ddof": 1, "eps": 1e-4}]
)
def test_ratio_update_is_the_gradient_of_its_surrogate(scaled):
    option, dz = StepOptions(surrogate="ratio", reward_correct=2.0, reward_wrong=0.3, **scaled), np.empty(5)
    step_sampler.ratio_update(POLICY.is_correct, COUNTS, int(COUNTS.sum()), np.array(option.row), dz)
    np.testing.assert_allclose(dz, gradient(ratio_objective, np.log(POLICY.p), option), rtol=1e-7, atol=1e-8)


def test_mass_derivatives_are_those_of_the_softmax():
    dz = np.array([0.3, -0.2, 0.05, 0.0, -0.4])
    gained, left = step_sampler.mass_derivatives(POLICY.p, POLICY.is_correct, COUNTS, dz)
    mean = POLICY.p @ dz
    assert gained == pytest.approx(float(sum(POLICY.p[i] * (dz[i] - mean) for i in (0, 1))), rel=1e-8)
    assert left == pytest.approx(float(POLICY.p[1] * (dz[1] - mean)), rel=1e-8)
    assert step_sampler.mass_derivatives(POLICY.p, POLICY.is_correct, COUNTS, np.zeros(5)) == (0.0, 0.0)


def test_conditional_draws_hold_exactly_k_correct():
    sums, policy = np.zeros(3), Policy("two", (0.3, 0.7), (True, False))
    samplers.add_sampled_masses(np.random.default_rng(1), 50, 4, 2, policy.arrays, (2.0, 0.5), sums)
    # With one action a side, X = 2 of 4 shows both.
    np.testing.assert_allclose(sums, 50 * np.array([0.3, 0.7, 2 * 0.3 + 0.5 * 0.7]), rtol=1e-12)


def test_singletons_doubletons_and_unseen_mass_of_every_sample_agree():
    once, twice, unseen = np.empty(200, dtype=np.int64), np.empty(200, dtype=np.int64), np.empty(200)
    samplers.record_singletons(np.random.default_rng(2), 2, POLICY.arrays, once, twice, unseen)
    np.testing.assert_array_equal(once + 2 * twice, 2)
    assert {0, 1} == set(twice)
    # One action drawn twice leaves the mass of the four others.
    assert set(np.round(1 - unseen[twice == 1], 12)) <= {0.45, 0.05, 0.3, 0.1}
