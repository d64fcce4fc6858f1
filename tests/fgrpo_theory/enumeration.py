"""All sequences of N draws from a small policy, with exact chances: expectations and variances straight from definitions.

One update is eq. 5 (or the ratio update) typed action by action, then eq. 18; masses are summed over sets of actions. No
moment, class, inclusion-exclusion or code of `fgrpo_theory` enters. Fractions throughout, except that a gamma that is not
whole, or a std, makes floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, NamedTuple

Number = Any


class Policy(NamedTuple):
    """A categorical policy, an entry an action."""

    p: tuple[Fraction, ...]
    correct: tuple[bool, ...]


class Rule(NamedTuple):
    """How the logits are stepped."""

    surrogate: str = "probability"
    gamma: Number = 0
    good: Fraction = Fraction(1)
    bad: Fraction = Fraction(-1)
    eta: Fraction = Fraction(1)
    ddof: int | None = None
    """Of the std that the rewards are divided by; None: not divided."""
    eps: float = 0.0


def sequences(policy: Policy, size: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every sequence of `size` drawn actions with its chance."""
    for drawn in product(range(len(policy.p)), repeat=size):
        yield drawn, prod((policy.p[i] for i in drawn), start=Fraction(1))


def expectation(policy: Policy, size: int, value: Callable[[tuple[int, ...]], Number]) -> Number:
    """The mean of value(drawn actions)."""
    return sum(chance * value(drawn) for drawn, chance in sequences(policy, size) if chance)


def variance(policy: Policy, size: int, value: Callable[[tuple[int, ...]], Number]) -> Number:
    """The variance of value(drawn actions)."""
    mean = expectation(policy, size, value)
    return expectation(policy, size, lambda drawn: (value(drawn) - mean) ** 2)


def given_correct(policy: Policy, size: int, correct: int, value: Callable[[tuple[int, ...]], Number]) -> Number:
    """The mean given that so many of the draws are correct; None if that cannot be."""
    inside = [(d, c) for d, c in sequences(policy, size) if c and successes(policy, d) == correct]
    total = sum(c for _, c in inside)
    return sum(c * value(d) for d, c in inside) / total if total else None


def successes(policy: Policy, drawn: Sequence[int]) -> int:
    """X."""
    return sum(policy.correct[i] for i in drawn)


def counts(policy: Policy, drawn: Sequence[int]) -> list[int]:
    """How often each action was drawn."""
    return [drawn.count(i) for i in range(len(policy.p))]


def logit_changes(policy: Policy, drawn: tuple[int, ...], rule: Rule) -> list[Number]:
    """dz of eq. 5, or of the ratio surrogate."""
    size = len(drawn)
    reward = [rule.good if c else rule.bad for c in policy.correct]
    weight = Fraction(size - successes(policy, drawn), size) ** rule.gamma * rule.eta / size
    if rule.surrogate == "probability":
        baseline = sum(reward[i] * policy.p[i] for i in set(drawn))
        return [weight * p * ((reward[i] if i in drawn else 0) - baseline) for i, p in enumerate(policy.p)]
    mean = sum((reward[i] for i in drawn), start=Fraction(0)) / size
    spread: Number = 1
    if rule.ddof is not None:
        squares = sum((reward[i] - mean) ** 2 for i in drawn)
        spread = (float(squares) / (size - rule.ddof)) ** 0.5 + rule.eps if squares else 1
    return [weight * n * (reward[i] - mean) / spread for i, n in enumerate(counts(policy, drawn))]


def probability_changes(policy: Policy, dz: Sequence[Number]) -> list[Number]:
    """dp of eq. 18."""
    pull = sum(p * d for p, d in zip(policy.p, dz, strict=True))
    return [p * (d - pull) for p, d in zip(policy.p, dz, strict=True)]


def correct_change(policy: Policy, drawn: tuple[int, ...], rule: Rule) -> Number:
    """dQ_pos: dp summed over the correct actions."""
    dp = probability_changes(policy, logit_changes(policy, drawn, rule))
    return sum((d for d, c in zip(dp, policy.correct, strict=True) if c), start=Fraction(0))


