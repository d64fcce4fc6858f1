"""How likely a group is active, and active while it misses a rare-correct subset (eq. 7, Lemma 3.1).

With a = 1 - mu (wrong), b = mu - tau (correct, outside E) and s = a + b = 1 - tau (outside E):

    Pr(active)    = 1 - mu^N - (1 - mu)^N                                  eq. 7
    Pr(tail miss) = (1 - tau)^N - (mu - tau)^N - (1 - mu)^N = s^N - a^N - b^N     Lemma 3.1
                  = s^N * Pr(active at success probability b / s)           ours

The last line reads: no rollout falls in E, and given that, the rollouts are i.i.d. outside E and must be mixed. It is the
form evaluated here, since nothing cancels in it: with x = min(a, b) / s the activity is -expm1(N log1p(-x)) - x^N.

Left out on purpose: a group size that is not whole, and tau = 0 (E empty: that is the activity itself).
"""

from __future__ import annotations

import numpy as np

from .foundation.checks import ArrayLike, FloatArray, as_probability, as_whole, require, together

# Numbers in a block. Its dozen temporaries share what little is live at a time, and stay in a level-2 cache.
_BLOCK = 8192
_TINY = 2.0**-1022


def active_probability(group_size: ArrayLike, mu: ArrayLike) -> FloatArray:
    """Probability that 0 < X < N for X ~ Binomial(N, mu), eq. 7: the group has a gradient.

    group_size: whole numbers N >= 1. mu: success probability of a rollout, in [0, 1]. Both broadcast.
    Relative error at most 1e-12 (about 1e-15 typically). Raises ValueError.

    >>> active_probability(8, 0.5)
    np.float64(0.9921875)
    >>> active_probability([1, 2], 0.3).round(12)
    array([0.  , 0.42])
    """
    n, mu = together(group_size=as_whole("group_size", group_size), mu=as_probability("mu", mu))
    return _activity(n, np.minimum(mu, 1 - mu))[()]


def tail_miss_probability(group_size: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Probability that the group is active and no rollout falls in E, Lemma 3.1.

    group_size: N >= 1. mu: success probability in (0, 1]. tau: probability of the rare-correct subset E, in (0, mu].
    All broadcast. Exactly 0 at N = 1, mu = 1 or tau = mu. Relative error at most 1e-12. Raises ValueError.

    >>> tail_miss_probability(8, 0.3, 0.03).round(6)
    np.float64(0.726067)
    >>> tail_miss_probability([1, 2], 0.3, 0.03).round(6)
    array([0.   , 0.378])
    """
    arrays = _checked(group_size, mu, tau)
    # In blocks that stay in the cache: a temporary of a million numbers costs more than the function that fills it.
    blocks = np.nditer(
        [*arrays, None],  # type: ignore[arg-type]
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[["readonly"]] * 3 + [["writeonly", "allocate"]],  # type: ignore[arg-type]
        op_dtypes=[np.float64] * 4,
        buffersize=_BLOCK,
    )
    with blocks:
        for n, m, t, miss in blocks:
            np.multiply(np.exp(n * _log1m(t)), _activity(n, _minority(1 - m, m - t, t)), out=miss)
        result: FloatArray = blocks.operands[3]
    return result[()]


def log_tail_miss_probability(group_size: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Natural log of Lemma 3.1, also where the probability is below 1e-308; -inf where it is exactly 0.

    Arguments and errors as for `tail_miss_probability`. Both terms are at most 0, so they never cancel.

    >>> log_tail_miss_probability(10**6, 0.3, 0.03).round(3)
    np.float64(-30459.207)
    """
    n, a, b, tau = _split(group_size, mu, tau)
    return _log_tail_miss(n, a, b, tau)[()]


def conditional_tail_miss_probability(group_size: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Probability that an *active* group misses E: Lemma 3.1 over eq. 7.

    Arguments and errors as for `tail_miss_probability`; NaN where no group is ever active (N = 1 or mu = 1).

    >>> conditional_tail_miss_probability(8, 0.3, 0.03).round(6)
    np.float64(0.770538)
    """
    n, a, b, tau = _split(group_size, mu, tau)
    # The log form: each probability may underflow where their ratio does not.
    log_active = _log_activity(n, np.minimum(a, b + tau))
    never = np.isneginf(log_active)
    ratio = _log_tail_miss(n, a, b, tau) - np.where(never, 0.0, log_active)
    return np.where(never, np.nan, np.exp(ratio))[()]


def _split(
    group_size: ArrayLike, mu: ArrayLike, tau: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Checked N, a = 1 - mu, b = mu - tau, tau. The smaller of a and b is exact to the last bit."""
    n, mu, tau = _checked(group_size, mu, tau)
    return n, 1 - mu, mu - tau, tau


def _checked(group_size: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """N, mu and tau, broadcast."""
    n, mu, tau = together(
        group_size=as_whole("group_size", group_size), mu=as_probability("mu", mu), tau=as_probability("tau", tau)
    )
    require((tau > 0) & (tau <= mu), "tau must lie in (0, mu]", tau=tau, mu=mu)
    return n, mu, tau


def _minority(a: FloatArray, b: FloatArray, tau: FloatArray) -> FloatArray:
    """x = min(a, b) / s, and 0 where s = 0 (then a = b = 0 too)."""
    return np.minimum(a, b) / np.maximum(1 - tau, _TINY)


def _log_tail_miss(n: FloatArray, a: FloatArray, b: FloatArray, tau: FloatArray) -> FloatArray:
    return n * _log1m(tau) + _log_activity(n, _minority(a, b, tau))


def _log1m(x: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log1p(-x)


def _activity(n: FloatArray, x: FloatArray) -> FloatArray:
    """1 - (1 - x)^n - x^n for x in [0, 1/2] and n >= 1."""
    with np.errstate(divide="ignore"):
        # By exp and log, three times as fast as a power; x^n is at most a third of the result, and its error far less.
        minority_alone = np.exp(n * np.log(x))
    return np.where(n == 1, 0.0, -np.expm1(n * np.log1p(-x)) - minority_alone)


def _log_activity(n: FloatArray, x: FloatArray) -> FloatArray:
    activity = _activity(n, x)
    with np.errstate(divide="ignore"):
        # Near 1 the logarithm is the small complement, which must not be rounded away first.
        return np.where(activity > 0.5, np.log1p(-(np.exp(n * np.log1p(-x)) + x**n)), np.log(activity))
