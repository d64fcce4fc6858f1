"""Figures 6 and 7 and table 4 of the paper at this study's scale, pass@k against k, and differences to GRPO.

A panel a group size; lines by gamma; where an arm has several seeds each is a thin line and their mean a thick one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import style
from .inputs import Results, published
from .maze_study import (
    MazeStudy,
    at_the_end,
    differences,
    during,
    estimate,
    largest_k,
    maze_study,
    moments,
    published_at,
    seeds_of,
    start_values,
)
from .registry import Numbers, register
from .studies import gamma_name, rows_of

NEEDS = ("maze_runs", "maze_evaluations", "maze_final")


def _kept(results: Results, study: MazeStudy) -> int:
    return largest_k(rows_of(results["maze_evaluations"], study=study.name), 256)


def dynamics_numbers(results: Results) -> Numbers:
    study = maze_study(results)
    ks = (1, _kept(results, study))
    curves = []
    for size in study.group_sizes:
        for gamma in study.gammas:
            for seed in seeds_of(results, study, size, gamma):
                for k in ks:
                    found = {
                        step: estimate(values) for step, values in during(results, study, size, gamma, seed, k).items()
                    }
                    curves.append(
                        {"N": size, "gamma": gamma, "seed": seed, "k": k, "step": list(found)}
                        | {name: [item[name] for item in found.values()] for name in ("mean", "low", "high")}
                    )
    return {"study": study.name, "scale": study.scale, "N": list(study.group_sizes), "gammas": list(study.gammas),
            "ks": list(ks), "curves": curves}  # fmt: skip


def dynamics_paint(numbers: Numbers) -> Figure:
    sizes, columns = numbers["N"], min(3, len(numbers["N"]))
    rows_a_k = -(-len(sizes) // columns)
    figure, axes = style.panels(columns, rows_a_k * len(numbers["ks"]), height=1.75)
    titles = []
    for block, k in enumerate(numbers["ks"]):
        panels = axes[block * rows_a_k * columns :]
        limits = _limits([curve for curve in numbers["curves"] if curve["k"] == k])
        for place in range(rows_a_k * columns):
            panel = panels[place]
            if place >= len(sizes):
                panel.set_axis_off()
                titles.append("")
                continue
            _over_steps(panel, [c for c in numbers["curves"] if c["k"] == k and c["N"] == sizes[place]])
            panel.set_ylim(*limits)
            titles.append(f"pass@{k}, N = {sizes[place]}")
    for panel, title in zip(axes, titles, strict=True):
        panel.set_title(title)
    for panel in axes[-columns:]:
        panel.set_xlabel("updates")
    gamma_legend(figure, numbers["gammas"], numbers["scale"])
    return figure


def _limits(curves: list[Numbers]) -> tuple[float, float]:
    low, high = min(min(c["low"]) for c in curves), max(max(c["high"]) for c in curves)
    return max(0.0, low - 0.03), min(1.02, high + 0.03)


def _over_steps(panel: Axes, curves: list[Numbers]) -> None:
    gammas = sorted({curve["gamma"] for curve in curves})
    for place, gamma in enumerate(gammas):
        of = [curve for curve in curves if curve["gamma"] == gamma]
        look, first = style.gamma_look(gamma), of[0]
        # Side by side, or intervals would cover each other.
        steps = np.array(first["step"]) + 0.015 * max(first["step"]) * (place - (len(gammas) - 1) / 2)
        for curve in of if len(of) > 1 else []:
            panel.plot(steps, curve["mean"], **look.line(linewidth=0.6, alpha=0.7))
        panel.plot(steps, np.mean([c["mean"] for c in of], axis=0), **look.line(marker=look.marker, markersize=3))
        if len(of) == 1:
            panel.vlines(steps, first["low"], first["high"], colors=look.color, linewidth=0.7)


def gamma_legend(figure: Figure, gammas: list[float], scale: str, *, more: list[tuple[Any, str]] | None = None) -> None:
    """Under the figure: the gammas, further handles, and the scale as the legend's title."""
    handles: list[Any] = [
        Line2D([], [], **style.gamma_look(gamma).line(marker=style.gamma_look(gamma).marker)) for gamma in gammas
    ]
    names = [gamma_name(gamma) for gamma in gammas]
    for handle, name in more or []:
        handles.append(handle)
        names.append(name)
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), title=scale)


