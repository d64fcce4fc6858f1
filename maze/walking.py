"""The verifier's walk, compiled. Its rules and reasons are stated in `maze.verifier`."""

from __future__ import annotations

import numpy as np
from numba import njit

from .carving import is_open, wall_bits

SOLVED, NO_DONE, WALL_HIT, STRAY_TOKEN, NOT_AT_GOAL, NOT_THE_TARGET, AFTER_DONE = 0, 1, 2, 3, 4, 5, 6
TARGET, REACH_GOAL, MAXRL = 0, 1, 2
_DONE, _EOS, _UP, _RIGHT = 7, 2, 13, 16


@njit(nogil=True, cache=True, error_model="numpy")
def judge(passages: np.ndarray, bits: np.ndarray, cells: int, ids: np.ndarray, length: int, rule: int) -> int:
    """The reason code of one completion, ids[0:length].

    A step enters a wall gap and the next one leaves it: `halfway` holds the action that entered, -1 in a cell. The squares
    of a perfect maze form a tree, so a legal walk is the simple path exactly if no step undoes the one before.
    """
    side = cells + 2
    place, goal = side + 1, cells * side + cells
    halfway, before, turned, arrived = -1, -1, False, False
    for at in range(length):
        token = ids[at]
        if token == _EOS:
            return NO_DONE
        if token == _DONE:
            if not arrived and (halfway >= 0 or place != goal):
                return NOT_AT_GOAL
            if rule == TARGET and turned:
                return NOT_THE_TARGET
            ended = rule == MAXRL or at + 1 == length or ids[at + 1] == _EOS
            return SOLVED if ended else AFTER_DONE
        if token < _UP or token > _RIGHT:
            return STRAY_TOKEN
        if arrived:
            continue
        action = token - _UP
        turned = turned or action == before ^ 1
        before = action
        if halfway >= 0:
            if action == halfway:
                place += (-side, side, -1, 1)[action]
            elif action != halfway ^ 1:
                return WALL_HIT
            halfway = -1
            arrived = rule == MAXRL and place == goal
        elif bits[place, action] < 0 or not is_open(passages, bits[place, action]):
            return WALL_HIT
        else:
            halfway = action
    return NO_DONE


@njit(nogil=True, cache=True, error_model="numpy")
def judge_many(
    passages: np.ndarray,
    index: np.ndarray,
    cells: int,
    ids: np.ndarray,
    lengths: np.ndarray,
    rule: int,
    reasons: np.ndarray,
) -> None:
    """Reason codes of all completions into `reasons` (uint8[completion])."""
    bits = wall_bits(cells)
    for row in range(ids.shape[0]):
        reasons[row] = judge(passages[index[row]], bits, cells, ids[row], lengths[row], rule)
