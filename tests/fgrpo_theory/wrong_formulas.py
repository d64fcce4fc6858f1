"""Plausible wrong formulas: for each law, slips that a reader or a port could make, on the arguments of its oracle.

They compute in mpmath, so that only the formula can be at fault, and return the outputs of the oracle, in its order.
`test_wrong_formulas` shows that the grids kill each. Wrong one-step laws are judged by enumeration instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
from mpmath import mpf

from tests.fgrpo_theory import law_oracles as right
from tests.fgrpo_theory import policy_oracles as policy


class Wrong(NamedTuple):
    """A wrong formula."""

    law: str
    """The oracle that must refuse it."""
    slip: str
    value: Callable[..., Any]


def _one(value: Callable[..., mpf]) -> Callable[..., tuple[mpf, ...]]:
    """A formula of one output, on exact inputs."""
    return lambda *row: (value(*map(mpf, row)),)


def _ratio_without_exclusion(p: Any, m: Any, c: Any, n: int, gamma: float, std: bool, ddof: int) -> tuple[mpf, ...]:
    """E[dQ_u,pos] as if Q_u,pos and the update were independent given nothing: E[Q_u,pos] E[sum p dz]."""
    total, _ = policy.ratio_changes(p, m, c, n, gamma, std, ddof)
    return total, -total * next(policy.unsampled_correct_mass(p, m, c, n))


def _swapped_sides(p: Any, m: Any, c: Any, n: int, k: int) -> tuple[mpf, ...]:
    correct, wrong = policy.sides(p, m, c)
    return policy.hit(correct, n - k, 1), policy.hit(wrong, k, 1)


def _without_conditioning(p: Any, m: Any, c: Any, n: int, k: int) -> tuple[mpf, ...]:
    """p in place of q = p / mu."""
    correct, wrong = policy.sides(p, m, c)
    sides = (correct, k), (wrong, n - k)
    return tuple(mpmath.fsum(x.size * x.p * (1 - (1 - x.p) ** draws) for x in side) for side, draws in sides)


def _common_fraction(n: float, a: float, b: float, r: float) -> tuple[mpf, ...]:
    """1 - r in place of r, where the sum over X is short enough."""
    return tuple(right.population(n, a, b, 1 - mpf(r) if n <= 2000 else r))


def _magnitudes(change: Callable[..., tuple[mpf, mpf]]) -> Callable[..., tuple[mpf, mpf]]:
    """A change to the true (A+, |A-|) and to g."""
    return lambda n, k, gamma, ddof, eps, gap: change(
        *right.advantages(int(n), int(k), ddof, eps, gap), mpf(k) / mpf(n), mpf(gamma)
    )


def _scaled(power: int) -> Callable[..., tuple[mpf, ...]]:
    """The update scale with the squared or the missing weight."""
    return lambda n, mu, gamma, *rest: tuple(right.update_scale(n, mu, power * gamma, *rest))


WRONG = [
    Wrong("active_probability", "only all-correct groups are inactive", _one(lambda n, m: 1 - m**n)),
    Wrong("active_probability", "only all-wrong groups are inactive", _one(lambda n, m: 1 - (1 - m) ** n)),
    Wrong("active_probability", "both at once", _one(lambda n, m: (1 - m**n) * (1 - (1 - m) ** n))),
    Wrong("active_probability", "N - 1 rollouts", _one(lambda n, m: 1 - m ** (n - 1) - (1 - m) ** (n - 1))),
    Wrong("active_probability", "two of N", _one(lambda n, m: n * m * (1 - m))),
    Wrong("tail_miss_probability", "inactive groups count", _one(lambda n, m, t: (1 - t) ** n)),
    Wrong("tail_miss_probability", "all-wrong groups count", _one(lambda n, m, t: (1 - t) ** n - (m - t) ** n)),
    Wrong("tail_miss_probability", "all-correct groups count", _one(lambda n, m, t: (1 - t) ** n - (1 - m) ** n)),
    Wrong("tail_miss_probability", "mu^N for (mu - tau)^N", _one(lambda n, m, t: (1 - t) ** n - m**n - (1 - m) ** n)),
    Wrong(
        "tail_miss_probability",
        "miss and activity independent",
        _one(lambda n, m, t: (1 - t) ** n * (1 - m**n - (1 - m) ** n)),
    ),
    Wrong(
        "tail_miss_probability",
        "exponential limit",
        _one(lambda n, m, t: mpmath.exp(-n * t) * (1 - m**n - (1 - m) ** n)),
    ),
    Wrong(
        "tail_miss_probability",
        "tau as a share of mu",
        _one(lambda n, m, t: (1 - t * m) ** n - (m - t * m) ** n - (1 - m) ** n),
    ),
    Wrong(
        "tail_miss_probability",
        "rollouts without replacement",
        _one(lambda n, m, t: 1 - n * t - (m - t) ** n - (1 - m) ** n),
    ),
    Wrong(
        "log_tail_miss_probability",
        "log of the miss alone",
        _one(lambda n, m, t: n * mpmath.log1p(-t) if t < 1 else mpf("-inf")),
    ),
    Wrong(
        "log_tail_miss_probability",
        "decimal logarithm",
        lambda *row: tuple(x / mpmath.log(10) for x in right.log_tail_miss(*row)),
    ),
    Wrong(
        "conditional_tail_miss_probability",
        "given a solved group",
        _one(lambda n, m, t: ((1 - t) ** n - (1 - m) ** n) / (1 - (1 - m) ** n)),
    ),
    Wrong("conditional_tail_miss_probability", "not conditional", right.tail_miss),
    Wrong(
        "conditional_tail_miss_probability",
        "given a miss",
        _one(lambda n, m, t: 1 - ((m - t) ** n + (1 - m) ** n) / (1 - t) ** n if t < 1 else mpf(0)),
    ),
    Wrong(
        "population_tail_miss_probability",
        "the mean prompt for the mean over prompts",
        lambda n, a, b, r: tuple(right.tail_miss(n, mpf(a) / (mpf(a) + mpf(b)), mpf(r) * mpf(a) / (mpf(a) + mpf(b)))),
    ),
    Wrong(
        "population_tail_miss_probability",
        "alpha and beta exchanged",
        lambda n, a, b, r: tuple(right.population(n, b, a, r)),
    ),
    Wrong(
        "population_tail_miss_probability",
        "1 - r for r",
        _common_fraction,
    ),
    Wrong("advantage_magnitudes", "A+ and A- exchanged", lambda m, g: tuple(right.magnitudes(m, g))[::-1]),
    Wrong("advantage_magnitudes", "variance for std", _one(lambda m, g: (1 - m) ** g / m)),
    Wrong("advantage_magnitudes", "weight (1 - mu^gamma)", _one(lambda m, g: (1 - m**g) * mpmath.sqrt((1 - m) / m))),
    Wrong("advantage_magnitudes", "weight mu^gamma", _one(lambda m, g: m**g * mpmath.sqrt((1 - m) / m))),
    Wrong("group_advantage_magnitudes", "no focal weight", _magnitudes(lambda plus, minus, rate, gamma: (plus, minus))),
    Wrong(
        "group_advantage_magnitudes",
        "weight of wrong rollouts",
        _magnitudes(lambda plus, minus, rate, gamma: (plus * rate**gamma, minus * rate**gamma)),
    ),
    Wrong(
        "group_advantage_magnitudes",
        "weight on correct rollouts only",
        _magnitudes(lambda plus, minus, rate, gamma: (plus * (1 - rate) ** gamma, minus)),
    ),
    Wrong(
        "group_advantage_magnitudes",
        "ddof exchanged",
        lambda n, k, gamma, ddof, eps, gap: tuple(right.group_magnitudes(n, k, gamma, 1 - ddof, eps, gap)),
    ),
    Wrong(
        "group_advantage_magnitudes",
        "eps left out",
        lambda n, k, gamma, ddof, eps, gap: tuple(right.group_magnitudes(n, k, gamma, ddof, 0.0, gap)),
    ),
    Wrong("expected_update_scale", "weight squared", _scaled(2)),
    Wrong("expected_update_scale", "weight left out", _scaled(0)),
    Wrong(
        "expected_update_scale",
        "population limit",
        lambda n, mu, gamma, *rest: (2 * (1 - mpf(mu)) ** mpf(gamma) * mpmath.sqrt(mpf(mu) * (1 - mpf(mu))),),
    ),
    Wrong("learning_rate_multiplier", "mean of g alone", _one(lambda g: 1 / (g + 1))),
    Wrong(
        "learning_rate_multiplier",
        "weight mu^gamma sqrt(mu)",
        _one(lambda g: mpmath.beta(g + 1.5, 1) / mpmath.beta(1.5, 1)),
    ),
    Wrong(
        "learning_rate_multiplier",
        "denominator Gamma(gamma + 5/2)",
        _one(lambda g: 4 / mpmath.sqrt(mpmath.pi) * mpmath.gammaprod([g + 1.5], [g + 2.5])),
    ),
    Wrong(
        "expected_unsampled_correct_mass",
        "N - 1 draws",
        lambda p, m, c, n: tuple(policy.unsampled_correct_mass(p, m, c, n - 1)),
    ),
    Wrong(
        "expected_unsampled_correct_mass",
        "all actions",
        lambda p, m, c, n: tuple(policy.unsampled_correct_mass(p, m, (True,) * len(c), n)),
    ),
    Wrong(
        "expected_unsampled_correct_mass",
        "sizes forgotten",
        lambda p, m, c, n: tuple(policy.unsampled_correct_mass(p, (1,) * len(c), c, n)),
    ),
    Wrong("expected_sampled_mass", "counts exchanged", _swapped_sides),
    Wrong("expected_sampled_mass", "p for p / mu", _without_conditioning),
    Wrong("expected_mass_changes, ratio", "independence of sampled and unsampled", _ratio_without_exclusion),
    Wrong(
        "expected_mass_changes, ratio",
        "weight forgotten",
        lambda p, m, c, n, gamma, *rest: tuple(policy.ratio_changes(p, m, c, n, 0.0, *rest)),
    ),
    Wrong(
        "expected_mass_changes, ratio",
        "std forgotten",
        lambda p, m, c, n, gamma, std, ddof: tuple(policy.ratio_changes(p, m, c, n, gamma, False, ddof)),
    ),
    Wrong(
        "expected_mass_changes, probability",
        "rewards centred at 0",
        lambda p, m, c, n, gamma, good, bad: tuple(
            policy.probability_changes(p, m, c, n, gamma, (good - bad) / 2, (bad - good) / 2)
        ),
    ),
    Wrong(
        "expected_mass_changes, probability",
        "sides exchanged",
        lambda p, m, c, n, gamma, good, bad: tuple(
            policy.probability_changes(p, m, tuple(not x for x in c), n, gamma, good, bad)
        ),
    ),
]
