"""Mazes as packed bits, compiled: randomised Prim, the solution, the check that a maze is perfect, exact deduplication.

A maze of c x c cells is a row of bytes. Bit b (of byte b // 8, lowest bit first) is 1 where a wall is open: first the
c (c - 1) walls between (row, column) and (row, column + 1), row by row, then the walls between (row, column) and
(row + 1, column). Boards below have a rim of one cell, so that no step needs a bounds check.
Left out on purpose: grids and everything that a reader calls (`maze.mazes`, `maze.generation`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .philox import below

# The order of tokens UP, DOWN, LEFT, RIGHT.
UP, DOWN, LEFT, RIGHT = 0, 1, 2, 3
# Board, frontier, one block of random words, the bits of the joining walls.
Scratch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_UNSEEN, _FRONTIER, _INSIDE, _RIM = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)


@njit(nogil=True, cache=True, error_model="numpy")
def wall_bits(cells: int) -> np.ndarray:
    """int64[place, action]: the bit of the wall that one meets when leaving a board place, -1 for the outer wall."""
    side = cells + 2
    bits = np.full((side * side, 4), -1, dtype=np.int64)
    for row in range(cells):
        for column in range(cells):
            place = (row + 1) * side + column + 1
            if column + 1 < cells:
                bits[place, RIGHT] = bits[place + 1, LEFT] = row * (cells - 1) + column
            if row + 1 < cells:
                bits[place, DOWN] = bits[place + side, UP] = cells * (cells - 1) + row * cells + column
    return bits


@njit(nogil=True, cache=True, error_model="numpy")
def is_open(passages: np.ndarray, bit: int) -> bool:
    """Whether the wall of that bit is open."""
    return bool((passages[bit >> 3] >> np.uint8(bit & 7)) & np.uint8(1))


@njit(nogil=True, cache=True, error_model="numpy")
def clear_board(board: np.ndarray, cells: int) -> None:
    """Unseen cells within a rim. board: uint8[(cells + 2)^2]."""
    board[:] = _RIM
    for row in range(1, cells + 1):
        board[row * (cells + 2) + 1 : row * (cells + 2) + 1 + cells] = _UNSEEN


@njit(nogil=True, cache=True, error_model="numpy")
def carve(
    passages: np.ndarray, bits: np.ndarray, cells: int, key: np.uint64, number: np.uint64, scratch: Scratch
) -> None:
    """Maze `number` of stream `key` into `passages` (uint8[byte]); the law is stated in `maze.generation`.

    One draw below 12 * (frontier size) gives both choices: 12 is a multiple of the one to four joining neighbours.
    """
    board, frontier, words, joins = scratch
    side = cells + 2
    steps = (-side, side, -1, 1)
    clear_board(board, cells)
    passages[:] = 0
    # The start cell is the first to join: its two neighbours wait.
    board[side + 1] = _INSIDE
    board[side + 2] = board[2 * side + 1] = _FRONTIER
    frontier[0], frontier[1] = side + 2, 2 * side + 1
    waiting, position = 2, 0
    while waiting > 0:
        drawn, position = below(12 * waiting, key, number, position, words)
        chosen = drawn // 12
        place = frontier[chosen]
        waiting -= 1
        frontier[chosen] = frontier[waiting]
        board[place] = _INSIDE
        doors = 0
        for action in range(4):
            beside = place + steps[action]
            if board[beside] == _INSIDE:
                joins[doors] = bits[place, action]
                doors += 1
            elif board[beside] == _UNSEEN:
                board[beside] = _FRONTIER
                frontier[waiting] = beside
                waiting += 1
        bit = joins[(drawn - 12 * chosen) % doors]
        passages[bit >> 3] |= np.uint8(1 << (bit & 7))


@njit(nogil=True, cache=True, error_model="numpy")
def explore(
    passages: np.ndarray,
    bits: np.ndarray,
    cells: int,
    until: int,
    board: np.ndarray,
    stack: np.ndarray,
    toward: np.ndarray,
) -> int:
    """Walk from the goal cell until the place `until` is found or nothing is left (-1); the number of cells reached.

    toward[place]: the action from there to the goal. The order is depth first: about half of the cells are seen.
    """
    side = cells + 2
    steps = (-side, side, -1, 1)
    clear_board(board, cells)
    stack[0] = cells * side + cells
    board[stack[0]] = _INSIDE
    reached, waiting = 1, 1
    while waiting > 0:
        waiting -= 1
        place = stack[waiting]
        for action in range(4):
            beside = place + steps[action]
            if board[beside] == _UNSEEN and is_open(passages, bits[place, action]):
                board[beside] = _INSIDE
                toward[beside] = action ^ 1
                stack[waiting] = beside
                waiting += 1
                reached += 1
                if beside == until:
                    return reached
    return reached


@njit(nogil=True, cache=True, error_model="numpy")
def trace(cells: int, toward: np.ndarray, actions: np.ndarray) -> int:
    """Write the grid steps from start to goal into `actions` as far as it is long; their number. Each cell step is two."""
    side = cells + 2
    steps = (-side, side, -1, 1)
    place, goal, length = side + 1, cells * side + cells, 0
    while place != goal:
        action = toward[place]
        if length + 1 < actions.size:
            actions[length] = actions[length + 1] = action
        length += 2
        place += steps[action]
    return length


@njit(nogil=True, cache=True, error_model="numpy")
def solve_all(passages: np.ndarray, cells: int, actions: np.ndarray, lengths: np.ndarray) -> None:
    """Solutions of perfect mazes into actions (uint8[maze, step], untouched past the end) and lengths (int64[maze]).

    With zero columns in `actions` only the lengths are found.
    """
    squares, bits = (cells + 2) * (cells + 2), wall_bits(cells)
    board, stack = np.empty(squares, dtype=np.uint8), np.empty(squares, dtype=np.int64)
    toward = np.zeros(squares, dtype=np.int64)
    for maze in range(passages.shape[0]):
        explore(passages[maze], bits, cells, cells + 3, board, stack, toward)
        lengths[maze] = trace(cells, toward, actions[maze])


@njit(nogil=True, cache=True, error_model="numpy")
def first_imperfect(passages: np.ndarray, cells: int) -> int:
    """The first maze that is no spanning tree, or that sets a spare bit; -1 if there is none."""
    squares, bits = (cells + 2) * (cells + 2), wall_bits(cells)
    board, stack = np.empty(squares, dtype=np.uint8), np.empty(squares, dtype=np.int64)
    toward = np.zeros(squares, dtype=np.int64)
    for maze in range(passages.shape[0]):
        opened = 0
        for byte in passages[maze]:
            while byte:
                byte &= byte - np.uint8(1)
                opened += 1
        if (
            opened != cells * cells - 1
            or explore(passages[maze], bits, cells, -1, board, stack, toward) != cells * cells
        ):
            return maze
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def hash_bytes(row: np.ndarray) -> np.uint64:
    """A 64-bit mix of a row of bytes (xor, multiply, shift)."""
    mixed = np.uint64(0xCBF29CE484222325)
    for byte in row:
        mixed = (mixed ^ np.uint64(byte)) * np.uint64(0x100000001B3)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(32))


@njit(nogil=True, cache=True, error_model="numpy")
def is_new(rows: np.ndarray, filled: int, table: np.ndarray, enter: bool) -> bool:
    """Whether no row in the hash table equals rows[filled], which is then entered if `enter`; the bytes are compared.

    table: int64[power of two], row number or -1, at least half of it free.
    """
    mask = np.uint64(table.size - 1)
    slot = hash_bytes(rows[filled]) & mask
    while table[slot] >= 0:
        same = True
        for byte in range(rows.shape[1]):
            if rows[table[slot], byte] != rows[filled, byte]:
                same = False
                break
        if same:
            return False
        slot = (slot + np.uint64(1)) & mask
    if enter:
        table[slot] = filled
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def enter_rows(rows: np.ndarray, filled: int, table: np.ndarray) -> int:
    """Enter rows[0:filled]; returns the number of distinct ones, moved to the front."""
    kept = 0
    for row in range(filled):
        rows[kept] = rows[row]
        if is_new(rows, kept, table, True):
            kept += 1
    return kept


@njit(nogil=True, cache=True, error_model="numpy")
def carve_many(
    rows: np.ndarray, filled: int, cells: int, key: np.uint64, number: int, tries: int, table: np.ndarray, unique: bool
) -> tuple[int, int]:
    """Carve mazes `number`, `number` + 1, ..., at most `tries`, into rows[filled:]; (filled, next number).

    Mazes in the table are passed over, and with `unique` those that are kept enter it. An empty table keeps every maze.
    """
    squares, bits = (cells + 2) * (cells + 2), wall_bits(cells)
    board, frontier = np.empty(squares, dtype=np.uint8), np.empty(squares, dtype=np.int64)
    scratch = (board, frontier, np.zeros(4, dtype=np.uint64), np.empty(4, dtype=np.int64))
    last = number + tries
    while filled < rows.shape[0] and number < last:
        carve(rows[filled], bits, cells, key, np.uint64(number), scratch)
        number += 1
        if table.size == 0 or is_new(rows, filled, table, unique):
            filled += 1
    return filled, number
