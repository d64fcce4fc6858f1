"""Binomial(N, mu) as positive weights on the counts that matter, for expectations in which nothing cancels.

Source: textbook. With r(k) = (N - k) / (k + 1) * mu / (1 - mu) the pmf satisfies p(k + 1) = p(k) r(k). The recurrence
runs outward from the mode and the result is normalised by its own sum, so no log-gamma function enters: at N = 1e9 that
would lose eight digits. Counts with p(k) < 1e-60 p(mode) are left out, but never one within 64 of the mode, so that the
first counts of a tiny mu are all there. What is left out on purpose: tails beyond that cut, and arrays of N or mu.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .foundation.checks import ArrayLike, FloatArray, as_probability, as_whole, require

_CUT = 1e-60
_KEPT_EACH_SIDE = 64
_LARGEST_SIZE = 10**9


def binomial_weights(group_size: ArrayLike, mu: ArrayLike) -> tuple[int, FloatArray]:
    """The pmf of Binomial(group_size, mu) at the counts first, first + 1, ...; returns first and the weights.

    The weights sum to 1; all counts are there if group_size <= 64. Time and memory grow as the standard deviation.

    Source: the module's docstring. Raises ValueError if group_size is not one whole number in [1, 1e9], or mu is not
    one number in [0, 1].

    >>> first, weights = binomial_weights(2, 0.25)
    >>> first, [float(w) for w in weights]
    (0, [0.5625, 0.375, 0.0625])
    """
    sizes, chances = as_whole("group_size", group_size), as_probability("mu", mu)
    require(sizes.ndim == 0, "group_size must be a single number", **{"group_size.shape": sizes.shape})
    require(chances.ndim == 0, "mu must be a single number", **{"mu.shape": chances.shape})
    require(sizes <= _LARGEST_SIZE, "group_size must be at most 1e9", group_size=sizes)
    size, chance = int(sizes), Fraction(float(chances))
    mode = min(size, int((size + 1) * chance))
    below = _outward(size, mode, 1 - chance)[::-1]
    above = _outward(size, size - mode, chance)
    weights = np.concatenate([below, [1.0], above])
    return mode - below.size, weights / weights.sum()


def binomial_expectation(group_size: ArrayLike, mu: ArrayLike, values: Callable[[FloatArray], FloatArray]) -> float:
    """E[values(X)], X ~ Binomial(group_size, mu); `values` maps a float array of counts to one of the same shape.

    Nothing cancels if the values have one sign. Counts that `binomial_weights` leaves out count as 0.

    Source: the module's docstring. Raises ValueError as `binomial_weights` does.

    >>> binomial_expectation(10, 0.5, lambda k: k * k)
    27.5
    """
    first, weights = binomial_weights(group_size, mu)
    counts = first + np.arange(weights.size, dtype=np.float64)
    return float(np.sum(weights * values(counts)))


def walk_from_mode(ratio: Callable[[FloatArray], FloatArray], length: int, block: int, cut: float) -> FloatArray:
    """Products of ratio(0), ratio(1), ... for up to `length` steps: a pmf over its value at the mode.

    The walk ends below `cut` > 0, but never within 64 steps; `block` steps are taken at a time. `ratio` maps an array
    of steps to the factors p(next) / p(here).
    """
    walked, reached = 0, 1.0
    pieces: list[FloatArray] = [np.empty(0)]
    while walked < length and (walked < _KEPT_EACH_SIDE or reached >= cut):
        steps = np.arange(walked, min(walked + block, length), dtype=np.float64)
        piece = reached * np.cumprod(ratio(steps), dtype=np.float64)
        pieces.append(piece)
        walked, reached = walked + piece.size, float(piece[-1])
    walk = np.concatenate(pieces)
    return walk[: max(_KEPT_EACH_SIDE, int(np.count_nonzero(walk >= cut)))]


def _outward(size: int, failures: int, chance: Fraction) -> FloatArray:
    """p(mode + 1), p(mode + 2), ... over p(mode), for a mode with that many failures, cut as the module says.

    Going down from the mode is the same walk with success and failure exchanged.
    """
    if failures == 0:
        return np.empty(0)
    odds, mode = chance / (1 - chance), size - failures
    step_odds = float(odds)
    # The rounding of the odds acts at each step in the same direction; at N = 1e9 that is 1e-11 if not taken back.
    drift = float(odds / Fraction(step_odds) - 1) if step_odds else 0.0
    block = _KEPT_EACH_SIDE + int(10 * np.sqrt(size * float(chance * (1 - chance))))
    walk = walk_from_mode(lambda step: (failures - step) / (mode + step + 1.0) * step_odds, failures, block, _CUT)
    return walk * np.exp(drift * np.arange(1.0, walk.size + 1.0))
