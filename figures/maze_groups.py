"""How the maze study's real training groups agree with the theory: activity (eq. 7) and the mean focal weight (eq. 12).

The share of training groups that are active, and the mean focal weight, against their expectations under the success rates
that held-out mazes have at that step. Training mazes and held-out ones are drawn alike and RL meets each training maze once,
so both have one law. The expectations are unbiased: a random N of the n samples of a maze is a group
(`fgrpo_theory.group_estimates`); a group's own success rate would not do, as it is 0 or 1 whenever the group is inactive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fgrpo_theory.focal import focal_weight
from fgrpo_theory.group_estimates import subsampled_focal_weight, subsampled_tail_miss

from . import style
from .inputs import Results
from .maze_figures import gamma_legend
from .maze_study import NORMAL, MazeStudy, arm_rows, maze_study, mean_and_half, seeds_of
from .registry import Numbers, register

WINDOW = 5
"""updates after an evaluation whose groups count as drawn from that policy"""


def groups_numbers(results: Results) -> Numbers:
    study = maze_study(results)
    items = [
        {"N": size, "gamma": gamma, "seed": seed, "step": step, **_at(results, study, size, gamma, seed, step)}
        for size in study.group_sizes
        for gamma in study.gammas
        for seed in seeds_of(results, study, size, gamma)
        for step in _steps(results, study, size, gamma, seed)
    ]
    return {"study": study.name, "scale": study.scale, "window": WINDOW, "N": list(study.group_sizes),
            "gammas": list(study.gammas), "items": items, "pooled": pooled(results, study)}  # fmt: skip


def _steps(results: Results, study: MazeStudy, size: int, gamma: float, seed: int) -> list[int]:
    """Evaluated steps whose samples allow groups of N and after which training went on."""
    table = arm_rows(results, "maze_evaluations", study, size, gamma, seed=seed)
    return [int(step) for step in np.unique(table["step"]) if step < study.steps and table["samples"].min() >= size]


def _at(results: Results, study: MazeStudy, size: int, gamma: float, seed: int, step: int) -> Numbers:
    """Measured and expected activity and focal weight just after one evaluation, with half widths of 95 % intervals."""
    table = arm_rows(results, "maze_groups", study, size, gamma, seed=seed)
    # A row's step counts updates done with it: its groups come from the policy of the step before.
    groups = {name: column[(table["step"] > step) & (table["step"] <= step + WINDOW)] for name, column in table.items()}
    scorable, right = groups["scorable"], groups["correct"]
    active = ((right > 0) & (right < scorable)).astype(np.float64)
    weights = focal_weight(right / scorable, gamma)
    heldout = arm_rows(results, "maze_evaluations", study, size, gamma, seed=seed, step=step)
    activity = subsampled_tail_miss(heldout["samples"], heldout["correct"], size, 0.0)
    weight = subsampled_focal_weight(heldout["samples"], heldout["correct"], size, gamma)
    named = {"active": active, "expected_active": activity, "weight": weights, "expected_weight": weight}
    found: Numbers = {"groups": len(right)}
    for name, values in named.items():
        found[name], found[f"{name}_half"] = mean_and_half(np.asarray(values, dtype=np.float64))
    return found


def pooled(results: Results, study: MazeStudy) -> dict[str, dict[str, float]]:
    """Measured less expected, over all runs and evaluated steps, with the half width of its 95 % interval.

    Only the groups of the very next update count: they alone come from the policy that was evaluated. All runs share the
    held-out mazes, and those of a seed the prompts, so each of these is one cluster of the interval, over all runs.
    """
    clusters: dict[str, dict[str, dict[Any, list[float]]]] = {
        name: {"measured": {}, "expected": {}} for name in ("active", "weight")
    }
    for size in study.group_sizes:
        for gamma in study.gammas:
            for seed in seeds_of(results, study, size, gamma):
                for step in _steps(results, study, size, gamma, seed):
                    _collect(results, study, (size, gamma, seed, step), clusters)
    return {name: _difference(sides) for name, sides in clusters.items()}


def _collect(
    results: Results,
    study: MazeStudy,
    run: tuple[int, float, int, int],
    clusters: dict[str, dict[str, dict[Any, list[float]]]],
) -> None:
    size, gamma, seed, step = run
    groups = arm_rows(results, "maze_groups", study, size, gamma, seed=seed, step=step + 1)
    heldout = arm_rows(results, "maze_evaluations", study, size, gamma, seed=seed, step=step)
    active = (groups["correct"] > 0) & (groups["correct"] < groups["scorable"])
    found = {
        "active": (active, subsampled_tail_miss(heldout["samples"], heldout["correct"], size, 0.0)),
        "weight": (
            focal_weight(groups["correct"] / groups["scorable"], gamma),
            subsampled_focal_weight(heldout["samples"], heldout["correct"], size, gamma),
        ),
    }
    for name, (measured, expected) in found.items():
        if name == "weight" and gamma == 0:
            continue
        for problem, value in zip(groups["problem"].tolist(), measured, strict=True):
            clusters[name]["measured"].setdefault((seed, problem), []).append(float(value))
        for maze, value in zip(heldout["maze"].tolist(), np.atleast_1d(expected), strict=True):
            clusters[name]["expected"].setdefault(maze, []).append(float(value))


def _difference(sides: dict[str, dict[Any, list[float]]]) -> dict[str, float]:
    """Each side: mean over all values, and its normal interval by clusters (the means of the clusters, weighted by size)."""
    means, variances = {}, {}
    for side, of in sides.items():
        sums, counts = np.array([sum(v) for v in of.values()]), np.array([len(v) for v in of.values()])
        if not counts.size:
            return {"difference": float("nan"), "half": float("nan"), "groups": 0}
        means[side] = float(sums.sum() / counts.sum())
        spread = sums - means[side] * counts
        more = len(of) / max(1, len(of) - 1)
        variances[side] = float(more * np.sum(spread**2) / counts.sum() ** 2)
    half = NORMAL * float(np.sqrt(sum(variances.values())))
    groups = sum(len(v) for v in sides["measured"].values())
    return {"difference": means["measured"] - means["expected"], "half": half, "groups": groups}


def groups_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, height=3.0)
    pairs = (("active", "share of active groups"), ("weight", "mean focal weight"))
    for panel, (name, label) in zip(axes, pairs, strict=True):
        panel.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8, zorder=1)
        for item in numbers["items"]:
            if name == "weight" and item["gamma"] == 0:
                continue
            look = style.gamma_look(item["gamma"])
            panel.errorbar(
                item[f"expected_{name}"], item[name], item[f"{name}_half"], item[f"expected_{name}_half"],
                color=look.color, marker=look.marker, markersize=2.8, linewidth=0.5, alpha=0.75,
            )  # fmt: skip
        panel.set(xlabel=f"expected: {label}", ylabel=f"measured: {label}")
        values = [item[key] for item in numbers["items"] for key in (name, f"expected_{name}")
                  if not (name == "weight" and item["gamma"] == 0)]  # fmt: skip
        low = max(0.0, min(values, default=0.0) - 0.08)
        panel.set(xlim=(low, 1.02), ylim=(low, 1.02))
    style.letter(axes, ["activity (eq. 7)", "focal weight (eq. 12)"])
    gamma_legend(figure, numbers["gammas"], numbers["scale"])
    return figure


register(
    "maze_groups",
    title="Maze study: real training groups against the theory",
    source="ours (eq. 7 and 12)",
    needs=("maze_runs", "maze_evaluations", "maze_groups"),
    numbers=groups_numbers,
    paint=groups_paint,
    caption=f"Each mark is one run just after one evaluation: the groups of its next {WINDOW} updates, against what the theory "
    "expects of groups of that N under the success rates of held-out mazes at that moment, estimated without bias. "
    "Lines: 95 % over groups (upright) and mazes (level). On the diagonal both agree; in the first updates the policy moves "
    "within the window, so a run's first mark may lie off it.",
    alt="Measured against expected share of active groups and mean focal weight; marks lie along the diagonal.",
)
