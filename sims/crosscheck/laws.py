"""The right laws: each is a function of fgrpo_theory, with the keyword arguments that its cells give.

Where the law is about an estimator (pass@k, Good-Turing) the estimator of fgrpo_theory is applied to what was drawn, and
what is expected comes from the definition. Left out on purpose: how the numbers are drawn, in `scenarios`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fgrpo_theory import (
    active_probability,
    binomial_weights,
    conditional_tail_miss_probability,
    expected_baseline,
    expected_mass_changes,
    expected_sampled_mass,
    expected_unsampled_correct_mass,
    expected_update_scale,
    missing_mass,
    pass_at_k,
    pass_at_k_variance,
    population_tail_miss_probability,
    tail_miss_probability,
    total_mass_change_variance,
    unsampled_mass_change_variance,
)

from .cells import Cell, Law
from .scenarios import Policy, StepOptions, Totals
from .spreads import pass_at_k_values


def binomial_count(group_size: int, mu: float, k: int) -> float:
    """Pr(X = k)."""
    first, weights = binomial_weights(group_size, mu)
    return float(weights[k - first])


def sampled_mass(policy: Policy, group_size: int, correct: int, side: int) -> float:
    """Lemma H.1; side 0 is P_pos, 1 is P_neg."""
    masses = expected_sampled_mass(policy.probability, np.array(policy.correct), group_size, correct, size=policy.sizes)
    return float(masses[side])


def baseline(policy: Policy, group_size: int, correct: int, rewards: tuple[float, float]) -> float:
    """Corollary H.2."""
    return float(
        expected_baseline(
            policy.probability,
            np.array(policy.correct),
            group_size,
            correct,
            size=policy.sizes,
            reward_correct=rewards[0],
            reward_wrong=rewards[1],
        )
    )


def unsampled_mass(policy: Policy, group_size: int) -> float:
    """E[Q_u,pos]."""
    return float(
        expected_unsampled_correct_mass(policy.probability, np.array(policy.correct), group_size, size=policy.sizes)
    )


def total_change(policy: Policy, group_size: int, options: StepOptions) -> float:
    """E[dQ_pos]."""
    return float(
        expected_mass_changes(policy.probability, policy.sizes, policy.correct, group_size, **vars(options))[0]
    )


def unsampled_change(policy: Policy, group_size: int, options: StepOptions) -> float:
    """E[dQ_u,pos]."""
    return float(
        expected_mass_changes(policy.probability, policy.sizes, policy.correct, group_size, **vars(options))[1]
    )


def total_variance(policy: Policy, group_size: int, options: StepOptions) -> float:
    """Var[dQ_pos]."""
    return total_mass_change_variance(policy.probability, policy.sizes, policy.correct, group_size, **vars(options))


def unsampled_variance(policy: Policy, group_size: int, options: StepOptions) -> float:
    """Var[dQ_u,pos]."""
    return unsampled_mass_change_variance(policy.probability, policy.sizes, policy.correct, group_size, **vars(options))


def observed_variance(totals: Totals, cell: Cell) -> float:
    """Mean square about the cell's centre, from sums and sums of squares."""
    groups = cell.scenario.groups
    mean, square = totals["sums"][cell.index] / groups, totals["squares"][cell.index] / groups
    return float(square - 2 * cell.centre * mean + cell.centre**2)


def mean_of_estimates(totals: Totals, cell: Cell) -> float:
    """Mean of eq. 27 over the histogram of correct counts."""
    return float(totals["correct"] @ pass_at_k_values(cell.scenario.group_size, cell.given["k"])) / cell.scenario.groups


def square_of_estimates(totals: Totals, cell: Cell) -> float:
    """Mean square of eq. 27 about the cell's centre."""
    values = pass_at_k_values(cell.scenario.group_size, cell.given["k"])
    return float(totals["correct"] @ (values - cell.centre) ** 2) / cell.scenario.groups


@lru_cache(maxsize=100_000)
def interval(once: int, twice: int, samples: int, level: float, method: str) -> tuple[float, float, float]:
    """(estimate, lower, upper) of `missing_mass` for counts with that many singletons and doubletons."""
    rest = samples - once - 2 * twice
    mass = missing_mass([1] * once + [2] * twice + [rest] * (rest > 0), level=level, method=method)
    return mass.estimate, mass.lower, mass.upper


