"""Drawing mazes: randomised Prim, exact deduplication, splits without overlap.

The law. Start with the start cell. While a cell is left: draw one *frontier cell* (an outside cell beside an inside one)
uniformly, draw one of its inside neighbours uniformly, and open the wall between the two. MaxRL's generator is not public;
that of TailRL (github.com/Zanette-Labs/TailRL, experiments/text_maze), by the same group and descended from it, has this
law, before it opens more walls. Drawing frontier *walls* uniformly is another law. The mean path on 17 x 17 is 29.05 steps
here, 29.26 if walls are drawn, about 30 if the tree starts at a random cell, 34.8 for a minimum spanning tree of random
weights; the paper prints 29.0.

Maze k of a seed is a function of (seed, stream name, size, k). `generate` returns the first distinct ones in the order
of k, whatever the chunks. Left out on purpose: other maze algorithms, several solutions, sizes that are not square.
"""

from __future__ import annotations

import numpy as np

from fgrpo_theory.foundation.checks import as_whole, require
from fgrpo_theory.foundation.seeds import seed_sequence

from .carving import carve_many, enter_rows
from .mazes import Mazes, checked_size, wall_count

# Carved between two looks at the clock: short enough that Ctrl-C is answered within a second.
_CHUNK = 100_000
# Above this size there are more mazes than memory could hold (13 x 13: 3.2e13), and the count need not be found.
_COUNTED_SIZE = 13


def distinct_mazes(size: int) -> int:
    """How many mazes there are, exactly: spanning trees of the cell grid, by Kirchhoff's theorem.

    >>> [distinct_mazes(size) for size in (5, 7, 9, 11)]
    [4, 192, 100352, 557568000]
    """
    cells = (checked_size(size) - 1) // 2
    laplacian = [[0] * (cells * cells) for _ in range(cells * cells)]
    for place in range(cells * cells):
        row, column = divmod(place, cells)
        for beside in [place + 1] * (column + 1 < cells) + [place + cells] * (row + 1 < cells):
            for one, other in ((place, beside), (beside, place)):
                laplacian[one][one] += 1
                laplacian[one][other] -= 1
    return _determinant([row[1:] for row in laplacian[1:]])


def generate(
    count: int,
    size: int,
    seed: int,
    *,
    exclude: Mazes | None = None,
    unique: bool = True,
    name: str = "mazes",
) -> Mazes:
    """`count` mazes on a size x size grid, each with one solution, by the law of this module.

    exclude: mazes that must not come out (same size). unique: no two alike; False gives independent draws from the law.
    name: the stream of the seed; other names give other mazes.
    Near the number of mazes that there are, the rarest ones take long to come: 95,000 of the 100,352 of 9 x 9 half a minute.
    Raises ValueError for a size that is not odd in 5 ... 65, a negative count or seed, `exclude` of another size, and more
    mazes than there are.
    """
    checked_size(size)
    count = int(as_whole("count", count, least=0))
    as_whole("seed", seed, least=0)
    excluded = _excluded(exclude, size)
    if size <= _COUNTED_SIZE:
        left = distinct_mazes(size) - _distinct_rows(excluded)
        rest = "left by exclude" if len(excluded) else "that there are"
        require(
            not unique or count <= left, f"count must be at most {left}, the {size} x {size} mazes {rest}", count=count
        )
        require(count == 0 or left > 0, f"exclude must leave a {size} x {size} maze", excluded=len(excluded))
    key = seed_sequence(seed, name, size).generate_state(1, np.uint64)[0]
    return Mazes.trusted(size, _draw(count, size, key, excluded, unique))


def split(train: int, heldout: int, size: int, seed: int) -> tuple[Mazes, Mazes]:
    """(train mazes, held-out mazes), all distinct. The held-out ones do not depend on how many are trained on.

    Raises ValueError as `generate`; the two counts together must not exceed the mazes that there are.
    """
    total = int(as_whole("train", train, least=0) + as_whole("heldout", heldout, least=0))
    if checked_size(size) <= _COUNTED_SIZE:
        there_are = distinct_mazes(size)
        rule = f"train + heldout must be at most {there_are}, the {size} x {size} mazes that there are"
        require(total <= there_are, rule, train=train, heldout=heldout)
    kept_apart = generate(heldout, size, seed, name="mazes/heldout")
    return generate(train, size, seed, exclude=kept_apart, name="mazes/train"), kept_apart


def _draw(count: int, size: int, key: np.uint64, excluded: np.ndarray, unique: bool) -> np.ndarray:
    """The rows that `generate` returns. Excluded ones stand first in the same array while it is filled."""
    before = len(excluded)
    rows = np.empty((before + count, excluded.shape[1]), dtype=np.uint8)
    rows[:before] = excluded
    table = np.empty(0, dtype=np.int64)
    if unique or before:
        table = np.full(1 << int(max(4, np.ceil(np.log2(2 * (before + count + 1))))), -1, dtype=np.int64)
        before = enter_rows(rows, before, table)
        rows = rows[: before + count]
    filled, number = before, 0
    while filled < len(rows):
        filled, number = carve_many(rows, filled, (size - 1) // 2, key, number, _CHUNK, table, unique)
    return rows[before:]


def _excluded(exclude: Mazes | None, size: int) -> np.ndarray:
    if exclude is None:
        return np.empty((0, (wall_count(size) + 7) // 8), dtype=np.uint8)
    require(isinstance(exclude, Mazes), "exclude must be Mazes", exclude=type(exclude).__name__)
    require(exclude.size == size, "exclude must hold mazes of the same size", size=size, excluded_size=exclude.size)
    return exclude.passages


def _distinct_rows(rows: np.ndarray) -> int:
    return len(np.unique(rows, axis=0)) if len(rows) else 0


def _determinant(matrix: list[list[int]]) -> int:
    """Bareiss' elimination: whole numbers throughout, no rounding. No pivoting: leading minors of a Laplacian are positive."""
    previous, size = 1, len(matrix)
    for pivot in range(size - 1):
        for row in range(pivot + 1, size):
            for column in range(pivot + 1, size):
                product = matrix[row][column] * matrix[pivot][pivot] - matrix[row][pivot] * matrix[pivot][column]
                matrix[row][column] = product // previous
        previous = matrix[pivot][pivot]
    return matrix[-1][-1]