def unsampled_change(policy: Policy, drawn: tuple[int, ...], rule: Rule) -> Number:
    """dQ_u,pos: dp summed over the correct actions that were not drawn."""
    dp = probability_changes(policy, logit_changes(policy, drawn, rule))
    return sum((d for i, d in enumerate(dp) if policy.correct[i] and i not in drawn), start=Fraction(0))


def mass(policy: Policy, chosen: Callable[[int], bool]) -> Fraction:
    """Total probability of the chosen actions."""
    return sum((p for i, p in enumerate(policy.p) if chosen(i)), start=Fraction(0))


def sampled_mass(policy: Policy, drawn: tuple[int, ...], correct: bool) -> Fraction:
    """P_pos or P_neg."""
    return mass(policy, lambda i: i in drawn and policy.correct[i] == correct)


def unsampled_correct_mass(policy: Policy, drawn: tuple[int, ...]) -> Fraction:
    """Q_u,pos."""
    return mass(policy, lambda i: i not in drawn and policy.correct[i])


def tail_missed(policy: Policy, drawn: tuple[int, ...], rare: frozenset[int]) -> int:
    """1 if the group is active and no draw is in the rare-correct subset."""
    return int(0 < successes(policy, drawn) < len(drawn) and not rare & set(drawn))


def policy(weights: Sequence[int], correct: str) -> Policy:
    """Whole weights, normalised; `correct` has a + for each correct action."""
    return Policy(tuple(Fraction(w, sum(weights)) for w in weights), tuple(sign == "+" for sign in correct))


# Corner cases first: one action, all correct, all wrong, an action without probability, one that dominates, two alike.
POLICIES = [
    (policy([1], "+"), 3),
    (policy([1], "-"), 2),
    (policy([3, 4], "++"), 4),
    (policy([3, 4], "--"), 4),
    (policy([1, 1], "+-"), 5),
    (policy([1, 999], "+-"), 5),
    (policy([2, 0, 5], "++-"), 4),
    (policy([2, 0, 5], "+--"), 4),
    (policy([1000, 1, 2], "++-"), 4),
    (policy([1, 1, 1], "++-"), 1),
    (policy([3, 2, 2, 4], "+++-"), 4),
    (policy([5, 1, 7, 2], "+-+-"), 4),
    (policy([1, 2, 2, 2, 6], "+++--"), 3),
    (policy([8, 3, 1, 1, 5], "+-+-+"), 3),
    (policy([9, 4, 0, 4, 1], "+++--"), 3),
]
LARGE = (policy([6, 1, 3, 2, 4], "++-+-"), 5)
# 1/3 as the float that the laws are given.
REWARDS = [(1.0, -1.0), (1.0, 0.0), (2.0, 1 / 3), (-1.0, -2.0)]
RULES = [
    Rule(surrogate, gamma, Fraction(good), Fraction(bad), Fraction(1, 2))
    for surrogate in ("probability", "ratio")
    for gamma in (0, 1, 2)
    for good, bad in REWARDS
]
# Rules that need a root, so floats: a gamma between, and rewards scaled by their std.
FLOAT_RULES = [
    Rule(gamma=0.5),
    Rule("ratio", 0.5, bad=Fraction(0)),
    Rule("ratio", 0.5, ddof=0, eps=1e-3),
    Rule("ratio", 0, ddof=1),
    Rule("ratio", 2, Fraction(2), Fraction(1, 4), ddof=1, eps=1e-4),
]


def options(rule: Rule) -> dict[str, Any]:
    """The rule as keyword arguments of the laws."""
    return {
        "gamma": rule.gamma,
        "learning_rate": float(rule.eta),
        "reward_correct": float(rule.good),
        "reward_wrong": float(rule.bad),
        "surrogate": rule.surrogate,
        "std_scaled": rule.ddof is not None,
        "ddof": 1 if rule.ddof is None else rule.ddof,
        "eps": rule.eps,
    }
