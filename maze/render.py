"""Pictures of mazes and walks, as text and as pixels: the right path, and where a wrong one fails.

A walk is drawn as far as it is legal. Its squares are "right" as long as it keeps to the solution; from the first square off it,
or the first step back, they are "wrong"; the wall that it runs into is "hit". Left out on purpose: figures with axes and
captions (package figures), animation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from jaxtyping import Bool, UInt8
from numpy.typing import ArrayLike

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import atomic_file

from .mazes import STEPS, Mazes

Square = tuple[int, int]

# Colours that colour-blind readers can tell apart (Okabe and Ito, 2008).
COLOURS: dict[str, tuple[int, int, int]] = {
    "wall": (34, 34, 34),
    "open": (255, 255, 255),
    "start": (0, 114, 178),
    "goal": (0, 158, 115),
    "right": (86, 180, 233),
    "wrong": (230, 159, 0),
    "hit": (213, 94, 0),
}
MARKS = {"wall": "#", "open": " ", "start": "S", "goal": "G", "right": ".", "wrong": "o", "hit": "X"}
_KINDS = tuple(COLOURS)


@dataclass(frozen=True)
class Walk:
    """The squares that a sequence of actions visits."""

    squares: tuple[Square, ...]
    """(row, column), the start first; legal steps only"""
    right: int
    """how many of the squares follow the solution from the start on"""
    hit: Square | None
    """the wall that the first illegal step runs into, or None"""


def walk(maze: Mazes, actions: ArrayLike) -> Walk:
    """Follow actions (0 UP, 1 DOWN, 2 LEFT, 3 RIGHT) from the start until they end or meet a wall.

    Raises ValueError for more than one maze, or an action outside 0 ... 3.
    """
    grid, moves = _grid(maze), np.asarray(actions)
    moves = moves if moves.size else moves.astype(np.int64)
    require(
        moves.ndim == 1 and moves.dtype.kind in "iu", "actions must be a row of whole numbers", dtype=str(moves.dtype)
    )
    require((moves >= 0) & (moves < 4), "actions must be 0 (UP), 1 (DOWN), 2 (LEFT) or 3 (RIGHT)", action=moves)
    solution = maze.solutions()[0]
    squares, right = [maze.start], 1
    for at, action in enumerate(moves.tolist()):
        row, column = squares[-1][0] + STEPS[action][0], squares[-1][1] + STEPS[action][1]
        if grid[row, column]:
            return Walk(tuple(squares), right, (row, column))
        squares.append((row, column))
        if right == at + 1 and at < len(solution) and solution[at] == action:
            right += 1
    return Walk(tuple(squares), right, None)


def ascii_art(maze: Mazes, actions: ArrayLike | None = None) -> str:
    """One line a row: # wall, S start, G goal, . right path, o wrong path, X the wall that is hit.

    Raises ValueError as `walk`.
    """
    kinds = _kinds(maze, actions)
    return "\n".join("".join(MARKS[_KINDS[kind]] for kind in row) for row in kinds)


def picture(maze: Mazes, actions: ArrayLike | None = None, *, scale: int = 8) -> UInt8[np.ndarray, "height width rgb"]:
    """An RGB image, `scale` pixels a square, in COLOURS. Raises ValueError as `walk`, and for a scale below 1."""
    require(
        isinstance(scale, int | np.integer) and scale >= 1,
        "scale must be a whole number of at least 1",
        scale=repr(scale),
    )
    pixels = np.array([COLOURS[kind] for kind in _KINDS], dtype=np.uint8)[_kinds(maze, actions)]
    return np.repeat(np.repeat(pixels, scale, axis=0), scale, axis=1)


def write_png(path: Path | str, image: UInt8[np.ndarray, "height width rgb"]) -> None:
    """Write an image as PNG, whole or not at all; the same image gives the same bytes. Needs matplotlib."""
    from matplotlib.image import imsave

    with atomic_file(path, "wb") as file:
        imsave(cast(BinaryIO, file), image, format="png", metadata={"Software": "fgrpo"})


def _kinds(maze: Mazes, actions: ArrayLike | None) -> UInt8[np.ndarray, "row column"]:
    """What is drawn on each square, as an index into _KINDS; later marks cover earlier ones."""
    kinds = np.where(_grid(maze), _KINDS.index("wall"), _KINDS.index("open")).astype(np.uint8)
    if actions is not None:
        taken = walk(maze, actions)
        for squares, kind in ((taken.squares[taken.right :], "wrong"), (taken.squares[: taken.right], "right")):
            for square in squares:
                kinds[square] = _KINDS.index(kind)
        if taken.hit is not None:
            kinds[taken.hit] = _KINDS.index("hit")
    kinds[maze.start], kinds[maze.goal] = _KINDS.index("start"), _KINDS.index("goal")
    return kinds


def _grid(maze: Mazes) -> Bool[np.ndarray, "row column"]:
    require(len(maze) == 1, "one maze is drawn at a time", mazes=len(maze))
    return np.asarray(maze.grids()[0])
