"""Packed mazes: what they hold, what they refuse, and the promises of `generate` and `split`."""

from __future__ import annotations

import pickle
from zlib import crc32

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from maze import generation
from maze.generation import distinct_mazes, generate, split
from maze.mazes import ACTIONS, Mazes
from tests.maze import reference as ref

# What is of another type is refused by the checker of the tests, and without it by the module's own checks.
REFUSED = (ValueError, TypeCheckError)


@pytest.mark.parametrize("size", [5, 7, 9, 17, 65])
def test_grids_and_back(size: int) -> None:
    mazes = generate(4 if size == 5 else 20, size, 0)
    grids = mazes.grids()
    assert grids.shape == (len(mazes), size, size)
    assert Mazes.from_grids(grids) == mazes
    cells = (size - 1) // 2
    open_squares = (~grids).sum(axis=(1, 2))
    assert (open_squares == cells * cells + cells * cells - 1).all()


def test_seventeen_takes_fourteen_bytes() -> None:
    assert generate(3, 17, 0).passages.shape == (3, 14)


@pytest.mark.parametrize("size", [5, 7, 17, 33, 65])
def test_solutions_are_the_slow_ones(size: int) -> None:
    mazes = generate(4 if size == 5 else 30, size, 1)
    named = [[ACTIONS[action] for action in path] for path in mazes.solutions()]
    assert named == [ref.solve(grid) for grid in mazes.grids()]
    assert mazes.solution_lengths().tolist() == [len(path) for path in named]


def test_long_solutions_fit() -> None:
    # A serpentine: the longest path that a board can have.
    cells = 4
    serpent = {frozenset(((row, column), (row, column + 1))) for row in range(cells) for column in range(cells - 1)}
    serpent |= {frozenset(((row, 3 if row % 2 == 0 else 0), (row + 1, 3 if row % 2 == 0 else 0))) for row in range(3)}
    maze = ref.to_mazes([frozenset(serpent)], cells)
    assert [ACTIONS[action] for action in maze.solutions()[0]] == ref.solve(maze.grids()[0])


def test_indexing_gives_mazes() -> None:
    mazes = generate(10, 9, 0)
    assert len(mazes[3]) == 1
    assert mazes[-1] == mazes[9]
    assert mazes[2:5] == mazes[[2, 3, 4]] == Mazes(9, mazes.passages[2:5])
    assert mazes[::-1] == mazes[np.arange(9, -1, -1)]
    assert len(mazes[np.arange(10) % 2 == 0]) == 5
    assert len(mazes[[]]) == len(mazes[:0]) == 0
    assert [one.passages.tobytes() for one in mazes] == [row.tobytes() for row in mazes.passages]
    with pytest.raises(IndexError):
        mazes[10]
    with pytest.raises(ValueError, match="one-dimensional"):
        mazes[np.zeros((2, 2), dtype=int)]


def test_empty_mazes() -> None:
    empty = generate(0, 17, 0)
    assert len(empty) == 0
    assert empty.grids().shape == (0, 17, 17)
    assert empty.solutions() == []
    assert empty.solution_lengths().shape == (0,)
    assert Mazes(17, empty.passages) == empty


def test_pickles_and_equality() -> None:
    mazes = generate(5, 9, 0)
    assert pickle.loads(pickle.dumps(mazes)) == mazes
    assert mazes != generate(5, 9, 1)
    assert mazes != 3
    with pytest.raises(TypeError):
        hash(mazes)


@pytest.mark.parametrize("size", [3, 4, 16, 67, 0, -5, True])
def test_wrong_sizes(size: int) -> None:
    with pytest.raises(ValueError, match="size must be an odd whole number from 5 to 65"):
        generate(1, size, 0)


@pytest.mark.parametrize("size", [17.0, "17", None])
def test_sizes_of_another_type(size: object) -> None:
    with pytest.raises(REFUSED):
        generate(1, size, 0)  # type: ignore[arg-type]


def test_wrong_passages() -> None:
    good = generate(2, 17, 0).passages
    for bad, said in [
        (good[:, :13], "shape"),
        (np.zeros_like(good), "maze=0"),
        (np.full_like(good, 255), "perfect"),
        (np.concatenate([good, good[:1] ^ np.uint8(1)]), "maze=2"),
    ]:
        with pytest.raises(ValueError, match=said):
            Mazes(17, bad)
    for bad in (good.astype(np.int64), good[0]):
        with pytest.raises(REFUSED):
            Mazes(17, bad)
    cycle = np.array([[0b1111]], dtype=np.uint8)
    with pytest.raises(ValueError, match="perfect"):
        Mazes(5, cycle)
    spare = np.array([[0b10111]], dtype=np.uint8)
    with pytest.raises(ValueError, match="perfect"):
        Mazes(5, spare)
    spare_for_a_wall = np.array([[0b10011]], dtype=np.uint8)
    with pytest.raises(ValueError, match="perfect"):
        Mazes(5, spare_for_a_wall)


