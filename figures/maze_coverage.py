"""Where the maze study loses coverage: held-out mazes of which no sample is right, by path length and by the start's rate.

A maze is lost where none of the samples of the last evaluation is right; the start is held to the same number of samples.
Intervals are Wilson's, 95 %, over mazes: a share of 0 has one too.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fgrpo_theory.clustered import unit_interval

from . import style
from .inputs import Columns, Results
from .maze_figures import gamma_legend
from .maze_study import MazeStudy, arm_rows, maze_study, seeds_of
from .registry import Numbers, register
from .studies import rows_of

BINS = 4
"""of mazes, of about equal size"""


def bins_of(values: np.ndarray, bins: int = BINS) -> list[tuple[int, int]]:
    """(lowest, highest) value of groups of mazes of about equal size; equal values stay together.

    >>> bins_of(np.array([4, 6, 6, 6, 8, 10]), 2)
    [(4, 6), (8, 10)]
    """
    ordered = np.sort(values)
    cuts = sorted({int(ordered[round(part * len(ordered) / bins) - 1]) for part in range(1, bins + 1)})
    starts = [int(ordered[0]), *(int(ordered[ordered > cut][0]) for cut in cuts[:-1])]
    return list(zip(starts, cuts, strict=True))


def lost_share(lost: np.ndarray) -> dict[str, float]:
    """mean of lost[maze] (booleans), low and high of Wilson's 95 % interval over mazes.

    >>> {name: round(value, 3) for name, value in lost_share(np.zeros(30, dtype=bool)).items()}
    {'mean': 0.0, 'low': 0.0, 'high': 0.122}
    """
    share, mazes = float(lost.mean()), len(lost)
    low, high = unit_interval(share, share * (1 - share) / mazes, mazes, 0.95)
    return {"mean": share, "low": low, "high": high}


def coverage_numbers(results: Results) -> Numbers:
    return _numbers(results, "path_length")


def by_start_numbers(results: Results) -> Numbers:
    return _numbers(results, "correct")


def _numbers(results: Results, column: str) -> Numbers:
    """Shares lost in bins of the start's `column`, for the start and every run."""
    study, items = maze_study(results), []
    start = _start(results, study)
    # What the start never solves cannot be lost: those mazes are a bin of their own.
    solved = start[column] > 0
    bins = [*([] if solved.all() else [(0, 0)]), *bins_of(start[column][solved])]
    inside = [(start[column] >= low) & (start[column] <= high) for low, high in bins]
    for size in study.group_sizes:
        for gamma in study.gammas:
            for seed in seeds_of(results, study, size, gamma):
                table = arm_rows(results, "maze_evaluations", study, size, gamma, seed=seed)
                end = _by_maze(rows_of(table, step=table["step"].max()))
                items.append({"N": size, "gamma": gamma, "seed": seed,
                              "lost": [lost_share(end["correct"][mazes] == 0) for mazes in inside]})  # fmt: skip
    return {"study": study.name, "scale": study.scale, "samples": int(start["samples"].min()), "bins": bins,
            "mazes": [int(mazes.sum()) for mazes in inside], "N": list(study.group_sizes), "gammas": list(study.gammas),
            "start": [lost_share(start["correct"][mazes] == 0) for mazes in inside], "arms": items}  # fmt: skip


def _start(results: Results, study: MazeStudy) -> Columns:
    """The evaluation before RL, which all arms of a seed share, in the order of the mazes."""
    first = arm_rows(results, "maze_evaluations", study, study.group_sizes[0], study.gammas[0], step=0)
    return _by_maze(rows_of(first, seed=first["seed"].min()))


def _by_maze(table: Columns) -> Columns:
    order = np.argsort(table["maze"], kind="stable")
    return {name: column[order] for name, column in table.items()}


def coverage_paint(numbers: Numbers) -> Figure:
    return _paint(numbers, "steps of the right path")


def by_start_paint(numbers: Numbers) -> Figure:
    return _paint(numbers, f"right samples of {numbers['samples']} at the start")


def _paint(numbers: Numbers, label: str) -> Figure:
    columns, sizes, gammas = min(3, len(numbers["N"])), numbers["N"], numbers["gammas"]
    figure, axes = style.panels(columns, -(-len(sizes) // columns), height=2.0)
    ticks = [
        f"{f'≤ {high}' if low < high else low}\n({mazes})"
        for (low, high), mazes in zip(numbers["bins"], numbers["mazes"], strict=True)
    ]
    places, width = np.arange(len(numbers["bins"])), 0.8 / (len(gammas) + 1)
    for panel, size in zip(axes, sizes, strict=False):
        panel.bar(places - 0.4 + width / 2, [item["mean"] for item in numbers["start"]], width, color=START_COLOR)
        for place, gamma in enumerate(gammas):
            of = [item["lost"] for item in numbers["arms"] if item["N"] == size and item["gamma"] == gamma]
            if not of:
                continue
            x = places - 0.4 + width * (place + 1.5)
            panel.bar(x, np.mean([[b["mean"] for b in lost] for lost in of], axis=0), width,
                      color=style.gamma_look(gamma).color, alpha=0.85)  # fmt: skip
            for seed, lost in enumerate(of):
                shift = 0.5 * width * ((seed + 1) / (len(of) + 1) - 0.5)
                panel.vlines(
                    x + shift, [b["low"] for b in lost], [b["high"] for b in lost], colors="black", linewidth=0.6
                )
        panel.set_xticks(places, ticks)
        panel.set_title(f"N = {size}")
        panel.set_ylim(0, 1)
        panel.grid(visible=False, axis="x")
    for panel in axes[len(sizes) :]:
        panel.set_axis_off()
    for panel in axes[::columns]:
        panel.set_ylabel("share lost")
    for panel in axes[-columns:]:
        panel.set_xlabel(f"{label}\n(number of mazes)")
    gamma_legend(figure, gammas, numbers["scale"], more=[(style.patch(START_COLOR), "start (before RL)")])
    return figure


START_COLOR = "#bbbbbb"
_CAPTION = (
    "Share of held-out mazes of which not one sample is right, at the start and at the last evaluation (the same number of "
    "samples), by {}. Upright lines: Wilson's 95 % interval over mazes, one a seed; bars: the mean over seeds."
)

register(
    "maze_coverage",
    title="Maze study: where coverage is lost, by length of the right path",
    source="ours (after section 5.2)",
    needs=("maze_runs", "maze_evaluations"),
    numbers=coverage_numbers,
    paint=coverage_paint,
    caption=_CAPTION.format("length of the right path in steps on the grid"),
    alt="Bars of the share of mazes never solved, by range of path length, the start and each gamma; a panel a group size.",
)
register(
    "maze_coverage_by_start",
    title="Maze study: where coverage is lost, by how often the start solves a maze",
    source="ours (after section 5.2)",
    needs=("maze_runs", "maze_evaluations"),
    numbers=by_start_numbers,
    paint=by_start_paint,
    caption=_CAPTION.format("how many samples of the start were right")
    + " The first bin is what the start never solved.",
    alt="Bars of the share of mazes never solved, by how often the start solves them, the start and each gamma; a panel a "
    "group size.",
)
