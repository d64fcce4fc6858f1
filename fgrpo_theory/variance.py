"""The exact variance, over the sampling of a group, of what one update does (ours).

Both changes are split by X = k: the variance is the mean of the variances given k plus the variance of the means given k.
Given k, with the notation of `expectation`:

    ratio, dQ_pos:        V_pos and V_neg are sums of k and N - k i.i.d. terms p of independent draws
    ratio, dQ_u,pos:      given that actions i and j are not sampled, the k correct draws are i.i.d. from the others
    probability, dQ_pos:  linear in "action i was sampled", so covariances of pairs suffice:
                          (1 - q_i - q_j)^k - (1 - q_i)^k (1 - q_j)^k, without cancellation by expm1

    probability, dQ_u,pos: of degree two in the correct sampled set, so its whole law by `occupancy`; linear in the wrong one.

The last has a price: it is refused where the correct classes and N make too large a chain.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from .expectation import Side, _blocks, _log_not, _prepare, expected_mass_changes, float_weights
from .foundation.checks import ArrayLike, FloatArray, require
from .occupancy import chain
from .policy import LawOptions, Options, takes_options


@takes_options
def total_mass_change_variance(
    class_probability: ArrayLike,
    class_size: ArrayLike,
    class_is_correct: ArrayLike,
    group_size: int,
    **options: Unpack[LawOptions],
) -> float:
    """Var[dQ_pos] over the draw of a group. Arguments and errors as for `expected_mass_changes`; float64 only.

    >>> round(total_mass_change_variance([0.5, 0.5], [1, 1], [True, False], 2, surrogate="ratio"), 6)
    0.015625
    """
    right, wrong, n, o = _prepare(class_probability, class_size, class_is_correct, group_size, **options)
    require(not o.exact, "class_probability must be floats for a variance", dtype=right.p.dtype)
    law = _ratio_total if o.surrogate == "ratio" else _probability_total
    return _total_variance(law(right, wrong, n, o))


@takes_options
def unsampled_mass_change_variance(
    class_probability: ArrayLike,
    class_size: ArrayLike,
    class_is_correct: ArrayLike,
    group_size: int,
    **options: Unpack[LawOptions],
) -> float:
    """Var[dQ_u,pos] over the draw of a group. Arguments and errors as above.

    "probability" also raises ValueError if the chain of the correct classes is too large (see `occupancy`): with one action and
    one large class it goes to N = 5792, with six large classes to N = 17.

    >>> round(unsampled_mass_change_variance([0.25, 0.25, 0.5], [1, 1, 1], [True, True, False], 2, surrogate="ratio"), 6)
    0.000244
    """
    right, wrong, n, o = _prepare(class_probability, class_size, class_is_correct, group_size, **options)
    require(not o.exact, "class_probability must be floats for a variance", dtype=right.p.dtype)
    if not right.p.size or (o.surrogate == "ratio" and (n == 1 or not wrong.p.size)):
        return 0.0
    mean = float(expected_mass_changes(class_probability, class_size, class_is_correct, n, **options)[1])
    if o.surrogate == "probability":
        return _unsampled_probability(right, wrong, n, o, mean)
    second = sum(
        float((w * _unsampled_square(right, wrong, n, k, o)).sum()) for k, w in _active_blocks(right, wrong, n)
    )
    return max(second - mean**2, 0.0)


@dataclass(frozen=True)
class _GivenCount:
    """Mean and variance of a change given X = k, and the weight of each k."""

    weight: FloatArray
    mean: FloatArray
    variance: FloatArray


def _total_variance(parts: list[_GivenCount]) -> float:
    if not parts:
        return 0.0
    weight, mean, variance = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("weight", "mean", "variance")
    )
    centre = (weight * mean).sum() / weight.sum()
    return float((weight * (variance + (mean - centre) ** 2)).sum())


def _active_blocks(right: Side, wrong: Side, n: int) -> list[tuple[FloatArray, FloatArray]]:
    first, pmf = float_weights(n, float(right.mass), float(wrong.mass))
    return list(_blocks(first, pmf, right.p.size + wrong.p.size))


def _step(n: int, k: FloatArray, o: Options) -> FloatArray:
    """(eta / N) g D / spread at X = k, 0 in an inactive group."""
    active = (k > 0) & (k < n)
    inside = np.where(active, k, 1.0)
    return np.where(active, o.learning_rate / n * o.gap * o.weight(n, inside) / o.spread(max(n, 2), inside), 0.0)


def _draw(side: Side) -> tuple[float, float]:
    """Mean and variance of p of one draw from this side."""
    mean = side.second / side.mass
    return float(mean), float((side.size * side.q * (side.p - mean) ** 2).sum())


def _ratio_total(right: Side, wrong: Side, n: int, o: Options) -> list[_GivenCount]:
    if n == 1 or not right.p.size or not wrong.p.size:
        return []
    (mean_pos, var_pos), (mean_neg, var_neg) = _draw(right), _draw(wrong)
    parts = []
    for k, weight in _active_blocks(right, wrong, n):
        step, up, down = _step(n, k, o), (1 - k / n) * wrong.mass, k / n * right.mass
        mean = step * (up * k * mean_pos + down * (n - k) * mean_neg)
        parts.append(_GivenCount(weight, mean, step**2 * (up**2 * k * var_pos + down**2 * (n - k) * var_neg)))
    return parts


def _probability_total(right: Side, wrong: Side, n: int, o: Options) -> list[_GivenCount]:
    bias = right.mass * wrong.second - wrong.mass * right.second
    worth_pos = o.reward_correct * (wrong.mass * right.p**2 + bias * right.p)
    worth_neg = o.reward_wrong * (bias * wrong.p - right.mass * wrong.p**2)
    parts = []
    for k, weight in _active_blocks(right, wrong, n):
        step = o.learning_rate / n * o.weight(n, k)
        mean_pos, var_pos = _linear(right, worth_pos, k)
        mean_neg, var_neg = _linear(wrong, worth_neg, n - k)
        parts.append(_GivenCount(weight, step * (mean_pos + mean_neg), step**2 * (var_pos + var_neg)))
    return parts


def _linear(side: Side, worth: FloatArray, k: FloatArray) -> tuple[FloatArray, FloatArray]:
    """("count", "count"): mean and variance of the sum of `worth` over the sampled actions of k draws."""
    return _mean(side, worth, k), _covariance(side, worth, worth, k)


def _mean(side: Side, worth: FloatArray, k: FloatArray) -> FloatArray:
    return np.asarray((side.size * worth * side.sampled(k)).sum(-1)) if side.p.size else np.zeros_like(k)


def _covariance(side: Side, one: FloatArray, two: FloatArray, k: FloatArray) -> FloatArray:
    """ "count": covariance of the sums of two worths over the sampled actions of k draws."""
    if not side.p.size:
        return np.zeros_like(k)
    hit, missed = side.sampled(k), side.missed(k)
    variance = (side.size * one * two * hit * missed).sum(-1)
    pairs = side.size[:, None] * (side.size - np.eye(side.p.size)) * one[:, None] * two
    # Both missed, over the product of the chances: (1 - q_i q_j / ((1 - q_i)(1 - q_j)))^k.
    left = side.rest / side.mass
    shared = np.divide(
        side.q[:, None] * side.q, left[:, None] * left, out=np.ones_like(pairs), where=left[:, None] * left > 0
    )
    log_ratio = _log_not(np.minimum(shared, 1.0), 1 - np.minimum(shared, 1.0))
    excess = np.where(k[:, None, None] == 0, 0.0, np.expm1(np.maximum(k, 1.0)[:, None, None] * log_ratio))
    together = missed[:, :, None] * missed[:, None, :] * excess
    return np.asarray(variance + (pairs * together).sum((1, 2)))


def _unsampled_probability(right: Side, wrong: Side, n: int, o: Options, centre: float) -> float:
    """Var[dQ_u,pos] of eq. 10: given the correct sampled set it is linear in P_neg and B2, with the wrong side's moments."""
    walk = chain(right.size, n)
    missed = right.size - walk.states
    p_pos, q_u, u_pos2 = walk.states @ right.p, missed @ right.p, missed @ right.p**2
    t2 = right.second + wrong.second
    plain = -o.reward_correct * (p_pos * u_pos2 + q_u * (walk.states @ (right.p * (right.p - t2))))
    by_mass, by_square = o.reward_wrong * (q_u * t2 - u_pos2), -o.reward_wrong * q_u
    total = 0.0
    laws = walk.laws(right.q, right.size, n)
    behind = 0
    for counts, weights in _active_blocks(right, wrong, n):
        p, square = wrong.p, wrong.p**2
        means = (_mean(wrong, x, n - counts) for x in (p, square))
        spreads = (_covariance(wrong, x, y, n - counts) for x, y in ((p, p), (p, square), (square, square)))
        for k, weight, m, b, mm, mb, bb in zip(counts, weights, *means, *spreads, strict=True):
            law = next(itertools.islice(laws, int(k) - behind, None))
            behind = int(k) + 1
            step = o.learning_rate / n * o.weight(n, k)
            about = step * (plain + by_mass * m + by_square * b) - centre
            spread = by_mass**2 * mm + 2 * by_mass * by_square * mb + by_square**2 * bb
            total += weight * (law @ (about**2 + step**2 * spread))
    return float(total)


