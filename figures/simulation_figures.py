"""Figures of the categorical simulation: paper figure 2 and ours beside it. Drawn from the sweep tables alone.

Bands span the lowest and highest seed, lines are means over seeds, and every seed is a dot: near the edges of the
collapse zone the outcome is bimodal, and a mean alone would hide that.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fgrpo_theory as theory

from . import policy, style
from .inputs import Columns, Results, by_group, where
from .registry import Numbers, register

COLLAPSED = 0.5
"""A group size belongs to the measured zone when plain GRPO keeps less of the correct mass than this on average."""

SHOWN = (2, 64, 256, 8192, 65536, 131072)
"""Group sizes whose trajectories figure 2 shows, where the table has them."""


def last_step(table: Columns) -> Columns:
    """The rows of the last recorded step."""
    return where(table, step=table["step"].max())


def over_seeds(table: Columns, column: str) -> Numbers:
    """Every seed's value by group size, with mean, lowest and highest."""
    sizes, values = by_group(table, column)
    return {
        "group_size": sizes.tolist(),
        "seeds": [value.tolist() for value in values],
        "mean": [float(value.mean()) for value in values],
        "low": [float(value.min()) for value in values],
        "high": [float(value.max()) for value in values],
    }


def final_by_gamma(table: Columns) -> dict[str, Any]:
    """Q_pos and M_ret at the last step, over seeds, for each gamma."""
    final = last_step(table)
    return {
        f"{gamma:g}": {name: over_seeds(where(final, gamma=gamma), name) for name in ("Q_pos", "M_ret")}
        for gamma in np.unique(final["gamma"])
    }


def collapse_zone(retained: Numbers) -> list[int]:
    """Lowest and highest group size whose mean retained mass is under COLLAPSED; empty if there is none."""
    inside = [size for size, mean in zip(retained["group_size"], retained["mean"], strict=True) if mean < COLLAPSED]
    return [min(inside), max(inside)] if inside else []


def paths(table: Columns, column: str) -> Numbers:
    """Trajectories of one (group size, gamma): steps, and mean, lowest and highest over seeds."""
    steps = np.unique(table["step"])
    values = [table[column][table["step"] == step] for step in steps]
    return {
        "step": steps.tolist(),
        "mean": [float(value.mean()) for value in values],
        "low": [float(value.min()) for value in values],
        "high": [float(value.max()) for value in values],
    }


def figure2_numbers(results: Results) -> Numbers:
    table = results["trajectories"]
    final = final_by_gamma(results["paper"])
    shown = [size for size in SHOWN if size in table["group_size"]]
    return {
        "final": final,
        "zone": collapse_zone(final["0"]["M_ret"]),
        "start": policy.CORRECT_MASS,
        "paths": [
            {
                "group_size": size,
                **{name: paths(where(table, group_size=size, gamma=0.0), name) for name in ("Q_pos", "M_ret")},
            }
            for size in shown
        ],
    }


def figure2_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, 2, height=2.5)
    _over_training(axes[:2], numbers)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=6, columnspacing=1.2, handlelength=3
    )
    _at_last_step(axes[2:], numbers)
    for panel, label in zip(axes, ("correct mass Q_pos", "retained mass M_ret") * 2, strict=True):
        panel.set_ylabel(label)
    style.letter(
        axes,
        [
            "correct mass, γ = 0",
            "retained correct mass, γ = 0",
            "correct mass at the last step",
            "retained mass at the last step",
        ],
    )
    return figure


def _over_training(axes: list[Axes], numbers: Numbers) -> None:
    for panel, name in zip(axes, ("Q_pos", "M_ret"), strict=True):
        for path, look in zip(numbers["paths"], style.SERIES, strict=False):
            _band(panel, path[name]["step"], path[name], look, f"N = {path['group_size']}", markevery=0.2)
        panel.set_xlabel("step")
        panel.set_ylim(*((0.55, 1.02) if name == "Q_pos" else (-0.02, 1.05)))


