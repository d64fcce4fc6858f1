"""The generator against its law: exactly, maze by maze, and in distribution, with stated error rates.

The cells below share a false-alarm rate of 1e-6; each must find every wrong law listed here with a chance of at least
1 - 1e-6, and a deterministic test computes that it would.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fgrpo_theory.foundation.seeds import seed_sequence
from maze.generation import generate
from maze.philox import philox
from tests.maze import reference as ref

ALARM, MISS = 1e-6, 1e-6
# cells a side -> draws: at least 50 expected of the rarest maze.
CELLS = {2: 200_000, 3: 1_500_000}
LAWS = {cells: ref.exact_law(cells) for cells in CELLS}


def wrong_laws(cells: int) -> dict[str, dict[ref.Tree, Fraction]]:
    """Laws that a generator might have by mistake."""
    trees, squares = LAWS[cells], [(row, column) for row in range(cells) for column in range(cells)]
    rooted = [ref.exact_law(cells, ref.by_cell, square) for square in squares]
    first = max(trees, key=lambda tree: trees[tree])
    shaken = {tree: chance * (Fraction(11, 10) if tree == first else 1) for tree, chance in trees.items()}
    return {
        "frontier walls drawn": ref.exact_law(cells, ref.by_wall),
        "every maze alike": dict.fromkeys(trees, Fraction(1, len(trees))),
        "a random root": {tree: sum(law[tree] for law in rooted) / len(rooted) for tree in trees},
        "one common maze a tenth more": {tree: chance / sum(shaken.values()) for tree, chance in shaken.items()},
    }


def threshold(law: dict[ref.Tree, Fraction]) -> float:
    return float(stats.chi2.isf(ALARM / (len(CELLS) + 1), len(law) - 1))


@pytest.mark.parametrize("cells", CELLS)
def test_the_law_is_the_enumerated_one(cells: int) -> None:
    law = LAWS[cells]
    mazes = generate(CELLS[cells], 2 * cells + 1, 0, unique=False)
    found = Counter(row.tobytes() for row in mazes.passages)
    counts = [found.pop(row.tobytes(), 0) for row in ref.to_mazes(list(law), cells).passages]
    assert not found
    assert stats.chisquare(counts, [CELLS[cells] * float(p) for p in law.values()]).statistic < threshold(law)


@pytest.mark.parametrize("cells", CELLS)
def test_the_test_would_find_each_wrong_law(cells: int) -> None:
    law, draws = LAWS[cells], CELLS[cells]
    assert sum(law.values()) == 1
    assert draws * float(min(law.values())) >= 50
    for name, wrong in wrong_laws(cells).items():
        distance = sum(float((wrong[tree] - chance) ** 2 / chance) for tree, chance in law.items())
        if name == "frontier walls drawn" and cells == 2:
            assert wrong == law  # with four cells the two laws are one
        else:
            assert stats.ncx2.cdf(threshold(law), len(law) - 1, draws * distance) < MISS, name


def test_neighbouring_mazes_are_independent() -> None:
    law = LAWS[2]
    mazes = generate(CELLS[2], 5, 1, unique=False).passages[:, 0]
    order = ref.to_mazes(list(law), 2).passages[:, 0]
    kind = np.argmax(mazes[:, None] == order, axis=1).reshape(-1, 2)
    counts = np.bincount(kind[:, 0] * 4 + kind[:, 1], minlength=16)
    chances = np.array([float(p) for p in law.values()])
    expected = np.outer(chances, chances).ravel() * len(kind)
    assert stats.chisquare(counts, expected).statistic < stats.chi2.isf(ALARM / (len(CELLS) + 1), 15)


@pytest.mark.parametrize(("size", "count"), [(5, 50), (7, 50), (9, 30), (17, 20), (33, 4), (65, 1)])
def test_each_maze_is_the_slow_one_of_its_words(size: int, count: int) -> None:
    mazes = generate(count, size, 7, unique=False)
    key = int(seed_sequence(7, "mazes", size).generate_state(1, np.uint64)[0])
    cells = (size - 1) // 2
    slow = [ref.carve(cells, ref.philox_words(key, number)) for number in range(count)]
    assert mazes == ref.to_mazes(slow, cells)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]) -> None:
    # The known answers of the Random123 distribution.
    low, high = [np.uint64(counter[at] | counter[at + 1] << 32) for at in (0, 2)]
    found = np.zeros(4, dtype=np.uint64)
    philox(np.uint64(key[0] | key[1] << 32), high, low, found)
    assert tuple(int(word) for word in found) == words


def test_mean_path_is_the_papers_to_its_precision() -> None:
    # The paper prints 29.0 (of its own draw). Under this law the mean is 29.05, its standard error here 0.015.
    lengths = generate(20_000, 17, 3).solution_lengths()
    assert lengths.min() == 28
    assert abs(lengths.mean() - 29.053) < 0.075
