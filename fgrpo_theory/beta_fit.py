"""A Beta law of success probabilities over prompts, fitted to right answers counted in groups.

A group of n rollouts whose prompt has mu ~ Beta(alpha, beta) holds x right ones with the beta-binomial probability
C(n, x) B(alpha + x, beta + n - x) / B(alpha, beta). Its likelihood is maximised over (logit mean, log concentration),
mean = alpha / (alpha + beta), concentration = alpha + beta. The covariance is the sandwich over clusters (prompts may
recur; White 1982; Liang and Zeger 1986), and intervals of functions of the law are by the delta method on a logit or
log scale. They hold for a true Beta law; how far the data are from one is `beta_fit_quality`.

Quality: the total variation distance between observed and fitted counts, less what chance alone would make, and
Pearson's test with neighbouring counts pooled to 5 expected, divided by the mean design effect (Rao and Scott 1981).
Left out on purpose: mixtures and point masses at 0 and 1, which need more answers a prompt than training gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, chdtrc, digamma, expit, gammaln, polygamma, stdtrit

from .clustered import ClusterCounts, Estimate
from .foundation.checks import ArrayLike, FloatArray, as_choice, as_probability, as_whole, require

CONCENTRATIONS = (1e-3, 1e5)
"""Bounds of alpha + beta; at one of them the spread of the prompts could not be estimated."""

_STEP = 1e-4


@dataclass(frozen=True)
class BetaFit:
    """A fitted Beta law."""

    alpha: float
    beta: float
    covariance: FloatArray
    """2 x 2, of (logit mean, log concentration)."""
    clusters: float
    """Effective number of prompts."""
    at_bound: bool
    """True if alpha + beta ran to a bound: nearly all prompts alike, or each all right or all wrong."""

    @property
    def mean(self) -> float:
        """alpha / (alpha + beta)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def concentration(self) -> float:
        """alpha + beta: small means that prompts are either easy or hopeless."""
        return self.alpha + self.beta


@dataclass(frozen=True)
class BetaFitQuality:
    """How well the fitted law describes the counts."""

    distance: float
    """Total variation distance between observed and fitted counts, in [0, 1]."""
    by_chance: float
    """What the distance would be on average if the law were exact."""
    p_value: float
    """Pearson's test; NaN if too few counts are left after pooling."""

    @property
    def excess(self) -> float:
        """max(0, distance - by_chance)."""
        return max(0.0, self.distance - self.by_chance)


def fit_beta(counts: ClusterCounts, samples: ArrayLike, correct: ArrayLike) -> BetaFit:
    """Maximum likelihood over the groups in `counts`, whose cell i is a group of samples[i] rollouts, correct[i] right.

    Raises ValueError if the counts hold no right or no wrong answer, or no group of two rollouts.

    >>> from fgrpo_theory.clustered import count_clusters
    >>> groups = count_clusters(np.arange(90), np.repeat([0, 1, 2], 30), 3)
    >>> fit = fit_beta(groups, [2, 2, 2], [0, 1, 2])
    >>> round(fit.alpha, 3), round(fit.beta, 3)
    (1.0, 1.0)
    """
    n, x, weights = _cells(counts, samples, correct)
    require(
        0 < float(weights @ x) < float(weights @ n), "correct must hold right and wrong answers", correct="one kind"
    )
    require(bool((n[weights > 0] >= 2).any()), "samples must hold a group of two rollouts", samples=n.max())

    def negative(theta: FloatArray) -> tuple[float, FloatArray]:
        value, scores = _log_likelihood(theta, n, x)
        return -float(weights @ value) / weights.sum(), -(weights @ scores) / weights.sum()

    rate = float(weights @ x) / float(weights @ n)
    bounds = [(-25.0, 25.0), tuple(np.log(CONCENTRATIONS))]
    start = np.array([np.log(rate / (1 - rate)), 0.5])
    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500}
    found: FloatArray = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    at_bound = bool(found[1] <= bounds[1][0] + 1e-6 or found[1] >= bounds[1][1] - 1e-6)
    covariance, clusters = _sandwich(counts, found, n, x, weights, at_bound)
    mean, concentration = float(expit(found[0])), float(np.exp(found[1]))
    return BetaFit(mean * concentration, (1 - mean) * concentration, covariance, clusters, at_bound)


