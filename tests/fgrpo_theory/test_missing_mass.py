"""Good-Turing: its expectation by whole enumeration, the coverage of its intervals exactly and by simulation.

The simulated cells share a false-alarm rate of 1e-6. Each states a coverage that its interval has, and one that it must
be told from; `test_cells_have_power` computes from binomial tails that a cell sees the difference.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fgrpo_theory.foundation.seeds import generator
from fgrpo_theory.missing_mass import missing_mass

Interval = tuple[float, float]
FALSE_ALARM = 1e-6
REPEATS = 8000
POWER_LOSS = 1e-6


def zipf(items: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, items + 1) ** -exponent
    return weights / weights.sum()


LAWS = {
    "uniform": np.full(300, 1 / 300),
    "Zipf": zipf(800, 1.0),
    "two classes": np.r_[np.full(4, 0.2), np.full(400, 0.2 / 400)],
    "rare class": np.r_[np.full(5, 0.199), np.full(400, 0.005 / 400)],
}
# (law, draws): (coverage that the score interval has at least, coverage that is told from it).
CELLS = {
    ("uniform", 30): (0.93, 0.89),
    ("uniform", 200): (0.94, 0.91),
    ("Zipf", 100): (0.94, 0.91),
    ("Zipf", 600): (0.94, 0.91),
    ("two classes", 60): (0.95, 0.92),
    ("two classes", 300): (0.94, 0.91),
    ("rare class", 50): (0.95, 0.92),
    ("rare class", 800): (0.95, 0.92),
}


@cache
def samples(law: str, draws: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(counts [repeat, item], missing mass [repeat])."""
    p = LAWS[law]
    counts = generator(0, "test missing mass", draws, len(law)).multinomial(draws, p, size=REPEATS)
    return counts, (counts == 0) @ p


def least_hits(coverage: float) -> int:
    """The count of covered repeats below which a cell fails: once in 1e6 over all cells."""
    return int(stats.binom.ppf(FALSE_ALARM / len(CELLS), REPEATS, coverage))


def covered(law: str, draws: int, interval: Callable[[NDArray[np.int64]], Interval]) -> int:
    """Repeats whose interval holds the mass; intervals are made once for rows alike in all that they may use."""
    counts, mass = samples(law, draws)
    features = np.stack([(counts == 1).sum(1), (counts == 2).sum(1), (counts > 0).sum(1)], axis=1)
    _, place, row = np.unique(features, axis=0, return_index=True, return_inverse=True)
    bounds = np.array([interval(counts[i]) for i in place])[row]
    return int(np.sum((bounds[:, 0] <= mass + 1e-12) & (mass - 1e-12 <= bounds[:, 1])))


def score(counts: NDArray[np.int64]) -> Interval:
    result = missing_mass(counts)
    return result.lower, result.upper


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_score_interval_covers(cell: tuple[str, int]) -> None:
    assert covered(*cell, score) >= least_hits(CELLS[cell][0])


def test_cells_have_power() -> None:
    for coverage, wrong in CELLS.values():
        assert stats.binom.cdf(least_hits(coverage) - 1, REPEATS, coverage) <= FALSE_ALARM / len(CELLS)
        assert stats.binom.sf(least_hits(coverage) - 1, REPEATS, wrong) < POWER_LOSS


def symmetric(center: float, half: float) -> Interval:
    return center - half, center + half


def parts(counts: NDArray[np.int64]) -> tuple[int, int, int]:
    return int(counts.sum()), int((counts == 1).sum()), int((counts == 2).sum())


def esty(counts: NDArray[np.int64]) -> Interval:
    n, once, twice = parts(counts)
    return symmetric(once / n, 1.96 * np.sqrt(once * (1 - once / n) + 2 * twice) / n)


def no_doubletons(counts: NDArray[np.int64]) -> Interval:
    n, once, _ = parts(counts)
    return symmetric(once / n, 1.96 * np.sqrt(once * (1 - once / n)) / n)


def one_sided_quantile(counts: NDArray[np.int64]) -> Interval:
    result = missing_mass(counts, level=0.9)
    return result.lower, result.upper


def over_distinct(counts: NDArray[np.int64]) -> Interval:
    n, once, twice = parts(counts)
    share = once / np.count_nonzero(counts)
    return symmetric(share, 1.96 * np.sqrt(share * (1 - share) + 2 * twice / n) / np.sqrt(n))


def standard_error_alone(counts: NDArray[np.int64]) -> Interval:
    low, high = esty(counts)
    return (low + high) / 2 - (high - low) / 4, (low + high) / 2 + (high - low) / 4


@pytest.mark.parametrize("wrong", [esty, no_doubletons, one_sided_quantile, over_distinct, standard_error_alone])
def test_some_cell_refuses(wrong: Callable[[NDArray[np.int64]], Interval]) -> None:
    assert any(covered(*cell, wrong) < least_hits(CELLS[cell][0]) for cell in CELLS)


