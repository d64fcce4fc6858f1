"""Mazes as the policies walk them during training: solved ones and failed ones, GRPO beside the focal weight.

From the study's tables of paths: a few sampled completions of a few held-out mazes at each evaluation. The walls and the
right path come from the study's table of mazes. Completions are read as actions up to DONE; nothing else is interpreted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style
from .inputs import Columns, Results
from .maze_study import MazeStudy, arm_rows, maze_study, seeds_of
from .registry import Numbers, register
from .studies import gamma_name, rows_of

STEP = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}
SHOWN = 2
"""mazes"""
GROUP_SIZE = 8
"""N of the runs shown, if the study has it"""


def squares(walls: list[str], text: str) -> list[tuple[int, int]]:
    """The squares that a completion visits from (1, 1) on, until it ends, leaves its actions or meets a wall.

    >>> squares(["#####", "#   #", "### #", "#   #", "#####"], "RIGHT RIGHT DOWN DONE")
    [(1, 1), (1, 2), (1, 3), (2, 3)]
    """
    visited = [(1, 1)]
    for word in text.split():
        if word not in STEP:
            break
        row, column = visited[-1][0] + STEP[word][0], visited[-1][1] + STEP[word][1]
        if walls[row][column] == "#":
            break
        visited.append((row, column))
    return visited


def gallery_numbers(results: Results) -> Numbers:
    study = maze_study(results)
    size = GROUP_SIZE if GROUP_SIZE in study.group_sizes else study.group_sizes[0]
    mazes = rows_of(results["maze_mazes"], study=study.name)
    gammas = [gamma for gamma in study.gammas if seeds_of(results, study, size, gamma)]
    arms = [(gamma, seeds_of(results, study, size, gamma)[0]) for gamma in dict.fromkeys((gammas[0], gammas[-1]))]
    shown = _choose(results, study, size, *arms[0])
    cells = []
    for maze in shown:
        walls = _cell(mazes, maze, "walls").split("/")
        right = squares(walls, _cell(mazes, maze, "solution"))
        rows = [_arm(results, study, size, gamma, seed, maze, walls) for gamma, seed in arms]
        cells.append({"maze": int(maze), "walls": walls, "right": right, "arms": rows})
    return {"study": study.name, "scale": study.scale, "N": size, "mazes": cells}


def _cell(mazes: Columns, maze: int, column: str) -> str:
    return str(rows_of(mazes, maze=maze)[column][0])


def _choose(results: Results, study: MazeStudy, size: int, gamma: float, seed: int) -> list[int]:
    """The first maze that is solved more at the end than at the start, and the first that is solved less; else the first."""
    table = arm_rows(results, "maze_paths", study, size, gamma, seed=seed)
    last = table["step"].max()
    change = {int(maze): _rate(table, maze, last) - _rate(table, maze, 0) for maze in np.unique(table["maze"]).tolist()}
    rising, falling = (next((m for m, value in change.items() if sign * value > 0), None) for sign in (1, -1))
    chosen = [maze for maze in (rising, falling) if maze is not None]
    return (chosen + [maze for maze in change if maze not in chosen])[:SHOWN]


def _rate(table: Columns, maze: int, step: int) -> float:
    return float(np.mean(rows_of(table, maze=maze, step=step)["success"]))


def _arm(
    results: Results, study: MazeStudy, size: int, gamma: float, seed: int, maze: int, walls: list[str]
) -> dict[str, Any]:
    table = arm_rows(results, "maze_paths", study, size, gamma, seed=seed, maze=maze)
    steps = []
    for step in np.unique(table["step"]).tolist():
        rows = rows_of(table, step=step)
        paths = [squares(walls, str(text)) for text in rows["completion"]]
        steps.append({"step": int(step), "paths": paths, "success": [bool(value) for value in rows["success"]]})
    return {"gamma": float(gamma), "steps": steps}


def gallery_paint(numbers: Numbers) -> Figure:
    rows = [(cell, arm) for cell in numbers["mazes"] for arm in cell["arms"]]
    columns = max(len(arm["steps"]) for _, arm in rows)
    figure, axes = style.panels(columns, len(rows), height=style.FULL_WIDTH / columns + 0.12)
    for place, (cell, arm) in enumerate(rows):
        for panel, step in zip(axes[place * columns : (place + 1) * columns], arm["steps"], strict=False):
            _maze(panel, cell, step)
            solved = sum(step["success"])
            panel.set_title(f"{step['step']} updates: {solved} of {len(step['success'])}", fontsize=7)
        axes[place * columns].set_ylabel(f"{gamma_name(arm['gamma'])}\nmaze {cell['maze']}", fontsize=7)
    figure.supxlabel(
        f"N = {numbers['N']}; {numbers['scale']}\ngreen: the right path, where it was sampled; "
        "orange: sampled paths that are wrong, as far as they are legal",
        fontsize=7,
    )
    return figure


def _maze(panel: Axes, cell: Numbers, step: Numbers) -> None:
    grid = np.array([[1.0 if square == "#" else 0.0 for square in row] for row in cell["walls"]])
    panel.imshow(1 - 0.85 * grid, cmap="gray", vmin=0, vmax=1)
    offsets = np.linspace(-0.22, 0.22, len(step["paths"]))
    for offset, path, right in zip(offsets, step["paths"], step["success"], strict=True):
        if not right:
            panel.plot([c + offset for _, c in path], [r + offset for r, _ in path], color=style.ORANGE, linewidth=0.9)
    if any(step["success"]):
        panel.plot([c for _, c in cell["right"]], [r for r, _ in cell["right"]], color=style.GREEN, linewidth=2.0)
    last = len(cell["walls"]) - 2
    panel.plot([1], [1], marker="o", color=style.BLUE, markersize=3.5)
    panel.plot([last], [last], marker="*", color=style.VERMILLION, markersize=5)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.grid(visible=False)
    for side in panel.spines.values():
        side.set_visible(False)


register(
    "maze_gallery",
    title="Maze study: sampled paths during training",
    source="ours (after section 5.2)",
    needs=("maze_runs", "maze_paths", "maze_mazes"),
    numbers=gallery_numbers,
    paint=gallery_paint,
    caption="Held-out mazes with a few sampled completions after so many updates: one that GRPO comes to solve more often and "
    "one that it comes to solve less often, if there are such among the mazes that are kept to look at. Chosen by that rule, "
    "on few samples: an illustration, not evidence.",
    alt="Small mazes with right and wrong paths drawn in, a row an arm, a column a time of training.",
)
