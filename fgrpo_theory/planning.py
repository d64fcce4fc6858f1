"""Which group size is worst, which are bad, and which are safe: the tail miss as a function of N.

With a, b, s as in `tail_miss`, f(N + 1) - f(N) = s^N h(N) with

    h(N) = mu (a/s)^N + (a + tau) (b/s)^N - tau,                             ours

a strictly falling function of N. So f is unimodal, its peak is the least N with h(N) <= 0, and every question below is
"the least N from which a monotone condition holds". It is found in float64 and, where float64 cannot tell
neighbouring integers apart, decided with mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from .foundation.checks import ArrayLike, FloatArray, IntArray, as_float, as_probability, require, together
from .tail_miss import _log1m, _log_tail_miss

# Past this, 64-bit integers end. tau >= 1e-15 stays far below.
_LARGEST_GROUP = 2.0**62
# Float64 margins below this (relative to the terms compared) are decided in high precision.
_TOLERANCE = 1e-12
_DIGITS = 80
# Up to here the decision is made in fractions: powers of float64 have some 10,000 digits then.
_LARGEST_EXACT = 200

_Values = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
_Exact = Callable[[int, int], Any]


def peak_group_size(mu: ArrayLike, tau: ArrayLike) -> IntArray:
    """The group size N with the largest tail miss (the smaller one if two are equal). At least 2.

    mu: success probability in (0, 1). tau: probability of E, in (0, mu). Both broadcast. Source: ours, from Lemma 3.1.
    Raises ValueError (at tau = mu or mu = 1 the tail miss is 0 for every N, and there is no peak).

    >>> peak_group_size(0.3, [0.03, 0.003])
    array([ 8, 14])
    """
    mu_, tau_ = _policy(mu, tau)
    return _peak(mu_, tau_)[()]


def concentration_zone(mu: ArrayLike, tau: ArrayLike, level: ArrayLike = 0.5) -> tuple[IntArray, IntArray]:
    """(lowest, highest) group size whose tail miss is at least `level` times the largest one.

    mu, tau: as for `peak_group_size`. level: in (0, 1]. All broadcast. Source: ours. Raises ValueError.

    >>> concentration_zone(0.3, 0.03)
    (np.int64(2), np.int64(33))
    """
    mu_, tau_, level_ = together(mu=as_float("mu", mu), tau=as_float("tau", tau), level=as_probability("level", level))
    mu_, tau_ = _policy(mu_, tau_)
    require(level_ > 0, "level must lie in (0, 1]", level=level_)
    peak = _peak(mu_, tau_)
    target = _log_miss(peak.astype(np.float64), mu_, tau_) + np.log(level_)

    def above(n: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = _log_miss(n, mu_, tau_)
        return value - target, np.abs(value) + np.abs(target)

    def below(n: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, scale = above(n)
        return -value, scale

    def exact_above(index: int, n: int) -> Any:
        best = int(peak.flat[index])
        m, t, part = _numbers(max(n, best), mu_.flat[index], tau_.flat[index], level_.flat[index])
        return _exact_miss(n, m, t) - part * _exact_miss(best, m, t)

    lowest = _least(above, exact_above, np.full(mu_.shape, 2.0), peak.astype(np.float64))
    past = _least(
        below,
        lambda i, n: -exact_above(i, n),
        (peak + 1).astype(np.float64),
        _surely_below(target, tau_, peak),
        strict=True,
    )
    return lowest[()], (past - 1)[()]


def covering_group_size(mu: ArrayLike, tau: ArrayLike, max_miss: ArrayLike) -> IntArray:
    """The least group size, from the peak on, whose tail miss is at most `max_miss`.

    mu: success probability in (0, 1]. tau: in (0, mu]. max_miss: in (0, 1]. All broadcast. Where the tail miss is 0 for
    every N (tau = mu or mu = 1) the answer is 1; where even the peak is low enough, it is the peak. Source: ours.
    Raises ValueError.

    >>> covering_group_size(0.3, 0.03, [0.05, 0.01])
    array([ 99, 152])
    """
    mu_, tau_, limit = together(
        mu=as_probability("mu", mu), tau=as_probability("tau", tau), max_miss=as_probability("max_miss", max_miss)
    )
    require((tau_ > 0) & (tau_ <= mu_), "tau must lie in (0, mu]", tau=tau_, mu=mu_)
    require(limit > 0, "max_miss must lie in (0, 1]", max_miss=limit)
    never = (mu_ == 1) | (tau_ == mu_)
    # Where nothing is ever missed any proper policy may stand in; its answer is thrown away.
    mu_, tau_ = np.where(never, 0.5, mu_), np.where(never, 0.25, tau_)
    peak, target = _peak(mu_, tau_), np.log(limit)

    def covered(n: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = _log_miss(n, mu_, tau_)
        return target - value, np.abs(value) + np.abs(target)

    def exact_covered(index: int, n: int) -> Any:
        m, t, most = _numbers(n, mu_.flat[index], tau_.flat[index], limit.flat[index])
        return most - _exact_miss(n, m, t)

    least = _least(covered, exact_covered, peak.astype(np.float64), _surely_below(target, tau_, peak))
    return np.where(never, 1, least)[()]


def _policy(mu: ArrayLike, tau: ArrayLike) -> tuple[FloatArray, FloatArray]:
    mu_, tau_ = together(mu=as_probability("mu", mu), tau=as_probability("tau", tau))
    require((tau_ > 0) & (tau_ < mu_) & (mu_ < 1), "a peak needs 0 < tau < mu < 1", tau=tau_, mu=mu_)
    return mu_, tau_


def _log_miss(n: FloatArray, mu: FloatArray, tau: FloatArray) -> FloatArray:
    return _log_tail_miss(n, 1 - mu, mu - tau, tau)


def _numbers(n: int, *values: float) -> list[Any]:
    """Fractions, in which a tie is a tie, or mpmath numbers where powers up to n would be too long for them."""
    kind = Fraction if n <= _LARGEST_EXACT else mpmath.mpf
    return [kind(float(value)) for value in values]


def _exact_miss(n: int, m: Any, t: Any) -> Any:
    return (1 - t) ** n - (m - t) ** n - (1 - m) ** n


def _peak(mu: FloatArray, tau: FloatArray) -> IntArray:
    a, b, s = 1 - mu, mu - tau, 1 - tau
    # ln(a/s) and ln(b/s), each from whichever of a/s, b/s = 1 - a/s is the smaller.
    log_a = np.where(a < b, np.log(a / s), _log1m(b / s))
    log_b = np.where(a < b, _log1m(a / s), np.log(b / s))
    log_mu, log_tau, log_not_b = np.log(mu), np.log(tau), np.log(a + tau)

    def past_peak(n: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = log_mu + n * log_a, log_not_b + n * log_b
        value = log_tau - np.logaddexp(first, second)
        return value, np.abs(log_tau) + np.abs(np.maximum(first, second)) + np.abs(np.maximum(n * log_a, n * log_b))

    def exact_past_peak(index: int, n: int) -> Any:
        m, t = _numbers(n, mu.flat[index], tau.flat[index])
        return t * (1 - t) ** n - m * (1 - m) ** n - (1 - m + t) * (m - t) ** n

    # Each of the two terms alone falls below tau / 2 by then.
    high = np.maximum((log_tau - np.log(2) - log_mu) / log_a, (log_tau - np.log(2) - log_not_b) / log_b)
    return _least(past_peak, exact_past_peak, np.full(mu.shape, 2.0), np.ceil(high) + 2)


def _surely_below(log_target: FloatArray, tau: FloatArray, peak: IntArray) -> FloatArray:
    """A group size past the peak whose tail miss is below the target: f(N) < (1 - tau)^N."""
    # The margin covers the rounding of the quotient.
    return np.asarray((peak + 2 + np.ceil(log_target / _log1m(tau))) * (1 + 1e-12))


def _least(values: _Values, exact: _Exact, low: FloatArray, high: FloatArray, *, strict: bool = False) -> IntArray:
    """Elementwise the least whole n in [low, high] with value(n) >= 0 (> 0 if strict), for values that cross 0 once.

    `values(n)` gives the value and the size of the terms in it; `exact(index, n)` the sign in high precision.
    """
    most = np.maximum(high, low)
    below, above = low - 1, most
    while (above - below > np.maximum(1, 2.0**-52 * above)).any():
        # An element that has settled is asked again; below `low` the condition may hold once more, so never there.
        middle = np.clip(np.floor((below + above) / 2), low, above)
        value, _ = values(middle)
        holds = value > 0 if strict else value >= 0
        below, above = np.where(holds, below, middle), np.where(holds, middle, above)
    require(above < _LARGEST_GROUP, "tau must be large enough for group sizes below 2**62", group_size=above)
    found = above.astype(np.int64)
    unsure = np.zeros(found.shape, dtype=bool)
    for neighbour in (above - 1, above):
        value, scale = values(np.maximum(neighbour, low))
        unsure |= np.abs(value) <= _TOLERANCE * scale
    for index in np.flatnonzero(unsure):
        found.flat[index] = _least_exactly(
            exact, int(index), int(found.flat[index]), int(low.flat[index]), int(most.flat[index]), strict
        )
    return found


def _least_exactly(exact: _Exact, index: int, near: int, low: int, high: int, strict: bool) -> int:
    """The same for one element, by bisection in high precision from a guess; the condition holds at `high`."""

    def holds(n: int) -> bool:
        value = exact(index, n)
        return bool(value > 0 if strict else value >= 0)

    with mpmath.workdps(_DIGITS + len(str(near))):
        reach = 1
        below, above = near - 1, near
        while below >= low and holds(below):
            below, above, reach = below - reach, below, 2 * reach
        while above < high and not holds(above):
            # No step past `high`: the condition of the zone's lower end fails again beyond the peak.
            below, above, reach = above, min(above + reach, high), 2 * reach
        below = max(below, low - 1)
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (below, middle) if holds(middle) else (middle, above)
    return above
