"""Wrong laws of one update: eqs. 10 and 17 with a term dropped or turned, duplicates counted, weights misplaced.

Each is a wrong value for one group, averaged exactly over all groups of a small policy (`enumeration`); on the wide
policies the right law stays. Terms are those of section 3 of the paper: dQ_pos has one in A_2, one in B_2, two in U; dQ_u,pos
has the direct drift and three couplings. Other mistakes are made in dz and carried through eq. 19.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .cells import Cell, WrongLaw
from .enumeration import Groups, all_groups, is_small
from .scenarios import Policy, StepOptions

_TOTAL, _UNSAMPLED = 0, 1
_Value = Callable[[Groups, StepOptions], Any]


def weight(groups: Groups, o: StepOptions) -> Any:
    """(eta / N) g of each group."""
    return o.learning_rate / groups.size * (1 - groups.right / groups.size) ** o.gamma


def rewards(groups: Groups, o: StepOptions) -> Any:
    """ "action": R_c or R_w."""
    return np.where(groups.correct, o.reward_correct, o.reward_wrong)


def terms(groups: Groups, o: StepOptions) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The terms of eq. 17 and of eq. 10, without (eta / N) g."""
    p, pos, drawn = groups.p, groups.correct, groups.drawn
    square = p * p
    a2, b2 = drawn @ (square * pos), drawn @ (square * ~pos)
    u_pos2, u_neg2 = ~drawn @ (square * pos), ~drawn @ (square * ~pos)
    s, q_pos, q_u = drawn @ (p * rewards(groups, o)), float(p @ pos), ~drawn @ (p * pos)
    eq17 = {
        "A": (o.reward_correct - s) * (1 - q_pos) * a2,
        "B": (s - o.reward_wrong) * q_pos * b2,
        "U_neg": s * q_pos * u_neg2,
        "U_pos": -s * (1 - q_pos) * u_pos2,
    }
    eq10 = {
        "direct": -s * u_pos2,
        "A": -q_u * (o.reward_correct - s) * a2,
        "B": -q_u * (o.reward_wrong - s) * b2,
        "U": q_u * s * (u_pos2 + u_neg2),
    }
    return eq17, eq10


def with_factors(part: int, **factors: float) -> _Value:
    """Eq. 17 or 10 with some terms multiplied: 0 drops one, -1 turns its sign."""

    def value(groups: Groups, o: StepOptions) -> Any:
        return weight(groups, o) * sum(factors.get(name, 1.0) * term for name, term in terms(groups, o)[part].items())

    return value


def through_dz(part: int, update: _Value) -> _Value:
    """Eq. 19 with a wrong dz, "group action" without (eta / N) g."""

    def value(groups: Groups, o: StepOptions) -> Any:
        dz = weight(groups, o)[:, None] * update(groups, o)
        inside = groups.correct & (~groups.drawn if part == _UNSAMPLED else True)
        return (dz * inside) @ groups.p - (inside @ groups.p) * (dz @ groups.p)

    return value


def probability_dz(groups: Groups, o: StepOptions) -> Any:
    """Eq. 5 as it should be."""
    reward = rewards(groups, o)
    return groups.p * (groups.drawn * reward - (groups.drawn @ (groups.p * reward))[:, None])


def ratio_dz(groups: Groups, o: StepOptions, *, ddof: int | None = None, eps: float | None = None) -> Any:
    """The ratio surrogate as it should be, but for ddof and eps."""
    share = groups.right / groups.size
    centred = rewards(groups, o) - (share * o.reward_correct + (1 - share) * o.reward_wrong)[:, None]
    if not o.std_scaled:
        return groups.counts * centred
    ddof, eps = o.ddof if ddof is None else ddof, o.eps if eps is None else eps
    gap, active = o.reward_correct - o.reward_wrong, (share > 0) & (share < 1)
    spread = gap * np.sqrt(share * (1 - share) * groups.size / (groups.size - ddof)) + eps
    return np.where(active[:, None], groups.counts * centred / np.where(active, spread, 1.0)[:, None], 0.0)


