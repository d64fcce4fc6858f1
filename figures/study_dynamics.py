"""Training dynamics of the studies, as the paper's figures 8 to 10.

A step of these small runs has a handful of groups, so its metrics are noisy: each curve is the mean over blocks of steps,
without those in which the metric has no value (a mean over active groups where none is active). Means over seeds are drawn
where every seed has a value, so that no line jumps because a seed drops out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style
from .inputs import Columns, Results
from .registry import Numbers, register
from .studies import Floats, Study, arm_look, rows_of, studies
from .study_figures import arm_legend

BLOCK = 5
"""Steps that one point of the dynamics is the mean of."""

METRICS = {
    "success": "success (pass@1 in training)",
    "entropy": "entropy (nats a token)",
    "grad_norm": "gradient norm",
    "active": "share of active groups",
    "all_correct": "share of all-correct groups",
    "all_wrong": "share of all-wrong groups",
    "focal_weight": "mean focal weight, active groups",
    "length": "completion length (tokens)",
    "tail_miss": "expected tail miss of the batch",
}
"""Columns of the table, in the order of the panels; docs/trainer.md defines them."""


def dynamics_numbers(results: Results) -> Numbers:
    table, found = results["study_dynamics"], []
    for study in studies(results):
        rows = rows_of(table, study=study.name)
        arms = [{"arm": arm, "metrics": _metrics(study, rows_of(rows, arm=arm))} for arm in study.arms]
        found.append({"study": study.label, "seeds": list(study.seeds), "block": BLOCK, "arms": arms})
    return {"studies": found}


def _metrics(study: Study, rows: Columns) -> Numbers:
    """Each metric's blocks: the middle step, each seed's mean (None without a value), and the mean over seeds."""
    found = {}
    for name in METRICS:
        if name not in rows:
            continue
        seeds = [_blocks(rows_of(rows, seed=seed), name) for seed in study.seeds]
        steps = seeds[0][0]
        values = np.array([seed[1] for seed in seeds])
        found[name] = {
            "step": steps,
            "seeds": [plain(seed) for seed in values],
            "mean": plain(values.mean(axis=0)),
        }
    return found


def _blocks(rows: Columns, name: str) -> tuple[list[float], list[float]]:
    """Middle step and mean of each block of steps; NaN where no step of the block has a value."""
    block = (rows["step"] - 1) // BLOCK
    middles, means = [], []
    for number in np.unique(block):
        values = rows[name][block == number].astype(np.float64)
        values = values[np.isfinite(values)]
        middles.append(float(rows["step"][block == number].mean()))
        means.append(float(values.mean()) if values.size else float("nan"))
    return middles, means


def plain(values: Floats) -> list[float | None]:
    """Numbers for JSON: NaN becomes None."""
    return [float(value) if np.isfinite(value) else None for value in values]


def drawn(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def dynamics_paint(numbers: Numbers) -> Figure:
    found = numbers["studies"]
    rows = -(-len(METRICS) // 3)
    figure = Figure(figsize=(style.FULL_WIDTH, (1.42 * rows + 0.25) * len(found)), layout="constrained")
    blocks = figure.subfigures(len(found), 1, squeeze=False).flat
    for study, block in zip(found, blocks, strict=True):
        axes = list(block.subplots(rows, 3, squeeze=False, sharex=True).flat)
        block.suptitle(f"{study['study']}, {len(study['seeds'])} seeds", fontsize=9, x=0.01, ha="left")
        for panel, (name, label) in zip(axes, METRICS.items(), strict=True):
            for item in study["arms"]:
                if name in item["metrics"]:
                    track(panel, item["metrics"][name]["step"], item["metrics"][name], item["arm"])
            panel.set_title(label, fontsize=7.5)
        for panel in axes[-3:]:
            panel.set_xlabel("step")
    arm_legend(figure, [item["arm"] for study in found for item in study["arms"]])
    return figure


def track(panel: Axes, x: Sequence[float], series: Numbers, arm: str, *, marks: bool = False) -> None:
    """One arm: seeds thin (with marks if asked for), their mean thick where all have a value."""
    look = arm_look(arm)
    marker = {"marker": look.marker, "markersize": 2.5} if marks else {}
    for seed in series["seeds"]:
        panel.plot(x, drawn(seed), **look.line(linewidth=0.6, alpha=0.75, **marker))
    panel.plot(x, drawn(series["mean"]), **look.line(linewidth=1.8))


register(
    "llm_dynamics",
    title="Training dynamics of the language-model studies",
    source="ours (as figures 8 to 10, at small scale)",
    needs=["study_summary", "study_dynamics"],
    numbers=dynamics_numbers,
    paint=dynamics_paint,
    caption=f"Means over blocks of {BLOCK} steps; thin: each seed, thick: mean over seeds, where every seed has a value. "
    "Entropy and the focal weight are means over what is trained on, so they stop where no group is active. The expected "
    "tail miss is that of the batch at the study's rare fraction (docs/trainer.md).",
    alt="Small panels by training step for each study: success, entropy, gradient norm, active, all-correct and all-wrong "
    "groups, focal weight, length and tail miss, with a line for each arm and seed.",
)
