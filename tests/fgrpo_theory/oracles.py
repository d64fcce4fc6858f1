"""What a high-precision oracle is, and how a law is judged by it: relative error on a seeded, log-spread grid.

Inputs are the exact values of the float64 that the law sees; truths have at least 100 digits. The oracles themselves are in
`law_oracles` (groups) and `policy_oracles` (categorical policies). Left out on purpose: enumeration with fractions
(`enumeration`), and the planner's integers.

    python -m tests.fgrpo_theory.oracles     prints function, points, worst relative error, and where: docs/accuracy.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf

from fgrpo_theory.foundation.seeds import generator

DIGITS = 100
SMALLEST_NORMAL = 2.0**-1022
Row = tuple[Any, ...]


class Oracle(NamedTuple):
    """A law, its truth, and its grid."""

    name: str
    law: Callable[[list[Row]], list[Sequence[float]]]
    """The values under test, one sequence of outputs a row."""
    truth: Callable[..., Sequence[mpf]]
    """The same from the definition, for one row."""
    draw: Callable[[np.random.Generator], Row]
    """One random row."""
    corners: tuple[Row, ...]
    points: int = 5500
    """Size of the full grid, corners included."""
    default: int = 5500
    """Size of the grid of the default test suite."""


class Verdict(NamedTuple):
    """How a law fared on its grid."""

    points: int
    worst: float
    """Largest relative error; infinite if a true 0 (or infinity) is not hit exactly."""
    where: Row


def vectorised(law: Callable[..., Any]) -> Callable[[list[Row]], list[Sequence[float]]]:
    """A law of one output that broadcasts, on a list of rows."""
    return lambda rows: [(float(x),) for x in law(*map(np.array, zip(*rows, strict=True)))]


def one_by_one(law: Callable[..., Sequence[float]]) -> Callable[[list[Row]], list[Sequence[float]]]:
    """A law that takes one row at a time."""
    return lambda rows: [tuple(map(float, law(*row))) for row in rows]


@cache
def rows_of(oracle: Oracle, points: int) -> list[Row]:
    """The corners, then random rows: always the same ones, whatever the number of points."""
    rng = generator(0, f"oracle {oracle.name}")
    return [*oracle.corners, *(oracle.draw(rng) for _ in range(points - len(oracle.corners)))]


@cache
def truths_of(oracle: Oracle, points: int) -> list[Sequence[mpf]]:
    """The truth of every row."""
    with mp.workdps(DIGITS):
        return [exact(oracle.truth, row) for row in rows_of(oracle, points)]


def exact(truth: Callable[..., Sequence[mpf]], row: Row) -> Sequence[mpf]:
    """The truth of one row, with digits enough to hold 1 - x for the smallest of its numbers."""
    tiny = min((float(x) for x in np.hstack([np.ravel(v) for v in row]) if x > 0), default=1.0)
    with mp.workdps(DIGITS + int(max(0.0, -2 * np.log10(tiny) - 40))):
        return tuple(truth(*row))


def relative_error(value: float, truth: mpf | tuple[mpf, mpf]) -> float:
    """|value / truth - 1|; 0 or infinite where the truth is 0, infinite or not a number. Below 1e-308: of 1e-308.

    Of a truth that is a sum with terms of both signs, given with the sum of their sizes, the error is relative to that.
    """
    if isinstance(truth, tuple):
        return float(abs(mpf(value) - truth[0]) / max(truth[1], mpf(SMALLEST_NORMAL)))
    if not mpmath.isfinite(truth) or truth == 0:
        return 0.0 if (np.isnan(value) if mpmath.isnan(truth) else value == truth) else float("inf")
    return float(abs(mpf(value) - truth) / max(abs(truth), mpf(SMALLEST_NORMAL)))


def judge(oracle: Oracle, points: int) -> Verdict:
    """The worst relative error of a law on its grid."""
    rows = rows_of(oracle, points)
    errors = [
        max(relative_error(*pair) for pair in zip(values, truths, strict=True))
        for values, truths in zip(oracle.law(rows), truths_of(oracle, points), strict=True)
    ]
    worst = int(np.argmax(errors))
    return Verdict(len(rows), errors[worst], rows[worst])


def log_spread(rng: np.random.Generator, low: float, high: float) -> float:
    """A log-uniform number."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def spread_probability(rng: np.random.Generator, tiniest: float = 1e-15) -> float:
    """A probability that is log-uniform near 0, log-uniform near 1, or uniform."""
    kind = rng.integers(3)
    near = log_spread(rng, tiniest, 0.5)
    return (near, 1 - near, float(rng.uniform(0, 1)))[kind]


def _short(value: Any) -> str:
    """A number, or a tuple of them, in six digits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_table() -> None:
    """Judge every law on its full grid and print a Markdown table."""
    from tests.fgrpo_theory.law_oracles import ORACLES
    from tests.fgrpo_theory.policy_oracles import POLICY_ORACLES

    print("| function | points | worst relative error | where |\n|---|---|---|---|", flush=True)
    for oracle in [*ORACLES, *POLICY_ORACLES]:
        points, worst, where = judge(oracle, oracle.points)
        row = ", ".join(map(_short, where))
        print(f"| `{oracle.name}` | {points} | {worst:.1e} | {row} |", flush=True)


if __name__ == "__main__":
    print_table()