def _at_last_step(axes: list[Axes], numbers: Numbers) -> None:
    for panel, name in zip(axes, ("Q_pos", "M_ret"), strict=True):
        _regimes(panel, numbers["zone"], numbers["final"]["0"][name]["group_size"])
        for gamma, final in numbers["final"].items():
            _dots(panel, final[name], style.gamma_look(float(gamma)), f"γ = {gamma}")
        style.log2_axis(panel)
    axes[0].axhline(numbers["start"], color=style.GREY, linewidth=0.8, linestyle=":")
    axes[0].text(
        0.99,
        numbers["start"] + 0.005,
        "start",
        ha="right",
        va="bottom",
        fontsize=7,
        transform=axes[0].get_yaxis_transform(),
    )
    axes[0].set_ylim(0.55, 1.08)
    axes[1].set_ylim(-0.02, 1.2)
    axes[1].set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes[1].legend(loc="lower left")


def _band(panel: Axes, x: list[int], path: Numbers, look: style.Look, label: str, **more: object) -> None:
    panel.fill_between(x, path["low"], path["high"], color=look.color, alpha=0.18, linewidth=0)
    panel.plot(x, path["mean"], label=label, **look.line(marker=look.marker, **more))


def _dots(panel: Axes, final: Numbers, look: style.Look, label: str) -> None:
    _band(panel, final["group_size"], final, look, label, markersize=0)
    for size, seeds in zip(final["group_size"], final["seeds"], strict=True):
        panel.plot(
            [size] * len(seeds),
            seeds,
            marker=look.marker,
            color=look.color,
            linestyle="none",
            markersize=2.6,
            markerfacecolor="none",
            markeredgewidth=0.7,
        )


def _regimes(panel: Axes, zone: list[int], sizes: list[int]) -> None:
    if not zone:
        return
    edges = [sizes[0] / 2**0.5, zone[0] / 2**0.5, zone[1] * 2**0.5, sizes[-1] * 2**0.5]
    for (start, end), shade, name in zip(
        pairwise(edges), ("#f0f0f0", "#f7dcc9", "#dcecf5"), ("small", "collapse", "large"), strict=True
    ):
        panel.axvspan(start, end, color=shade, linewidth=0, zorder=0)
        panel.text(
            (start * end) ** 0.5, 0.985, name, ha="center", va="top", fontsize=7, transform=panel.get_xaxis_transform()
        )
    panel.set_xlim(edges[0], edges[-1])


def trajectories_numbers(results: Results) -> Numbers:
    table = results["trajectories"]
    cells = []
    for size in np.unique(table["group_size"]):
        for gamma in np.unique(table["gamma"]):
            rows = where(table, group_size=size, gamma=gamma)
            steps = np.unique(rows["step"])
            paths_of_seeds = [where(rows, seed=seed) for seed in np.unique(rows["seed"])]
            # A table promises no order of its rows.
            seeds = [path["M_ret"][np.argsort(path["step"])].tolist() for path in paths_of_seeds]
            cells.append({"group_size": int(size), "gamma": float(gamma), "step": steps.tolist(), "seeds": seeds})
    return {"cells": cells}