def beta_interval(
    fit: BetaFit, function: Callable[[float, float], float], *, level: float = 0.95, scale: str = "logit"
) -> Estimate:
    """The value of function(alpha, beta) at the fit, with its delta-method interval on a "logit" or "log" scale.

    Source: the module's docstring. Raises ValueError for a scale that is neither, or a value outside its domain.

    >>> fit = BetaFit(1.0, 1.0, np.diag([0.04, 0.04]), 100.0, False)
    >>> estimate = beta_interval(fit, lambda a, b: a / (a + b))
    >>> estimate.value, round(estimate.lower, 3), round(estimate.upper, 3)
    (0.5, 0.402, 0.598)
    """
    as_choice("scale", scale, ("logit", "log"))
    as_probability("level", level, open_ends=True)
    theta = np.array([np.log(fit.alpha / fit.beta), np.log(fit.concentration)])

    def transformed(at: FloatArray) -> float:
        mean, concentration = float(expit(at[0])), float(np.exp(at[1]))
        value = function(mean * concentration, float(expit(-at[0])) * concentration)
        require(
            0 < value < (1 if scale == "logit" else np.inf), f"function must lie inside a {scale} scale", value=value
        )
        return float(np.log(value / (1 - value)) if scale == "logit" else np.log(value))

    steps = np.eye(2) * _STEP
    slope = np.array([(transformed(theta + step) - transformed(theta - step)) / (2 * _STEP) for step in steps])
    centre = transformed(theta)
    half = float(np.sqrt(max(0.0, slope @ fit.covariance @ slope)))
    half *= float(stdtrit(max(fit.clusters - 1, 1.0), (1 + level) / 2))
    back = expit if scale == "logit" else np.exp
    return Estimate(float(back(centre)), float(back(centre - half)), float(back(centre + half)), level, fit.clusters)


def beta_fit_quality(fit: BetaFit, counts: ClusterCounts, samples: ArrayLike, correct: ArrayLike) -> BetaFitQuality:
    """Compare the fit with the groups it was made from. Arguments as for `fit_beta`. Raises ValueError."""
    n, x, weights = _cells(counts, samples, correct)
    groups = float(weights.sum())
    distance, chance, pearson, freedom, effects = 0.0, 0.0, 0.0, -2, []
    for size in np.unique(n[weights > 0]):
        mine = n == size
        all_x = np.arange(size + 1, dtype=np.float64)
        observed: FloatArray = np.bincount(x[mine].astype(np.int64), weights[mine], int(size) + 1).astype(np.float64)
        inside = float(observed.sum())
        expected = inside * np.exp(log_beta_binomial(np.full(all_x.size, size), all_x, fit.alpha, fit.beta))
        effect = _design_effect(counts, mine, inside)
        effects.append((inside, effect))
        distance += 0.5 * float(np.abs(observed - expected).sum())
        spread = expected * (1 - expected / inside) * effect
        # E|observed - expected| is sqrt(2 v / pi) for many, and at most 2 * expected for few.
        chance += 0.5 * float(np.minimum(np.sqrt(2 * spread / np.pi), 2 * expected).sum())
        seen, wanted = _pooled(observed, expected)
        pearson += float(np.sum((seen - wanted) ** 2 / wanted))
        freedom += seen.size - 1
    effect = sum(size * value for size, value in effects) / groups
    p_value = float(chdtrc(freedom, pearson / effect)) if freedom > 0 else float("nan")
    return BetaFitQuality(distance / groups, chance / groups, p_value)