def _baseline_of(groups: Groups, o: StepOptions, baseline: np.ndarray) -> Any:
    return groups.p * (groups.drawn * rewards(groups, o) - baseline[:, None])


def _duplicates(groups: Groups, o: StepOptions) -> Any:
    reward = rewards(groups, o)
    return groups.p * (groups.counts * reward - (groups.counts @ (groups.p * reward))[:, None])


_DZ_PROBABILITY: dict[str, tuple[str, _Value]] = {
    "duplicates": ("an action counts as often as it was drawn", _duplicates),
    "baseline-duplicates": (
        "S_R with multiplicities",
        lambda g, o: _baseline_of(g, o, g.counts @ (g.p * rewards(g, o))),
    ),
    "baseline-mean-reward": (
        "the mean reward in place of S_R",
        lambda g, o: _baseline_of(g, o, g.counts @ rewards(g, o) / g.size),
    ),
    "no-baseline": ("S_R left out", lambda g, o: _baseline_of(g, o, np.zeros(len(g.right)))),
    "no-extra-p": ("the ratio surrogate's update, not centred", lambda g, o: g.counts * rewards(g, o)),
}
_DZ_RATIO: dict[str, tuple[str, _Value]] = {
    "no-duplicates": (
        "an action counts once however often it was drawn",
        lambda g, o: ratio_dz(g, o) * g.drawn / np.maximum(g.counts, 1),
    ),
    "not-centred": ("raw rewards", lambda g, o: g.counts * rewards(g, o)),
    "centred-at-mu": (
        "centred at the policy's mean reward",
        lambda g, o: g.counts * (rewards(g, o) - g.p @ rewards(g, o)),
    ),
    "leave-one-out": ("the factor 1 - 1/N left out", lambda g, o: ratio_dz(g, o) * g.size / (g.size - 1)),
    "extra-p": ("the probability surrogate's factor p", lambda g, o: g.p * ratio_dz(g, o)),
}
_DZ_STD: dict[str, tuple[str, _Value]] = {
    "other-ddof": ("ddof 0 and 1 exchanged", lambda g, o: ratio_dz(g, o, ddof=1 - o.ddof)),
    "no-eps": ("eps left out", lambda g, o: ratio_dz(g, o, eps=0.0)),
    "no-std": ("not divided by the std", lambda g, o: ratio_dz(g, StepOptions(**{**vars(o), "std_scaled": False}))),
}
# Each gives (eta / N) g its wrong counterpart.
_WEIGHTS: dict[str, tuple[str, _Value]] = {
    "no-focal": ("focal weight left out", lambda g, o: np.full(len(g.right), o.learning_rate / g.size)),
    "gamma-plus-1": ("gamma + 1", lambda g, o: weight(g, o) * (1 - g.right / g.size)),
    "weight-at-mu": (
        "(1 - mu)^gamma in place of the group's own success rate",
        lambda g, o: np.full(len(g.right), o.learning_rate / g.size * (g.p @ ~g.correct) ** o.gamma),
    ),
    "weight-of-rate": ("(X / N)^gamma", lambda g, o: o.learning_rate / g.size * (g.right / g.size) ** o.gamma),
}
_TERMS: dict[int, dict[str, tuple[str, dict[str, float]]]] = {
    _TOTAL: {
        "no-A": ("without the sampled correct actions", {"A": 0.0}),
        "no-B": ("without the sampled wrong actions", {"B": 0.0}),
        "no-U": ("without the unsampled actions", {"U_neg": 0.0, "U_pos": 0.0}),
        "no-U-neg": ("without U_neg,2", {"U_neg": 0.0}),
        "no-U-pos": ("without U_pos,2", {"U_pos": 0.0}),
        "U-turned": ("sign of the unsampled terms", {"U_neg": -1.0, "U_pos": -1.0}),
    },
    _UNSAMPLED: {
        "no-direct": ("without the direct drift", {"direct": 0.0}),
        "direct-turned": ("sign of the direct drift", {"direct": -1.0}),
        "no-coupling": ("without the normalization coupling", {"A": 0.0, "B": 0.0, "U": 0.0}),
        "no-A": ("coupling without A_2", {"A": 0.0}),
        "no-B": ("coupling without B_2", {"B": 0.0}),
        "no-U": ("coupling without U_2", {"U": 0.0}),
        "U-turned": ("sign of U_2 in the coupling", {"U": -1.0}),
    },
}
_NAMES = {_TOTAL: "dQ_pos", _UNSAMPLED: "dQ_u,pos"}
# For the command line.
_SLUGS = {_TOTAL: "dq-pos", _UNSAMPLED: "dq-u-pos"}


