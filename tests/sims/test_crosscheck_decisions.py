"""The tests of a cell: false alarms and power against exact binomial sums."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from sims.crosscheck.decisions import event_power, event_score, event_threshold, mean_power, mean_threshold

ALPHA = 1e-4


@pytest.mark.parametrize(
    ("observed", "groups", "expected"), [(30, 100, 0.5), (70, 100, 0.5), (3, 2000, 0.01), (45, 2000, 0.01)]
)
def test_event_score_is_the_exact_tail(observed, groups, expected):
    side = "less" if observed < groups * expected else "greater"
    tail = binomtest(observed, groups, expected, alternative=side).pvalue
    assert norm.sf(abs(event_score(observed, groups, expected))) == pytest.approx(tail, rel=1e-9)
    assert math.copysign(1, event_score(observed, groups, expected)) == (1 if side == "greater" else -1)


def test_event_score_beyond_float_range_is_bounded_by_chernoff():
    score = event_score(900_000, 1_000_000, 0.5)
    exponent = 1_000_000 * (0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert norm.logsf(score) == pytest.approx(-exponent, rel=1e-9)


def test_shortfall_only_forgives_an_excess():
    assert event_score(990, 1000, 0.95, shortfall_only=True) == 0
    assert event_score(900, 1000, 0.95, shortfall_only=True) == event_score(900, 1000, 0.95) < -5


@pytest.mark.parametrize("expected", [-0.1, 0.0, 1.0, 1.2])
def test_impossible_probabilities_are_always_refused(expected):
    assert event_power(1000, expected, 0.5, ALPHA) == 1.0


@pytest.mark.parametrize(("groups", "expected"), [(500, 0.2), (2000, 0.03), (300, 0.9)])
def test_false_alarms_of_events_are_at_most_alpha(groups, expected):
    counts = np.arange(groups + 1)
    refused = np.array([abs(event_score(int(k), groups, expected)) > event_threshold(ALPHA) for k in counts])
    rate = binom.pmf(counts, groups, expected)[refused].sum()
    assert 0 < rate <= ALPHA
    for truth in (expected * 0.7, expected * 1.1):
        exact = binom.pmf(counts, groups, truth)[refused].sum()
        assert event_power(groups, expected, truth, ALPHA) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("groups", "mean"), [(400, 0.5), (1000, 0.1), (3000, 0.01)])
def test_bernstein_bounds_hold_for_bernoulli_means(groups, mean):
    spread, reach = math.sqrt(mean * (1 - mean)), max(mean, 1 - mean)
    threshold = mean_threshold(groups, spread, reach, ALPHA)
    counts = np.arange(groups + 1)
    scores = (counts / groups - mean) * math.sqrt(groups) / spread
    assert binom.pmf(counts, groups, mean)[np.abs(scores) > threshold].sum() <= ALPHA
    assert threshold > norm.isf(ALPHA / 2)
    shift = 3 * threshold * spread / math.sqrt(groups)
    truth_scores = scores + shift * math.sqrt(groups) / spread
    exact = binom.pmf(counts, groups, mean)[np.abs(truth_scores) > threshold].sum()
    assert 0.9 < mean_power(groups, spread, reach, shift, ALPHA) <= exact


def test_no_power_below_the_threshold():
    error = mean_threshold(100, 1.0, 1.0, ALPHA) / 10
    assert mean_power(100, 1.0, 1.0, 0.99 * error, ALPHA) == 0.0