def trajectories_paint(numbers: Numbers) -> Figure:
    sizes = sorted({cell["group_size"] for cell in numbers["cells"]})
    columns = min(6, len(sizes))
    rows = -(-len(sizes) // columns)
    figure, axes = style.panels(columns, rows, height=1.45)
    for panel, size in zip(axes, sizes, strict=False):
        for cell in (cell for cell in numbers["cells"] if cell["group_size"] == size):
            look = style.gamma_look(cell["gamma"])
            for index, seed in enumerate(cell["seeds"]):
                panel.plot(
                    cell["step"], seed, label=None if index else f"γ = {cell['gamma']:g}", **look.line(linewidth=0.9)
                )
        panel.set_title(f"N = {size}", fontsize=7.5)
        panel.set_ylim(-0.05, 1.08)
        panel.label_outer()
    for panel in axes[len(sizes) :]:
        panel.set_axis_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    for panel in axes[(rows - 1) * columns : len(sizes)]:
        panel.set_xlabel("step")
    figure.supylabel("retained mass M_ret", fontsize=8)
    return figure


def zone_numbers(results: Results) -> Numbers:
    sizes = np.unique(np.round(np.geomspace(2, 2**18, 140)).astype(int))
    mu, tau = policy.CORRECT_MASS, policy.LEAF_PROBABILITY
    retained = over_seeds(where(last_step(results["paper"]), gamma=0.0), "M_ret")
    lowest, highest = theory.concentration_zone(mu, tau, level=0.5)
    return {
        "mu": mu,
        "tau": tau,
        "group_size": sizes.tolist(),
        "tail_miss": theory.tail_miss_probability(sizes, mu, tau).tolist(),
        "theory_zone": [int(lowest), int(highest)],
        "peak": int(theory.peak_group_size(mu, tau)),
        "measured": retained,
        "measured_zone": collapse_zone(retained),
    }


def zone_paint(numbers: Numbers) -> Figure:
    figure, (panel,) = style.panels(1, height=3.1)
    panel.plot(
        numbers["group_size"],
        numbers["tail_miss"],
        label="Pr(tail miss of one leaf), start policy",
        **style.SERIES[1].line(),
    )
    _dots(panel, numbers["measured"], style.SERIES[0], "measured M_ret at the last step, γ = 0")
    for level, key, look, text in (
        (1.07, "theory_zone", style.SERIES[1], "theory: at least half of the peak"),
        (1.17, "measured_zone", style.SERIES[0], f"measured: mean M_ret < {COLLAPSED:g}"),
    ):
        if numbers[key]:
            panel.plot(numbers[key], [level] * 2, color=look.color, linewidth=4, solid_capstyle="butt")
            start, end = numbers[key]
            panel.text(
                (start * end) ** 0.5,
                level + 0.02,
                f"{text} (N = {start} to {end})",
                ha="center",
                va="bottom",
                fontsize=7,
            )
    panel.set_ylim(-0.02, 1.28)
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1])
    panel.set_ylabel("probability; share of the correct mass")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    style.log2_axis(panel)
    return figure


_SIM = (
    "128,000 actions, 10,000 correct, 1,000 steps, importance-ratio surrogate, Adam; lines are means, bands reach from "
    "the lowest to the highest seed"
)

register(
    "figure2",
    title="Correct mass grows at every N, yet middle N lose most of what was correct at the start",
    source="2",
    needs=["paper", "trajectories"],
    numbers=figure2_numbers,
    paint=figure2_paint,
    caption=f"The categorical simulation at the paper's size: {_SIM}; every seed is a mark. (a, b) Over training with "
    "γ = 0; (c, d) at the last step against group size. The middle band holds the group sizes where plain "
    f"GRPO keeps under {COLLAPSED:g} of the correct mass on average.",
    alt="Correct mass rises for every group size. Retained mass stays near one for the smallest and the largest "
    "group sizes and falls near zero between; with gamma 1 more is kept there.",
)
register(
    "trajectories",
    title="Retained mass over training, every group size and every seed",
    source="ours (beside figure 2)",
    needs=["trajectories"],
    numbers=trajectories_numbers,
    paint=trajectories_paint,
    caption="Retained correct mass M_ret over the 1,000 steps; one line for each seed. Near the edges of the "
    "collapse zone the seeds part.",
    alt="A small panel for each group size with one line for each seed and gamma.",
)
register(
    "zone",
    title="Theory's concentration zone over the measured collapse",
    source="ours (beside figure 2)",
    needs=["paper"],
    numbers=zone_numbers,
    paint=zone_paint,
    caption="Tail-miss probability of one leaf (Lemma 3.1, start policy) over the retained mass that the simulation "
    "measures; the bars mark where each says that mass is lost. They overlap, but the lemma is about one step. Above "
    "its bar misses are rarer than half the peak, yet over 1,000 steps they still cost mass for a while. Below the "
    "measured bar a miss is just as likely, but the collapse sets in later the smaller N is (see the trajectories), and "
    "has not begun when the steps are over.",
    alt="The tail miss is near one from small group sizes up to about ten thousand; the measured retained mass "
    "falls only from about a hundred on and returns near one at the largest group size.",
)
