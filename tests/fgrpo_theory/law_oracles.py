"""Oracles of the laws of a group: each again in mpmath, from its definition, with the grid it is judged on.

They are the subtractive textbook forms, which cancel badly in float64 and not at all at 100 digits; they share no code
with `fgrpo_theory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

from fgrpo_theory import (
    active_probability,
    advantage_magnitudes,
    conditional_tail_miss_probability,
    expected_update_scale,
    group_advantage_magnitudes,
    learning_rate_multiplier,
    log_tail_miss_probability,
    population_tail_miss_probability,
    tail_miss_probability,
)
from tests.fgrpo_theory.oracles import Oracle, Row, log_spread, one_by_one, spread_probability, vectorised


def _group(rng: np.random.Generator) -> Row:
    """(N, mu): N up to 1e12, half of them where activity is neither certain nor negligible."""
    mu = spread_probability(rng)
    n = log_spread(rng, 1, 1e12)
    if rng.random() < 0.5:
        n = min(1e12, log_spread(rng, 1e-3, 700) / min(mu, 1 - mu))
    return float(np.ceil(n)), mu


def _tail(rng: np.random.Generator) -> Row:
    """(N, mu, tau): nearly always (1 - tau)^N is a normal float64; a quarter of the cases lie near 1e-300."""
    mu = spread_probability(rng)
    tau = min(mu, mu * spread_probability(rng, 1e-9))
    kind = rng.integers(4)
    exponent = rng.uniform(660, 700) if kind == 3 else log_spread(rng, 1e-3, 700)
    n = exponent / -np.log1p(-tau) if tau < 1 and kind > 1 else log_spread(rng, 1, 1e12)
    most = 700 / -np.log1p(-tau) if tau < 1 else 1.0
    return float(max(2.0, np.floor(min(n, most, 1e12)))), mu, tau


def active(n: float, mu: float) -> Iterator[mpf]:
    """Eq. 7."""
    m = mpf(mu)
    yield 1 - m ** int(n) - (1 - m) ** int(n)


def tail_miss(n: float, mu: float, tau: float) -> Iterator[mpf]:
    """Lemma 3.1."""
    m, t = mpf(mu), mpf(tau)
    yield (1 - t) ** int(n) - (m - t) ** int(n) - (1 - m) ** int(n)


def log_tail_miss(n: float, mu: float, tau: float) -> Iterator[mpf]:
    """Its logarithm."""
    for value in tail_miss(n, mu, tau):
        yield mpmath.log(value) if value else mpf("-inf")


def conditional(n: float, mu: float, tau: float) -> Iterator[mpf]:
    """Lemma 3.1 over eq. 7."""
    for miss, active_ in zip(tail_miss(n, mu, tau), active(n, mu), strict=True):
        yield miss / active_ if active_ else mpf("nan")


def population(n: float, alpha: float, beta: float, fraction: float) -> Iterator[mpf]:
    """X = j of N correct is beta-binomial, and each correct rollout is outside E with chance 1 - r.

    Past N = 300 the closed form instead: E[(1 - r mu)^N] as its binomial series, less the two inactive chances.
    """
    size, a, b, kept = int(n), mpf(alpha), mpf(beta), 1 - mpf(fraction)
    if size > 300 and size * fraction < 100:
        yield population_series(size, a, b, mpf(fraction))
        return
    weight = mpmath.fprod((b + i) / (a + b + i) for i in range(size))
    total = mpf(0)
    for j in range(1, size):
        weight *= (size - j + 1) * (a + j - 1) * kept / (j * (b + size - j))
        total += weight
    yield total


def population_series(size: int, a: mpf, b: mpf, fraction: mpf) -> mpf:
    """2F1(-N, a; a + b; r) - (1 - r)^N B(a + N, b) / B(a, b) - B(a, b + N) / B(a, b); terms up to exp(N r) cancel."""
    with mpmath.workdps(mpmath.mp.dps + 40 + int(size * fraction)):
        term, total, j = mpf(1), mpf(1), 0
        while j < size and (j < size * fraction or abs(term) > mpf(10) ** -(mpmath.mp.dps - 10)):
            term *= -(size - j) * (a + j) / (a + b + j) * fraction / (j + 1)
            total, j = total + term, j + 1
        unsolved = [mpmath.loggamma(x + size) - mpmath.loggamma(x) for x in (a, b, a + b)]
        solved_chance, failed_chance = (mpmath.exp(x - unsolved[2]) for x in unsolved[:2])
        return total - (1 - fraction) ** size * solved_chance - failed_chance


def _population(rng: np.random.Generator) -> Row:
    fraction = min(1.0, spread_probability(rng, 1e-9))
    if rng.random() < 0.4:
        n = float(round(log_spread(rng, 301, 1e12)))
        return n, log_spread(rng, 1e-3, 1e5), log_spread(rng, 1e-3, 1e5), log_spread(rng, 1e-3, 60) / n
    return float(round(log_spread(rng, 1, 300))), log_spread(rng, 1e-6, 1e8), log_spread(rng, 1e-6, 1e8), fraction


def magnitudes(mu: float, gamma: float) -> Iterator[mpf]:
    """Figure 4, from g A with the population std."""
    m, g = mpf(mu), (1 - mpf(mu)) ** mpf(gamma)
    yield g * (1 - m) / mpmath.sqrt(m * (1 - m))
    yield g * m / mpmath.sqrt(m * (1 - m))


def advantages(n: int, k: int, ddof: int, eps: float, gap: float) -> tuple[mpf, mpf]:
    """(A+, |A-|) of eq. 3 for k rewards of `gap` and n - k of 0."""
    if k in (0, n):
        return mpf(0), mpf(0)
    mean = mpf(gap) * k / n
    squares = k * (mpf(gap) - mean) ** 2 + (n - k) * mean**2
    std = mpmath.sqrt(squares / (n - ddof))
    return (mpf(gap) - mean) / (std + mpf(eps)), mean / (std + mpf(eps))


def _magnitudes(rng: np.random.Generator) -> Row:
    mu = spread_probability(rng) if rng.random() < 0.8 else log_spread(rng, 1e-300, 1e-15)
    return mu, float(rng.choice([0.0, 0.5, 1.0, rng.uniform(0, 19)]))


def group_magnitudes(n: float, k: float, gamma: float, ddof: int, eps: float, gap: float) -> Iterator[mpf]:
    """Eqs. 3, 12 and 13 at finite N."""
    g = (1 - mpf(k) / mpf(n)) ** mpf(gamma) if k < n or gamma else mpf(1)
    for magnitude in advantages(int(n), int(k), ddof, eps, gap):
        yield g * magnitude


def update_scale(n: float, mu: float, gamma: float, ddof: int, eps: float, gap: float) -> Iterator[mpf]:
    """E[g |A|] as the sum over X of binomial chances, from the likelier end; ends where terms fall below 1e-60."""
    size, m, total = int(n), mpf(mu), mpf(0)
    counts = range(1, size) if mu < 0.5 else range(size - 1, 0, -1)
    for k in counts if 0 < m < 1 else ():
        plus, minus = advantages(size, k, ddof, eps, gap)
        chance = mpmath.binomial(size, k) * m**k * (1 - m) ** (size - k)
        term = chance * (1 - mpf(k) / size) ** mpf(gamma) * (k * plus + (size - k) * minus) / size
        total += term
        if term < total * mpf(10) ** -60 and abs(k - size * m) > 10 + abs(counts[0] - size * m):
            break
    yield total


def multiplier(gamma: float) -> Iterator[mpf]:
    """Appendix N, as the quotient of beta functions."""
    yield mpmath.beta(mpf(1.5), mpf(gamma) + mpf(1.5)) / mpmath.beta(mpf(1.5), mpf(1.5))


def _spread_group(rng: np.random.Generator) -> Row:
    n = round(log_spread(rng, 2, 1e12))
    k = min(n, round(log_spread(rng, 0.5, n + 1.0)))
    k = n - k if rng.random() < 0.5 else k
    return float(n), float(k), *_convention(rng)


def _convention(rng: np.random.Generator) -> Row:
    """(gamma, ddof, eps, reward gap)."""
    gamma = float(rng.choice([0.0, 0.5, 1.0, 2.0, rng.uniform(0, 8)]))
    return gamma, int(rng.integers(2)), float(rng.choice([0.0, 1e-6, 1e-4])), float(rng.choice([1.0, 2.0]))


def _by_keyword(law: Callable[..., Any]) -> Callable[..., Any]:
    return lambda n, x, gamma, ddof, eps, gap: np.atleast_1d(law(n, x, gamma, ddof=ddof, eps=eps, reward_gap=gap))


_EDGE = 1 - 1e-15
_GROUPS = (
    (1.0, 0.3),
    (2.0, 0.3),
    (1e9, 1e-9),
    (1e12, 1e-15),
    (1e12, _EDGE),
    (8.0, 0.0),
    (8.0, 1.0),
    (2.0, 1e-300),
    (1e9, 1e-309),
    (1e12, 1e-300),
    (2.0, 0.5),
    (2.0, _EDGE),
)
_TAILS = (
    (1.0, 0.3, 0.03),
    (2.0, 0.3, 0.03),
    (1e9, 0.3, 3e-10),
    (1e12, 1e-3, 1e-12),
    (8.0, 1.0, 0.1),
    (8.0, 0.3, 0.3),
    (8.0, 0.3, 3e-10),
    (8.0, 1e-15, 1e-15),
    (2.0, 1e-15, 1e-24),
    (1e12, _EDGE, 1e-15),
    (1e9, _EDGE, 1e-9),
    (2.0, _EDGE, 0.5),
    (2.0, 1e-300, 5e-301),
    (1e12, 1e-300, 1e-309),
    (6.5e9, 0.5, 1.06e-7),
    (689.0, 0.999, 0.632),
    (1.0, 1.0, 1.0),
    (3.0, 1.0, 1.0),
    (7e14, 1e-12, 1e-12 * (1 - 1e-9)),
    (1000.0, 0.5, np.nextafter(0.5, 0)),
)

ORACLES = [
    Oracle("active_probability", vectorised(active_probability), active, _group, _GROUPS),
    Oracle("tail_miss_probability", vectorised(tail_miss_probability), tail_miss, _tail, _TAILS),
    Oracle("log_tail_miss_probability", vectorised(log_tail_miss_probability), log_tail_miss, _tail, _TAILS),
    Oracle(
        "conditional_tail_miss_probability", vectorised(conditional_tail_miss_probability), conditional, _tail, _TAILS
    ),
    Oracle(
        "population_tail_miss_probability",
        vectorised(population_tail_miss_probability),
        population,
        _population,
        (
            (1.0, 2.0, 3.0, 0.1),
            (2.0, 1e-6, 1e-6, 1e-9),
            (8.0, 1.0, 1.0, 1.0),
            (2000.0, 0.5, 0.5, 0.01),
            (2000.0, 1e8, 1e8, 0.5),
            (2.0, 1e-6, 1e8, 0.5),
            (2.0, 1e8, 1e-6, 0.5),
            (2000.0, 1.0, 1e8, 1e-9),
            (1e9, 0.3, 4.0, 1e-9),
            (1e12, 0.5, 0.5, 1e-11),
        ),
        default=150,
    ),
    Oracle(
        "advantage_magnitudes",
        one_by_one(advantage_magnitudes),
        magnitudes,
        _magnitudes,
        ((1e-300, 0.0), (_EDGE, 20.0), (0.5, 0.5), (_EDGE, 0.0)),
    ),
    Oracle(
        "group_advantage_magnitudes",
        one_by_one(_by_keyword(group_advantage_magnitudes)),
        group_magnitudes,
        _spread_group,
        (
            (2.0, 1.0, 0.0, 1, 0.0, 1.0),
            (4.0, 0.0, 0.0, 1, 0.0, 1.0),
            (4.0, 4.0, 0.0, 0, 0.0, 1.0),
            (1e12, 1.0, 2.0, 1, 1e-4, 2.0),
        ),
    ),
    Oracle(
        "expected_update_scale",
        one_by_one(_by_keyword(expected_update_scale)),
        update_scale,
        lambda rng: (float(round(log_spread(rng, 2, 200))), spread_probability(rng), *_convention(rng)),
        (
            (2.0, 0.0, 0.0, 1, 0.0, 1.0),
            (8.0, 1.0, 0.0, 1, 0.0, 1.0),
            (2.0, 1e-300, 1.0, 1, 0.0, 1.0),
            (300.0, 0.3, 0.5, 0, 1e-6, 1.0),
            (1e5, 1 - 1e-5, 2.0, 1, 0.0, 1.0),
            (1e9, 1e-9, 1.0, 1, 0.0, 1.0),
            (1e9, 1 - 1e-9, 2.5, 0, 0.0, 1.0),
        ),
        default=300,
    ),
    Oracle(
        "learning_rate_multiplier",
        vectorised(learning_rate_multiplier),
        multiplier,
        lambda rng: (float(log_spread(rng, 1e-6, 1e8)),),
        ((0.0,), (0.5,), (1.0,), (20.0,), (float(np.nextafter(20, 0)),), (1e8,)),
    ),
]
