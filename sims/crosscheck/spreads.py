"""Exact standard deviations and bounds of one group's value, for cells whose policy has too many groups to list.

Everything is a sum over pairs of actions of textbook multinomial moments, for example
Cov(i unseen, j unseen) = (1 - p_i - p_j)^N - (1 - p_i)^N (1 - p_j)^N. For the changes of a mass under a wide policy the
variances of `fgrpo_theory.variance` are used, which cells of their own check on small policies.

Bounds on one group's |dQ| (both at most twice that from their mean): with x = X/N and the ratio surrogate without std,
|dQ_pos| <= eta D x (1 - x) (p_max,pos Q_neg + p_max,neg Q_pos) and |dQ_u,pos| <= Q_pos eta D x (1 - x) p_max; with the
probability surrogate |dz| <= 2 eta p_max |R|_max / N, and a mass moves by at most Q (1 - Q) (max dz - min dz).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import comb
from scipy.stats import binom

from fgrpo_theory import (
    expected_mass_changes,
    group_advantage_magnitudes,
    pass_at_k,
    total_mass_change_variance,
    unsampled_mass_change_variance,
)

from .scenarios import Policy, StepOptions


def unseen_spread(weight: np.ndarray, chance: np.ndarray, draws: int) -> float:
    """Standard deviation of the total weight of actions not among `draws` draws; weight, chance: "action"."""
    missed = (1 - chance) ** draws
    both = np.maximum(1 - chance[:, None] - chance, 0.0) ** draws
    np.fill_diagonal(both, missed)
    covariance = both - missed[:, None] * missed
    return math.sqrt(max(float(weight @ covariance @ weight), 0.0))


def singleton_spread(p: np.ndarray, draws: int) -> float:
    """Standard deviation of f1 / n."""
    once = draws * p * (1 - p) ** (draws - 1)
    both = draws * (draws - 1) * p[:, None] * p * np.maximum(1 - p[:, None] - p, 0.0) ** (draws - 2)
    np.fill_diagonal(both, once)
    return math.sqrt(float((both - once[:, None] * once).sum())) / draws


def sampled_spread(
    policy: Policy, group_size: int, k: int, rewards: tuple[float, float]
) -> tuple[list[float], list[float]]:
    """(spreads, reaches) of P_pos, P_neg and S_R given X = k; the two sides are independent given k."""
    p, right = policy.p, policy.is_correct
    sides = [(p[right], k), (p[~right], group_size - k)]
    spread = [unseen_spread(side, side / side.sum(), draws) for side, draws in sides]
    reach = [float(side.sum()) for side, _ in sides]
    high, low = map(abs, rewards)
    return [*spread, math.hypot(high * spread[0], low * spread[1])], [*reach, high * reach[0] + low * reach[1]]


def wide_step(policy: Policy, group_size: int, options: StepOptions) -> tuple[tuple[float, float], tuple[float, float]]:
    """((spread, reach) of dQ_pos, the same of dQ_u,pos); the second is (0, 0) for the probability surrogate: unknown."""
    classes = (policy.probability, policy.sizes, policy.correct, group_size)
    keywords = vars(options)
    p, right = policy.p, policy.is_correct
    mass, largest = float(p[right].sum()), float(p.max())
    total = math.sqrt(total_mass_change_variance(*classes, **keywords))
    if options.surrogate == "probability":
        largest_reward = max(abs(options.reward_correct), abs(options.reward_wrong))
        reach = 2 * mass * (1 - mass) * 4 * options.learning_rate * largest * largest_reward / group_size
        return (total, reach), (0.0, 0.0)
    step = options.learning_rate * (options.reward_correct - options.reward_wrong) / 4
    reach = 2 * step * (float(p[right].max()) * (1 - mass) + float(p[~right].max()) * mass)
    unsampled = math.sqrt(unsampled_mass_change_variance(*classes, **keywords))
    return (total, reach), (unsampled, 2 * step * mass * largest)


def step_means(policy: Policy, group_size: int, options: StepOptions) -> tuple[float, float]:
    """The means about which variances are taken."""
    total, unsampled = expected_mass_changes(
        policy.probability, policy.sizes, policy.correct, group_size, **vars(options)
    )
    return float(total), float(unsampled)


def _moments(chances: np.ndarray, values: np.ndarray) -> tuple[float, float, float]:
    """(mean, spread, reach) of a discrete value; outcomes of no probability do not count for the reach."""
    mean = float(chances @ values)
    return mean, math.sqrt(float(chances @ (values - mean) ** 2)), float(np.abs(values - mean).max())


def advantage_moments(group_size: int, mu: float, option: tuple[float, ...]) -> tuple[float, float, float]:
    """(mean, spread, reach) of the mean |g A| of a group; option: gamma, ddof, eps, R_c, R_w."""
    gamma, ddof, eps, high, low = option
    k = np.arange(group_size + 1)
    plus, minus = group_advantage_magnitudes(group_size, k, gamma, ddof=int(ddof), eps=eps, reward_gap=high - low)
    return _moments(binom.pmf(k, group_size, mu), (k * plus + (group_size - k) * minus) / group_size)


def estimator_moments(group_size: int, mu: float, values: np.ndarray) -> tuple[float, float, float]:
    """(mean, spread, reach) of an estimator that is values["count"] at X = count, X ~ Binomial(group_size, mu)."""
    return _moments(binom.pmf(np.arange(group_size + 1), group_size, mu), values)


def pass_at_k_values(group_size: int, k: int) -> np.ndarray:
    """The estimator of eq. 27 at every count."""
    return np.asarray(pass_at_k(group_size, np.arange(group_size + 1), k))


def subset_share(group_size: int, correct: int, k: int) -> float:
    """C(n - c, k) / C(n, k) by binomial coefficients."""
    return float(comb(group_size - correct, k) / comb(group_size, k))
