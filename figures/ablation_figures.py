"""Figures beside the main simulation: surrogate against surrogate, gamma, and the cross-check."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from . import style
from .inputs import Results, where
from .registry import Numbers, register
from .simulation_figures import last_step, over_seeds

SURROGATE_LABEL = {"probability": "as printed: p", "ratio": "importance ratio: p / p(old)"}


def surrogates_numbers(results: Results) -> Numbers:
    final = last_step(results["surrogates"])
    return {
        "series": [
            {
                "surrogate": str(surrogate),
                "gamma": float(gamma),
                **{
                    name: over_seeds(where(final, surrogate=surrogate, gamma=gamma), name)
                    for name in ("Q_pos", "M_ret")
                },
            }
            for surrogate in np.unique(final["surrogate"].astype(str))
            for gamma in np.unique(final["gamma"])
            if ((final["surrogate"] == surrogate) & (final["gamma"] == gamma)).any()
        ]
    }


def surrogates_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, height=2.8)
    for panel, name in zip(axes, ("Q_pos", "M_ret"), strict=True):
        for series, look in zip(numbers["series"], style.SERIES, strict=False):
            label = f"{SURROGATE_LABEL.get(series['surrogate'], series['surrogate'])}, γ = {series['gamma']:g}"
            _seeds(panel, series[name]["group_size"], series[name], look, label)
        style.log2_axis(panel)
        panel.set_ylim(-0.03, 1.05)
    axes[0].set_ylabel("Q_pos")
    axes[1].set_ylabel("M_ret")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    style.letter(axes, ["correct mass at the last step", "retained mass at the last step"])
    return figure


def _seeds(panel: Axes, x: list[float], values: Numbers, look: style.Look, label: str) -> None:
    panel.plot(x, values["mean"], label=label, **look.line())
    for position, seeds in zip(x, values["seeds"], strict=True):
        panel.plot(
            [position] * len(seeds),
            seeds,
            marker=look.marker,
            color=look.color,
            linestyle="none",
            markersize=3.4,
            markerfacecolor="none",
            markeredgewidth=0.8,
        )


def gammas_numbers(results: Results) -> Numbers:
    final = last_step(results["gammas"])
    series = []
    for size in np.unique(final["group_size"]):
        rows = where(final, group_size=size)
        gammas = np.unique(rows["gamma"])
        item: Numbers = {"group_size": int(size), "gamma": gammas.tolist()}
        for name in ("Q_pos", "M_ret"):
            seeds = [rows[name][rows["gamma"] == gamma] for gamma in gammas]
            item[name] = {
                "seeds": [value.tolist() for value in seeds],
                "mean": [float(value.mean()) for value in seeds],
            }
        series.append(item)
    return {"series": series}


def gammas_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, height=2.8)
    for panel, name in zip(axes, ("M_ret", "Q_pos"), strict=True):
        for index, series in enumerate(numbers["series"]):
            _seeds(
                panel,
                series["gamma"],
                series[name],
                style.SERIES[index % len(style.SERIES)],
                f"N = {series['group_size']}",
            )
        panel.set_xlabel("γ")
        panel.set_ylabel(name)
    axes[0].set_ylim(-0.03, 1.05)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    style.letter(axes, ["retained mass at the last step", "correct mass at the last step"])
    return figure


def crosscheck_numbers(results: Results) -> Numbers:
    table = results["crosscheck"]
    right = np.array([name is None for name in table["wrong_law"]], dtype=bool)
    # Each cell has its own limit, so differences are shown as a share of it.
    share = table["z"] / table["threshold"]
    rows = []
    for law in sorted(set(table["law"])):
        own = table["law"] == law
        wrong = {
            str(name): float(np.abs(share[own & (table["wrong_law"] == name)]).max())
            for name in sorted(set(table["wrong_law"][own & ~right]))
        }
        rows.append({"law": str(law), "cells": share[own & right].tolist(), "wrong_laws": wrong})
    verdicts = table["verdict"][right]
    return {"laws": rows, "cells": len(verdicts), "failed": int((verdicts == "fail").sum())}


def crosscheck_paint(numbers: Numbers) -> Figure:
    laws = numbers["laws"]
    figure, axes = style.panels(2, height=1.0 + 0.21 * len(laws))
    for index, law in enumerate(laws):
        for panel, values, look in (
            (axes[0], law["cells"], style.SERIES[0]),
            (axes[1], list(law["wrong_laws"].values()), style.SERIES[1]),
        ):
            places = [index] * len(values)
            marks: dict[str, Any] = {
                "marker": look.marker,
                "color": look.color,
                "markerfacecolor": "none",
                "markersize": 3.6,
            }
            panel.plot(values, places, linestyle="none", **marks)
    for panel, edges in zip(axes, ((-1, 1), (1,)), strict=True):
        for edge in edges:
            panel.axvline(edge, color="black", linestyle="--", linewidth=0.9)
        panel.set_ylim(len(laws) - 0.5, -0.5)
        panel.set_yticks(range(len(laws)), [law["law"] for law in laws] if panel is axes[0] else [""] * len(laws))
    axes[0].set_xlabel("(sampling - theory) / limit")
    axes[1].set_xlabel("largest |sampling - wrong law| / limit")
    axes[1].set_xscale("log")
    axes[1].set_xlim(left=0.5)
    axes[1].xaxis.set_minor_formatter(NullFormatter())
    style.letter(
        axes, [f"the laws: {numbers['cells']} cells, {numbers['failed']} failed", "laws made wrong on purpose"]
    )
    return figure


register(
    "surrogates",
    title="Which surrogate makes figure 2",
    source="ours (beside figure 2)",
    needs=["surrogates"],
    numbers=surrogates_numbers,
    paint=surrogates_paint,
    caption="The same simulation with the surrogate as printed (its gradient carries an extra factor p) and with the "
    "importance ratio (its gradient is the multiplicity times the centred reward). Only the second keeps the "
    "correct mass at the largest group size. Every seed is a mark.",
    alt="Correct and retained mass against group size for the two surrogates.",
)
register(
    "gammas",
    title="Retained mass against γ",
    source="ours (beside figure 2)",
    needs=["gammas"],
    numbers=gammas_numbers,
    paint=gammas_paint,
    caption="Retained and correct mass at the last step against the focal exponent, a line for each group size, "
    "every seed a mark.",
    alt="Retained mass and correct mass against gamma for several group sizes.",
)
register(
    "crosscheck",
    title="Sampling against theory",
    source="ours",
    needs=["crosscheck"],
    numbers=crosscheck_numbers,
    paint=crosscheck_paint,
    caption="(a) Difference between what sampling code counts, which knows nothing of the laws, and what each closed form "
    "says, in every registered cell, as a share of the cell's limit at the suite's false-alarm rate (dashed: the limit, "
    "about six standard errors). (b) For each law made wrong on purpose, the largest such share over its cells: it must "
    "lie past the limit, or the check could not have seen the error.",
    alt="Points for each law, and crosses for wrong laws, with the limits of the test as dashed lines.",
)
