"""Pictures, checked square by square."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from maze.generation import generate
from maze.mazes import Mazes
from maze.render import COLOURS, ascii_art, picture, walk, write_png

CORNER = Mazes.from_grids(
    np.array([[[mark == "#" for mark in row] for row in ("#####", "#   #", "# ###", "#   #", "#####")]])
)
UP, DOWN, LEFT, RIGHT = range(4)


@pytest.mark.parametrize(
    ("actions", "drawn"),
    [
        (None, "#####\n#S  #\n# ###\n#  G#\n#####"),
        ([DOWN, DOWN, RIGHT, RIGHT], "#####\n#S  #\n#.###\n#..G#\n#####"),
        ([DOWN, RIGHT], "#####\n#S  #\n#.X##\n#  G#\n#####"),
        ([RIGHT, RIGHT, RIGHT], "#####\n#SooX\n# ###\n#  G#\n#####"),
        ([UP], "#X###\n#S  #\n# ###\n#  G#\n#####"),
        ([DOWN, UP, RIGHT], "#####\n#So #\n#.###\n#  G#\n#####"),
        ([], "#####\n#S  #\n# ###\n#  G#\n#####"),
    ],
)
def test_text(actions: list[int] | None, drawn: str) -> None:
    assert ascii_art(CORNER, actions) == drawn


def test_walks() -> None:
    gone = walk(CORNER, [DOWN, DOWN, UP, UP, RIGHT])
    assert gone.squares == ((1, 1), (2, 1), (3, 1), (2, 1), (1, 1), (1, 2))
    assert (gone.right, gone.hit) == (3, None)
    mazes = generate(20, 17, 0)
    for maze, path in zip(mazes, mazes.solutions(), strict=True):
        solved = walk(maze, path)
        assert solved.right == len(solved.squares) == len(path) + 1
        assert solved.squares[-1] == maze.goal
    wrong: list[tuple[list[object], str]] = [
        ([4], "must be 0"),
        ([-1], "must be 0"),
        ([0.5], "whole"),
        ([[0]], "a row"),
    ]
    for bad, said in wrong:
        with pytest.raises(ValueError, match=said):
            walk(CORNER, bad)
    with pytest.raises(ValueError, match="one maze is drawn at a time"):
        ascii_art(mazes)


def test_pixels_match_the_text(tmp_path: Path) -> None:
    image = picture(CORNER, [DOWN, RIGHT], scale=3)
    assert image.shape == (15, 15, 3)
    marks = dict(zip("# SGXo.", ("wall", "open", "start", "goal", "hit", "wrong", "right"), strict=True))
    for row, line in enumerate(ascii_art(CORNER, [DOWN, RIGHT]).split("\n")):
        for column, mark in enumerate(line):
            square = image[3 * row : 3 * row + 3, 3 * column : 3 * column + 3].reshape(-1, 3)
            assert (square == COLOURS[marks[mark]]).all()
    write_png(tmp_path / "maze.png", image)
    again = imread(tmp_path / "maze.png")
    assert (np.round(again[:, :, :3] * 255) == image).all()
    with pytest.raises(ValueError, match="scale must be a whole number of at least 1"):
        picture(CORNER, scale=0)