def final_numbers(results: Results) -> Numbers:
    study, table = maze_study(results), published("table4_maze")
    k = _kept(results, study)
    ours, theirs = [], []
    for gamma in study.gammas:
        for size in study.group_sizes:
            for seed in seeds_of(results, study, size, gamma):
                ours += [
                    {"N": size, "gamma": gamma, "seed": seed, "k": each}
                    | estimate(at_the_end(results, study, size, gamma, seed, each))
                    for each in (1, k)
                ]
    for gamma in np.unique(table["gamma"]).tolist():
        for size in np.unique(table["group_size"]).tolist():
            theirs += [
                {"N": int(size), "gamma": gamma, "k": each, "mean": published_at(table, size, gamma, f"pass_at_{each}")}
                for each in (1, 256)
            ]
    return {"study": study.name, "scale": study.scale, "k": k, "ours": ours, "published": theirs}


def final_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, 2, height=2.2)
    k = numbers["k"]
    for panel, each in zip(axes[:2], (1, k), strict=True):
        _against_size(panel, [item for item in numbers["ours"] if item["k"] == each])
    for panel, each in zip(axes[2:], (1, 256), strict=True):
        _against_size(panel, [item for item in numbers["published"] if item["k"] == each])
    for panel in axes:
        style.log2_axis(panel)
        panel.set_ylim(bottom=min(0.6, panel.get_ylim()[0]) if panel in axes[2:] else None, top=1.0)
    axes[0].set_ylim(0, 1.2 * max(item["high"] for item in numbers["ours"] if item["k"] == 1))
    axes[1].set_ylim(0, 1.02)
    style.letter(axes, ["pass@1, this study", f"pass@{k}, this study", "pass@1, published (table 4)",
                        "pass@256, published (table 4)"])  # fmt: skip
    gammas = sorted({item["gamma"] for item in numbers["ours"] + numbers["published"]})
    gamma_legend(figure, gammas, f"this study: {numbers['scale']}\n"
                 "published: 17 × 17 mazes, about 3 M parameters, 20,000 updates of 256 prompts")  # fmt: skip
    return figure


def _against_size(panel: Axes, items: list[Numbers]) -> None:
    gammas = sorted({item["gamma"] for item in items})
    for place, gamma in enumerate(gammas):
        of = [item for item in items if item["gamma"] == gamma]
        look, sizes = style.gamma_look(gamma), sorted({item["N"] for item in of})
        means = [np.mean([item["mean"] for item in of if item["N"] == size]) for size in sizes]
        # Side by side, or intervals would cover each other.
        shift = 2.0 ** (0.12 * (place - (len(gammas) - 1) / 2))
        panel.plot(np.array(sizes) * shift, means, **look.line())
        for item in of:
            x = item["N"] * shift
            if "low" in item:
                panel.plot([x, x], [item["low"], item["high"]], color=look.color, linewidth=0.8)
            panel.plot([x], [item["mean"]], marker=look.marker, color=look.color, markersize=3.5,
                       markerfacecolor="white", linestyle="none")  # fmt: skip


def curves_numbers(results: Results) -> Numbers:
    study, series = maze_study(results), []
    final = rows_of(results["maze_final"], study=study.name)
    most = largest_k(final, 4096)
    ks = [2**power for power in range(most.bit_length())]
    start_ks = [k for k in ks if k <= _kept(results, study)]
    for size in study.group_sizes:
        for gamma in study.gammas:
            for seed in seeds_of(results, study, size, gamma):
                means = [float(at_the_end(results, study, size, gamma, seed, k).mean()) for k in ks]
                series.append({"N": size, "gamma": gamma, "seed": seed, "k": ks, "mean": means})
    size, gamma = study.group_sizes[0], study.gammas[0]
    seed = seeds_of(results, study, size, gamma)[0]
    start = [float(start_values(results, study, size, gamma, seed, k).mean()) for k in start_ks]
    return {"study": study.name, "scale": study.scale, "N": list(study.group_sizes), "gammas": list(study.gammas),
            "series": series, "start": {"k": start_ks, "mean": start}}  # fmt: skip


