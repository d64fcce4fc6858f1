"""Cells: one law, one set of parameters, one statistic; and the suite that shares one false-alarm rate among them.

A suite refuses, when it is made: cells that expect fewer than 50 events or fewer than 50 non-events; cells that would miss
the discrepancy they declare with probability above 1e-3; cells of the same name. Each cell gets an equal share of the rate
(Bonferroni). A cell without any event, or a mean of nothing but zeros, never passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fgrpo_theory.foundation.checks import as_choice, require

from .decisions import event_power, event_score, event_threshold, mean_power, mean_threshold
from .scenarios import Scenario, Totals

FALSE_ALARM_RATE = 1e-6
POWER = 0.999
LEAST_EVENTS = 50
_HEAVY_TAILS = 0.2
KINDS = ("event", "at least", "mean")


@dataclass(frozen=True)
class Cell:
    """One comparison."""

    law: str
    """name of the law under test"""
    label: str
    """unique among the cells of the law"""
    scenario: Scenario
    """what is drawn"""
    given: Mapping[str, Any]
    """keyword arguments of the law"""
    kind: str
    """event: a share of groups; at least: a share that the law bounds from below; mean: of a value of each group"""
    key: str
    """which of the scenario's totals"""
    index: int = 0
    """and which of its entries"""
    spread: float = 0.0
    """means only: exact standard deviation of one group's value"""
    reach: float = 0.0
    """means only: bound on |value - mean|; 0 for events"""
    centre: float = 0.0
    """variances only: the mean about which squares are taken"""

    @property
    def name(self) -> str:
        """Unique in the suite."""
        return f"{self.law}: {self.label}"


def read_off(totals: Totals, cell: Cell) -> float:
    """The default statistic: share of events, or mean value."""
    return float(totals[cell.key][cell.index]) / cell.scenario.groups


@dataclass(frozen=True)
class Law:
    """What is expected, and how it is read off what was drawn (which matters for estimators)."""

    name: str
    source: str
    """equation of the paper, or where else it comes from"""
    value: Callable[..., Any]
    """a number; keyword arguments: those of the cells"""
    observe: Callable[[Totals, Cell], float] = read_off


@dataclass(frozen=True)
class WrongLaw:
    """A plausible mistake, and what it would claim."""

    name: str
    replaces: str
    """the right law's name"""
    mistake: str
    """one line"""
    value: Callable[..., Any]
    observe: Callable[[Totals, Cell], float] | None = None
    """a wrong estimator; None: the right law's"""
    applies: Callable[[Cell], bool] = lambda cell: True
    """where it can be evaluated; elsewhere the right law stays"""
    truth: Callable[..., tuple[float, float]] | None = None
    """exact (mean, spread) of what a wrong estimator would show; None: the right law's value and spread"""


@dataclass(frozen=True)
class Outcome:
    """A judged cell: one row of the table."""

    law: str
    cell: str
    wrong_law: str | None
    expected: float
    observed: float
    standard_error: float
    z: float
    threshold: float
    detectable: float
    sample_size: int
    verdict: str


