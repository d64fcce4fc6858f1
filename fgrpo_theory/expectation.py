"""The exact expectation, over the sampling of a group, of what one update does (Lemma H.1; the rest is ours).

Given X = k, the k correct draws are i.i.d. from q_i = p_i / Q_pos and the N - k wrong ones from p_i / Q_neg, independently.
So with hit(x, k) = 1 - (1 - x)^k, and i, j two different correct actions,

    Pr(i sampled | k) = hit(q_i, k),   Pr(i not sampled, j sampled | k) = (1 - q_i)^k hit(q_j / (1 - q_i), k),

positive products in which nothing cancels. Eqs. 17 and 10 need no more than that, because the terms in S_R A2, S_R B2
collapse (T_pos, T_neg, T2: sums of p^2 over all correct, all wrong, all actions):

    dQ_pos   = (eta/N) g [ R_c Q_neg A2 - R_w Q_pos B2 + S_R (Q_pos T_neg - Q_neg T_pos) ]
    dQ_u,pos = (eta/N) g [ -S_R U_pos2 - Q_u,pos (R_c A2 + R_w B2 - S_R T2) ].

For the ratio surrogate both expectations are tilted binomial means, with Y ~ Binomial(N - 2, m) and H(m) = E[g(Y+1) / spread(Y+1)]:

    E dQ_pos   = eta D (1 - 1/N) H(Q_pos) [Q_neg^2 T_pos + Q_pos^2 T_neg],                      D = R_c - R_w: never negative
    E dQ_u,pos = -eta D (1 - 1/N) sum_i p_i (1 - p_i)^(N-2) H((Q_pos - p_i) / (1 - p_i)) [Q_neg T_pos^-i - (Q_pos - p_i) T_neg],

T_pos^-i being T_pos without p_i^2. Actions of equal probability and correctness are one class with a size, so that
128,000 actions in 3 classes take milliseconds. All functions but the last two return Fractions if given Fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any, Unpack

import numpy as np

from .binomial import binomial_weights
from .foundation.checks import ArrayLike, BoolArray, FloatArray, as_whole, require
from .policy import LawOptions, Numbers, Options, as_fractions, as_group_size, as_options, as_policy, takes_options

# Counts k times pairs of classes that are held at a time: 32 MiB of float64.
_BLOCK = 2**22


@dataclass(frozen=True)
class Side:
    """The classes of one side, correct or wrong, that have any probability."""

    p: Numbers
    """Probability of one action of each class."""
    size: Numbers
    """Actions in each class."""
    mass: Any
    """Their total probability."""
    second: Any
    """Sum of p^2 over their actions."""
    rest: Numbers
    """For each class: the side's mass without one action of it, summed, never subtracted."""
    second_rest: Numbers
    """For each class: the side's sum of p^2 without one action of it."""

    @property
    def q(self) -> Numbers:
        """Probability of one action given this side."""
        return np.asarray(self.p / self.mass)

    def missed(self, k: Numbers) -> Numbers:
        """ "count class": chance that a given action is not among k draws from this side."""
        return _power(self.q, self.rest / self.mass, k)

    def sampled(self, k: Numbers) -> Numbers:
        """ "count class": chance that a given action is among k draws from this side."""
        return _hit(self.q, self.rest / self.mass, k)


def expected_unsampled_correct_mass(
    p: ArrayLike, is_correct: ArrayLike, group_size: int, *, size: ArrayLike | None = None
) -> Any:
    """E[Q_u,pos] = sum over correct actions of p (1 - p)^N (BroRL, Lemma 2).

    p: "action" (or one action's, of each class, with `size` actions each); sums to 1. group_size: N >= 1. Raises ValueError.

    >>> expected_unsampled_correct_mass([0.5, 0.25, 0.25], [True, True, False], 2)
    0.265625
    """
    p_, correct, sizes = as_policy(p, is_correct, size)
    n = as_group_size(group_size)
    right = _side(p_, sizes, correct)
    return _plain((right.size * right.p * _power(right.p, 1 - right.p, _counts(n, n, p_))[0]).sum(), p_)


