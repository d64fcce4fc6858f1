"""Unbiased estimates, from groups of n >= N rollouts, of what groups of N would show: no model of the prompts.

A random N of the n rollouts of a group are again N independent rollouts; averaged over all choices, the number of right
ones is hypergeometric. With f(j) the value of a group with j right ones of N, sum over j of Hypergeometric(j) f(j) is
unbiased for E f(X), X ~ Binomial(N, mu), whatever mu is (a U-statistic, Hoeffding 1948). For a rare-correct subset that
holds the share rho of the correct mass, E[tail miss] = E[(1 - rho)^X, 0 < X < N] (Lemma 3.1 of arXiv 2602.06717,
summed over X), so f(j) = (1 - rho)^j for 0 < j < N. rho = 0 gives activity, eq. 7. At N = n it is the group itself.
Left out on purpose: N > n, which needs a law of mu (`beta_fit`).
"""

from __future__ import annotations

import numpy as np

from .focal import focal_weight
from .foundation.checks import ArrayLike, FloatArray, as_gamma, as_probability, as_whole, require, together
from .hypergeometric import hypergeometric_weights


def subsampled_tail_miss(
    samples: ArrayLike, correct: ArrayLike, group_size: ArrayLike, rare_fraction: ArrayLike
) -> FloatArray:
    """Unbiased estimate of the tail miss at group_size = N <= samples; with rare_fraction = 0, of activity.

    samples: n rollouts of the group, `correct` of them right. rare_fraction: tau / mu, in [0, 1]. All broadcast.
    Source: the module's docstring. Raises ValueError.

    >>> subsampled_tail_miss(8, [0, 2, 8], 8, 0.1).round(6).tolist()
    [0.0, 0.81, 0.0]
    >>> subsampled_tail_miss(4, 2, 2, 0.0).round(6)
    np.float64(0.666667)
    """
    n, x, size, rho = together(
        samples=as_whole("samples", samples),
        correct=as_whole("correct", correct, least=0),
        group_size=as_whole("group_size", group_size),
        rare_fraction=as_probability("rare_fraction", rare_fraction),
    )
    require(x <= n, "correct must be at most samples", correct=x, samples=n)
    require(size <= n, "group_size must be at most samples", group_size=size, samples=n)
    result = np.zeros(n.shape)
    for index in np.ndindex(n.shape):
        if 0 < x[index] < n[index]:
            result[index] = _one(int(n[index]), int(x[index]), int(size[index]), float(rho[index]))
    return result[()]


def subsampled_focal_weight(samples: ArrayLike, correct: ArrayLike, group_size: ArrayLike, gamma: float) -> FloatArray:
    """Unbiased estimate of the mean focal weight E (1 - X/N)^gamma (eq. 12) of groups of group_size = N <= samples.

    samples: n rollouts of the prompt, `correct` of them right; both broadcast with group_size. gamma: focal exponent, at
    least 0. The mean is over all groups, inactive ones too. Source: the module's docstring with f(j) = (1 - j/N)^gamma.
    Raises ValueError.

    >>> subsampled_focal_weight(8, [0, 2, 8], 4, 1.0).round(6).tolist()
    [1.0, 0.75, 0.0]
    """
    exponent = as_gamma(gamma)
    n, x, size = together(
        samples=as_whole("samples", samples),
        correct=as_whole("correct", correct, least=0),
        group_size=as_whole("group_size", group_size),
    )
    require(x <= n, "correct must be at most samples", correct=x, samples=n)
    require(size <= n, "group_size must be at most samples", group_size=size, samples=n)
    result = np.zeros(n.shape)
    for index in np.ndindex(n.shape):
        first, weights = hypergeometric_weights(int(n[index]), int(x[index]), int(size[index]))
        rates = (first + np.arange(weights.size)) / size[index]
        result[index] = np.sum(weights * focal_weight(rates, exponent))
    return result[()]


def _one(samples: int, correct: int, size: int, rho: float) -> float:
    if size == samples:
        return float((1 - rho) ** correct)
    first, weights = hypergeometric_weights(samples, correct, size)
    right = first + np.arange(weights.size, dtype=np.float64)
    inside = (right > 0) & (right < size)
    return float(np.sum(weights[inside] * (1 - rho) ** right[inside]))
