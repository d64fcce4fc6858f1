"""The Beta law of success rates: recovered from exact counts, the Hessian by differences, quality, coverage."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import sparse, stats

from fgrpo_theory import population_tail_miss_probability
from fgrpo_theory.beta_fit import (
    BetaFit,
    beta_binomial_tail_miss,
    beta_fit_quality,
    beta_interval,
    fit_beta,
    log_beta_binomial,
)
from fgrpo_theory.clustered import ClusterCounts, count_clusters

N = 8
X = np.arange(N + 1)


def exact_counts(alpha: float, beta: float, groups: float = 1000.0) -> ClusterCounts:
    """What is expected of `groups` prompts, as if it were counted; each group a cluster of its own."""
    totals = groups * stats.betabinom.pmf(X, N, alpha, beta)
    return ClusterCounts(totals, sparse.diags_array(totals).tocsr())


@pytest.mark.parametrize("law", [(1.0, 1.0), (0.2, 4.0), (30.0, 10.0), (0.05, 0.02)])
def test_the_law_is_recovered_from_its_own_expectation(law: tuple[float, float]) -> None:
    fit = fit_beta(exact_counts(*law), np.full(N + 1, N), X)
    assert (fit.alpha, fit.beta) == pytest.approx(law, rel=1e-4)
    assert not fit.at_bound
    quality = beta_fit_quality(fit, exact_counts(*law), np.full(N + 1, N), X)
    assert quality.distance < 1e-5
    assert quality.p_value > 0.999


def test_the_covariance_is_the_inverse_information() -> None:
    """For counts as the law expects them both sides of the sandwich agree (Bartlett); the Hessian by differences."""
    groups, law = 1000.0, (0.7, 1.9)
    fit = fit_beta(exact_counts(*law, groups), np.full(N + 1, N), X)
    weights = groups * stats.betabinom.pmf(X, N, *law)

    def likelihood(logit: float, log_total: float) -> float:
        mean, total = 1 / (1 + np.exp(-logit)), np.exp(log_total)
        return float(weights @ stats.betabinom.logpmf(X, N, mean * total, (1 - mean) * total))

    at, h = np.array([np.log(0.7 / 1.9), np.log(2.6)]), 1e-3
    hessian = np.empty((2, 2))
    for i in range(2):
        for j in range(2):
            e, f = h * np.eye(2)[i], h * np.eye(2)[j]
            hessian[i, j] = likelihood(*(at + e + f)) - likelihood(*(at + e - f))
            hessian[i, j] += likelihood(*(at - e - f)) - likelihood(*(at - e + f))
    expected = np.linalg.inv(-hessian / (4 * h * h)) * groups / (groups - 1)
    assert fit.covariance == pytest.approx(expected, rel=1e-3)


def test_it_is_the_largest_likelihood_on_a_grid() -> None:
    rng = np.random.default_rng(5)
    counts = count_clusters(np.arange(200), rng.binomial(N, rng.beta(0.5, 1.5, 200)), N + 1)
    fit = fit_beta(counts, np.full(N + 1, N), X)
    best = counts.totals @ stats.betabinom.logpmf(X, N, fit.alpha, fit.beta)
    for alpha in np.geomspace(0.1, 5, 25):
        for beta in np.geomspace(0.1, 10, 25):
            assert counts.totals @ stats.betabinom.logpmf(X, N, alpha, beta) <= best + 1e-9


def test_groups_of_different_sizes_share_a_law() -> None:
    """Exact counts at N = 4 and N = 8 together."""
    n = np.repeat([4, 8], [5, 9])
    x = np.concatenate([np.arange(5), np.arange(9)])
    totals = 500 * stats.betabinom.pmf(x, n, 0.6, 2.0)
    fit = fit_beta(ClusterCounts(totals, sparse.diags_array(totals).tocsr()), n, x)
    assert (fit.alpha, fit.beta) == pytest.approx((0.6, 2.0), rel=1e-4)


@pytest.mark.parametrize("law", [(1, 1), (2, 5)])
def test_the_tail_miss_by_fractions(law: tuple[int, int]) -> None:
    """sum over 0 < x < N of C(N, x) B(a + x, b + N - x) / B(a, b) (1 - rho)^x with whole a, b: rational."""

    def whole_beta(a: int, b: int) -> Fraction:
        return Fraction(1, (a + b - 1) * comb(a + b - 2, a - 1))

    a, b = law
    rho = Fraction(1, 10)
    exact = sum(comb(N, x) * whole_beta(a + x, b + N - x) / whole_beta(a, b) * (1 - rho) ** x for x in range(1, N))
    assert beta_binomial_tail_miss(N, a, b, 0.1) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("size", [2, 8, 1024])
@pytest.mark.parametrize("law", [(0.05, 0.4), (1.0, 1.0), (20.0, 3.0)])
def test_the_fast_sum_is_the_closed_form(size: int, law: tuple[float, float]) -> None:
    found = beta_binomial_tail_miss(size, *law, 0.03)
    assert found == pytest.approx(float(population_tail_miss_probability(size, *law, 0.03)), rel=1e-9)


def test_the_beta_binomial_is_scipys() -> None:
    found = np.exp(log_beta_binomial(np.full(N + 1, N), X, 0.3, 4.0))
    assert found == pytest.approx(stats.betabinom.pmf(X, N, 0.3, 4.0), rel=1e-12)


def test_a_mixture_is_no_beta_law() -> None:
    """Half of the prompts at 0.5, half at 0.97, 2000 groups of 16: the fit is poor and rejected."""
    x = np.arange(17)
    totals = np.round(1000 * (stats.binom.pmf(x, 16, 0.5) + stats.binom.pmf(x, 16, 0.97)))
    counts = ClusterCounts(totals, sparse.diags_array(totals).tocsr())
    fit = fit_beta(counts, np.full(17, 16), x)
    quality = beta_fit_quality(fit, counts, np.full(17, 16), x)
    assert quality.excess > 0.05
    assert quality.p_value < 1e-6


def test_prompts_that_are_all_alike_have_no_spread() -> None:
    """Counts as of one success rate: the concentration runs to its bound, and says so."""
    totals = 1000 * stats.binom.pmf(X, N, 0.4)
    fit = fit_beta(ClusterCounts(totals, sparse.diags_array(totals).tocsr()), np.full(N + 1, N), X)
    assert fit.at_bound
    assert fit.mean == pytest.approx(0.4, rel=1e-5)


def test_an_interval_by_the_delta_method() -> None:
    """logit of the mean has variance 0.04: 0.5 has the ends expit(-+ t 0.2)."""
    fit = BetaFit(1.0, 1.0, np.diag([0.04, 0.09]), 100.0, False)
    t = stats.t.ppf(0.975, 99)
    found = beta_interval(fit, lambda a, b: a / (a + b))
    assert (found.lower, found.upper) == pytest.approx(
        (1 / (1 + np.exp(0.2 * t)), 1 / (1 + np.exp(-0.2 * t))), rel=1e-6
    )
    total = beta_interval(fit, lambda a, b: a + b, scale="log")
    assert (total.lower, total.upper) == pytest.approx((2 * np.exp(-0.3 * t), 2 * np.exp(0.3 * t)), rel=1e-6)


def test_the_intervals_cover() -> None:
    """400 logs of 100 prompts, Beta(0.5, 1), N = 8: mean, and tail miss at 4 N.

    At 0.95 fewer than 357 hits have a chance of 1e-6; at 0.85 of 0.99.
    """
    rng = np.random.default_rng(20260207)
    truth = {"mean": 1 / 3, "miss": beta_binomial_tail_miss(32, 0.5, 1, 0.1)}
    hits = dict.fromkeys(truth, 0)
    for _ in range(400):
        counts = count_clusters(np.arange(100), rng.binomial(N, rng.beta(0.5, 1, 100)), N + 1)
        fit = fit_beta(counts, np.full(N + 1, N), X)
        found = {
            "mean": beta_interval(fit, lambda a, b: a / (a + b)),
            "miss": beta_interval(fit, lambda a, b: beta_binomial_tail_miss(32, a, b, 0.1)),
        }
        for name, value in truth.items():
            hits[name] += found[name].lower <= value <= found[name].upper
    assert min(hits.values()) >= 357, hits


def test_bad_input_is_named() -> None:
    counts = count_clusters([0, 1], [0, 1], 2)
    with pytest.raises(ValueError, match="correct must hold right and wrong answers"):
        fit_beta(counts, [2, 2], [2, 2])
    with pytest.raises(ValueError, match="samples must hold a group of two rollouts"):
        fit_beta(counts, [1, 1], [0, 1])
    with pytest.raises(ValueError, match="correct must be at most samples"):
        fit_beta(counts, [2, 2], [3, 1])
    with pytest.raises(ValueError, match="scale"):
        beta_interval(BetaFit(1.0, 1.0, np.eye(2), 10.0, False), lambda a, b: a, scale="cubic")