def _unsampled_square(right: Side, wrong: Side, n: int, k: FloatArray, o: Options) -> FloatArray:
    """E[dQ_u,pos^2 | X = k]."""
    up, down = 1 - k / n, k / n
    mean_neg, var_neg = _draw(wrong)
    first_neg = (n - k) * mean_neg
    second_neg = (n - k) * var_neg + first_neg**2
    plain, with_v, with_v2 = _missed_pairs(right, k)
    square = up**2 * with_v2 - 2 * up * down * with_v * first_neg + down**2 * plain * second_neg
    return np.asarray(_step(n, k, o) ** 2 * square)


def _missed_pairs(side: Side, k: FloatArray) -> tuple[Any, Any, Any]:
    """ "count" each: E[Q_u^2], E[Q_u^2 V], E[Q_u^2 V^2] given k correct draws, as a sum over pairs of missed actions."""
    third = side.size * side.p**3
    third_rest = third.sum() - side.p**3
    same = (side.size, side.rest, side.second_rest, third_rest, side.p**2)
    different = (
        side.size[:, None] * (side.size - np.eye(side.p.size)),
        side.rest[:, None] - side.p,
        side.second_rest[:, None] - side.p**2,
        third_rest[:, None] - side.p**3,
        side.p[:, None] * side.p,
    )
    number, mass, second, cubes, product = (
        np.concatenate([one, two.ravel()]) for one, two in zip(same, different, strict=True)
    )
    # Where nothing is left to draw, a miss is impossible for k > 0; the moments given it do not matter.
    possible = (mass > 1e-15 * side.mass) & (number > 0)
    number, mass, second, cubes, product = (x[possible] for x in (number, mass, second, cubes, product))
    mean = second / mass
    spread = np.maximum(cubes / mass - mean**2, 0.0)
    chance = number * product * np.exp(k[:, None] * np.log(np.minimum(mass / side.mass, 1.0)))
    first = k[:, None] * mean
    return chance.sum(-1), (chance * first).sum(-1), (chance * (k[:, None] * spread + first**2)).sum(-1)