def expected_sampled_mass(
    p: ArrayLike, is_correct: ArrayLike, group_size: int, correct: ArrayLike, *, size: ArrayLike | None = None
) -> tuple[Numbers, Numbers]:
    """(E[P_pos | X = k], E[P_neg | X = k]), Lemma H.1: the first never falls in k, the second never rises.

    p, is_correct, size: as above. group_size: N. correct: whole k in [0, N], "count". Each result is "count"; NaN where X = k is
    impossible (k > 0 without correct mass, k < N without wrong mass). Raises ValueError.

    >>> [x.tolist() for x in expected_sampled_mass([0.5, 0.25, 0.25], [True, True, False], 2, [0, 2])]
    [[0.0, 0.5833333333333334], [0.25, 0.0]]
    """
    p_, is_right, sizes = as_policy(p, is_correct, size)
    n, k = as_group_size(group_size), as_whole("correct", correct, least=0)
    require(k <= n, "correct must be at most group_size", correct=k, group_size=n)
    flat = k.reshape(-1)
    counts = as_fractions(flat) if p_.dtype == object else flat
    masses = []
    for side, draws in ((_side(p_, sizes, is_right), counts), (_side(p_, sizes, ~is_right), n - counts)):
        mass = (side.size * side.p * side.sampled(draws)).sum(-1) if side.p.size else np.where(draws > 0, np.nan, 0.0)
        masses.append(np.asarray(mass).reshape(k.shape)[()])
    return masses[0], masses[1]


def expected_baseline(
    p: ArrayLike,
    is_correct: ArrayLike,
    group_size: int,
    correct: ArrayLike,
    *,
    size: ArrayLike | None = None,
    reward_correct: float = 1.0,
    reward_wrong: float = -1.0,
) -> Numbers:
    """E[S_R | X = k] = R_c E[P_pos | k] + R_w E[P_neg | k], Corollary H.2: never falls in k if R_c >= 0 >= R_w.

    The paper asks for R_w <= 0 alone, with R_c > 0 understood: with rewards -1 and -2 the statement is false (N = 2, one
    correct and one wrong action of probability 1/2: it falls by 1/2 from k = 0 to k = 1).

    Arguments and errors as for `expected_sampled_mass`.

    >>> expected_baseline([0.5, 0.25, 0.25], [True, True, False], 2, [0, 2]).round(6)
    array([-0.25    ,  0.583333])
    """
    require(
        reward_correct > reward_wrong,
        "reward_correct must be greater than reward_wrong",
        reward_correct=reward_correct,
        reward_wrong=reward_wrong,
    )
    pos, neg = expected_sampled_mass(p, is_correct, group_size, correct, size=size)
    return np.asarray(reward_correct * pos + reward_wrong * neg)[()]


@takes_options
def expected_mass_changes(
    class_probability: ArrayLike,
    class_size: ArrayLike,
    class_is_correct: ArrayLike,
    group_size: int,
    **options: Unpack[LawOptions],
) -> tuple[Any, Any]:
    """(E[dQ_pos], E[dQ_u,pos]) over the draw of a group of N rollouts: exact, no simulation (ours).

    class_probability: "class", probability of *one* action of each class. class_size: "class", actions in it.
    class_is_correct: "class" booleans. group_size: N >= 1. gamma >= 0: focal exponent. The results contain eta/N.
    Cost: "ratio" O(classes) for gamma 0 and 1, else times sqrt(N); "probability" O(sqrt(N) classes^2).
    Error: at most 1e-12 of the sum of the terms' sizes (the terms of dQ_u,pos differ in sign and may cancel). Each term is
    accurate to 1e-12 of itself. Raises ValueError.

    >>> pos, u_pos = expected_mass_changes([0.3, 0.05, 0.01], [1, 4, 50], [True, True, False], 8, surrogate="ratio")
    >>> round(pos, 6), round(u_pos, 6)
    (0.045938, -0.012211)
    """
    right, wrong, n, o = _prepare(class_probability, class_size, class_is_correct, group_size, **options)
    law = _ratio_law if o.surrogate == "ratio" else _probability_law
    total, unsampled = law(right, wrong, n, o)
    return _plain(total, right.p), _plain(unsampled, right.p)


