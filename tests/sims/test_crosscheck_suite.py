"""What the suite can see, by calculation alone: no cell is drawn here."""

import dataclasses
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from sims.crosscheck.cells import FALSE_ALARM_RATE, Cell, Law, Suite
from sims.crosscheck.enumeration import Groups
from sims.crosscheck.registry import PROFILES, suite
from sims.crosscheck.scenarios import Policy, Rollouts
from sims.crosscheck.wrong_laws import WRONG_LAWS, killers, wrong_law

LAWS = {"law": Law("law", "here", lambda share: share)}


def cell(share, resolution=0.02, name="cell", **changed):
    return Cell("law", name, Rollouts("drawn", resolution, 8), {"share": share}, "event", "active", **changed)


@pytest.mark.parametrize("profile", PROFILES)
def test_cells_share_one_false_alarm_rate(profile):
    checked = suite(profile)
    assert checked.alpha * len(checked.cells) == pytest.approx(FALSE_ALARM_RATE)
    assert set(Counter(cell.law for cell in checked.cells)) == set(checked.laws)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_cell_detects_what_it_declares(profile):
    checked = suite(profile)
    for one in checked.cells:
        groups, expected, shift = one.scenario.groups, checked.expected[one.name], checked.detectable(one)
        if one.kind == "mean":
            # Bernstein, written out: threshold t and miss both below their rates.
            room = shift - checked.threshold(one) * one.spread / math.sqrt(groups)
            miss = math.exp(-groups * room**2 / (2 * (one.spread**2 + one.reach * room / 3)))
            assert room > 0, one.name
            assert miss <= 1e-3, one.name
        else:
            low = binom.ppf(checked.alpha / 2, groups, expected) - 1
            high = binom.isf(checked.alpha / 2, groups, expected) + 1
            assert binom.cdf(low, groups, expected) <= checked.alpha / 2
            assert binom.cdf(low, groups, expected - shift) >= 0.999, one.name
            if one.kind == "event" and expected + shift < 1:
                assert binom.sf(high - 1, groups, expected + shift) >= 0.999, one.name


@pytest.mark.parametrize("profile", PROFILES)
def test_every_wrong_law_is_seen_by_calculation(profile):
    alive = [wrong.name for wrong in WRONG_LAWS.values() if not killers(suite(profile), wrong)]
    assert alive == []


def test_every_law_has_a_wrong_one():
    assert {wrong.replaces for wrong in WRONG_LAWS.values()} == set(suite("quick").laws)
    assert len(WRONG_LAWS) >= 25


def test_a_right_law_put_in_its_own_place_is_not_seen():
    wrong = wrong_law("tail-one-rollout-less")
    right = dataclasses.replace(wrong, value=suite("quick").laws["tail miss"].value)
    assert killers(suite("quick"), right) == []


def test_rare_events_are_refused():
    with pytest.raises(ValueError, match="must expect at least 50 events and non-events, got expected="):
        Suite(LAWS, (cell(1e-4),))
    with pytest.raises(ValueError, match="must expect at least 50 events and non-events"):
        Suite(LAWS, (cell(1 - 1e-4),))


def test_blunt_cells_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Few(Rollouts):
        @property
        def groups(self):
            return 4000

    blunt = dataclasses.replace(cell(0.5), scenario=Few("few", 0.02, 8))
    with pytest.raises(ValueError, match=r"must detect a discrepancy of 0.01 with power 0.999, got power="):
        Suite(LAWS, (blunt,))


def test_cells_need_names_laws_and_kinds_of_their_own():
    with pytest.raises(ValueError, match="names of their own"):
        Suite(LAWS, (cell(0.5), cell(0.4)))
    with pytest.raises(ValueError, match="kind must be one of"):
        Suite(LAWS, (dataclasses.replace(cell(0.5), kind="guess"),))
    with pytest.raises(ValueError, match="spread and reach must be above 0"):
        Suite(LAWS, (dataclasses.replace(cell(0.5), kind="mean"),))
    with pytest.raises(ValueError, match="at least one cell"):
        Suite(LAWS, ())


@pytest.mark.parametrize("counts", [0, 27_000, 270_400])
def test_zero_events_never_pass_nor_far_ones(counts):
    checked = Suite(LAWS, (cell(0.1),))
    groups = checked.cells[0].scenario.groups
    outcome = checked.judge(checked.cells[0], {"active": np.array([min(counts, groups)])})
    assert outcome.verdict == ("pass" if counts == 27_000 and groups == 270_400 else "fail")


def test_listed_groups_are_all_sequences_of_draws():
    policy, size = Policy("three", (0.5, 0.25, 0.25), (True, False, False)), 3
    groups, exact = Groups(policy, size), Counter()
    for draws in product(range(3), repeat=size):
        exact[tuple(draws.count(i) for i in range(3))] += math.prod(Fraction(policy.probability[i]) for i in draws)
    listed = {tuple(map(int, row)): p for row, p in zip(groups.counts, groups.probability, strict=True)}
    assert listed == pytest.approx({row: float(p) for row, p in exact.items()})
    # E[value | X] at each group's X.
    value = groups.counts[:, 1].astype(float)
    np.testing.assert_allclose(groups.given_count(value), (size - groups.right) / 2, atol=1e-12)
