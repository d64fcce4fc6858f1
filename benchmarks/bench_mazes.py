"""Speed of the mazes: generated and solved a second, a million unique ones, verdicts a second; each against plain Python.

    python benchmarks/bench_mazes.py                acceptance: 17 x 17, the million included (about half a minute)
    python benchmarks/bench_mazes.py --quick        a tenth of it, no limit judged

The plain reference is the same law on lists and sets of the standard library (below); it takes turns with the fast code in
the same process, and ratios are medians over the turns. Times are CPU seconds of one thread (`time.thread_time`), so that
other processes disturb little; the million's wall time stands beside its CPU time. Exit code 1 if a limit is missed.

The bound, for one maze of 17 x 17 on a core that does about 1e9 dependent small steps a second: 62 draws (16 blocks of
Philox, 0.25 us), 63 cells that look at 4 sides each for carving (252 looks) and about 40 more for solving (160 looks), at
one to two steps a look: about 0.7 us. Random reads of the hash table add one cache miss, 0.1 us.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fgrpo_theory.foundation.printing import render
from maze.generation import generate
from maze.mazes import STEPS, Mazes
from maze.tokens import solution_ids
from maze.verifier import verify_batch

SIZE = 17
LEAST_A_SECOND, MOST_SECONDS, MOST_GIB = 100_000, 30.0, 2.0
BOUND_SECONDS = 0.8e-6


def plain_maze(cells: int, draws: random.Random) -> list[list[bool]]:
    """Randomised Prim by frontier cells, True = wall."""
    grid = [[True] * (2 * cells + 1) for _ in range(2 * cells + 1)]
    inside = {(0, 0)}
    frontier = [(0, 1), (1, 0)]
    grid[1][1] = False
    while frontier:
        at = draws.randrange(len(frontier))
        frontier[at], frontier[-1] = frontier[-1], frontier[at]
        row, column = frontier.pop()
        around = [(row + down, column + right) for down, right in STEPS]
        old = draws.choice([cell for cell in around if cell in inside])
        grid[row + old[0] + 1][column + old[1] + 1] = grid[2 * row + 1][2 * column + 1] = False
        inside.add((row, column))
        for cell in around:
            fits = 0 <= cell[0] < cells and 0 <= cell[1] < cells
            if fits and cell not in inside and cell not in frontier:
                frontier.append(cell)
    return grid


def plain_solution(grid: list[list[bool]]) -> list[int]:
    """Breadth-first search on squares."""
    goal = (len(grid) - 2, len(grid) - 2)
    came: dict[tuple[int, int], tuple[tuple[int, int], int]] = {(1, 1): ((1, 1), -1)}
    queue = deque([(1, 1)])
    while goal not in came:
        square = queue.popleft()
        for action, (down, right) in enumerate(STEPS):
            beside = (square[0] + down, square[1] + right)
            if not grid[beside[0]][beside[1]] and beside not in came:
                came[beside] = (square, action)
                queue.append(beside)
    path, square = [], goal
    while square != (1, 1):
        square, action = came[square]
        path.append(action)
    return path[::-1]


def plain_verdict(grid: list[list[bool]], ids: list[int]) -> bool:
    """Whether actions, then DONE, walk to the goal without a wall and without a square met twice."""
    row, column, seen = 1, 1, {(1, 1)}
    for at, token in enumerate(ids):
        if token == 7:
            return (row, column) == (len(grid) - 2, len(grid) - 2) and ids[at + 1 : at + 2] in ([], [2])
        if not 13 <= token <= 16:
            return False
        row, column = row + STEPS[token - 13][0], column + STEPS[token - 13][1]
        if grid[row][column] or (row, column) in seen:
            return False
        seen.add((row, column))
    return False


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of this thread."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def compare(fast: Callable[[], object], count: int, plain: Callable[[], object], plain_count: int) -> dict[str, float]:
    """Medians over five turns: items a second of both, and the ratio."""
    fast()
    turns = [(count / timed(fast), plain_count / timed(plain)) for _ in range(5)]
    return {
        "a second": statistics.median(turn[0] for turn in turns),
        "plain, a second": statistics.median(turn[1] for turn in turns),
        "ratio": statistics.median(turn[0] / turn[1] for turn in turns),
    }


def speeds(count: int, plain_count: int) -> tuple[dict[str, float], dict[str, float]]:
    """(mazes generated and solved, completions verified): rates of the fast and the plain code."""
    draws = random.Random(0)
    made = compare(
        lambda: generate(count, SIZE, 0).padded_solutions(),
        count,
        lambda: [plain_solution(plain_maze((SIZE - 1) // 2, draws)) for _ in range(plain_count)],
        plain_count,
    )
    mazes = generate(count, SIZE, 1)
    ids, lengths = solution_ids(mazes)
    ids[::2, 20] = 13  # half of them with a step upward in the middle
    grids, rows = mazes[:plain_count].grids().tolist(), ids[:plain_count].tolist()
    judged = compare(
        lambda: verify_batch(mazes, np.arange(count), ids, lengths),
        count,
        lambda: [plain_verdict(grid, row) for grid, row in zip(grids, rows, strict=True)],
        plain_count,
    )
    return made, judged


def unique_mazes(count: int) -> tuple[float, float, Mazes]:
    """(CPU seconds, wall seconds, the mazes) for `count` distinct ones."""
    wall, cpu = time.perf_counter(), time.thread_time()
    mazes = generate(count, SIZE, 0)
    return time.thread_time() - cpu, time.perf_counter() - wall, mazes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the mazes; no limit is judged")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    made, judged = speeds(100_000 // scale, 300 // scale)
    cpu, wall, mazes = unique_mazes(1_000_000 // scale)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    distinct = len(np.unique(mazes.passages.view(f"V{mazes.passages.shape[1]}")))
    print(render([{"what": "generated and solved", **made}, {"what": "verified", **judged}], digits=4))
    facts = {
        "distance from the bound (generated and solved), times": 1 / (made["a second"] * BOUND_SECONDS),
        f"{len(mazes)} unique mazes, CPU s": cpu,
        f"{len(mazes)} unique mazes, wall s": wall,
        "distinct among them": distinct,
        "peak memory of the process, GiB": memory,
        "bytes a maze": mazes.passages.shape[1],
    }
    print(render([{"what": what, "value": value} for what, value in facts.items()], digits=4))
    met = made["a second"] >= LEAST_A_SECOND and cpu < MOST_SECONDS and memory < MOST_GIB and distinct == len(mazes)
    return 0 if arguments.quick or met else 1


if __name__ == "__main__":
    sys.exit(main())
