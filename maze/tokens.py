"""Mazes as tokens and back (section 5.2, appendix K): the 32 ids of MaxRL's published checkpoint.

A prompt is `<bos> GRID_START`, every row of the grid cell by cell, each row closed by NEWLINE, then `GRID_END PATH_START`:
310 tokens for 17 x 17. A completion is the actions, one per grid step, then `DONE <eos>`. The NEWLINE after the last row is
that of the published generator of TailRL, which descends from MaxRL; both readers, and `parse_prompts`, also do without.
As text, tokens are separated by single spaces. Left out on purpose: padding to the left, attention masks, tokenizer files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64, Integer
from numpy.typing import ArrayLike, NDArray

from fgrpo_theory.foundation.checks import require

from .mazes import LARGEST_SIZE, LEAST_SIZE, Mazes

PAD, BOS, EOS, UNK, GRID_START, GRID_END, PATH_START, DONE, PATH, WALL, GOAL, START, NEWLINE = range(13)
UP, DOWN, LEFT, RIGHT = 13, 14, 15, 16

VOCABULARY: tuple[str, ...] = (
    *("<pad>", "<bos>", "<eos>", "<unk>", "GRID_START", "GRID_END", "PATH_START", "DONE"),
    *("PATH", "WALL", "GOAL", "START", "NEWLINE", "UP", "DOWN", "LEFT", "RIGHT", "\n"),
    *(f"RESERVED_{number}" for number in range(14)),
)
"""token names by id"""

_IDS = {name: number for number, name in enumerate(VOCABULARY)}
_TOGETHER = re.compile("|".join(re.escape(name) for name in sorted(_IDS, key=len, reverse=True) if name.strip()))


def prompt_length(size: int) -> int:
    """Tokens of a prompt: size * (size + 1) + 4."""
    return size * (size + 1) + 4


def prompt_ids(mazes: Mazes, dtype: type[np.integer] = np.int64) -> Integer[np.ndarray, "maze token"]:
    """The prompt of each maze. As int64 a maze of 17 x 17 takes 2.5 kB: of a million, take slices, or uint8."""
    require(np.issubdtype(dtype, np.integer), "dtype must be one of whole numbers", dtype=np.dtype(dtype).name)
    size = mazes.size
    ids = np.empty((len(mazes), prompt_length(size)), dtype=dtype)
    ids[:, :2], ids[:, -2:] = (BOS, GRID_START), (GRID_END, PATH_START)
    rows = ids[:, 2:-2].reshape(len(mazes), size, size + 1)
    rows[:, :, size] = NEWLINE
    np.add(mazes.grids().view(np.uint8), np.uint8(PATH), out=rows[:, :, :size], casting="unsafe")
    rows[:, 1, 1], rows[:, size - 2, size - 2] = START, GOAL
    return ids


def completion_ids(actions: ArrayLike, *, eos: bool = True) -> Int64[np.ndarray, " token"]:
    """The tokens of one path: actions (0 UP, 1 DOWN, 2 LEFT, 3 RIGHT), DONE and, unless `eos` is False, <eos>."""
    moves = _whole("actions", actions)
    require((moves >= 0) & (moves < 4), "actions must be 0 (UP), 1 (DOWN), 2 (LEFT) or 3 (RIGHT)", action=moves)
    return np.concatenate([moves + UP, [DONE, EOS] if eos else [DONE]])


def solution_ids(mazes: Mazes) -> tuple[Int64[np.ndarray, "maze token"], Int64[np.ndarray, " maze"]]:
    """(right completions with DONE and <eos>, padded with <pad>; the tokens of each), for all mazes at once."""
    actions, steps = mazes.padded_solutions()
    ids = np.full((len(mazes), actions.shape[1] + 2), PAD, dtype=np.int64)
    ids[:, :-2] = np.where(actions < 4, actions.astype(np.int64) + UP, PAD)
    each = np.arange(len(mazes))
    ids[each, steps], ids[each, steps + 1] = DONE, EOS
    return ids, steps + 2


def parse_completion(ids: ArrayLike) -> NDArray[np.uint8]:
    """The actions of a completion: actions, DONE, and perhaps <eos> and <pad>.

    Raises ValueError for anything else, saying at which token.
    """
    tokens = _whole("ids", ids)
    done = np.flatnonzero(tokens == DONE)
    require(bool(done.size), "a completion must have DONE", tokens=len(tokens))
    moves, rest = tokens[: done[0]], tokens[done[0] + 1 :]
    require(
        (moves >= UP) & (moves <= RIGHT), "only actions may stand before DONE", token=moves, at=np.arange(len(moves))
    )
    ended = rest.size == 0 or (rest[0] == EOS and bool((rest[1:] == PAD).all()))
    require(ended, "only <eos> and <pad> may follow DONE", tokens=tuple(rest.tolist()))
    return (moves - UP).astype(np.uint8)


def parse_prompts(ids: Integer[np.ndarray, "maze token"]) -> Mazes:
    """The mazes of prompts of one size: the inverse of `prompt_ids`.

    Raises ValueError that names the first malformed prompt and token: a wrong length, a token that cannot stand at its
    place, a second start, or cells that form no perfect maze.
    """
    require(
        isinstance(ids, np.ndarray) and ids.ndim == 2 and ids.dtype.kind in "iu",
        "ids must be a two-dimensional array of whole numbers",
        shape=np.shape(ids),
    )
    size = _size_of(ids.shape[1])
    expected = _template(size)
    if ids.shape[1] == prompt_length(size) - 1:
        expected = np.delete(expected, -3)
    wanted = np.where(expected >= 0, ids == expected, (ids == PATH) | (ids == WALL))
    if not wanted.all():
        row, at = np.argwhere(~wanted)[0]
        place = VOCABULARY[expected[at]] if expected[at] >= 0 else "PATH or WALL"
        raise ValueError(f"token {at} of prompt {row} must be {place}, got {token_name(int(ids[row, at]))}")
    body = np.full((len(ids), size * (size + 1)), NEWLINE, dtype=ids.dtype)
    body[:, : ids.shape[1] - 4] = ids[:, 2:-2]
    return Mazes.from_grids(body.reshape(len(ids), size, size + 1)[:, :, :size] == WALL)


def leading_actions(ids: ArrayLike) -> NDArray[np.uint8]:
    """The actions before the first token that is none, whatever follows: the walk of a completion, right or wrong."""
    tokens = _whole("ids", ids)
    others = np.flatnonzero((tokens < UP) | (tokens > RIGHT))
    return (tokens[: others[0] if others.size else None] - UP).astype(np.uint8)


def to_text(ids: ArrayLike) -> str:
    """Token names separated by single spaces. Raises ValueError for an id outside 0 ... 31."""
    tokens = _whole("ids", ids)
    require((tokens >= 0) & (tokens < len(VOCABULARY)), "ids must lie in 0 ... 31", id=tokens)
    return " ".join(map(VOCABULARY.__getitem__, tokens.tolist()))


def from_text(text: str) -> Int64[np.ndarray, " token"]:
    """Ids of names that stand between spaces; an unknown name is <unk>, as in MaxRL's tokenizer.

    Names may also run together, as transformers decodes them when it takes a Qwen2 model's tokenizer for a byte-level one.
    The longest name is taken first: PATH begins PATH_START, but no name begins with _START, so the split is unique.

    >>> from_text("UPDOWN DONE").tolist()
    [13, 14, 7]
    """
    ids: list[int] = []
    for word in text.split():
        names = [word] if word in _IDS else _TOGETHER.findall(word)
        known = "".join(names) == word
        ids += [_IDS[name] for name in names] if known else [UNK]
    return np.array(ids, dtype=np.int64)


def token_name(number: int) -> str:
    """The name of an id, or the id where there is none."""
    return VOCABULARY[number] if 0 <= number < len(VOCABULARY) else f"id {number}"


def parse_text(text: str) -> tuple[Mazes, NDArray[np.uint8] | None]:
    """(the maze, its actions) of `<bos> GRID_START ... PATH_START UP ... DONE <eos>`; actions None where the path is missing.

    Raises ValueError as `parse_prompts` and `parse_completion`.
    """
    ids = from_text(text)
    ends = np.flatnonzero(ids == PATH_START)
    require(bool(ends.size), "text must have PATH_START", text=text[:40])
    prompt, rest = ids[: ends[0] + 1], ids[ends[0] + 1 :]
    return parse_prompts(prompt[None]), parse_completion(rest) if rest.size else None


def _size_of(length: int) -> int:
    for size in range(LEAST_SIZE, LARGEST_SIZE + 1, 2):
        if length in (prompt_length(size), prompt_length(size) - 1):
            return size
    raise ValueError(f"a prompt must have size * (size + 1) + 4 tokens, size odd from 5 to 65, got {length}")


def _template(size: int) -> NDArray[np.int64]:
    """The only token that may stand at a place of a prompt, or -1 where a cell or wall stands."""
    grid = np.full((size, size + 1), -1, dtype=np.int64)
    grid[:, size] = NEWLINE
    grid[1, 1], grid[size - 2, size - 2] = START, GOAL
    return np.concatenate([[BOS, GRID_START], grid.ravel(), [GRID_END, PATH_START]])


def _whole(name: str, values: ArrayLike | Sequence[int]) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a one-dimensional array of whole numbers, got {name}={repr(values)[:60]}")
    return array.astype(np.int64)
