"""A small made-up maze study in the shape that `fgrpo maze study` writes.

In it GRPO's pass@k drops at the first evaluation, the focal weight keeps more than GRPO at every N, early and at the end, and
reaches a higher pass@1; long paths are lost first. Training groups are those that eq. 7 and 12 expect, to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fgrpo_theory.foundation.files import write_table

SIZES, GAMMAS = (4, 8, 16), (0.0, 0.5, 1.0)
MAZES, SAMPLES, FINAL = 24, 16, 64
STEPS, EVALUATED = 10, (0, 5, 10)
PROMPTS = 12
LENGTHS = np.repeat([4, 6, 8, 12], MAZES // 4)
WALLS = "#####/#   #/### #/#   #/#####"
SOLUTION = "RIGHT RIGHT DOWN DOWN DONE"

SOLVED = {(0, 0.0): 22, (0, 0.5): 22, (0, 1.0): 22, (5, 0.0): 10, (5, 0.5): 16, (5, 1.0): 18,
          (10, 0.0): 12, (10, 0.5): 17, (10, 1.0): 20}  # fmt: skip
"""(step, gamma) -> mazes with a right sample, those with the shortest paths."""


def seeds(size: int) -> tuple[int, ...]:
    """N = 8 has two seeds."""
    return (0, 1) if size == 8 else (0,)


def runs() -> Iterator[dict[str, Any]]:
    """The labels of every run."""
    for size in SIZES:
        for gamma in GAMMAS:
            for seed in seeds(size):
                yield {"run": f"grpo-N{size}-g{gamma:g}-s{seed}", "objective": "grpo", "group_size": size, "gamma": gamma,
                       "seed": seed}  # fmt: skip


def correct(step: int, gamma: float, size: int, seed: int, samples: int = SAMPLES) -> np.ndarray:
    """Right samples of each maze: a share of them on solved ones, more at larger N, gamma and step."""
    solved = SOLVED[step, gamma] + (size == 16) - seed
    share = 0.25 + step * (0.02 + 0.01 * gamma) + 0.002 * size if step else 0.25
    return np.where(np.arange(MAZES) < solved, round(share * samples), 0)


def heldout(step: int, labels: dict[str, Any], samples: int) -> dict[str, Any]:
    """Rows of evaluations (or final, for FINAL samples) of one run."""
    return {
        "maze": np.arange(MAZES),
        "path_length": LENGTHS,
        "samples": np.full(MAZES, samples),
        "correct": correct(step, labels["gamma"], labels["group_size"], labels["seed"], samples),
        "truncated": np.zeros(MAZES, dtype=int),
    }


def groups(step: int, labels: dict[str, Any]) -> dict[str, Any]:
    """The groups of one update: half of the prompts as the solved mazes of the evaluation before, half as the unsolved."""
    before = max(at for at in EVALUATED if at < step)
    counts = correct(before, labels["gamma"], labels["group_size"], labels["seed"])
    rates = np.sort(counts)[:: MAZES // PROMPTS] / SAMPLES
    return {
        "problem": [f"train-{step}-{place}" for place in range(PROMPTS)],
        "correct": np.round(rates * labels["group_size"]).astype(int),
        "scorable": np.full(PROMPTS, labels["group_size"]),
    }


def paths(step: int, labels: dict[str, Any]) -> dict[str, Any]:
    """Two samples of two mazes: maze 0 is solved more and more, maze 1 at the start alone."""
    wrong = "RIGHT RIGHT DOWN LEFT <script>alert(1)</script>"
    return {
        "maze": [0, 0, 1, 1],
        "sample": [0, 1, 0, 1],
        "completion": [SOLUTION, SOLUTION if step else wrong, wrong, wrong if step else SOLUTION],
        "success": [True, step > 0, False, step == 0],
        "reason": ["", "" if step else "hit a wall", "hit a wall", "hit a wall" if step else ""],
    }


def write_maze_study(root: Path, name: str = "laptop") -> Path:
    """Every table of a study, as root/maze/NAME/*.parquet."""
    folder = root / "maze" / name
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, list[dict[str, Any]]] = {key: [] for key in ("runs", "evaluations", "final", "groups", "paths")}
    for labels in runs():
        scale = {
            "maze_size": 5,
            "parameters": 989_312,
            "steps": STEPS,
            "prompts_per_step": PROMPTS,
            "learning_rate": 1e-4,
        }
        tables["runs"].append(_labelled(labels, {key: [value] for key, value in scale.items()}))
        tables["final"].append(_labelled(labels, heldout(STEPS, labels, FINAL)))
        for step in EVALUATED:
            tables["evaluations"].append(_labelled(labels, heldout(step, labels, SAMPLES), step))
            tables["paths"].append(_labelled(labels, paths(step, labels), step))
        tables["groups"] += [_labelled(labels, groups(step, labels), step) for step in range(1, STEPS + 1)]
    for key, parts in tables.items():
        write_table(folder / f"{key}.parquet", {c: np.concatenate([part[c] for part in parts]) for c in parts[0]})
    count = range(MAZES)
    write_table(folder / "mazes.parquet", {"maze": list(count), "size": [5 for _ in count], "walls": [WALLS for _ in count],
                                           "solution": [SOLUTION for _ in count]})  # fmt: skip
    return folder


def _labelled(labels: dict[str, Any], rows: dict[str, Any], step: int | None = None) -> dict[str, np.ndarray]:
    length = len(next(iter(rows.values())))
    steps = {} if step is None else {"step": step}
    return {key: np.array([value] * length) for key, value in {**labels, **steps}.items()} | {
        key: np.asarray(value) for key, value in rows.items()
    }
