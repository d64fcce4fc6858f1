"""Wrong laws of groups: tail miss, activity, population, counts, sampled masses and the unsampled mass.

Each is a mistake that someone could make: a dropped term, an exponent off by one, a mass taken for another, an
independence that does not hold. `mistake` says which. They are typed plainly, with the subtractions that the right laws
avoid, since they need no more digits than a sample can show.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import roots_jacobi
from scipy.stats import binom, poisson

from .cells import WrongLaw
from .scenarios import Policy


def _tail(n: int, mu: Any, tau: Any) -> Any:
    return (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n


def _active(n: int, mu: Any) -> Any:
    return 1 - mu**n - (1 - mu) ** n


_TAIL = (
    (
        "tail-keeps-all-wrong",
        "the groups without a correct rollout are not taken off",
        lambda group_size, mu, tau: (1 - tau) ** group_size - (mu - tau) ** group_size,
    ),
    (
        "tail-keeps-all-correct",
        "the groups of correct rollouts outside E are not taken off",
        lambda group_size, mu, tau: (1 - tau) ** group_size - (1 - mu) ** group_size,
    ),
    (
        "tail-all-correct-with-E",
        "mu^N in place of (mu - tau)^N",
        lambda group_size, mu, tau: (1 - tau) ** group_size - mu**group_size - (1 - mu) ** group_size,
    ),
    ("tail-one-rollout-less", "N - 1 in place of N", lambda group_size, mu, tau: _tail(group_size - 1, mu, tau)),
    (
        "tail-independent",
        "missing E taken as independent of being active",
        lambda group_size, mu, tau: (1 - tau) ** group_size * _active(group_size, mu),
    ),
    (
        "tail-conditional",
        "given an active group, in place of jointly",
        lambda group_size, mu, tau: _tail(group_size, mu, tau) / _active(group_size, mu),
    ),
    (
        "tail-poisson",
        "exp(-N p) in place of (1 - p)^N",
        lambda group_size, mu, tau: (
            math.exp(-group_size * tau) - math.exp(-group_size * (1 - mu + tau)) - math.exp(-group_size * mu)
        ),
    ),
    ("tail-ignores-activity", "the chance of missing E alone", lambda group_size, mu, tau: (1 - tau) ** group_size),
)
_ACTIVITY = (
    ("activity-one-rollout-less", "N - 1 in place of N", lambda group_size, mu: _active(group_size - 1, mu)),
    (
        "activity-keeps-all-correct",
        "groups all correct count as active",
        lambda group_size, mu: 1 - (1 - mu) ** group_size,
    ),
    ("activity-keeps-all-wrong", "groups all wrong count as active", lambda group_size, mu: 1 - mu**group_size),
)
_CONDITIONAL = (
    (
        "conditional-on-any-correct",
        "over Pr(X > 0)",
        lambda group_size, mu, tau: _tail(group_size, mu, tau) / (1 - (1 - mu) ** group_size),
    ),
    (
        "conditional-on-any-wrong",
        "over Pr(X < N)",
        lambda group_size, mu, tau: _tail(group_size, mu, tau) / (1 - mu**group_size),
    ),
    ("conditional-independent", "(1 - tau)^N", lambda group_size, mu, tau: (1 - tau) ** group_size),
    ("conditional-joint", "not divided at all", lambda group_size, mu, tau: _tail(group_size, mu, tau)),
)


def _over_beta(group_size: int, alpha: float, beta: float, values: Callable[[np.ndarray], np.ndarray]) -> float:
    """E[values(mu)], mu ~ Beta(alpha, beta), for a polynomial of degree N: Gauss-Jacobi quadrature is exact."""
    nodes, weights = roots_jacobi(group_size // 2 + 1, beta - 1, alpha - 1)
    return float(weights @ values((1 + nodes) / 2) / weights.sum())


_POPULATION = (
    (
        "population-at-the-mean",
        "Lemma 3.1 at the mean success probability",
        lambda group_size, alpha, beta, rare_fraction: _tail(
            group_size, alpha / (alpha + beta), rare_fraction * alpha / (alpha + beta)
        ),
    ),
    (
        "population-keeps-all-wrong",
        "the groups without a correct rollout are not taken off",
        lambda group_size, alpha, beta, rare_fraction: _over_beta(
            group_size,
            alpha,
            beta,
            lambda mu: (1 - rare_fraction * mu) ** group_size - ((1 - rare_fraction) * mu) ** group_size,
        ),
    ),
    (
        "population-keeps-all-correct",
        "the groups of correct rollouts outside E are not taken off",
        lambda group_size, alpha, beta, rare_fraction: _over_beta(
            group_size, alpha, beta, lambda mu: (1 - rare_fraction * mu) ** group_size - (1 - mu) ** group_size
        ),
    ),
    (
        "population-swapped",
        "alpha and beta exchanged",
        lambda group_size, alpha, beta, rare_fraction: _over_beta(
            group_size, beta, alpha, lambda mu: _tail(group_size, mu, rare_fraction * mu)
        ),
    ),
)
_COUNT = (
    ("count-of-wrong", "success and failure exchanged", lambda group_size, mu, k: binom.pmf(k, group_size, 1 - mu)),
    ("count-poisson", "Poisson(N mu)", lambda group_size, mu, k: poisson.pmf(k, group_size * mu)),
    ("count-one-rollout-less", "N - 1 in place of N", lambda group_size, mu, k: binom.pmf(k, group_size - 1, mu)),
)


def _side(policy: Policy, side: int) -> np.ndarray:
    return np.asarray(policy.p[policy.is_correct] if side == 0 else policy.p[~policy.is_correct])


def _hit(weight: np.ndarray, chance: np.ndarray, draws: int) -> float:
    return float(weight @ (1 - (1 - chance) ** draws))


def _conditional_hit(policy: Policy, side: int, draws: int) -> float:
    p = _side(policy, side)
    return _hit(p, p / p.sum(), draws)


def _multiple(policy: Policy, side: int, draws: int) -> float:
    """A draw's probability added once a draw, not once an action."""
    p = _side(policy, side)
    return float(draws * (p @ p) / p.sum())


