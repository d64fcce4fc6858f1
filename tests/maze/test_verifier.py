"""The verifier: verdicts and reasons by hand, and a fuzz against an independent slow walker."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from maze import tokens
from maze.generation import generate
from maze.mazes import Mazes
from maze.verifier import REASONS, RULES, Result, Rule, verify, verify_batch
from tests.maze import reference as ref

# #####     S   G: down, right. The other way round is walled.
# #S  #
# # ###
# #  G#
# #####
CORNER = Mazes.from_grids(
    np.array([[[mark == "#" for mark in row] for row in ("#####", "#   #", "# ###", "#   #", "#####")]])
)
PATH = "DOWN DOWN RIGHT RIGHT"


@pytest.mark.parametrize(
    ("completion", "target", "reach_goal", "maxrl"),
    [
        (f"{PATH} DONE <eos>", "solved", "solved", "solved"),
        (f"{PATH} DONE", "solved", "solved", "solved"),
        (f"{PATH} DONE <eos> <pad> <pad>", "solved", "solved", "solved"),
        (f"{PATH} DONE <eos> UP WALL", "solved", "solved", "solved"),
        (f"{PATH} DONE <pad>", "after DONE", "after DONE", "solved"),
        (f"{PATH} DONE UP", "after DONE", "after DONE", "solved"),
        (f"{PATH} DONE DONE", "after DONE", "after DONE", "solved"),
        (f"{PATH}", "no DONE", "no DONE", "no DONE"),
        (f"{PATH} <eos> DONE", "no DONE", "no DONE", "no DONE"),
        ("", "no DONE", "no DONE", "no DONE"),
        ("<eos>", "no DONE", "no DONE", "no DONE"),
        ("DONE", "not at goal", "not at goal", "not at goal"),
        (f"DONE {PATH}", "not at goal", "not at goal", "not at goal"),
        ("DOWN DOWN RIGHT DONE", "not at goal", "not at goal", "not at goal"),
        ("DOWN DOWN DONE", "not at goal", "not at goal", "not at goal"),
        (f"UP {PATH} DONE", "wall", "wall", "wall"),
        ("DOWN RIGHT DONE", "wall", "wall", "wall"),
        ("DOWN DOWN LEFT DONE", "wall", "wall", "wall"),
        ("RIGHT RIGHT DOWN DONE", "wall", "wall", "wall"),
        (f"RIGHT LEFT {PATH} DONE", "not the target", "solved", "solved"),
        (f"RIGHT RIGHT LEFT LEFT {PATH} DONE", "not the target", "solved", "solved"),
        (f"DOWN UP {PATH} DONE", "not the target", "solved", "solved"),
        (f"{PATH} LEFT RIGHT DONE", "not the target", "solved", "solved"),
        (f"{PATH} LEFT DONE", "not at goal", "not at goal", "solved"),
        (f"{PATH} DOWN DONE", "wall", "wall", "solved"),
        (f"{PATH} RIGHT", "wall", "wall", "no DONE"),
        (f"{PATH} PATH DONE", "stray token", "stray token", "stray token"),
        ("DOWN <pad> DONE", "stray token", "stray token", "stray token"),
        ("<bos> DOWN DONE", "stray token", "stray token", "stray token"),
        ("DOWN nonsense DONE", "stray token", "stray token", "stray token"),
    ],
)
def test_verdicts(completion: str, target: str, reach_goal: str, maxrl: str) -> None:
    for rule, reason in zip(RULES, (target, reach_goal, maxrl), strict=True):
        expected = Result(reason == "solved", reason)
        assert verify(CORNER, completion, rule) == expected
        assert verify(CORNER.grids()[0], tokens.from_text(completion), rule) == expected


@pytest.mark.parametrize("stray", [-1, 32, 17, 31, 12, 2**40, -(2**62)])
def test_ids_that_are_no_token(stray: int) -> None:
    for rule in RULES:
        assert verify(CORNER, [14, stray, 7], rule).reason == "stray token"


def slow_verdict(grid: np.ndarray, ids: list[int], rule: Rule) -> bool:
    """Success by the rules' words: cut at <eos>, split at DONE, walk on squares, compare with the breadth-first path."""
    names = [tokens.token_name(number) for number in ids]
    names = names[: names.index("<eos>")] if "<eos>" in names else names
    if "DONE" not in names:
        return False
    moves, rest = names[: names.index("DONE")], names[names.index("DONE") + 1 :]
    if not set(moves) <= set(ref.MOVES):
        return False
    if rule == "maxrl":
        return any(ref.walks_to_goal(grid, moves[:end]) for end in range(len(moves) + 1))
    if rest:
        return False
    return moves == ref.solve(grid) if rule == "target" else ref.walks_to_goal(grid, moves)


