"""Plain, slow mazes to check the fast ones against: cells as pairs, walls as sets of two cells, the standard library alone.

`exact_law` enumerates a generator's law with fractions; `carve` makes one maze of a stream, word by word.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from maze.mazes import Mazes

Cell = tuple[int, int]
Wall = frozenset[Cell]
Tree = frozenset[Wall]
Choices = Callable[[set[Cell], int], list[tuple[Fraction, Cell, Cell]]]

MOVES = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}


def beside(cell: Cell, cells: int) -> list[Cell]:
    """Neighbours on a cells x cells board: up, down, left, right."""
    around = [(cell[0] + down, cell[1] + right) for down, right in MOVES.values()]
    return [(row, column) for row, column in around if 0 <= row < cells and 0 <= column < cells]


def by_cell(inside: set[Cell], cells: int) -> list[tuple[Fraction, Cell, Cell]]:
    """The law of maze.generation: a frontier cell, then one of its inside neighbours, each uniform."""
    frontier = sorted({other for cell in inside for other in beside(cell, cells)} - inside)
    options = []
    for new in frontier:
        doors = [old for old in beside(new, cells) if old in inside]
        options += [(Fraction(1, len(frontier) * len(doors)), old, new) for old in doors]
    return options


def by_wall(inside: set[Cell], cells: int) -> list[tuple[Fraction, Cell, Cell]]:
    """The other common law: a frontier wall, uniform."""
    walls = [(old, new) for old in inside for new in beside(old, cells) if new not in inside]
    return [(Fraction(1, len(walls)), old, new) for old, new in walls]


def exact_law(cells: int, choices: Choices = by_cell, start: Cell = (0, 0)) -> dict[Tree, Fraction]:
    """The probability of every spanning tree when it grows from `start` by `choices`."""
    growing: dict[Tree, Fraction] = {frozenset(): Fraction(1)}
    for _ in range(cells * cells - 1):
        grown: dict[Tree, Fraction] = defaultdict(Fraction)
        for tree, probability in growing.items():
            inside = {start}.union(*tree) if tree else {start}
            for chance, old, new in choices(set(inside), cells):
                grown[tree | {frozenset((old, new))}] += probability * chance
        growing = grown
    return growing


def to_grid(tree: Tree, cells: int) -> np.ndarray:
    """Walls as booleans, as in Mazes.grids."""
    grid = np.ones((2 * cells + 1, 2 * cells + 1), dtype=bool)
    grid[1::2, 1::2] = False
    for one, other in map(sorted, tree):
        grid[one[0] + other[0] + 1, one[1] + other[1] + 1] = False
    return grid


def to_mazes(trees: list[Tree], cells: int) -> Mazes:
    """The same trees as Mazes."""
    return Mazes.from_grids(np.stack([to_grid(tree, cells) for tree in trees]))


def philox_words(key: int, number: int) -> Iterator[int]:
    """Philox4x32-10 from its definition: the words of one stream."""
    block = 0
    while True:
        counter = [block & 0xFFFFFFFF, block >> 32, number & 0xFFFFFFFF, number >> 32]
        keys = [key & 0xFFFFFFFF, key >> 32]
        for _ in range(10):
            left, right = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [
                (right >> 32) ^ counter[1] ^ keys[0],
                right & 0xFFFFFFFF,
                (left >> 32) ^ counter[3] ^ keys[1],
                left & 0xFFFFFFFF,
            ]
            keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
        yield from counter
        block += 1


def below(limit: int, words: Iterator[int]) -> int:
    """Uniform on 0 ... limit - 1: of the 2^32 words, the first 2^32 mod limit of every residue's run are refused."""
    for word in words:
        if (word * limit) % 2**32 >= 2**32 % limit:
            return word * limit // 2**32
    raise AssertionError("the stream never ends")


def carve(cells: int, words: Iterator[int]) -> Tree:
    """One maze from a stream of words, with the frontier kept as a list from which the drawn cell is swapped out."""
    inside, tree = {(0, 0)}, set()
    frontier = [(0, 1), (1, 0)]
    while frontier:
        drawn = below(12 * len(frontier), words)
        new = frontier[drawn // 12]
        frontier[drawn // 12] = frontier[-1]
        frontier.pop()
        doors = [old for old in beside(new, cells) if old in inside]
        tree.add(frozenset((doors[drawn % 12 % len(doors)], new)))
        inside.add(new)
        frontier += [cell for cell in beside(new, cells) if cell not in inside and cell not in frontier]
    return frozenset(tree)


def solve(grid: np.ndarray) -> list[str]:
    """The names of the shortest path's actions, breadth first on squares."""
    size = len(grid)
    paths: dict[Cell, list[str]] = {(1, 1): []}
    queue = deque([(1, 1)])
    while queue:
        row, column = queue.popleft()
        for name, (down, right) in MOVES.items():
            square = (row + down, column + right)
            if not grid[square] and square not in paths:
                paths[square] = [*paths[row, column], name]
                queue.append(square)
    return paths[size - 2, size - 2]


def walks_to_goal(grid: np.ndarray, names: list[str]) -> bool:
    """Whether a walk of named actions meets no wall and ends at the goal."""
    row, column = 1, 1
    for name in names:
        row, column = row + MOVES[name][0], column + MOVES[name][1]
        if grid[row, column]:
            return False
    return (row, column) == (len(grid) - 2, len(grid) - 2)