@pytest.mark.parametrize("law", LAWS)
def test_distribution_free_interval_covers_and_shrinks(law: str) -> None:
    def interval(counts: NDArray[np.int64]) -> Interval:
        result = missing_mass(counts, method="distribution-free")
        return result.lower, result.upper

    draws = next(n for name, n in CELLS if name == law)
    assert covered(law, draws, interval) >= least_hits(0.95)
    large = missing_mass(np.r_[np.full(500_000, 1), np.full(250_000, 2)], method="distribution-free")
    assert large.estimate == 0.5
    root = np.sqrt(np.log(80) / 1e6)
    assert large.upper == pytest.approx(0.5 + root * (1 + 2**0.5), rel=1e-12)
    assert large.lower == pytest.approx(0.5 - 1e-6 - root * (2**0.5 + (2 / np.e) ** 0.5), rel=1e-12)


@pytest.mark.parametrize("draws", [5, 10, 40, 200])
def test_two_items_are_covered_exactly(draws: int) -> None:
    """Every law of two items on a grid, every outcome: no simulation. Both intervals."""
    seen, rare = np.arange(draws + 1), np.logspace(-4, -0.302, 40)[:, None]
    chances = stats.binom.pmf(seen, draws, rare)
    mass = np.where(seen == 0, rare, np.where(seen == draws, 1 - rare, 0.0))
    for method, level in (("score", 0.99), ("distribution-free", 0.99)):
        results = [missing_mass([count, draws - count], method=method) for count in seen.tolist()]
        lower, upper = (np.array([getattr(result, end) for result in results]) for end in ("lower", "upper"))
        coverage = np.sum(chances * ((lower <= mass) & (mass <= upper)), axis=1)
        assert coverage.min() >= level


@pytest.mark.parametrize("draws", [1, 2, 3, 5])
@pytest.mark.parametrize("law", [(1,), (1, 1), (1, 2, 5), (3, 3, 1, 9)])
def test_expectation_by_whole_enumeration(law: tuple[int, ...], draws: int) -> None:
    """E[f1 / n] = sum p (1 - p)**(n - 1): the expected missing mass of n - 1 draws."""
    p = [Fraction(weight, sum(law)) for weight in law]
    total = Fraction(0)
    for sequence in product(range(len(p)), repeat=draws):
        counts = np.bincount(sequence, minlength=len(p))
        result = missing_mass(counts)
        assert result.estimate == result.singletons / draws
        total += prod(p[i] for i in sequence) * Fraction(result.singletons, draws)
    assert total == sum(q * (1 - q) ** (draws - 1) for q in p)
    if len(law) > 2 and draws > 1:
        assert total != sum(q * (1 - q) ** draws for q in p)


@pytest.mark.parametrize("counts", [[1], [7], [1, 1, 1], [2, 2], [1] * 500, [500], [3, 0, 0], [1, 2, 3]])
@pytest.mark.parametrize("method", ["score", "distribution-free"])
@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-9])
def test_interval_holds_the_estimate_and_has_a_width(counts: list[int], method: str, level: float) -> None:
    result = missing_mass(counts, level=level, method=method)
    assert 0 <= result.lower <= result.estimate <= result.upper <= 1
    assert result.upper > result.lower
    assert result.samples == sum(counts)
    assert (result.singletons, result.doubletons) == (counts.count(1), counts.count(2))
    assert (result.level, result.method) == (level, method)


def test_no_singleton_leaves_a_rule_of_three() -> None:
    """Nothing new in 1,000 draws of one item: the upper end lies between 3 and 8 thousandths."""
    assert 0.003 < missing_mass([1000]).upper < 0.008


def test_wider_levels_nest_and_order_does_not_matter() -> None:
    counts = [1] * 40 + [4, 2, 9, 30]
    results = [missing_mass(counts, level=level) for level in (0.5, 0.9, 0.99)]
    for inner, outer in pairwise(results):
        assert outer.lower < inner.lower < inner.upper < outer.upper
    assert missing_mass([0, 0, *counts[::-1]], level=0.9) == results[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), r"counts must have a sum in \[1, 2\*\*53\], got counts.sum=0"),
        (([0, 0],), r"counts must have a sum in \[1, 2\*\*53\], got counts.sum=0"),
        (([2**53, 1e300],), r"counts must have a sum in \[1, 2\*\*53\], got counts.sum=1e\+300"),
        (([1, -1],), "counts must be a whole number of at least 0, got counts=-1"),
        (([1, 0.5],), "counts must be a whole number of at least 0, got counts=0.5"),
        (([1, float("inf")],), "counts must be a whole number of at least 0, got counts=inf"),
        (([1, float("nan")],), "counts must not be NaN, got counts=an array with 1 NaN"),
        ((5,), r"counts must be one list, got counts.shape=\(\)"),
        (([[1, 2], [3, 4]],), r"counts must be one list, got counts.shape=\(2, 2\)"),
        ((["one"],), r"counts must be a real number or an array of them, got counts=\['one'\]"),
    ],
)
def test_bad_counts(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        missing_mass(*arguments)


def test_bad_level_and_method() -> None:
    for level in (0.0, 1.0, -0.5, 95.0):
        with pytest.raises(ValueError, match=r"^level must lie in \(0, 1\), got level="):
            missing_mass([1, 2], level=level)
    with pytest.raises(ValueError, match=r"^level must not be NaN, got level=nan$"):
        missing_mass([1, 2], level=float("nan"))
    with pytest.raises(ValueError, match=r"^method must be one of score, distribution-free, got method='esty'$"):
        missing_mass([1, 2], method="esty")
