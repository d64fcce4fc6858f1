"""Means over clustered groups: sums by loops over clusters, Wilson's equation at the interval's ends, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fgrpo_theory.clustered import count_clusters, difference, share, unit_interval


def made_up(seed: int = 0, clusters: int = 12, groups: int = 60, cells: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, clusters, groups), rng.integers(0, cells, groups)


def test_totals_and_pairs_are_those_of_loops() -> None:
    cluster, cell = made_up()
    counts = count_clusters(cluster, cell, 5)
    pairs = np.zeros((5, 5))
    for one in set(cluster.tolist()):
        mine = cell[cluster == one]
        for first in mine:
            for second in mine:
                pairs[first, second] += 1
    assert counts.totals.tolist() == [int((cell == kind).sum()) for kind in range(5)]
    assert counts.pairs.toarray().tolist() == pairs.tolist()


def test_the_variance_is_the_sum_of_squared_cluster_sums() -> None:
    """K / (K - 1) sum over clusters of (sum over its groups of r)^2, with K of Kish."""
    cluster, cell = made_up(1)
    counts = count_clusters(cluster, cell, 5)
    a, b = np.array([0.0, 0.2, 0.5, 0.1, 1.0]), np.array([1.0, 0.5, 1.0, 2.0, 1.0])
    value, influence = counts.influence(a, b)
    assert value == pytest.approx(sum(a[cell]) / sum(b[cell]))
    sums = [sum((a - value * b)[cell[cluster == one]]) / sum(b[cell]) for one in set(cluster.tolist())]
    weights = [sum(b[cell[cluster == one]]) for one in set(cluster.tolist())]
    effective = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    assert counts.effective_clusters(b) == pytest.approx(effective)
    expected = effective / (effective - 1) * sum(total**2 for total in sums)
    assert counts.variance(influence, effective) == pytest.approx(expected)


def test_parts_add_up() -> None:
    cluster, cell = made_up(2)
    low = cluster < 6
    parts = [count_clusters(cluster[mine], cell[mine], 5) for mine in (low, ~low)]
    whole, both = count_clusters(cluster, cell, 5), parts[0].add(parts[1])
    assert both.totals.tolist() == whole.totals.tolist()
    assert both.pairs.toarray().tolist() == whole.pairs.toarray().tolist()


def test_the_ends_solve_wilsons_equation() -> None:
    """100 groups, each a cluster of its own, 20 with the event: |T - p| = t sqrt(p (1 - p) / m), m = T (1 - T) / Var."""
    found = share(count_clusters(np.arange(100), np.repeat([0, 1], [80, 20]), 2), [0.0, 1.0], [1.0, 1.0])
    trials = 99.0  # n - 1: the variance is T (1 - T) / n times n / (n - 1)
    # The fewest carriers are the 20 groups with the event: 40 degrees of freedom.
    t = stats.t.ppf(0.975, 40)
    for end in (found.lower, found.upper):
        assert abs(0.2 - end) == pytest.approx(t * np.sqrt(end * (1 - end) / trials), rel=1e-9)
    assert (found.value, found.clusters) == (0.2, 100)


def test_no_event_has_an_upper_end() -> None:
    """T = 0: p = t^2 p (1 - p) / (K p), so p = t^2 / (K + t^2)."""
    found = share(count_clusters(np.arange(50), np.zeros(50, dtype=int), 2), [0.0, 1.0], [1.0, 1.0])
    t2 = stats.t.ppf(0.975, 49) ** 2
    assert (found.value, found.lower) == (0.0, 0.0)
    assert found.upper == pytest.approx(t2 / (50 + t2))


def test_groups_of_one_prompt_are_no_more_than_one_prompt() -> None:
    """Ten equal groups a prompt: the same interval as one group a prompt."""
    cell = np.repeat([0, 1], [30, 10])
    once = share(count_clusters(np.arange(40), cell, 2), [0.0, 1.0], [1.0, 1.0])
    often = share(count_clusters(np.repeat(np.arange(40), 10), np.repeat(cell, 10), 2), [0.0, 1.0], [1.0, 1.0])
    assert (often.lower, often.upper) == pytest.approx((once.lower, once.upper), rel=1e-9)


def test_one_cluster_says_nothing() -> None:
    assert unit_interval(0.5, 0.01, 1.0, 0.95) == (0.0, 1.0)
    found = share(count_clusters([0, 0], [0, 1], 2), [0.0, 1.0], [1.0, 1.0])
    assert (found.value, found.lower, found.upper) == (0.5, 0.0, 1.0)


def test_a_paired_difference_forgets_what_prompts_have_in_common() -> None:
    """Every prompt gains exactly 1/4, whatever its level (cells 0, 1, 2 before; 3, 4, 5 after): no width."""
    before = np.repeat([0, 1, 2], 20)
    counts = count_clusters(np.tile(np.arange(60), 2), np.concatenate([before, before + 3]), 6)
    value = np.array([0.0, 0.3, 0.6, 0.25, 0.55, 0.85])
    first, second = np.repeat([1.0, 0.0], 3), np.repeat([0.0, 1.0], 3)
    found = difference(counts, (value * first, first), (value * second, second))
    assert found.value == pytest.approx(0.25)
    assert found.upper - found.lower < 1e-7
    # Unpaired, the spread of the levels is in the interval.
    apart = count_clusters(np.arange(120), np.concatenate([before, before + 3]), 6)
    unpaired = difference(apart, (value * first, first), (value * second, second))
    assert unpaired.upper - unpaired.lower > 0.1


@pytest.mark.parametrize("visits", [1, 3])
def test_the_interval_covers(visits: int) -> None:
    """400 logs of 100 prompts, mu ~ Beta(0.5, 1), N = 8: the share of active groups, prompts coming back `visits` times.

    At 0.95 fewer than 357 hits have a chance of 1e-6; at 0.85, which ignoring the clusters would give, of 0.99 or more.
    """
    assert stats.binom.cdf(356, 400, 0.95) < 2e-6
    assert stats.binom.cdf(356, 400, 0.85) > 0.985
    rng = np.random.default_rng(20260206)
    x = np.arange(9)
    active = ((x > 0) & (x < 8)).astype(float)
    truth = float(stats.betabinom.pmf(x, 8, 0.5, 1) @ active)
    hits = 0
    for _ in range(400):
        mu = np.tile(rng.beta(0.5, 1, 100), visits)
        counts = count_clusters(np.tile(np.arange(100), visits), rng.binomial(8, mu), 9)
        found = share(counts, active, np.ones(9))
        hits += found.lower <= truth <= found.upper
    assert hits >= 357


def test_bad_input_is_named() -> None:
    counts = count_clusters([0, 1], [0, 1], 2)
    with pytest.raises(ValueError, match="cell must be below cells"):
        count_clusters([0], [3], 2)
    with pytest.raises(ValueError, match="cluster and cell must be lists of one length"):
        count_clusters([0, 1], [0], 2)
    with pytest.raises(ValueError, match="denominator must have a positive total"):
        share(counts, [0.0, 0.0], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"numerator must lie in \[0, denominator\]"):
        share(counts, [2.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="level"):
        share(counts, [1.0, 0.0], [1.0, 1.0], level=1.0)
