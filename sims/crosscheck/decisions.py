"""The two tests of a cell, and what they can see. No asymptotics: both bounds hold for every sample size.

Event counts: the exact binomial test, two-sided (or against a shortfall only, for laws that say "at least").
Means: Bernstein's inequality, P(|mean - m| >= t) <= 2 exp(-n t^2 / (2 (s^2 + r t / 3))), with the *exact* standard deviation
s of one group's value and an exact bound r on |value - m|. A normal approximation at false-alarm rates of 1e-9 would need a
skewness correction; Bernstein costs about a tenth in sensitivity (6.4 standard errors instead of 5.9) and needs none.

Power is bounded from below in the same way: exactly for events, by Bernstein for means. Source: textbook (Boucheron,
Lugosi, Massart 2013, chapter 2). Left out on purpose: sequential tests, since a cell is drawn once.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri_exp
from scipy.stats import binom, norm


def event_threshold(alpha: float) -> float:
    """|z| beyond which an event count is refused, where z is the normal score of the exact tail probability."""
    return float(norm.isf(alpha / 2))


def event_score(observed: int, groups: int, expected: float, *, shortfall_only: bool = False) -> float:
    """Normal score of the smaller exact binomial tail at `observed`, with the sign of the difference.

    An expected probability of 0 or less, or 1 or more, cannot be tested; a plug-in score is given (see `verdict`).
    shortfall_only: more events than expected score 0.
    """
    share = observed / groups
    if not 0 < expected < 1:
        error = math.sqrt(max(share * (1 - share), 1 / groups) / groups)
        return (share - expected) / error
    if share >= expected:
        return 0.0 if shortfall_only else max(0.0, -float(ndtri_exp(_log_upper(observed, groups, expected))))
    # Failures in excess of their expectation: the same tail.
    return -max(0.0, -float(ndtri_exp(_log_upper(groups - observed, groups, 1 - expected))))


def _log_upper(observed: int, groups: int, expected: float) -> float:
    """log P(X >= observed); where it underflows, Chernoff's upper bound of it."""
    tail = float(binom.sf(observed - 1, groups, expected))
    if tail > 0:
        return math.log(tail)
    share = observed / groups
    rest = (1 - share) * math.log((1 - share) / (1 - expected)) if share < 1 else 0.0
    return -groups * (share * math.log(share / expected) + rest)


def event_power(groups: int, expected: float, truth: float, alpha: float, *, shortfall_only: bool = False) -> float:
    """Probability that the test of `expected` refuses counts that have probability `truth`."""
    if not 0 < expected < 1:
        return 1.0
    low = binom.ppf(alpha / 2, groups, expected) - 1
    high = np.inf if shortfall_only else binom.isf(alpha / 2, groups, expected) + 1
    return float(binom.cdf(low, groups, truth) + (binom.sf(high - 1, groups, truth) if np.isfinite(high) else 0.0))


def mean_threshold(groups: int, spread: float, reach: float, alpha: float) -> float:
    """Standard errors beyond which Bernstein's bound on a false alarm falls below alpha."""
    log_odds = math.log(2 / alpha)
    linear = log_odds * reach / 3
    distance = (linear + math.sqrt(linear**2 + 2 * groups * log_odds * spread**2)) / groups
    return distance * math.sqrt(groups) / spread


def mean_power(groups: int, spread: float, reach: float, shift: float, alpha: float) -> float:
    """Lower bound of the probability that a shift of the mean by `shift` is refused."""
    room = abs(shift) - mean_threshold(groups, spread, reach, alpha) * spread / math.sqrt(groups)
    if room <= 0:
        return 0.0
    return -math.expm1(-groups * room**2 / (2 * (spread**2 + reach * room / 3)))