def _baseline(policy: Policy, group_size: int, k: int, rewards: tuple[float, float]) -> float:
    return rewards[0] * _conditional_hit(policy, 0, k) + rewards[1] * _conditional_hit(policy, 1, group_size - k)


_SAMPLED_POS = (
    (
        "sampled-pos-unconditional",
        "pi in place of q_pos = pi / mu",
        lambda policy, group_size, correct, side: _hit(_side(policy, 0), _side(policy, 0), correct),
    ),
    (
        "sampled-pos-all-draws",
        "N draws in place of k",
        lambda policy, group_size, correct, side: _conditional_hit(policy, 0, group_size),
    ),
    (
        "sampled-pos-duplicates",
        "an action counts once a draw",
        lambda policy, group_size, correct, side: _multiple(policy, 0, correct),
    ),
)
_SAMPLED_NEG = (
    (
        "sampled-neg-unconditional",
        "pi in place of q_neg",
        lambda policy, group_size, correct, side: _hit(_side(policy, 1), _side(policy, 1), group_size - correct),
    ),
    (
        "sampled-neg-k-draws",
        "k draws in place of N - k",
        lambda policy, group_size, correct, side: _conditional_hit(policy, 1, correct),
    ),
    (
        "sampled-neg-duplicates",
        "an action counts once a draw",
        lambda policy, group_size, correct, side: _multiple(policy, 1, group_size - correct),
    ),
)
_BASELINE = (
    (
        "baseline-wrong-sign",
        "R_w with the other sign",
        lambda policy, group_size, correct, rewards: _baseline(policy, group_size, correct, (rewards[0], -rewards[1])),
    ),
    (
        "baseline-mean-reward",
        "the mean reward of the group",
        lambda policy, group_size, correct, rewards: (
            (correct * rewards[0] + (group_size - correct) * rewards[1]) / group_size
        ),
    ),
    (
        "baseline-duplicates",
        "an action counts once a draw",
        lambda policy, group_size, correct, rewards: (
            rewards[0] * _multiple(policy, 0, correct) + rewards[1] * _multiple(policy, 1, group_size - correct)
        ),
    ),
    (
        "baseline-no-wrong",
        "sampled wrong actions left out",
        lambda policy, group_size, correct, rewards: rewards[0] * _conditional_hit(policy, 0, correct),
    ),
)


def _unseen(p: np.ndarray, draws: int) -> float:
    return float(p @ (1 - p) ** draws)


_UNSAMPLED = (
    (
        "unsampled-one-draw-less",
        "(1 - p)^(N - 1)",
        lambda policy, group_size: _unseen(_side(policy, 0), group_size - 1),
    ),
    (
        "unsampled-as-one-action",
        "Q_pos (1 - Q_pos)^N",
        lambda policy, group_size: _side(policy, 0).sum() * (1 - _side(policy, 0).sum()) ** group_size,
    ),
    (
        "unsampled-poisson",
        "exp(-N p) in place of (1 - p)^N",
        lambda policy, group_size: _side(policy, 0) @ np.exp(-group_size * _side(policy, 0)),
    ),
    (
        "unsampled-of-all",
        "the wrong actions' mass counted too",
        lambda policy, group_size: _unseen(policy.p, group_size),
    ),
    (
        "unsampled-conditional",
        "q_pos in place of pi",
        lambda policy, group_size: _side(policy, 0) @ (1 - _side(policy, 0) / _side(policy, 0).sum()) ** group_size,
    ),
)

WRONG_GROUPS = tuple(
    WrongLaw(name, replaces, mistake, value)
    for replaces, entries in (
        ("tail miss", _TAIL),
        ("activity", _ACTIVITY),
        ("conditional tail miss", _CONDITIONAL),
        ("population tail miss", _POPULATION),
        ("binomial count", _COUNT),
        ("E[P_pos | X]", _SAMPLED_POS),
        ("E[P_neg | X]", _SAMPLED_NEG),
        ("E[S_R | X]", _BASELINE),
        ("E[Q_u,pos]", _UNSAMPLED),
    )
    for name, mistake, value in entries
)