def log_beta_binomial(samples: ArrayLike, correct: ArrayLike, alpha: float, beta: float) -> FloatArray:
    """Log of the probability of `correct` right ones of `samples`.

    >>> float(np.exp(log_beta_binomial(4, 2, 1.0, 1.0)).round(12))
    0.2
    """
    n, x = np.asarray(samples, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    return np.asarray(choose + betaln(alpha + x, beta + n - x) - betaln(alpha, beta))


def beta_binomial_tail_miss(group_size: int, alpha: float, beta: float, rare_fraction: float) -> float:
    """`population_tail_miss_probability` for one case as its sum of N - 1 positive terms, some hundred times as fast.

    Intervals need it many times, at group sizes where the sum is short; its relative error is about 1e-12 up to N = 1e4.
    Source: the second line of the closed form in `population`. Arguments are not checked.

    >>> round(beta_binomial_tail_miss(8, 1.0, 1.0, 0.1), 12)
    0.5217031
    """
    right = np.arange(1, group_size, dtype=np.float64)
    logs = log_beta_binomial(np.full(right.size, float(group_size)), right, alpha, beta)
    return float(np.exp(logs + right * np.log1p(-rare_fraction)).sum())


def _cells(counts: ClusterCounts, samples: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, x = np.atleast_1d(as_whole("samples", samples)), np.atleast_1d(as_whole("correct", correct, least=0))
    require(n.shape == x.shape == counts.totals.shape, "samples and correct must be one a cell", shape=x.shape)
    require(x <= n, "correct must be at most samples", correct=x, samples=n)
    return n, x, counts.totals


def _log_likelihood(theta: FloatArray, n: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Per cell: the log-likelihood without its constant, and its slope in (logit mean, log concentration)."""
    mean, rest, total = float(expit(theta[0])), float(expit(-theta[0])), float(np.exp(theta[1]))
    alpha, beta = mean * total, rest * total
    value = betaln(alpha + x, beta + n - x) - betaln(alpha, beta)
    by_alpha, by_beta = digamma(alpha + x) - digamma(alpha), digamma(beta + n - x) - digamma(beta)
    by_total = digamma(total) - digamma(total + n)
    by_mean = total * mean * rest * (by_alpha - by_beta)
    return np.asarray(value), np.column_stack([by_mean, alpha * by_alpha + beta * by_beta + total * by_total])


def _sandwich(
    counts: ClusterCounts, theta: FloatArray, n: FloatArray, x: FloatArray, weights: FloatArray, at_bound: bool
) -> tuple[FloatArray, float]:
    _, scores = _log_likelihood(theta, n, x)
    clusters = counts.effective_clusters(np.ones(n.size))
    scores = scores - (weights @ scores) / weights.sum()
    middle = scores.T @ (counts.pairs @ scores) * clusters / max(clusters - 1, 1.0)
    bread = _information(theta, n, x, weights)
    covariance = np.zeros((2, 2))
    if at_bound:
        # The concentration is then taken as known.
        covariance[0, 0] = middle[0, 0] / bread[0, 0] ** 2
        return covariance, clusters
    inverse: Any = np.linalg.inv(bread)
    covariance[:] = inverse @ middle @ inverse
    return covariance, clusters


def _information(theta: FloatArray, n: FloatArray, x: FloatArray, weights: FloatArray) -> FloatArray:
    """Minus the second derivative of the log-likelihood, at a stationary point."""
    mean, rest, total = float(expit(theta[0])), float(expit(-theta[0])), float(np.exp(theta[1]))
    alpha, beta = mean * total, rest * total
    right = float(weights @ (polygamma(1, alpha + x) - polygamma(1, alpha)))
    wrong = float(weights @ (polygamma(1, beta + n - x) - polygamma(1, beta)))
    both = float(weights @ (polygamma(1, total) - polygamma(1, total + n)))
    slope_right = float(weights @ (digamma(alpha + x) - digamma(alpha)))
    slope_wrong = float(weights @ (digamma(beta + n - x) - digamma(beta)))
    hessian = np.array([[right + both, both], [both, wrong + both]])
    slope_total = float(weights @ (digamma(total) - digamma(total + n)))
    jacobian = np.array([[total * mean * rest, alpha], [-total * mean * rest, beta]])
    first = np.array([slope_right + slope_total, slope_wrong + slope_total])
    tilt = total * mean * rest
    # Second derivatives of (alpha, beta) in (logit mean, log concentration).
    alpha_second = np.array([[tilt * (rest - mean), tilt], [tilt, alpha]])
    beta_second = np.array([[-tilt * (rest - mean), -tilt], [-tilt, beta]])
    return np.asarray(-(jacobian.T @ hessian @ jacobian + first[0] * alpha_second + first[1] * beta_second))


def _design_effect(counts: ClusterCounts, mine: Any, groups: float) -> float:
    """Variance of the cell shares over that of independent groups, averaged over cells; at least 1."""
    chosen = np.flatnonzero(mine)
    shares = counts.totals[chosen] / groups
    pairs = counts.pairs[chosen][:, chosen]
    rows = np.asarray(pairs.sum(axis=1)).ravel()
    # r = (indicator - share) / groups for each cell, and r' C r written out.
    variances = (pairs.diagonal() - 2 * shares * rows + shares**2 * rows.sum()) / groups**2
    independent = shares * (1 - shares) / groups
    return max(1.0, float(variances.sum() / independent.sum())) if independent.sum() > 0 else 1.0


def _pooled(observed: FloatArray, expected: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Neighbouring counts summed until 5 are expected; what is left over joins the last bin."""
    seen, wanted = [0.0], [0.0]
    for o, e in zip(observed.tolist(), expected.tolist(), strict=True):
        if wanted[-1] >= 5:
            seen.append(0.0)
            wanted.append(0.0)
        seen[-1] += o
        wanted[-1] += e
    if wanted[-1] < 5 and len(wanted) > 1:
        seen[-2:], wanted[-2:] = [sum(seen[-2:])], [sum(wanted[-2:])]
    return np.array(seen), np.array(wanted)
