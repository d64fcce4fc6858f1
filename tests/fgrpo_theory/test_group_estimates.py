"""Estimates from larger groups: every subgroup listed, and their mean over binomial counts is the law itself."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fgrpo_theory import active_probability, focal_weight, tail_miss_probability
from fgrpo_theory.group_estimates import subsampled_focal_weight, subsampled_tail_miss


def subgroups(samples: int, correct: int, size: int) -> list[int]:
    """Right ones in every subgroup of that size."""
    return [sum(chosen) for chosen in combinations([1] * correct + [0] * (samples - correct), size)]


@pytest.mark.parametrize("samples", [2, 5, 7])
@pytest.mark.parametrize("rho", [0.0, 0.1, 1.0])
def test_the_tail_miss_is_the_mean_over_all_subgroups(samples: int, rho: float) -> None:
    for correct in range(samples + 1):
        for size in range(1, samples + 1):
            values = [(1 - rho) ** j if 0 < j < size else 0.0 for j in subgroups(samples, correct, size)]
            found = float(subsampled_tail_miss(samples, correct, size, rho))
            assert found == pytest.approx(np.mean(values), rel=1e-12, abs=1e-15), (correct, size)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_focal_weight_is_the_mean_over_all_subgroups(gamma: float) -> None:
    for correct in range(7):
        for size in range(1, 7):
            values = [float(focal_weight(j / size, gamma)) for j in subgroups(6, correct, size)]
            found = float(subsampled_focal_weight(6, correct, size, gamma))
            assert found == pytest.approx(np.mean(values), rel=1e-12, abs=1e-15), (correct, size)


@pytest.mark.parametrize("mu", [0.02, 0.3, 0.97])
def test_its_mean_over_binomial_counts_is_lemma_3_1(mu: float) -> None:
    """E over X ~ Binomial(n, mu) of the estimate at N <= n is the tail miss of N, with tau = rho mu; rho = 0 is eq. 7."""
    x = np.arange(13)
    chance = stats.binom.pmf(x, 12, mu)
    for size in (2, 5, 12):
        for rho in (0.03, 0.5):
            found = float(chance @ subsampled_tail_miss(12, x, size, rho))
            assert found == pytest.approx(float(tail_miss_probability(size, mu, rho * mu)), rel=1e-10)
        found = float(chance @ subsampled_tail_miss(12, x, size, 0.0))
        assert found == pytest.approx(float(active_probability(size, mu)), rel=1e-10)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="correct must be at most samples"):
        subsampled_tail_miss(4, 5, 2, 0.1)
    with pytest.raises(ValueError, match="group_size must be at most samples"):
        subsampled_tail_miss(4, 2, 5, 0.1)
    with pytest.raises(ValueError, match="rare_fraction"):
        subsampled_tail_miss(4, 2, 2, 1.5)
    with pytest.raises(ValueError, match="group_size must be at most samples"):
        subsampled_focal_weight(4, 2, 5, 1.0)