def _averaged(value: _Value) -> Callable[..., float]:
    @cache
    def mean(policy: Policy, group_size: int, options: StepOptions) -> float:
        groups = all_groups(policy, group_size)
        return groups.mean(value(groups, options))

    return mean


def _small(cell: Cell) -> bool:
    return is_small(cell.given["policy"], cell.scenario.group_size)


def _law(
    part: int, surrogate: str, name: str, mistake: str, value: _Value, where: Callable[[StepOptions], bool]
) -> WrongLaw:
    return WrongLaw(
        f"{_SLUGS[part]}-{surrogate}-{name}",
        f"E[{_NAMES[part]}] {surrogate}",
        mistake,
        _averaged(value),
        applies=lambda cell: _small(cell) and where(cell.given["options"]),
    )


def _reweighted(part: int, surrogate: str, wrong: _Value) -> _Value:
    right = through_dz(part, probability_dz if surrogate == "probability" else ratio_dz)

    def value(groups: Groups, o: StepOptions) -> Any:
        plain = right(groups, StepOptions(**{**vars(o), "gamma": 0.0, "learning_rate": 1.0}))
        return plain * groups.size * wrong(groups, o)

    return value


def _means() -> list[WrongLaw]:
    laws = []
    for part in (_TOTAL, _UNSAMPLED):
        for name, (mistake, factors) in _TERMS[part].items():
            laws.append(_law(part, "probability", name, mistake, with_factors(part, **factors), lambda o: True))
        for surrogate, updates in (("probability", _DZ_PROBABILITY), ("ratio", _DZ_RATIO)):
            for name, (mistake, update) in updates.items():
                laws.append(_law(part, surrogate, name, mistake, through_dz(part, update), lambda o: not o.std_scaled))
            for name, (mistake, wrong) in _WEIGHTS.items():
                laws.append(
                    _law(part, surrogate, name, mistake, _reweighted(part, surrogate, wrong), lambda o: o.gamma > 0)
                )
        for name, (mistake, update) in _DZ_STD.items():
            laws.append(_law(part, "ratio", name, mistake, through_dz(part, update), lambda o: o.std_scaled))
    return laws


def _spread_law(
    part: int, surrogate: str, name: str, mistake: str, of: Callable[[Groups, np.ndarray], float]
) -> WrongLaw:
    right = through_dz(part, probability_dz if surrogate == "probability" else ratio_dz)

    @cache
    def value(policy: Policy, group_size: int, options: StepOptions) -> float:
        groups = all_groups(policy, group_size)
        return of(groups, right(groups, options))

    return WrongLaw(f"var-{_SLUGS[part]}-{surrogate}-{name}", f"Var[{_NAMES[part]}] {surrogate}", mistake, value)


def _variances() -> list[WrongLaw]:
    wrong = {
        "between": ("only the variance of the means given X", lambda g, v: g.spread(g.given_count(v)) ** 2),
        "within": (
            "only the mean of the variances given X",
            lambda g, v: g.spread(v) ** 2 - g.spread(g.given_count(v)) ** 2,
        ),
        "not-centred": ("the square of the mean not taken off", lambda g, v: g.mean(v**2)),
    }
    parts = ((_TOTAL, "probability"), (_TOTAL, "ratio"), (_UNSAMPLED, "ratio"))
    return [
        _spread_law(part, surrogate, name, mistake, of)
        for part, surrogate in parts
        for name, (mistake, of) in wrong.items()
    ]


WRONG_UPDATES = (*_means(), *_variances())
