"""Perfect mazes, many at a time: packed walls, grids, solutions (section 5.2 and appendix K of the paper).

A maze is a square grid of odd side with a wall around it: (size - 1) / 2 cells a side at odd rows and columns, start
(1, 1), goal (size - 2, size - 2), and exactly one simple path between any two cells. Held as one bit per inner wall:
14 bytes for 17 x 17. Left out on purpose: how mazes are drawn (`maze.generation`), tokens, files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int64, UInt8
from numpy.typing import ArrayLike, NDArray

from fgrpo_theory.foundation.checks import require

from .carving import DOWN, LEFT, RIGHT, UP, first_imperfect, solve_all

__all__ = ["ACTIONS", "DOWN", "LEFT", "RIGHT", "STEPS", "UP", "Mazes", "checked_size", "wall_count"]

ACTIONS = ("UP", "DOWN", "LEFT", "RIGHT")
# (row, column) of one grid step, by action.
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
LEAST_SIZE, LARGEST_SIZE = 5, 65


def checked_size(size: int) -> int:
    """The side of a grid: an odd whole number from 5 to 65. Raises ValueError."""
    rule = f"size must be an odd whole number from {LEAST_SIZE} to {LARGEST_SIZE}"
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    require(whole and size % 2 == 1 and LEAST_SIZE <= size <= LARGEST_SIZE, rule, size=repr(size))
    return int(size)


def wall_count(size: int) -> int:
    """The number of inner walls, bits of a maze: 2 c (c - 1) with c cells a side; 112 for 17 x 17."""
    cells = (size - 1) // 2
    return 2 * cells * (cells - 1)


@dataclass(frozen=True, eq=False, repr=False)
class Mazes:
    """Mazes of one size. Indexing by a number, slice or array gives Mazes; iterating gives Mazes of one.

    Raises ValueError for a wrong size, shape or dtype, and for the first maze that is not perfect.
    """

    size: int
    """side of the grid, odd, 5 to 65"""
    passages: UInt8[np.ndarray, "maze byte"]
    """open inner walls as bits, in the order of `maze.carving`"""

    def __post_init__(self) -> None:
        checked_size(self.size)
        array = self.passages
        require(isinstance(array, np.ndarray), "passages must be a numpy array", passages=type(array).__name__)
        require(array.dtype == np.uint8, "passages must have dtype uint8", dtype=str(array.dtype))
        width = (wall_count(self.size) + 7) // 8
        require(
            array.ndim == 2 and array.shape[1] == width,
            f"passages must have shape (mazes, {width}) for size {self.size}",
            shape=array.shape,
        )
        bad = first_imperfect(np.ascontiguousarray(array), self.cells)
        require(bad < 0, "every maze must be perfect (its cells joined without a cycle)", maze=bad)

    @classmethod
    def trusted(cls, size: int, passages: UInt8[np.ndarray, "maze byte"]) -> Mazes:
        """Mazes known to be valid, unchecked: for parts of checked ones and for the generator."""
        made = object.__new__(cls)
        object.__setattr__(made, "size", size)
        object.__setattr__(made, "passages", passages)
        return made

    @classmethod
    def from_grids(cls, grids: Bool[np.ndarray, "maze row column"]) -> Mazes:
        """Mazes from grids, True = wall. Raises ValueError for anything but perfect mazes, naming the first offender."""
        require(
            isinstance(grids, np.ndarray) and grids.dtype == np.bool_,
            "grids must be a boolean numpy array",
            grids=type(grids).__name__,
        )
        require(
            grids.ndim == 3 and grids.shape[1] == grids.shape[2],
            "grids must have shape (mazes, size, size)",
            shape=grids.shape,
        )
        size = checked_size(grids.shape[1])
        fixed, expected = ~_inner_walls(size), _closed_grid(size)
        agrees = (grids == expected)[:, fixed].all(axis=1)
        require(agrees, "the rim and the posts must be walls, the cells open", maze=np.arange(len(grids)))
        cells = (size - 1) // 2
        east = ~grids[:, 1::2, 2:-1:2].reshape(len(grids), cells * (cells - 1))
        south = ~grids[:, 2:-1:2, 1::2].reshape(len(grids), cells * (cells - 1))
        return cls(size, np.packbits(np.concatenate([east, south], axis=1), axis=1, bitorder="little"))

    @property
    def cells(self) -> int:
        """Cells a side."""
        return (self.size - 1) // 2

    @property
    def start(self) -> tuple[int, int]:
        """(row, column) of the start."""
        return 1, 1

    @property
    def goal(self) -> tuple[int, int]:
        """(row, column) of the goal."""
        return self.size - 2, self.size - 2

    def __len__(self) -> int:
        return len(self.passages)

    def __getitem__(self, index: int | slice | ArrayLike) -> Mazes:
        if isinstance(index, slice):
            return Mazes.trusted(self.size, self.passages[index])
        chosen = np.atleast_1d(np.asarray(index))
        require(chosen.ndim == 1, "an index of mazes must be a number or one-dimensional", shape=chosen.shape)
        return Mazes.trusted(self.size, self.passages[chosen if chosen.size else chosen.astype(np.int64)])

    def __iter__(self) -> Iterator[Mazes]:
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Mazes) and self.size == other.size
        return same and isinstance(other, Mazes) and np.array_equal(self.passages, other.passages)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Mazes({len(self)} of {self.size} x {self.size})"

    def grids(self) -> Bool[np.ndarray, "maze row column"]:
        """True where a wall stands."""
        cells, each = self.cells, self.cells * (self.cells - 1)
        bits = np.unpackbits(self.passages, axis=1, count=2 * each, bitorder="little").astype(bool)
        grids = np.repeat(_closed_grid(self.size)[None], len(self), axis=0)
        grids[:, 1::2, 2:-1:2] = ~bits[:, :each].reshape(len(self), cells, cells - 1)
        grids[:, 2:-1:2, 1::2] = ~bits[:, each:].reshape(len(self), cells - 1, cells)
        return grids

    def solution_lengths(self) -> Int64[np.ndarray, " maze"]:
        """Grid steps from start to goal, always even."""
        return self._lengths

    @cached_property
    def _lengths(self) -> Int64[np.ndarray, " maze"]:
        return self.padded_solutions(width=0)[1]

    def padded_solutions(
        self, width: int | None = None
    ) -> tuple[UInt8[np.ndarray, "maze step"], Int64[np.ndarray, " maze"]]:
        """(actions of the only simple path, grid steps of each): 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT, 255 past the end.

        width: columns; the longest path where none is given, and 0 for the lengths alone.
        """
        lengths = np.empty(len(self), dtype=np.int64)
        if width is None:
            width = int(self._lengths.max(initial=0))
        actions = np.full((len(self), width), 255, dtype=np.uint8)
        solve_all(np.ascontiguousarray(self.passages), self.cells, actions, lengths)
        return actions, lengths

    def solutions(self) -> list[NDArray[np.uint8]]:
        """The actions of each maze's only simple path, one per grid step (uint8: 0 UP, 1 DOWN, 2 LEFT, 3 RIGHT)."""
        actions, lengths = self.padded_solutions()
        return [row[:length] for row, length in zip(actions, lengths, strict=True)]


def _closed_grid(size: int) -> Bool[np.ndarray, "row column"]:
    """Every wall standing."""
    grid = np.ones((size, size), dtype=bool)
    grid[1::2, 1::2] = False
    return grid


def _inner_walls(size: int) -> Bool[np.ndarray, "row column"]:
    """Where a wall may be open: between two cells."""
    inner = np.zeros((size, size), dtype=bool)
    inner[1::2, 2:-1:2] = True
    inner[2:-1:2, 1::2] = True
    return inner