def _ratio_law(right: Side, wrong: Side, n: int, o: Options) -> tuple[Any, Any]:
    if n == 1 or not right.p.size or not wrong.p.size:
        return 0 * right.mass, 0 * right.mass
    factor = o.learning_rate * o.gap * (n - 1) / n
    mean = _tilted_mean(np.array([right.mass]), wrong.mass, n, o)[0]
    total = mean * (wrong.mass**2 * right.second + right.mass**2 * wrong.second)
    alone = _power(right.p, right.rest + wrong.mass, _counts(n - 2, n - 2, right.p))[0]
    drift = wrong.mass * right.second_rest - right.rest * wrong.second
    unsampled = (right.size * right.p * alone * _tilted_mean(right.rest, wrong.mass, n, o) * drift).sum()
    return factor * total, -factor * unsampled


def _tilted_mean(correct_mass: Numbers, wrong_mass: Any, n: int, o: Options) -> Numbers:
    """H, "class": E[g(Y + 1) / spread(Y + 1)] for Y ~ Binomial(N - 2, correct_mass / (correct_mass + wrong_mass))."""
    m, not_m = correct_mass / (correct_mass + wrong_mass), wrong_mass / (correct_mass + wrong_mass)
    if not o.std_scaled and o.gamma == 0:
        return np.asarray(1 + 0 * m)
    if not o.std_scaled and o.gamma == 1:
        return np.asarray((1 + (n - 2) * not_m) / n)
    size = Fraction(n) if o.exact else n
    means = []
    for chance, rest in zip(m, not_m, strict=True):
        first, weights = _weights(n - 2, chance, rest, o.exact)
        k = _counts(first + 1, first + len(weights), weights)
        means.append((weights * o.weight(size, k) / o.spread(size, k)).sum())
    return np.array(means)


def _probability_law(right: Side, wrong: Side, n: int, o: Options) -> tuple[Any, Any]:
    zero = 0 * (right.mass + wrong.mass)
    bias = right.mass * wrong.second - wrong.mass * right.second
    linear = direct = coupling = zero
    first, pmf = _weights(n, right.mass, wrong.mass, o.exact)
    for k, weight in _blocks(first, pmf, right.p.size):
        w = weight * o.weight(Fraction(n) if o.exact else n, k)
        hit_pos, hit_neg, missed = right.sampled(k), wrong.sampled(n - k), right.missed(k)
        p_pos, a2 = _sums(right, hit_pos)
        p_neg, b2 = _sums(wrong, hit_neg)
        q_u, u_pos2 = _sums(right, missed)
        linear += (
            w
            * (o.reward_correct * (wrong.mass * a2 + bias * p_pos) + o.reward_wrong * (bias * p_neg - right.mass * b2))
        ).sum()
        # i not sampled, j sampled, both correct: E[Q_u P_pos], E[Q_u A2] and E[U_pos2 P_pos] are its three weightings.
        pairs = _unsampled_and_sampled(right, k, missed)
        mass = right.p
        cross = [(w * (pairs * mass[:, None] ** i * mass**j).sum((1, 2))).sum() for i, j in ((1, 1), (1, 2), (2, 1))]
        direct -= o.reward_correct * cross[2] + o.reward_wrong * (w * p_neg * u_pos2).sum()
        coupling -= o.reward_correct * (cross[1] - (right.second + wrong.second) * cross[0])
        coupling -= o.reward_wrong * (w * q_u * (b2 - (right.second + wrong.second) * p_neg)).sum()
    per_rollout = o.learning_rate / n
    return per_rollout * linear, per_rollout * (direct + coupling)


def _unsampled_and_sampled(side: Side, k: Numbers, missed: Numbers) -> Numbers:
    """ "count i j": expected number of pairs (action of class i not sampled, another one of class j sampled)."""
    others = side.size[:, None] * (side.size - _identity(side))
    rest = side.rest[:, None] + 0 * side.p
    # Without another action no pair exists; 1 keeps the division defined.
    share = np.where(others > 0, side.p / np.where(rest > 0, rest, 1), 0)
    share = share if side.p.dtype == object else np.minimum(share, 1.0)
    chance = _hit(share.reshape(-1), 1 - share.reshape(-1), k).reshape(len(k), *share.shape)
    return np.asarray(others * missed[:, :, None] * chance)


def _identity(side: Side) -> Numbers:
    return np.eye(side.p.size, dtype=int).astype(side.p.dtype)