def test_a_cycle_and_an_island_are_refused() -> None:
    # As many open walls as a tree has, but a square of four cells and a lonely one.
    walls = [((0, 0), (0, 1)), ((0, 1), (1, 1)), ((1, 1), (1, 0)), ((1, 0), (0, 0))]
    walls += [((0, 1), (0, 2)), ((0, 2), (1, 2)), ((1, 0), (2, 0)), ((2, 0), (2, 1))]
    with pytest.raises(ValueError, match="perfect"):
        ref.to_mazes([frozenset(map(frozenset, walls))], 3)


def test_wrong_grids() -> None:
    grid = generate(1, 7, 0).grids()
    for row, column in [(0, 3), (2, 2), (6, 6)]:
        bad = grid.copy()
        bad[0, row, column] = False
        with pytest.raises(ValueError, match="the rim and the posts"):
            Mazes.from_grids(bad)
    blocked = grid.copy()
    blocked[0, 3, 3] = True
    with pytest.raises(ValueError, match="maze=0"):
        Mazes.from_grids(blocked)
    with pytest.raises(ValueError, match="shape"):
        Mazes.from_grids(grid[:, :5])
    for other in (grid[0], grid.astype(int)):
        with pytest.raises(REFUSED):
            Mazes.from_grids(other)


def test_generation_is_pinned() -> None:
    # The bytes of a seed: a change of the stream, the law's implementation or the bit order moves them.
    assert crc32(generate(1000, 17, 0).passages.tobytes()) == 93838829
    assert generate(1000, 17, 0)[:400] == generate(400, 17, 0)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(150, 7, 5)
    for chunk in (1, 7, 1000):
        monkeypatch.setattr(generation, "_CHUNK", chunk)
        assert generate(150, 7, 5) == whole


def test_streams_differ() -> None:
    made = [generate(50, 17, 0), generate(50, 17, 1), generate(50, 17, 0, name="other")]
    assert len({mazes.passages.tobytes() for mazes in made}) == 3


def test_unique_means_the_first_distinct_draws() -> None:
    drawn = generate(3000, 7, 2, unique=False).passages
    first = dict.fromkeys(row.tobytes() for row in drawn)
    unique = generate(len(first), 7, 2)
    assert [row.tobytes() for row in unique.passages] == list(first)


def test_every_maze_can_be_had_and_no_more() -> None:
    everything = generate(192, 7, 0)
    assert len(np.unique(everything.passages, axis=0)) == 192
    assert len(generate(4, 5, 0)) == 4
    with pytest.raises(ValueError, match=r"at most 192.*count=193"):
        generate(193, 7, 0)
    with pytest.raises(ValueError, match=r"at most 100352.*count=100353"):
        generate(100_353, 9, 0)


def test_excluded_mazes_stay_out() -> None:
    first = generate(100, 7, 0)
    rest = generate(92, 7, 0, exclude=first)
    both = np.concatenate([first.passages, rest.passages])
    assert len(np.unique(both, axis=0)) == 192
    twice = Mazes(7, np.concatenate([first.passages, first.passages]))
    assert generate(92, 7, 0, exclude=twice) == rest
    with pytest.raises(ValueError, match="at most 92"):
        generate(93, 7, 0, exclude=first)
    with pytest.raises(ValueError, match="same size"):
        generate(1, 9, 0, exclude=first)
    with pytest.raises(REFUSED):
        generate(1, 7, 0, exclude=first.passages)  # type: ignore[arg-type]
    draws = generate(500, 7, 0, exclude=first, unique=False)
    assert not {row.tobytes() for row in draws.passages} & {row.tobytes() for row in first.passages}
    with pytest.raises(ValueError, match="exclude must leave a 7 x 7 maze"):
        generate(1, 7, 0, exclude=generate(192, 7, 0), unique=False)


def test_split_has_no_overlap() -> None:
    train, heldout = split(5000, 256, 11, 0)
    assert (len(train), len(heldout)) == (5000, 256)
    assert len(np.unique(np.concatenate([train.passages, heldout.passages]), axis=0)) == 5256
    assert split(10, 256, 11, 0)[1] == heldout
    train, heldout = split(150, 42, 7, 0)
    assert len(np.unique(np.concatenate([train.passages, heldout.passages]), axis=0)) == 192
    with pytest.raises(ValueError, match=r"train \+ heldout must be at most 192"):
        split(150, 43, 7, 0)


@pytest.mark.parametrize(("count", "seed"), [(-1, 0), (1, -1)])
def test_wrong_counts_and_seeds(count: int, seed: int) -> None:
    with pytest.raises(ValueError, match="whole number of at least 0"):
        generate(count, 9, seed)


@pytest.mark.parametrize(("count", "seed"), [(1.5, 0), (1, 0.5)])
def test_counts_and_seeds_that_are_no_whole_numbers(count: float, seed: float) -> None:
    with pytest.raises(REFUSED):
        generate(count, 9, seed)  # type: ignore[arg-type]


def test_numbers_of_mazes() -> None:
    # Spanning trees of the n x n grid graph, as listed in the encyclopedia of integer sequences, A007341.
    assert distinct_mazes(13) == 32_565_539_635_200
    assert distinct_mazes(17) == 126_231_322_912_498_539_682_594_816
