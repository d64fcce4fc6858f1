"""High-precision oracles for the expectations over a categorical policy, on the harness of `oracles`.

Chances that actions are missed or hit are the subtractive ones: Pr(j hit, i missed | k) = (1 - q_i)^k - (1 - q_i - q_j)^k.
The sums run over X = k, and the ratio surrogate is not tilted. A row holds the classes of a policy: probability of one
action, number of actions, correct or not. Errors of sums with terms of both signs are relative to the sizes of the terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mpf

from fgrpo_theory import (
    expected_baseline,
    expected_mass_changes,
    expected_sampled_mass,
    expected_unsampled_correct_mass,
)
from tests.fgrpo_theory.law_oracles import advantages
from tests.fgrpo_theory.oracles import Oracle, Row, log_spread, one_by_one

Floats = tuple[float, ...]
Flags = tuple[bool, ...]


class Class(NamedTuple):
    """One class of a normalised policy."""

    p: mpf
    size: int


def sides(p: Floats, size: Floats, correct: Flags) -> tuple[list[Class], list[Class]]:
    """Correct and wrong classes, with probabilities that sum to 1 to the last digit."""
    total = mpmath.fsum(mpf(x) * int(m) for x, m in zip(p, size, strict=True))
    classes = [(Class(mpf(x) / total, int(m)), c) for x, m, c in zip(p, size, correct, strict=True)]
    return [one for one, c in classes if c], [one for one, c in classes if not c]


def power_sum(side: list[Class], power: int) -> mpf:
    """Sum of p^power over the actions."""
    return mpmath.fsum(c.size * c.p**power for c in side)


def hit(side: list[Class], draws: int, power: int) -> mpf:
    """Expected sum of p^power over the actions among so many draws from this side."""
    mass = power_sum(side, 1)
    return mpmath.fsum(c.size * c.p**power * (1 - (1 - c.p / mass) ** draws) for c in side)


def missed_and_hit(side: list[Class], draws: int, missed: int, hit_: int) -> mpf:
    """Expected sum over pairs of p_i^missed [i not drawn] p_j^hit_ [j drawn]."""
    mass, total = power_sum(side, 1), mpf(0)
    for i, a in enumerate(side):
        for j, b in enumerate(side):
            pairs = a.size * (b.size - (i == j))
            if pairs:
                chance = (1 - a.p / mass) ** draws - (1 - (a.p + b.p) / mass) ** draws
                total += pairs * a.p**missed * b.p**hit_ * chance
    return total


def unsampled_correct_mass(p: Floats, size: Floats, correct: Flags, n: int) -> Iterator[mpf]:
    """BroRL, Lemma 2."""
    yield mpmath.fsum(int(m) * mpf(x) * (1 - mpf(x)) ** n for x, m, c in zip(p, size, correct, strict=True) if c)


def sampled_mass(p: Floats, size: Floats, correct: Flags, n: int, k: int) -> Iterator[mpf]:
    """Lemma H.1."""
    for side, draws in zip(sides(p, size, correct), (k, n - k), strict=True):
        yield hit(side, draws, 1)


def baseline(p: Floats, size: Floats, correct: Flags, n: int, k: int) -> Iterator[tuple[mpf, mpf]]:
    """Corollary H.2 for rewards 1 and -1."""
    pos, neg = sampled_mass(p, size, correct, n, k)
    yield pos - neg, pos + neg


def ratio_changes(
    p: Floats, size: Floats, correct: Flags, n: int, gamma: float, std: bool, ddof: int
) -> Iterator[mpf | tuple[mpf, mpf]]:
    """E[dQ_pos] and E[dQ_u,pos] of the ratio surrogate, rewards 1 and -1."""
    right, wrong = sides(p, size, correct)
    mass, rest, second = power_sum(right, 1), power_sum(wrong, 1), power_sum(right, 2)
    draw_neg, total, down, up = power_sum(wrong, 2) / rest, mpf(0), mpf(0), mpf(0)
    for k in range(1, n):
        plus, minus = advantages(n, k, ddof, 0.0, 2.0) if std else (2 - mpf(2) * k / n, mpf(2) * k / n)
        weight = mpmath.binomial(n, k) * mass**k * rest ** (n - k) * (1 - mpf(k) / n) ** mpf(gamma) / n
        total += weight * (plus * k * second / mass * rest + minus * (n - k) * draw_neg * mass)
        for c in right:
            if c.p < mass:
                missed = weight * c.size * c.p * (1 - c.p / mass) ** k
                down += missed * plus * k * (second - c.p**2) / (mass - c.p)
                up += missed * minus * (n - k) * draw_neg
    yield total
    yield up - down, up + down


def probability_changes(
    p: Floats, size: Floats, correct: Flags, n: int, gamma: float, good: float, bad: float
) -> Iterator[tuple[mpf, mpf]]:
    """E[dQ_pos] and E[dQ_u,pos] of eqs. 17 and 10 for rewards `good` and `bad`."""
    right, wrong = sides(p, size, correct)
    mass, rest = power_sum(right, 1), power_sum(wrong, 1)
    second_pos, second_neg = power_sum(right, 2), power_sum(wrong, 2)
    second = second_pos + second_neg
    totals: list[mpf] = []
    changes: list[mpf] = []
    for k in range(n + 1):
        a1, a2, b1, b2 = hit(right, k, 1), hit(right, k, 2), hit(wrong, n - k, 1), hit(wrong, n - k, 2)
        u1, u2 = mass - a1, second_pos - a2
        w = (
            mpmath.binomial(n, k)
            * mass**k
            * rest ** (n - k)
            * ((1 - mpf(k) / n) ** mpf(gamma) if k < n or gamma else 1)
            / n
        )
        drift = mass * second_neg - rest * second_pos
        totals += [w * good * rest * a2, -w * bad * mass * b2, w * good * a1 * drift, w * bad * b1 * drift]
        changes += [
            -w * good * missed_and_hit(right, k, 2, 1),
            -w * bad * b1 * u2,
            -w * good * missed_and_hit(right, k, 1, 2),
            -w * bad * u1 * b2,
            w * second * good * missed_and_hit(right, k, 1, 1),
            w * second * bad * u1 * b1,
        ]
    for terms in (totals, changes):
        yield mpmath.fsum(terms), mpmath.fsum(map(abs, terms))


def policy(rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
    """Two to four classes of up to 1e5 actions, with probabilities over many magnitudes; both sides have some."""
    classes = int(rng.integers(2, 5))
    size = np.array([max(1.0, round(log_spread(rng, 0.3, 1e5))) for _ in range(classes)])
    weight = np.exp(rng.normal(0, rng.choice([0.5, 3.0, 8.0]), classes)) / size ** rng.choice([0.0, 0.5, 1.0])
    correct = rng.permutation(np.arange(classes) < rng.integers(1, classes))
    return tuple(map(float, weight / (size * weight).sum())), tuple(map(float, size)), tuple(map(bool, correct))


def _to_n(largest: float) -> Any:
    return lambda rng: (*policy(rng), round(log_spread(rng, 1, largest)))


def _to_k(rng: np.random.Generator) -> Row:
    *classes, n = _to_n(1e12)(rng)
    return (
        *classes,
        n,
        int(rng.integers(0, n + 1)) if rng.random() < 0.5 else min(n, int(log_spread(rng, 1, n + 1)) - 1),
    )


_LAST = ((0.25, 0.5), (2.0, 1.0), (True, False))
_EXTREME = ((1 - 1e-15, 1e-15), (1.0, 1.0), (True, False))

POLICY_ORACLES = [
    Oracle(
        "expected_unsampled_correct_mass",
        one_by_one(lambda p, m, c, n: (expected_unsampled_correct_mass(p, c, n, size=m),)),
        unsampled_correct_mass,
        _to_n(1e12),
        ((*_LAST, 1), (*_LAST, 10**12), (*_EXTREME, 20), ((1.0,), (1.0,), (True,), 3)),
        default=1000,
    ),
    Oracle(
        "expected_sampled_mass",
        one_by_one(lambda p, m, c, n, k: expected_sampled_mass(p, c, n, k, size=m)),
        sampled_mass,
        _to_k,
        ((*_LAST, 1, 0), (*_LAST, 10**12, 10**12), (*_EXTREME, 20, 7)),
        default=1000,
    ),
    Oracle(
        "expected_baseline",
        one_by_one(lambda p, m, c, n, k: (expected_baseline(p, c, n, k, size=m),)),
        baseline,
        _to_k,
        ((*_LAST, 1, 1), (*_EXTREME, 20, 7)),
        default=1000,
    ),
    Oracle(
        "expected_mass_changes, ratio",
        one_by_one(
            lambda p, m, c, n, gamma, std, ddof: expected_mass_changes(
                p, m, c, n, gamma=gamma, surrogate="ratio", std_scaled=std, ddof=ddof
            )
        ),
        ratio_changes,
        lambda rng: (
            *_to_n(100)(rng),
            float(rng.choice([0.0, 0.5, 1.0, 2.0])),
            bool(rng.integers(2)),
            int(rng.integers(2)),
        ),
        ((*_LAST, 1, 0.0, False, 1), (*_EXTREME, 64, 1.0, False, 1), (*_EXTREME, 64, 0.5, True, 0)),
        default=300,
    ),
    Oracle(
        "expected_mass_changes, probability",
        one_by_one(
            lambda p, m, c, n, gamma, good, bad: expected_mass_changes(
                p, m, c, n, gamma=gamma, reward_correct=good, reward_wrong=bad
            )
        ),
        probability_changes,
        lambda rng: (
            *_to_n(64)(rng),
            float(rng.choice([0.0, 0.5, 1.0, 2.0])),
            *((1.0, -1.0), (1.0, 0.0), (2.0, 0.25))[rng.integers(3)],
        ),
        ((*_LAST, 1, 0.0, 1.0, -1.0), (*_EXTREME, 64, 1.0, 1.0, -1.0)),
        default=150,
    ),
]
