"""The tail miss of a whole population of prompts: mu ~ Beta(alpha, beta), tau = rare_fraction * mu (ours).

Closed form, with r = rare_fraction, from Lemma 3.1 and E[mu^i (1 - mu)^j] = B(alpha + i, beta + j) / B(alpha, beta):

    2F1(-N, alpha; alpha + beta; r) - (1 - r)^N B(alpha + N, beta) / B(alpha, beta) - B(alpha, beta + N) / B(alpha, beta)
    = sum over j = 1 ... N - 1 of BetaBinomial(j | N, alpha, beta) (1 - r)^j

The first line cancels and its 2F1 alternates in sign; the second has N - 1 terms. So the expectation of the stable tail
miss is evaluated by the trapezoidal rule in u = logit(mu) - logit(mean): every term is positive, and since the integrand
is analytic and decays on both sides, the error falls like exp(-c / step). The step is halved until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from .foundation.checks import ArrayLike, FloatArray, as_float, as_probability, as_whole, require, together
from .tail_miss import _log_activity

_LogIntegrand = Callable[[FloatArray], FloatArray]

# Terms below exp(-_DEPTH) of the largest do not reach the last digit, even a million of them.
_DEPTH = 55.0
# Beyond this, exp(u) would overflow; no tail of a supported population is that long.
_REACH = 700.0
# Halving the step squares the error, so the finer of two rules that agree this well is exact to rounding.
_AGREEMENT = 1e-11
_MOST_POINTS = 2**20


def population_tail_miss_probability(
    group_size: ArrayLike, alpha: ArrayLike, beta: ArrayLike, rare_fraction: ArrayLike
) -> FloatArray:
    """Mean tail miss over prompts whose success probability is Beta(alpha, beta) distributed.

    group_size: N >= 1. alpha, beta: in [1e-6, 1e8]. rare_fraction: tau / mu, in (0, 1]. All broadcast.
    Relative error at most 1e-12. Source: ours, from Lemma 3.1; the closed form is in the module's docstring.
    Raises ValueError.

    >>> population_tail_miss_probability(8, 1.0, 1.0, 0.1).round(12)
    np.float64(0.5217031)
    """
    n, alpha_, beta_, fraction = together(
        group_size=as_whole("group_size", group_size),
        alpha=as_float("alpha", alpha),
        beta=as_float("beta", beta),
        rare_fraction=as_probability("rare_fraction", rare_fraction),
    )
    require((alpha_ >= 1e-6) & (alpha_ <= 1e8), "alpha must lie in [1e-6, 1e8]", alpha=alpha_)
    require((beta_ >= 1e-6) & (beta_ <= 1e8), "beta must lie in [1e-6, 1e8]", beta=beta_)
    require(fraction > 0, "rare_fraction must lie in (0, 1]", rare_fraction=fraction)
    result = np.empty(n.shape)
    for index in np.ndindex(n.shape):
        result[index] = _population(float(n[index]), float(alpha_[index]), float(beta_[index]), float(fraction[index]))
    return result[()]


def _population(n: float, alpha: float, beta: float, fraction: float) -> float:
    if n == 1 or fraction == 1:
        return 0.0
    mean, rest = alpha / (alpha + beta), beta / (alpha + beta)

    def log_integrand(u: FloatArray) -> FloatArray:
        scale = rest + mean * np.exp(u)
        mu, wrong = mean * np.exp(u) / scale, rest / scale
        # alpha log(mu / mean) + beta log(wrong / rest): their parts of first order in mu - mean cancel exactly, so go.
        excess = np.expm1(u) / scale
        density = alpha * _log_minus_first_order(u - np.log(scale), rest * excess) + beta * _log_minus_first_order(
            -np.log(scale), -mean * excess
        )
        right = (1 - fraction) * mu
        outside = right + wrong
        # Multiplied by N, so relative accuracy counts: `outside` is good enough only where it is far from 1.
        log_outside = np.where(fraction * mu < 0.5, np.log1p(-fraction * mu), np.log(outside))
        return density + n * log_outside + _log_activity(np.full_like(u, n), np.minimum(right, wrong) / outside)

    return float(_integral(log_integrand) / np.exp(_log_normaliser(alpha, beta)))


def _integral(log_integrand: _LogIntegrand) -> float:
    """Integral over the line of exp of a function that has one maximum and falls at least linearly from it."""
    top, height = _maximum(log_integrand)
    low = _where_it_falls(log_integrand, top, height - _DEPTH, -1.0)
    high = _where_it_falls(log_integrand, top, height - _DEPTH, 1.0)
    points = 64
    step = (high - low) / points
    total = float(np.exp(log_integrand(low + step * np.arange(points + 1.0)) - height).sum())
    while points < _MOST_POINTS:
        between = float(np.exp(log_integrand(low + step * (np.arange(points * 1.0) + 0.5)) - height).sum())
        if abs(between - total) <= _AGREEMENT * total:
            return step / 2 * (total + between) * float(np.exp(height))
        total, step, points = total + between, step / 2, 2 * points
    raise ArithmeticError("the population integral did not settle; please report alpha, beta, rare_fraction and N")


def _maximum(log_integrand: _LogIntegrand) -> tuple[float, float]:
    low, high = -_REACH, _REACH
    for _ in range(40):
        grid = np.linspace(low, high, 33)
        best = int(np.argmax(log_integrand(grid)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 32)]
    top = (low + high) / 2
    return float(top), float(log_integrand(np.array([top]))[0])


def _where_it_falls(log_integrand: _LogIntegrand, top: float, level: float, side: float) -> float:
    """A point on the given side of the maximum where the function is below the level, within a tenth of the distance."""
    inner, outer = 0.0, 1e-6
    while outer < _REACH and log_integrand(np.array([top + side * outer]))[0] > level:
        inner, outer = outer, 2 * outer
    outer = min(outer, 2 * _REACH)
    while outer - inner > 0.1 * outer:
        middle = (inner + outer) / 2
        below = log_integrand(np.array([top + side * middle]))[0] <= level
        inner, outer = (inner, middle) if below else (middle, outer)
    return top + side * outer


def _log_normaliser(alpha: float, beta: float) -> float:
    """log of B(alpha, beta) / (mean^alpha rest^beta), by Stirling's formula with its remainders: nothing cancels."""
    return float(
        0.5 * np.log(2 * np.pi * (alpha + beta) / alpha / beta)
        + _stirling_remainder(alpha)
        + _stirling_remainder(beta)
        - _stirling_remainder(alpha + beta)
    )


def _stirling_remainder(x: float) -> float:
    """log Gamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2]."""
    if x < 16:
        return float(gammaln(x) - ((x - 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi)))
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x


def _log_minus_first_order(log_ratio: FloatArray, x: FloatArray) -> FloatArray:
    """log(1 + x) - x: from the given log(1 + x) where x is large, by a series in x where it is small."""
    near = np.where(np.abs(x) < 0.5, x, 0.0)
    z = near / (2 + near)
    series = np.zeros_like(z)
    for order in range(37, 1, -2):
        series = series * z * z + 1 / order
    return np.where(np.abs(x) < 0.5, z * (2 * z * z * series - near), log_ratio - x)
