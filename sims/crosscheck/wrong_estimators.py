"""Wrong laws of estimators: pass@k and its variance, Good-Turing and its intervals, the size of the advantages.

A wrong estimator is applied to the same draws; its exact mean and spread (`truth`) come from the binomial law or from
listing all samples, so that what the cells can see of it is computed, not simulated.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from fgrpo_theory import advantage_magnitudes

from .cells import Cell, WrongLaw
from .enumeration import all_groups, is_small
from .laws import covered, mean_of_good_turing
from .scenarios import Policy, Totals
from .spreads import advantage_moments, estimator_moments, singleton_spread, subset_share


def _plug_in(group_size: int, k: int) -> np.ndarray:
    return 1 - (1 - np.arange(group_size + 1) / group_size) ** k


def _plug_in_mean(totals: Totals, cell: Cell) -> float:
    return float(totals["correct"] @ _plug_in(cell.scenario.group_size, cell.given["k"])) / cell.scenario.groups


def _plug_in_truth(group_size: int, mu: float, k: int) -> tuple[float, float]:
    return estimator_moments(group_size, mu, _plug_in(group_size, k))[:2]


_PASS = (
    WrongLaw(
        "pass-plug-in",
        "E[pass@k]",
        "1 - (1 - c/n)^k, which is biased",
        lambda group_size, mu, k: 1 - (1 - mu) ** k,
        observe=_plug_in_mean,
        truth=_plug_in_truth,
    ),
    WrongLaw(
        "pass-all-samples", "E[pass@k]", "n tries in place of k", lambda group_size, mu, k: 1 - (1 - mu) ** group_size
    ),
    WrongLaw("pass-linear", "E[pass@k]", "k mu", lambda group_size, mu, k: k * mu),
    WrongLaw(
        "pass-variance-delta",
        "Var[pass@k]",
        "first order of the delta method, which holds for large n only",
        lambda group_size, mu, k: k**2 * (1 - mu) ** (2 * k - 1) * mu / group_size,
    ),
    WrongLaw(
        "pass-variance-one-try",
        "Var[pass@k]",
        "v (1 - v) / n of n independent tries at k",
        lambda group_size, mu, k: (1 - (1 - mu) ** k) * (1 - mu) ** k / group_size,
    ),
    WrongLaw(
        "pass-variance-blocks",
        "Var[pass@k]",
        "v (1 - v) k / n of n / k disjoint blocks",
        lambda group_size, mu, k: (1 - (1 - mu) ** k) * (1 - mu) ** k * k / group_size,
    ),
    WrongLaw(
        "subset-with-replacement",
        "pass@k given c",
        "1 - (1 - c/n)^k",
        lambda group_size, correct, k: 1 - (1 - correct / group_size) ** k,
    ),
    WrongLaw(
        "subset-one-sample-more",
        "pass@k given c",
        "n + 1 samples",
        lambda group_size, correct, k: 1 - subset_share(group_size + 1, correct, k),
    ),
    WrongLaw("subset-linear", "pass@k given c", "c k / n", lambda group_size, correct, k: correct * k / group_size),
)


def _singletons_over_more(totals: Totals, cell: Cell) -> float:
    n = cell.scenario.group_size
    return mean_of_good_turing(totals, cell) * n / (n + 1)


def _good_turing(policy: Policy, draws: int) -> float:
    return float(policy.p @ (1 - policy.p) ** draws)


def _over_more_truth(policy: Policy, group_size: int) -> tuple[float, float]:
    share = group_size / (group_size + 1)
    return share * _good_turing(policy, group_size - 1), share * singleton_spread(policy.p, group_size)


def _around(f1: int, f2: int, n: int, z: float, *, doubletons: bool) -> tuple[float, float]:
    once = f1 / n
    half = z * math.sqrt(max(once * (1 - once) + (2 * f2 / n if doubletons else 0.0), 0.0) / n)
    return once - half, once + half


_TWO_SIDED, _ONE_SIDED = float(ndtri(0.975)), float(ndtri(0.95))
_INTERVALS = {
    "coverage-plug-in": (
        "score",
        "Esty's interval at x = f1/n: zero width where f1 = 0",
        lambda f1, f2, n: _around(f1, f2, n, _TWO_SIDED, doubletons=True),
    ),
    "coverage-no-doubletons": (
        "score",
        "the term in f2 left out as well",
        lambda f1, f2, n: _around(f1, f2, n, _TWO_SIDED, doubletons=False),
    ),
    "coverage-one-sided": (
        "score",
        "the one-sided quantile",
        lambda f1, f2, n: _around(f1, f2, n, _ONE_SIDED, doubletons=True),
    ),
    "coverage-bias-alone": (
        "distribution-free",
        "only the bias of 1/n allowed for",
        lambda f1, f2, n: (f1 / n - 1 / n, f1 / n + 1 / n),
    ),
}


def _coverage_law(name: str) -> WrongLaw:
    method_, mistake, bounds = _INTERVALS[name]

    def applies(cell: Cell) -> bool:
        return cell.given["method"] == method_ and is_small(cell.given["policy"], cell.scenario.group_size)

    def observe(totals: Totals, cell: Cell) -> float:
        return float(covered(totals, cell.scenario.group_size, bounds).mean())

    def truth(policy: Policy, group_size: int) -> tuple[float, float]:
        groups = all_groups(policy, group_size)
        totals = {
            "once": (groups.counts == 1).sum(1),
            "twice": (groups.counts == 2).sum(1),
            "unseen": ~groups.drawn @ policy.p,
        }
        inside = covered(totals, group_size, bounds)
        share = groups.mean(inside.astype(np.float64))
        return share, math.sqrt(share * (1 - share))

    return WrongLaw(name, "Good-Turing coverage", mistake, lambda policy, method, level: level, observe, applies, truth)


_GOOD_TURING = (
    WrongLaw(
        "singletons-over-more",
        "E[f1/n]",
        "f1 / (n + 1) in place of f1 / n",
        lambda policy, group_size: _good_turing(policy, group_size - 1),
        observe=_singletons_over_more,
        truth=_over_more_truth,
    ),
    WrongLaw(
        "singletons-unbiased",
        "E[f1/n]",
        "f1 / n taken as unbiased for the unseen mass of n draws",
        lambda policy, group_size: _good_turing(policy, group_size),
    ),
    *map(_coverage_law, _INTERVALS),
)


def _size(group_size: int, mu: float, option: tuple[float, ...], **changed: float) -> float:
    names = ("gamma", "ddof", "eps", "high", "low")
    return advantage_moments(
        group_size, mu, tuple(changed.get(name, value) for name, value in zip(names, option, strict=True))
    )[0]


def _infinite_group(mu: float, gamma: float) -> float:
    plus, minus = advantage_magnitudes(mu, gamma)
    return float(mu * plus + (1 - mu) * minus)


def _two_weights(group_size: int, mu: float, option: tuple[float, ...]) -> float:
    """E[g] E[|A|]: weight and size taken as independent."""
    k = np.arange(group_size + 1)
    weight = binom.pmf(k, group_size, mu) @ (1 - k / group_size) ** option[0]
    return float(weight * _size(group_size, mu, option, gamma=0.0))


_ADVANTAGES = (
    WrongLaw(
        "size-no-focal",
        "E[g|A|]",
        "focal weight left out",
        lambda group_size, mu, option: _size(group_size, mu, option, gamma=0.0),
    ),
    WrongLaw(
        "size-gamma-plus-1",
        "E[g|A|]",
        "gamma + 1",
        lambda group_size, mu, option: _size(group_size, mu, option, gamma=option[0] + 1),
    ),
    WrongLaw(
        "size-weight-at-mu",
        "E[g|A|]",
        "(1 - mu)^gamma in place of the group's own success rate",
        lambda group_size, mu, option: (1 - mu) ** option[0] * _size(group_size, mu, option, gamma=0.0),
    ),
    WrongLaw("size-independent", "E[g|A|]", "E[g] E[|A|]", _two_weights),
    WrongLaw(
        "size-other-ddof",
        "E[g|A|]",
        "ddof 0 and 1 exchanged",
        lambda group_size, mu, option: _size(group_size, mu, option, ddof=1 - option[1]),
    ),
    WrongLaw(
        "size-no-eps", "E[g|A|]", "eps left out", lambda group_size, mu, option: _size(group_size, mu, option, eps=0.0)
    ),
    WrongLaw(
        "size-eps-unit-rewards",
        "E[g|A|]",
        "eps beside the std of rewards 1 and 0",
        lambda group_size, mu, option: _size(group_size, mu, option, high=1.0, low=0.0),
    ),
    WrongLaw(
        "size-infinite-group",
        "E[g|A|]",
        "the population limit of figure 4",
        lambda group_size, mu, option: _infinite_group(mu, option[0]),
    ),
)

WRONG_ESTIMATORS = (*_PASS, *_GOOD_TURING, *_ADVANTAGES)
