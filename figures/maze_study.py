"""The maze study as figures read it: runs by objective, group size, gamma and seed; pass@k a maze; differences to GRPO.

A results folder may hold several studies (`fgrpo maze study` into results/maze/NAME); figures show the one with the most
runs, the first by name among equals, and say its scale. Differences between arms are paired by held-out maze, because
mazes differ far more than arms. Intervals of one seed are normal, 95 %, over mazes: they hold what sampling and the choice
of mazes add, and nothing of what another seed would change; so every seed is shown by itself.
Left out on purpose: other objectives than the study's plain one, which the tables hold (docs/maze.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fgrpo_theory as theory
from fgrpo_theory.foundation.checks import require

from .inputs import Columns, Results
from .studies import rows_of

Floats = NDArray[np.float64]
OBJECTIVE = "grpo"
NORMAL = 1.959963984540054
"""two-sided 95 %"""


@dataclass(frozen=True)
class MazeStudy:
    """Which study, its arms and its scale."""

    name: str
    """of its folder"""
    group_sizes: tuple[int, ...]
    """N, rising"""
    gammas: tuple[float, ...]
    """focal exponents, rising; 0 is GRPO"""
    seeds: tuple[int, ...]
    """every seed that some arm has"""
    scale: str
    """one line for figures: mazes, model, updates"""
    steps: int
    """RL updates"""


def maze_study(results: Results) -> MazeStudy:
    """The study that figures show. Raises ValueError if it has no run of the plain objective."""
    runs = results["maze_runs"]
    names, counts = np.unique(runs["study"].astype(str), return_counts=True)
    name = str(names[int(np.argmax(counts))])
    table = rows_of(runs, study=name, objective=OBJECTIVE)
    require(len(table["run"]) > 0, f"a maze study must have runs of {OBJECTIVE}", study=name)
    sizes, gammas, seeds = (tuple(np.unique(table[column]).tolist()) for column in ("group_size", "gamma", "seed"))
    return MazeStudy(name, sizes, gammas, seeds, _scale(table), int(table["steps"][0]))


def _scale(table: Columns) -> str:
    size, parameters = int(table["maze_size"][0]), float(table["parameters"][0])
    return (
        f"{size} × {size} mazes, {parameters / 1e6:.2g} M parameters, {int(table['steps'][0])} updates of "
        f"{int(table['prompts_per_step'][0])} prompts"
    )


def arm_rows(results: Results, source: str, study: MazeStudy, size: int, gamma: float, **equal: object) -> Columns:
    """Rows of one table for one arm of the plain objective (all its seeds, unless `equal` names one); may be none."""
    return rows_of(results[source], study=study.name, objective=OBJECTIVE, group_size=size, gamma=gamma, **equal)


def seeds_of(results: Results, study: MazeStudy, size: int, gamma: float) -> list[int]:
    """Seeds that an arm has finished, rising; may be none."""
    return [int(seed) for seed in np.unique(arm_rows(results, "maze_runs", study, size, gamma)["seed"])]


def per_maze(table: Columns, k: int) -> Floats:
    """pass@k of each maze (eq. 27), in the order of the mazes. Raises ValueError for a maze that comes twice."""
    order = np.argsort(table["maze"], kind="stable")
    mazes = table["maze"][order]
    require(len(np.unique(mazes)) == len(mazes), "a run must have one row a maze and step", rows=len(mazes))
    return np.asarray(theory.pass_at_k(table["samples"][order], table["correct"][order], k), dtype=np.float64)


def largest_k(table: Columns, most: int) -> int:
    """The largest power of two that every row's samples allow, at most `most`."""
    return min(most, 1 << (int(np.min(table["samples"])).bit_length() - 1))


def mean_and_half(values: Sequence[float] | Floats) -> tuple[float, float]:
    """Mean and half width of the normal 95 % interval of the mean; width 0 for a single value.

    >>> mean_and_half([0.0, 1.0, 0.0, 1.0])[0]
    0.5
    """
    array = np.asarray(values, dtype=np.float64)
    half = NORMAL * float(array.std(ddof=1)) / np.sqrt(len(array)) if len(array) > 1 else 0.0
    return float(array.mean()), float(half)


def estimate(values: Floats) -> dict[str, float]:
    """mean, low and high of a mean over mazes."""
    mean, half = mean_and_half(values)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def during(results: Results, study: MazeStudy, size: int, gamma: float, seed: int, k: int) -> dict[int, Floats]:
    """pass@k a maze after each evaluated step of one run."""
    table = arm_rows(results, "maze_evaluations", study, size, gamma, seed=seed)
    return {int(step): per_maze(rows_of(table, step=step), k) for step in np.unique(table["step"])}


def at_the_end(results: Results, study: MazeStudy, size: int, gamma: float, seed: int, k: int) -> Floats:
    """pass@k a maze after the last step, from the larger number of samples."""
    return per_maze(arm_rows(results, "maze_final", study, size, gamma, seed=seed), k)


@dataclass(frozen=True)
class Moment:
    """One way of comparing runs: a quantity a maze."""

    label: str
    """for figures"""
    k: int
    """of pass@k"""
    step: int | None
    """after this step, by the samples of training; None: at the end, by the final samples"""

    def of(self, results: Results, study: MazeStudy, size: int, gamma: float, seed: int) -> Floats:
        """The quantity a maze of one run."""
        if self.step is None:
            return at_the_end(results, study, size, gamma, seed, self.k)
        return during(results, study, size, gamma, seed, self.k)[self.step]


def moments(results: Results, study: MazeStudy) -> tuple[Moment, Moment, Moment]:
    """The early drop (first evaluation after the start), the end at the same k, and the end's pass@1."""
    table = rows_of(results["maze_evaluations"], study=study.name, objective=OBJECTIVE)
    k, steps = largest_k(table, 256), np.unique(table["step"])
    require(len(steps) > 1, "a study must be evaluated after its start too", study=study.name)
    early = int(steps[1])
    return (
        Moment(f"pass@{k} after {early} updates", k, early),
        Moment(f"pass@{k} at the end", k, None),
        Moment("pass@1 at the end", 1, None),
    )


def differences(results: Results, study: MazeStudy, moment: Moment, size: int, gamma: float) -> dict[int, Floats]:
    """By seed that both have: the moment a maze of the arm, less that of GRPO with the same N."""
    seeds = set(seeds_of(results, study, size, gamma)) & set(seeds_of(results, study, size, 0.0))
    return {
        seed: moment.of(results, study, size, gamma, seed) - moment.of(results, study, size, 0.0, seed)
        for seed in sorted(seeds)
    }


def start_values(results: Results, study: MazeStudy, size: int, gamma: float, seed: int, k: int) -> Floats:
    """pass@k a maze before the first update."""
    return during(results, study, size, gamma, seed, k)[0]


def published_at(table: Columns, size: int, gamma: float, column: str) -> float | None:
    """A published value as a share (the table has per cent), None where the paper has none."""
    rows: dict[str, Any] = dict(rows_of(table, group_size=size, gamma=gamma))
    return float(rows[column][0]) / 100 if len(rows[column]) else None