@dataclass(frozen=True)
class Suite:
    """All cells and their laws. Raises ValueError at the first cell that it refuses."""

    laws: Mapping[str, Law]
    cells: tuple[Cell, ...]
    alpha: float = field(init=False)
    """false-alarm rate of one cell"""

    def __post_init__(self) -> None:
        require(len(self.cells) > 0, "cells must hold at least one cell", cells=len(self.cells))
        names = [cell.name for cell in self.cells]
        twice = sorted({name for name in names if names.count(name) > 1})
        require(not twice, "cells must have names of their own", twice="; ".join(twice))
        object.__setattr__(self, "alpha", FALSE_ALARM_RATE / len(self.cells))
        for cell in self.cells:
            self._admit(cell)

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario once, in the order of the cells."""
        return tuple(dict.fromkeys(cell.scenario for cell in self.cells))

    @cached_property
    def expected(self) -> dict[str, float]:
        """The right law's value in each cell, by the cell's name."""
        return {cell.name: float(self.laws[cell.law].value(**cell.given)) for cell in self.cells}

    def detectable(self, cell: Cell) -> float:
        """The absolute discrepancy that the cell must detect: resolution * spread, and for means a term for heavy tails.

        The term is that of Bernstein's inequality: rare values as large as `reach` must not be taken for a shift.
        """
        resolution = cell.scenario.resolution
        return resolution * self.spread(cell) + _HEAVY_TAILS * resolution**2 * cell.reach

    def spread(self, cell: Cell, expected: float | None = None) -> float:
        """Standard deviation of one group's value."""
        if cell.kind == "mean":
            return cell.spread
        share = self.expected[cell.name] if expected is None else expected
        return math.sqrt(max(share * (1 - share), 0.0))

    def threshold(self, cell: Cell) -> float:
        """|z| beyond which the cell fails."""
        if cell.kind == "mean":
            return mean_threshold(cell.scenario.groups, cell.spread, cell.reach, self.alpha)
        return event_threshold(self.alpha)

    def power(self, cell: Cell, expected: float, truth: float, spread: float | None = None) -> float:
        """Probability (for means a lower bound) that a cell which claims `expected` fails, if the truth is `truth`."""
        groups = cell.scenario.groups
        if cell.kind == "mean":
            # The claim is tested with the right law's spread; the sample has the spread of what is observed.
            error = self.threshold(cell) * cell.spread / math.sqrt(groups)
            actual = cell.spread if spread is None else spread
            room = abs(expected - truth) - error
            return 0.0 if room <= 0 else -math.expm1(-groups * room**2 / (2 * (actual**2 + cell.reach * room / 3)))
        return event_power(groups, expected, truth, self.alpha, shortfall_only=cell.kind == "at least")

    def least_power(self, cell: Cell) -> float:
        """Power at the declared discrepancy, in the worse direction that is possible."""
        groups, shift, expected = cell.scenario.groups, self.detectable(cell), self.expected[cell.name]
        if cell.kind == "mean":
            return mean_power(groups, cell.spread, cell.reach, shift, self.alpha)
        if cell.kind == "at least":
            return self.power(cell, expected, expected - shift)
        return min(self.power(cell, expected, truth) for truth in (expected - shift, expected + shift) if 0 < truth < 1)

    def judge(self, cell: Cell, totals: Totals, wrong: WrongLaw | None = None) -> Outcome:
        """Compare the cell with what was drawn, under its own law or a wrong one."""
        right = self.laws[cell.law]
        expected = self.expected[cell.name] if wrong is None else float(wrong.value(**cell.given))
        observe = right.observe if wrong is None or wrong.observe is None else wrong.observe
        observed = observe(totals, cell)
        groups = cell.scenario.groups
        error = self.spread(cell, expected) / math.sqrt(groups)
        if cell.kind == "mean":
            z = (observed - expected) / error
        else:
            z = event_score(round(observed * groups), groups, expected, shortfall_only=cell.kind == "at least")
        possible = cell.kind == "mean" or 0 < expected < 1
        passed = observed != 0 and possible and abs(z) <= self.threshold(cell)
        verdict = ("pass" if passed else "fail") if wrong is None else ("survives" if passed else "killed")
        return Outcome(
            cell.law,
            cell.label,
            None if wrong is None else wrong.name,
            expected,
            observed,
            error,
            z,
            self.threshold(cell),
            self.detectable(cell),
            groups,
            verdict,
        )

    def _admit(self, cell: Cell) -> None:
        as_choice("kind", cell.kind, KINDS)
        require(cell.law in self.laws, "law must be registered", law=cell.law)
        expected, groups = self.expected[cell.name], cell.scenario.groups
        if cell.kind == "mean":
            require(
                cell.spread > 0 and cell.reach > 0,
                f"spread and reach must be above 0 in {cell.name}",
                spread=cell.spread,
                reach=cell.reach,
            )
        else:
            least = groups * min(expected, 1 - expected)
            require(
                least >= LEAST_EVENTS,
                f"{cell.name} must expect at least {LEAST_EVENTS} events and non-events",
                expected=least,
            )
        power = self.least_power(cell)
        require(
            power >= POWER,
            f"{cell.name} must detect a discrepancy of {self.detectable(cell):.3g} with power {POWER}",
            power=power,
        )
