"""Tokens of mazes: the published ids, a prompt written out by hand, round trips, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from maze import tokens
from maze.generation import generate
from maze.mazes import Mazes

# paper.md's list of the ids of MaxRL's published checkpoint.
PUBLISHED = {
    **{"<pad>": 0, "<bos>": 1, "<eos>": 2, "<unk>": 3, "GRID_START": 4, "GRID_END": 5, "PATH_START": 6, "DONE": 7},
    **{"PATH": 8, "WALL": 9, "GOAL": 10, "START": 11, "NEWLINE": 12, "UP": 13, "DOWN": 14, "LEFT": 15, "RIGHT": 16},
    "\n": 17,
}
# Down, right.
CORNER = """<bos> GRID_START
WALL WALL WALL WALL WALL NEWLINE
WALL START PATH PATH WALL NEWLINE
WALL PATH WALL WALL WALL NEWLINE
WALL PATH PATH GOAL WALL NEWLINE
WALL WALL WALL WALL WALL NEWLINE
GRID_END PATH_START DOWN DOWN RIGHT RIGHT DONE <eos>"""


def test_the_ids_are_the_published_ones() -> None:
    assert len(tokens.VOCABULARY) == len(set(tokens.VOCABULARY)) == 32
    assert {name: tokens.VOCABULARY.index(name) for name in PUBLISHED} == PUBLISHED
    named = {name: getattr(tokens, name.strip("<>").upper()) for name in PUBLISHED if name != "\n"}
    assert named == {name: number for name, number in PUBLISHED.items() if name != "\n"}


def test_a_sequence_by_hand() -> None:
    maze, actions = tokens.parse_text(CORNER)
    drawn = ["#####", "#   #", "# ###", "#   #", "#####"]
    assert maze.grids()[0].tolist() == [[mark == "#" for mark in row] for row in drawn]
    assert actions is not None
    assert actions.tolist() == maze.solutions()[0].tolist() == [1, 1, 3, 3]
    prompt = tokens.to_text(tokens.prompt_ids(maze)[0])
    assert f"{prompt} {tokens.to_text(tokens.completion_ids(actions))}" == " ".join(CORNER.split())
    assert tokens.prompt_ids(maze).dtype == np.int64


def test_a_hundred_thousand_round_trips() -> None:
    mazes = generate(100_000, 17, 11)
    for first in range(0, len(mazes), 20_000):
        part = mazes[first : first + 20_000]
        ids = tokens.prompt_ids(part, np.uint8)
        assert ids.shape == (len(part), tokens.prompt_length(17)) == (len(part), 310)
        assert tokens.parse_prompts(ids) == part
        completions, lengths = tokens.solution_ids(part)
        actions, steps = part.padded_solutions()
        assert (lengths == steps + 2).all()
        moves = (completions >= tokens.UP) & (completions <= tokens.RIGHT)
        assert (moves.sum(axis=1) == steps).all()
        assert (completions[moves] - tokens.UP == actions[actions < 4]).all()
        each = np.arange(len(part))
        assert (completions[each, steps] == tokens.DONE).all()
        assert (completions[each, steps + 1] == tokens.EOS).all()
        assert ((completions == tokens.PAD).sum(axis=1) == completions.shape[1] - lengths).all()


def test_single_forms_agree_with_the_batch() -> None:
    mazes = generate(200, 9, 0)
    completions, lengths = tokens.solution_ids(mazes)
    for maze, path, row, length in zip(mazes, mazes.solutions(), completions, lengths, strict=True):
        assert tokens.completion_ids(path).tolist() == row[:length].tolist()
        assert tokens.completion_ids(path, eos=False).tolist() == row[: length - 1].tolist()
        assert tokens.parse_completion(row).tolist() == path.tolist()
        assert tokens.leading_actions(row).tolist() == path.tolist()
        text = f"{tokens.to_text(tokens.prompt_ids(maze)[0])} {tokens.to_text(row[:length])}"
        again, actions = tokens.parse_text(text)
        assert again == maze
        assert actions is not None
        assert actions.tolist() == path.tolist()


@pytest.mark.parametrize("size", [5, 7, 65])
def test_other_sizes_and_dtypes(size: int) -> None:
    mazes = generate(3, size, 0)
    for dtype in (np.uint8, np.int32, np.int64):
        ids = tokens.prompt_ids(mazes, dtype)
        assert ids.dtype == dtype
        assert tokens.parse_prompts(ids) == mazes
    # Without the NEWLINE after the last row, as MaxRL's reader allows.
    assert tokens.parse_prompts(np.delete(ids, -3, axis=1)) == mazes
    assert len(tokens.parse_prompts(ids[:0])) == 0


@pytest.mark.parametrize(
    ("row", "at", "put", "said"),
    [
        (0, 0, 3, "token 0 of prompt 0 must be <bos>, got <unk>"),
        (1, 1, 5, "token 1 of prompt 1 must be GRID_START, got GRID_END"),
        (2, 10, 11, "token 10 of prompt 2 must be PATH or WALL, got START"),
        (2, 23, 8, "token 23 of prompt 2 must be GOAL, got PATH"),
        (2, 9, 9, "token 9 of prompt 2 must be START, got WALL"),
        (2, 8, 12, "token 8 of prompt 2 must be PATH or WALL, got NEWLINE"),
        (2, 2, 40, "token 2 of prompt 2 must be PATH or WALL, got id 40"),
        (2, 2, -1, "token 2 of prompt 2 must be PATH or WALL, got id -1"),
        (2, 33, 7, "token 33 of prompt 2 must be PATH_START, got DONE"),
    ],
)
def test_malformed_prompts(row: int, at: int, put: int, said: str) -> None:
    ids = tokens.prompt_ids(generate(3, 5, 0))
    ids[row, at] = put
    with pytest.raises(ValueError, match=said):
        tokens.parse_prompts(ids)


def test_prompts_that_are_no_perfect_maze() -> None:
    ids = tokens.prompt_ids(generate(3, 5, 0))
    ids[1, 2] = tokens.PATH
    with pytest.raises(ValueError, match=r"the rim and the posts .* maze=1"):
        tokens.parse_prompts(ids)
    ids = tokens.prompt_ids(generate(3, 5, 0))
    open_walls = ids[2, 2:32].reshape(5, 6)
    open_walls[1, 2] = open_walls[2, 1] = open_walls[3, 2] = open_walls[2, 3] = tokens.PATH
    with pytest.raises(ValueError, match=r"perfect .* maze=2"):
        tokens.parse_prompts(ids)


@pytest.mark.parametrize("length", [0, 1, 4, 16, 32, 35, 309 - 17])
def test_wrong_prompt_lengths(length: int) -> None:
    with pytest.raises(ValueError, match="a prompt must have size"):
        tokens.parse_prompts(np.zeros((1, length), dtype=np.int64))


def test_wrong_prompt_arrays() -> None:
    with pytest.raises((ValueError, TypeCheckError)):
        tokens.prompt_ids(generate(1, 5, 0), np.float64)  # type: ignore[arg-type]
    ids = tokens.prompt_ids(generate(1, 5, 0))
    for bad in (ids[0], ids.astype(float), ids[None]):
        with pytest.raises((ValueError, TypeCheckError)):
            tokens.parse_prompts(bad)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([], "must have DONE"),
        ([13, 14], "must have DONE"),
        ([13, 2, 7], "only actions may stand before DONE, got token=2, at=1"),
        ([13, 7, 13], "only <eos> and <pad> may follow DONE"),
        ([13, 7, 2, 13], "only <eos> and <pad> may follow DONE"),
        ([13, 7, 0], "only <eos> and <pad> may follow DONE"),
        ([-1, 7], "only actions may stand before DONE, got token=-1"),
        ([1.0, 7.0], "whole numbers"),
        ([[13, 7]], "one-dimensional"),
    ],
)
def test_malformed_completions(ids: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tokens.parse_completion(ids)


def test_completions_at_the_edges() -> None:
    assert tokens.parse_completion([7]).tolist() == []
    assert tokens.parse_completion([16, 7, 2, 0, 0]).tolist() == [3]
    assert tokens.completion_ids([]).tolist() == [7, 2]
    assert tokens.leading_actions([13, 99, 14]).tolist() == [0]
    assert tokens.leading_actions([]).tolist() == []
    with pytest.raises(ValueError, match="actions must be 0"):
        tokens.completion_ids([4])
    with pytest.raises(ValueError, match="actions must be 0"):
        tokens.completion_ids([-1])


def test_text() -> None:
    assert tokens.from_text("UP  nonsense\nDONE <eos>").tolist() == [13, 3, 7, 2]
    assert tokens.from_text("UPDOWNnonsense UPDONE<eos>").tolist() == [3, 13, 7, 2]
    assert tokens.from_text("".join(tokens.VOCABULARY[:17])).tolist() == list(range(17))
    for first in tokens.VOCABULARY[:17]:
        for second in tokens.VOCABULARY[:17]:
            pair = [tokens.VOCABULARY.index(first), tokens.VOCABULARY.index(second)]
            assert tokens.from_text(first + second).tolist() == pair
    assert tokens.to_text(np.arange(17)) == " ".join(list(PUBLISHED)[:17])
    assert tokens.token_name(31) == "RESERVED_13"
    for bad in ([32], [-1]):
        with pytest.raises(ValueError, match=r"ids must lie in 0 \.\.\. 31"):
            tokens.to_text(bad)
    for text, said in [
        ("", "PATH_START"),
        ("PATH_START", "a prompt must have size"),
        (CORNER.replace("DONE", ""), "DONE"),
    ]:
        with pytest.raises(ValueError, match=said):
            tokens.parse_text(text)
    assert tokens.parse_text(CORNER.split(" DOWN")[0])[1] is None


def test_empty_batches() -> None:
    none: Mazes = generate(0, 17, 0)
    assert tokens.prompt_ids(none).shape == (0, 310)
    assert tokens.solution_ids(none)[0].shape == (0, 2)
