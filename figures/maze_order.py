"""The order of the focal exponents at the end of the maze study, for every group size, beside that of table 4.

Two exponents are told apart at one N where the interval of their difference, paired by held-out maze, excludes 0 for every
seed that both have, with the same sign. The intervals are normal and hold together at 95 % over all pairs and group sizes
(Bonferroni). They are over mazes: with one seed they speak of those runs, and another seed may order them otherwise.
Left out on purpose: pairs that table 4 gives as equal.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from .inputs import Results, published
from .maze_study import Floats, MazeStudy, at_the_end, largest_k, maze_study, mean_and_half, published_at, seeds_of
from .studies import rows_of

LEVEL = 0.95
"""of all intervals together"""

Signs = dict[tuple[float, float], int]
"""(gamma, other gamma) -> 1: the first is higher, -1: the second, 0: not told apart."""


def order_rows(results: Results) -> list[dict[str, Any]]:
    """A row a quantity and N: the order here and in table 4, and how many pairs are as there, against it or open."""
    study = maze_study(results)
    end = rows_of(results["maze_final"], study=study.name)
    k = largest_k(rows_of(results["maze_evaluations"], study=study.name), min(256, largest_k(end, 256)))
    return [
        _row(results, study, size, each, theirs) for each, theirs in ((1, 1), (k, 256)) for size in study.group_sizes
    ]


def _row(results: Results, study: MazeStudy, size: int, k: int, paper_k: int) -> dict[str, Any]:
    ends = {
        gamma: {
            seed: at_the_end(results, study, size, gamma, seed, k) for seed in seeds_of(results, study, size, gamma)
        }
        for gamma in study.gammas
    }
    ends = {gamma: of for gamma, of in ends.items() if of}
    ours = signs(ends, pairs=len(study.group_sizes) * len(list(combinations(study.gammas, 2))))
    table = published("table4_maze")
    values = {gamma: published_at(table, size, gamma, f"pass_at_{paper_k}") for gamma in ends}
    paper = {gamma: value for gamma, value in values.items() if value is not None}
    theirs = {(a, b): int(np.sign(paper[a] - paper[b])) for a, b in combinations(paper, 2)}
    judged = [ours[pair] * sign for pair, sign in theirs.items() if sign]
    means = {gamma: float(np.mean([values.mean() for values in of.values()])) for gamma, of in ends.items()}
    return {
        "quantity": f"pass@{k}", "N": size, "here": written(means, ours), "table 4": written(paper, theirs, "=") or "-",
        "as table 4": judged.count(1), "against it": judged.count(-1), "open": judged.count(0),
    }  # fmt: skip


def signs(ends: dict[float, dict[int, Floats]], pairs: int) -> Signs:
    """Which of two exponents is higher, by the module's rule. ends[gamma][seed]: a value a maze; pairs: how many are judged.

    >>> high, low = np.full(9, 0.7), np.full(9, 0.2)
    >>> signs({0.0: {0: low}, 1.0: {0: high}}, pairs=1)
    {(0.0, 1.0): -1}
    """
    wider = NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * pairs)) / NormalDist().inv_cdf((1 + LEVEL) / 2)
    found = {}
    for first, second in combinations(ends, 2):
        shared = sorted(ends[first].keys() & ends[second].keys())
        parts = [mean_and_half(ends[first][seed] - ends[second][seed]) for seed in shared]
        clear = {int(np.sign(mean)) if abs(mean) > half * wider else 0 for mean, half in parts}
        found[first, second] = clear.pop() if len(clear) == 1 else 0
    return found


def written(means: dict[float, float], found: Signs, equal: str = "~") -> str:
    """The exponents from the highest mean to the lowest; `equal` joins neighbours that are not told apart.

    >>> written({0.0: 0.5, 0.5: 0.8, 1.0: 0.7}, {(0.0, 0.5): -1, (0.0, 1.0): -1, (0.5, 1.0): 0})
    '0.5 ~ 1 > 0'
    """
    ordered = sorted(means, key=lambda gamma: -means[gamma])
    text = f"{ordered[0]:g}" if ordered else ""
    for upper, lower in pairwise(ordered):
        told = found.get((upper, lower), 0) or found.get((lower, upper), 0)
        text += f" {'>' if told else equal} {lower:g}"
    return text
