"""Table 4 of the paper beside this study: pass@k at the end for every group size and gamma, with the drop on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from .inputs import Results, published
from .maze_study import (
    MazeStudy,
    arm_rows,
    at_the_end,
    during,
    largest_k,
    maze_study,
    mean_and_half,
    published_at,
    seeds_of,
)


def table_rows(results: Results) -> list[dict[str, Any]]:
    """A row an arm and seed.

    Columns: study, N, gamma, seed; pass@1 and pass@K at the end with half widths of 95 % intervals over mazes, start and
    lowest pass@K of the evaluations and when, mazes never solved by the final samples (share); table 4's pass@1 and pass@256.
    """
    study, theirs = maze_study(results), published("table4_maze")
    rows = []
    for size in study.group_sizes:
        for gamma in study.gammas:
            paper = {f"table 4 pass@{k}": published_at(theirs, size, gamma, f"pass_at_{k}") for k in (1, 256)}
            rows += [
                {"study": study.name, "N": size, "gamma": gamma, "seed": seed,
                 **_run(results, study, size, gamma, seed), **paper}
                for seed in seeds_of(results, study, size, gamma)
            ]  # fmt: skip
    return rows


def _run(results: Results, study: MazeStudy, size: int, gamma: float, seed: int) -> dict[str, Any]:
    k = largest_k(arm_rows(results, "maze_evaluations", study, size, gamma, seed=seed), 256)
    ends = {each: mean_and_half(at_the_end(results, study, size, gamma, seed, each)) for each in (1, k)}
    way = {step: float(values.mean()) for step, values in during(results, study, size, gamma, seed, k).items()}
    lowest = min(way, key=lambda step: (way[step], step))
    final = arm_rows(results, "maze_final", study, size, gamma, seed=seed)
    return {
        **{name: value for each, (mean, half) in ends.items()
           for name, value in ((f"pass@{each}", mean), (f"± {each}", half))},
        f"start pass@{k}": way[0], f"lowest pass@{k}": way[lowest], "lowest after": lowest,
        "never solved": float(np.mean(final["correct"] == 0)),
    }  # fmt: skip


def report_rows(results: Results) -> list[dict[str, str]]:
    """The table for the report: texts, means over seeds with their range where there are several."""
    rows = table_rows(results)
    arms = dict.fromkeys((row["N"], row["gamma"]) for row in rows)
    return [_text([row for row in rows if (row["N"], row["gamma"]) == arm]) for arm in arms]


def _text(rows: list[dict[str, Any]]) -> dict[str, str]:
    first = rows[0]
    found = {"N": str(first["N"]), "γ": f"{first['gamma']:g}", "seeds": str(len(rows))}
    for name in [name for name in first if name.startswith(("pass@", "start", "lowest pass", "never"))]:
        values = [row[name] for row in rows]
        spread = f" ({min(values):.3f} to {max(values):.3f})" if len(rows) > 1 and max(values) > min(values) else ""
        found[name] = f"{np.mean(values):.3f}{spread}"
    for name in [name for name in first if name.startswith("table 4")]:
        found[name] = "-" if first[name] is None else f"{first[name]:.3f}"
    return found