def curves_paint(numbers: Numbers) -> Figure:
    columns, sizes = min(3, len(numbers["N"])), numbers["N"]
    figure, axes = style.panels(columns, -(-len(sizes) // columns), height=2.0)
    start = Line2D([], [], color=style.GREY, linestyle=(0, (4, 2)))
    for panel, size in zip(axes, sizes, strict=False):
        panel.plot(numbers["start"]["k"], numbers["start"]["mean"], color=style.GREY, linestyle=(0, (4, 2)))
        for gamma in numbers["gammas"]:
            of = [item for item in numbers["series"] if item["N"] == size and item["gamma"] == gamma]
            look = style.gamma_look(gamma)
            for item in of if len(of) > 1 else []:
                panel.plot(item["k"], item["mean"], **look.line(linewidth=0.6, alpha=0.7))
            if of:
                panel.plot(of[0]["k"], np.mean([item["mean"] for item in of], axis=0), **look.line())
        style.log2_axis(panel, "k")
        panel.set_ylim(0, 1.02)
        panel.set_title(f"N = {size}")
    for panel in axes[len(sizes) :]:
        panel.set_axis_off()
    for panel in axes[::columns]:
        panel.set_ylabel("pass@k")
    gamma_legend(figure, numbers["gammas"], numbers["scale"], more=[(start, "start (before RL)")])
    return figure


def differences_numbers(results: Results) -> Numbers:
    study, found = maze_study(results), []
    for moment in moments(results, study):
        for gamma in [gamma for gamma in study.gammas if gamma]:
            for size in study.group_sizes:
                found += [
                    {"moment": moment.label, "N": size, "gamma": gamma, "seed": seed} | estimate(values)
                    for seed, values in differences(results, study, moment, size, gamma).items()
                ]
    return {"study": study.name, "scale": study.scale, "N": list(study.group_sizes),
            "moments": [moment.label for moment in moments(results, study)], "differences": found}  # fmt: skip


def differences_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(len(numbers["moments"]), height=2.6)
    gammas = sorted({item["gamma"] for item in numbers["differences"]})
    for panel, label in zip(axes, numbers["moments"], strict=True):
        _against_size(panel, [item for item in numbers["differences"] if item["moment"] == label])
        panel.axhline(0, **style.gamma_look(0.0).line(linewidth=1.0), zorder=1)
        style.log2_axis(panel)
    axes[0].set_ylabel("difference to GRPO")
    style.letter(axes, numbers["moments"])
    gamma_legend(figure, [0.0, *gammas], numbers["scale"])
    return figure


_SEEDS = "Where an arm has several seeds each is shown thin, or as a mark of its own."

register(
    "maze_dynamics",
    title="Maze study: pass@k during training, by group size",
    source="6, at the scale stated",
    needs=NEEDS,
    numbers=dynamics_numbers,
    paint=dynamics_paint,
    caption="pass@1 and pass@k of held-out mazes during RL (eq. 27). Upright lines: 95 % over mazes, for arms with one seed. "
    + _SEEDS,
    alt="For each group size, pass@1 and pass@k against updates, a line for each gamma.",
)
register(
    "maze_final",
    title="Maze study: the end of training against group size, beside the published values",
    source="7 and table 4, at the scale stated",
    needs=NEEDS,
    published=["table4_maze"],
    numbers=final_numbers,
    paint=final_paint,
    caption="Upper row: this study, 95 % over mazes. Lower row: table 4 of the paper, after 200 times as many updates. "
    f"The axes differ. {_SEEDS} Compare the order of the lines, not their heights.",
    alt="pass@1 and pass@k at the end against group size for each gamma; ours above, published below.",
)
register(
    "maze_pass_at_k",
    title="Maze study: pass@k against k at the end",
    source="ours (after section 5.2)",
    needs=NEEDS,
    numbers=curves_numbers,
    paint=curves_paint,
    caption=f"pass@k of held-out mazes at the end of RL, and of the start that all arms share. {_SEEDS}",
    alt="For each group size, pass@k against k on a logarithmic axis: the start and each gamma.",
)
register(
    "maze_differences",
    title="Maze study: what the focal weight changes, paired by maze",
    source="ours (after section 5.2)",
    needs=NEEDS,
    numbers=differences_numbers,
    paint=differences_paint,
    caption="Difference to GRPO of the same N and seed, a mark a seed, 95 % over mazes. Above the line the focal weight "
    "keeps or reaches more.",
    alt="Difference of pass@k to GRPO against group size, for each gamma, early and at the end.",
)
