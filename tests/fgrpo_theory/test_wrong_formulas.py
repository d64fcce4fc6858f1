"""Every wrong formula of the list is refused: on the oracle's grid, or by enumeration for the one-step laws."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest
from mpmath import mp

from tests.fgrpo_theory import enumeration as en
from tests.fgrpo_theory.law_oracles import ORACLES
from tests.fgrpo_theory.oracles import DIGITS, SMALLEST_NORMAL, exact, rows_of, truths_of
from tests.fgrpo_theory.policy_oracles import POLICY_ORACLES
from tests.fgrpo_theory.wrong_formulas import WRONG, Wrong

NAMED = {oracle.name: oracle for oracle in [*ORACLES, *POLICY_ORACLES]}
POINTS = 60


def difference(wrong: object, truth: object) -> float:
    """|wrong / truth - 1|, of the size of the terms if that is given; 0 where the truth is no normal number."""
    wrong = wrong[0] if isinstance(wrong, tuple) else wrong
    value, size = truth if isinstance(truth, tuple) else (truth, abs(truth))
    if not mpmath.isfinite(value) or size < SMALLEST_NORMAL:
        return 0.0
    return float(abs(wrong - value) / size)


def test_the_list_is_long_and_covers_every_oracle() -> None:
    assert len(WRONG) >= 25
    assert {wrong.law for wrong in WRONG} == set(NAMED) - {"expected_baseline"}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: f"{w.law}: {w.slip}")
def test_the_grid_refuses_it(wrong: Wrong) -> None:
    """On several points, so that no single corner carries the proof."""
    oracle = NAMED[wrong.law]
    rows, truths = rows_of(oracle, POINTS), truths_of(oracle, POINTS)
    caught = 0
    with mp.workdps(DIGITS):
        for row, truth in zip(rows, truths, strict=True):
            # Outputs beyond those that the slip concerns are not judged.
            caught += any(difference(w, t) > 1e-9 for w, t in zip(exact(wrong.value, row), truth, strict=False))
    assert caught >= 5


def moments(policy: en.Policy, drawn: tuple[int, ...]) -> dict[str, Fraction]:
    """The quantities of section 2, summed action by action."""
    p, c = policy.p, policy.correct
    hit, every = set(drawn), range(len(p))

    def squares(chosen: Callable[[int], bool]) -> Fraction:
        return sum((p[i] ** 2 for i in every if chosen(i)), start=Fraction(0))

    return {
        "Q": en.mass(policy, lambda i: c[i]),
        "P": en.sampled_mass(policy, drawn, True),
        "M": en.sampled_mass(policy, drawn, False),
        "A2": squares(lambda i: i in hit and c[i]),
        "B2": squares(lambda i: i in hit and not c[i]),
        "Up": squares(lambda i: i not in hit and c[i]),
        "Un": squares(lambda i: i not in hit and not c[i]),
    }


def total(m: dict[str, Fraction], s: Fraction, good: Fraction, bad: Fraction) -> Fraction:
    """Eq. 17 without eta/N."""
    q, w = m["Q"], 1 - m["Q"]
    return (good - s) * w * m["A2"] + (s - bad) * q * m["B2"] + s * (q * m["Un"] - w * m["Up"])


def unsampled(m: dict[str, Fraction], s: Fraction, good: Fraction, bad: Fraction) -> Fraction:
    """Eq. 10 without eta/N."""
    u = m["Q"] - m["P"]
    return -s * m["Up"] - u * ((good - s) * m["A2"] + (bad - s) * m["B2"] - s * (m["Up"] + m["Un"]))


Slip = Callable[[dict[str, Fraction], Fraction, Fraction, Fraction], Fraction]
TOTAL: dict[str, Slip] = {
    "unsampled terms left out": lambda m, s, a, b: total({**m, "Un": Fraction(0), "Up": Fraction(0)}, s, a, b),
    "masses exchanged": lambda m, s, a, b: total({**m, "Q": 1 - m["Q"]}, s, a, b),
    "sign of the wrong term": lambda m, s, a, b: total(m, s, a, b) - 2 * (s - b) * m["Q"] * m["B2"],
    "no baseline": lambda m, s, a, b: total(m, Fraction(0), a, b),
    "second moments exchanged": lambda m, s, a, b: total({**m, "A2": m["B2"], "B2": m["A2"]}, s, a, b),
    "first moments for second": lambda m, s, a, b: total({**m, "A2": m["P"], "B2": m["M"]}, s, a, b),
}
UNSAMPLED: dict[str, Slip] = {
    "direct drift only": lambda m, s, a, b: -s * m["Up"],
    "coupling only": lambda m, s, a, b: unsampled(m, s, a, b) + s * m["Up"],
    "sign of the direct drift": lambda m, s, a, b: unsampled(m, s, a, b) + 2 * s * m["Up"],
    "all unsampled actions drift": lambda m, s, a, b: unsampled(m, s, a, b) - s * m["Un"],
    "all correct mass couples": lambda m, s, a, b: unsampled({**m, "P": Fraction(0)}, s, a, b),
    "unsampled wrong actions left out": lambda m, s, a, b: unsampled({**m, "Un": Fraction(0)}, s, a, b),
    "no baseline": lambda m, s, a, b: unsampled(m, Fraction(0), a, b),
}


def refused(slip: Slip, truth: Callable[..., Fraction]) -> int:
    """How many of the groups refuse a law of eq. 5 for rewards 2 and -1/2."""
    policy, size = en.POLICIES[11]
    rule = en.Rule(good=Fraction(2), bad=Fraction(-1, 2))
    count = 0
    for drawn, _ in en.sequences(policy, size):
        m = moments(policy, drawn)
        value = slip(m, rule.good * m["P"] + rule.bad * m["M"], rule.good, rule.bad) / size
        count += value != truth(policy, drawn, rule)
    return count


def test_the_right_one_step_laws_pass() -> None:
    assert refused(total, en.correct_change) == 0
    assert refused(unsampled, en.unsampled_change) == 0


@pytest.mark.parametrize("slip", TOTAL)
def test_enumeration_refuses_wrong_total_laws(slip: str) -> None:
    assert refused(TOTAL[slip], en.correct_change) >= 50


@pytest.mark.parametrize("slip", UNSAMPLED)
def test_enumeration_refuses_wrong_unsampled_laws(slip: str) -> None:
    assert refused(UNSAMPLED[slip], en.unsampled_change) >= 50