def by_singletons(totals: Totals, group_size: int, bounds: Callable[[int, int, int], Any]) -> np.ndarray:
    """ "sample ...": a function of (f1, f2, n) at every sample; each pair (f1, f2) is computed once."""
    pairs, where = np.unique(totals["once"] * (group_size + 1) + totals["twice"], return_inverse=True)
    values = [bounds(int(pair) // (group_size + 1), int(pair) % (group_size + 1), group_size) for pair in pairs]
    return np.array(values)[where.reshape(-1)]


def mean_of_good_turing(totals: Totals, cell: Cell) -> float:
    """Mean of the Good-Turing estimate."""
    return float(
        by_singletons(totals, cell.scenario.group_size, lambda f1, f2, n: interval(f1, f2, n, 0.95, "score")[0]).mean()
    )


def coverage(totals: Totals, cell: Cell) -> float:
    """Share of samples whose 95 % interval holds the true unseen mass."""
    inside = covered(
        totals, cell.scenario.group_size, lambda f1, f2, n: interval(f1, f2, n, 0.95, cell.given["method"])[1:]
    )
    return float(inside.mean())


def covered(totals: Totals, group_size: int, bounds: Callable[[int, int, int], Any]) -> np.ndarray:
    """ "sample": whether the bounds given by (f1, f2, n) hold the true unseen mass."""
    # Rounding of the unseen mass must not decide whether it lies on a bound of 0 or 1.
    lower, upper = by_singletons(totals, group_size, bounds).T
    return np.asarray((lower - 1e-12 <= totals["unseen"]) & (totals["unseen"] <= upper + 1e-12))


LAWS = {
    law.name: law
    for law in (
        Law("tail miss", "Lemma 3.1", tail_miss_probability),
        Law("activity", "eq. 7", active_probability),
        Law("conditional tail miss", "Lemma 3.1 over eq. 7", conditional_tail_miss_probability),
        Law("population tail miss", "Lemma 3.1 over Beta", population_tail_miss_probability),
        Law("binomial count", "X ~ Binomial(N, mu)", binomial_count),
        Law("E[P_pos | X]", "Lemma H.1", sampled_mass),
        Law("E[P_neg | X]", "Lemma H.1", sampled_mass),
        Law("E[S_R | X]", "Corollary H.2", baseline),
        Law("E[Q_u,pos]", "BroRL, Lemma 2", unsampled_mass),
        Law("E[dQ_pos] probability", "eq. 17", total_change),
        Law("E[dQ_pos] ratio", "eq. 17, ratio form", total_change),
        Law("E[dQ_u,pos] probability", "eq. 10", unsampled_change),
        Law("E[dQ_u,pos] ratio", "eq. 10, ratio form", unsampled_change),
        Law("Var[dQ_pos] probability", "eq. 17", total_variance, observed_variance),
        Law("Var[dQ_pos] ratio", "eq. 17, ratio form", total_variance, observed_variance),
        Law("Var[dQ_u,pos] ratio", "eq. 10, ratio form", unsampled_variance, observed_variance),
        Law(
            "E[g|A|]",
            "eqs. 3, 12, 13",
            lambda group_size, mu, option: expected_update_scale(
                group_size, mu, option[0], ddof=int(option[1]), eps=option[2], reward_gap=option[3] - option[4]
            ),
        ),
        Law("E[pass@k]", "eq. 27", lambda group_size, mu, k: 1 - (1 - mu) ** k, mean_of_estimates),
        Law(
            "Var[pass@k]",
            "eq. 27",
            lambda group_size, mu, k: pass_at_k_variance(group_size, mu, k),
            square_of_estimates,
        ),
        Law("pass@k given c", "eq. 27", lambda group_size, correct, k: pass_at_k(group_size, correct, k)),
        Law(
            "E[f1/n]",
            "Good 1953",
            lambda policy, group_size: expected_unsampled_correct_mass(
                policy.p, np.ones(len(policy.p), dtype=bool), group_size - 1
            ),
            mean_of_good_turing,
        ),
        Law("Good-Turing coverage", "fgrpo_theory.missing_mass", lambda policy, method, level: level, coverage),
    )
}