def fuzz(count: int, rng: np.random.Generator) -> tuple[Mazes, np.ndarray, np.ndarray, np.ndarray]:
    """Random completions near the interesting ones: noise, legal-looking noise, and solutions with one to three edits."""
    mazes = generate(64, 9, 3)
    right, steps = tokens.solution_ids(mazes)
    index = rng.integers(len(mazes), size=count)
    ids = rng.integers(-3, 36, size=(count, 40))
    actions = rng.random(count) < 0.4
    ids[actions] = rng.choice([7, 2, 13, 14, 15, 16], p=[0.1, 0.05, 0.2, 0.25, 0.15, 0.25], size=(actions.sum(), 40))
    lengths = rng.integers(0, 41, size=count)
    for row in np.flatnonzero(rng.random(count) < 0.6):
        path = right[index[row], : steps[index[row]]].tolist()
        for _ in range(rng.integers(0, 3)):
            at = int(rng.integers(len(path)))
            edits = [
                [],
                [path[at]] * 2,
                [int(rng.integers(0, 18))],
                [13, 14, path[at]],
                [16, 15, path[at]],
                [14, 13, path[at]],
            ]
            path[at : at + 1] = edits[rng.integers(len(edits))]
            path = path or [7]
        path = path[:40]
        ids[row, : len(path)], lengths[row] = path, len(path)
    return mazes, index, ids, lengths


def test_fuzz_agrees_with_the_slow_walker() -> None:
    mazes, index, ids, lengths = fuzz(100_000, np.random.default_rng(5))
    grids = mazes.grids()
    cut = [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]
    won = {}
    for rule in RULES:
        success, reasons = verify_batch(mazes, index, ids, lengths, rule)
        assert (success == (reasons == 0)).all()
        assert reasons.max() < len(REASONS)
        # Every success is checked, and every failure of the first tenth: the slow walker is slow.
        for row in sorted({*np.flatnonzero(success)[:3000].tolist(), *range(10_000)}):
            assert success[row] == slow_verdict(grids[index[row]], cut[row], rule), (rule, cut[row])
        won[rule] = int(success.sum())
        assert set(REASONS) - {REASONS[code] for code in np.unique(reasons)} <= {"not the target", "after DONE"}
    assert 10_000 < won["target"] < won["reach_goal"] < won["maxrl"]


def test_solutions_are_right_and_every_single_edit_is_wrong() -> None:
    mazes = generate(100, 17, 0)
    ids, lengths = tokens.solution_ids(mazes)
    for rule in RULES:
        assert verify_batch(mazes, np.arange(100), ids, lengths, rule)[0].all()
    for maze in (0, 1):
        path = ids[maze, : lengths[maze] - 1]
        wrong = [
            [*path[:at], put, *path[at + 1 :]] for at in range(len(path)) for put in range(-1, 33) if put != path[at]
        ]
        index = np.full(len(wrong), maze)
        success, _ = verify_batch(mazes, index, np.array(wrong), np.full(len(wrong), len(path)))
        assert not success.any()
    other = np.roll(np.arange(100), 1)
    success, _ = verify_batch(mazes, other, ids, lengths)
    same = [mazes.solutions()[here].tolist() == mazes.solutions()[there].tolist() for here, there in enumerate(other)]
    assert success.tolist() == same


def test_batches_of_other_dtypes_and_empty_ones() -> None:
    mazes = generate(3, 9, 0)
    ids, lengths = tokens.solution_ids(mazes)
    for dtype in (np.uint8, np.int16, np.int32):
        assert verify_batch(mazes, np.arange(3, dtype=dtype), ids.astype(dtype), lengths.astype(dtype))[0].all()
    assert verify_batch(mazes, np.arange(3)[::-1], ids[::-1], lengths[::-1])[0].all()
    success, reasons = verify_batch(mazes, np.zeros(0, int), np.zeros((0, 5), int), np.zeros(0, int))
    assert (len(success), len(reasons)) == (0, 0)
    success, _ = verify_batch(mazes, np.zeros(2, int), np.zeros((2, 0), int), np.zeros(2, int))
    assert not success.any()


def test_what_is_refused() -> None:
    mazes = generate(3, 9, 0)
    ids, lengths = tokens.solution_ids(mazes)
    each = np.arange(3)
    for arguments, said in [
        ((mazes, each + 1, ids, lengths), r"index must lie in 0 \.\.\. 2, got index=3"),
        ((mazes, each - 1, ids, lengths), r"index must lie in 0 \.\.\. 2, got index=-1"),
        ((mazes, each, ids, lengths + 99), "lengths must lie in"),
        ((mazes, each, ids, -lengths), "lengths must lie in"),
    ]:
        with pytest.raises(ValueError, match=said):
            verify_batch(*arguments)
    with pytest.raises((ValueError, TypeCheckError)):
        verify_batch(mazes, each[:2], ids, lengths)
    with pytest.raises((ValueError, TypeCheckError)):
        verify_batch(mazes, each, ids, lengths, "both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="verify judges one maze"):
        verify(mazes, ids[0])
    with pytest.raises(ValueError, match="one-dimensional"):
        verify(mazes[0], ids)
    with pytest.raises((ValueError, TypeCheckError)):
        verify(mazes[0], [13.0, 7.0])