def _sums(side: Side, chance: Numbers) -> tuple[Numbers, Numbers]:
    """("count", "count"): sums of p and of p^2 over actions, each with its chance ("count class")."""
    return (side.size * side.p * chance).sum(-1), (side.size * side.p**2 * chance).sum(-1)


def _prepare(
    class_probability: ArrayLike,
    class_size: ArrayLike,
    class_is_correct: ArrayLike,
    group_size: int,
    **options: Unpack[LawOptions],
) -> tuple[Side, Side, int, Options]:
    p, correct, size = as_policy(
        class_probability, class_is_correct, class_size, name="class_probability", size_name="class_size"
    )
    checked = as_options(p.dtype == object, **options)
    return _side(p, size, correct), _side(p, size, ~correct), as_group_size(group_size), checked


def _side(p: Numbers, size: Numbers, inside: BoolArray) -> Side:
    inside = inside & (p > 0)
    p, size = p[inside], size[inside]
    mass, second = size * p, size * p * p
    return Side(
        p,
        size,
        _plain(mass.sum(), p),
        _plain(second.sum(), p),
        _without_one(mass, p, size),
        _without_one(second, p * p, size),
    )


def _without_one(total: Numbers, one: Numbers, size: Numbers) -> Numbers:
    """For each class the sum over all classes less one action of it, from sums before and after: nothing is subtracted."""
    before = np.concatenate([[0 * one.sum()], np.cumsum(total)[:-1]]) if total.size else total
    after = np.concatenate([np.cumsum(total[::-1])[::-1][1:], [0 * one.sum()]]) if total.size else total
    return np.asarray(before + (size - 1) * one + after)


def _weights(n: int, m: Any, not_m: Any, exact: bool) -> tuple[int, Numbers]:
    """Binomial(n, m) as (first count, weights)."""
    if exact:
        return 0, np.array(
            [comb(n, k) * Fraction(m) ** k * Fraction(not_m) ** (n - k) for k in range(n + 1)], dtype=object
        )
    return float_weights(n, float(m), float(not_m))


def float_weights(n: int, m: float, not_m: float) -> tuple[int, FloatArray]:
    """Binomial(n, m / (m + not_m)) as (first count, weights), from the rarer outcome: 1 - m would lose its digits."""
    if n == 0:
        return 0, np.ones(1)
    first, weights = binomial_weights(n, min(m, not_m) / (m + not_m))
    return (first, weights) if m <= not_m else (n - first - weights.size + 1, weights[::-1])


def _counts(first: int, last: int, like: Numbers) -> Numbers:
    counts = np.arange(first, last + 1, dtype=np.float64)
    return as_fractions(counts) if like.dtype == object else counts


def _blocks(first: int, pmf: Numbers, classes: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Counts and their weights, few enough at a time for "count class class" arrays."""
    length = max(1, _BLOCK // max(1, classes) ** 2)
    for start in range(0, len(pmf), length):
        weights = pmf[start : start + length]
        yield _counts(first + start, first + start + len(weights) - 1, pmf), weights


def _power(x: Numbers, not_x: Numbers, k: Numbers) -> Numbers:
    """ "count x": (1 - x)^k, given both x and 1 - x; 0^0 = 1."""
    if x.dtype == object:
        return np.array([[(1 - value) ** int(count) for value in x] for count in k], dtype=object).reshape(
            len(k), len(x)
        )
    return np.where(k[:, None] == 0, 1.0, np.exp(np.maximum(k, 1.0)[:, None] * _log_not(x, not_x)))


def _hit(x: Numbers, not_x: Numbers, k: Numbers) -> Numbers:
    """ "count x": 1 - (1 - x)^k; exactly 0 for k = 0."""
    if x.dtype == object:
        return 1 - _power(x, not_x, k)
    return np.where(k[:, None] == 0, 0.0, -np.expm1(np.maximum(k, 1.0)[:, None] * _log_not(x, not_x)))


def _log_not(x: Numbers, not_x: Numbers) -> Numbers:
    """log(1 - x), from whichever of x and 1 - x is the smaller."""
    with np.errstate(divide="ignore"):
        return np.where(x < 0.5, np.log1p(-np.minimum(x, 0.5)), np.log(not_x))


def _plain(value: Any, like: Numbers) -> Any:
    """A Python float, or a Fraction if `like` holds them (an empty sum of them is an int)."""
    return Fraction(value) if like.dtype == object else float(value)
