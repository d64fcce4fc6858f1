"""Figures of the language-model studies: pass@k by arm, and how far the rare correct answers drift away.

Thick lines are means over seeds, thin ones single seeds. pass@k bands are bootstrap intervals over seeds and problems; the
intervals of the rare answers are those of each run, over prompts (appendix M.2 of F-GRPO).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import style
from .inputs import Results
from .registry import Numbers, register
from .studies import PLAIN, START, Floats, arm_label, arm_look, pass_at_k, spread, studies
from .study_table import rare_rises


def pass_at_k_numbers(results: Results) -> Numbers:
    found = []
    for study in studies(results):
        curves = pass_at_k(results, study)
        others = [arm for arm in study.arms if arm != PLAIN and PLAIN in study.arms]
        found.append(
            {
                "study": study.label,
                "seeds": list(study.seeds),
                "problems": int(curves.values[START].shape[2]),
                "k": list(curves.ks),
                "series": [{"arm": arm, **_by_k(curves.values[arm])} for arm in (START, *study.arms)],
                "differences": [
                    {"arm": arm, **_by_k(curves.values[arm] - curves.values[PLAIN])} for arm in (START, *others)
                ],
            }
        )
    return {"studies": found}


def _by_k(values: Floats) -> Numbers:
    """Spreads of values[k, seed, problem] at each k; `seeds` is a list a seed."""
    each = [spread(of_k) for of_k in values]
    return {name: [item[name] for item in each] for name in ("mean", "low", "high")} | {
        "seeds": np.mean(values, axis=2).T.tolist()
    }


def pass_at_k_paint(numbers: Numbers) -> Figure:
    found = numbers["studies"]
    figure, axes = style.panels(len(found), 2, height=2.6)
    for study, above, below in zip(found, axes[: len(found)], axes[len(found) :], strict=True):
        for panel, name in ((above, "series"), (below, "differences")):
            for place, series in enumerate(study[name]):
                _curve(panel, study["k"], series, 2.0 ** (0.16 * (place - (len(study[name]) - 1) / 2)))
        below.axhline(0, **arm_look(PLAIN).line(linewidth=1.0), zorder=1)
        for panel in (above, below):
            style.log2_axis(panel, "k")
        above.set_ylim(-0.03, 1.03)
    axes[0].set_ylabel("pass@k")
    axes[len(found)].set_ylabel("pass@k less that of GRPO")
    titles = [f"{study['study']}, {study['problems']} problems, {len(study['seeds'])} seeds" for study in found]
    style.letter(axes, [*titles, *(f"{study['study']}: difference" for study in found)])
    arm_legend(figure, [series["arm"] for study in found for series in study["series"]])
    return figure


def _curve(panel: Axes, ks: Sequence[int], series: Numbers, shift: float) -> None:
    """Mean thick, seeds thin, and at every other k the interval as an upright line, shifted to part the arms'."""
    look = arm_look(series["arm"])
    places = [k * shift for k in ks[::2]]
    panel.vlines(places, series["low"][::2], series["high"][::2], colors=look.color, linewidth=0.9, alpha=0.9)
    for seed in series["seeds"] if len(series["seeds"]) > 1 else []:
        panel.plot(ks, seed, **look.line(linewidth=0.6, alpha=0.75))
    panel.plot(ks, series["mean"], **look.line(linewidth=2.0))


def arm_legend(figure: Figure, arms: Sequence[str], *, markers: bool = False) -> None:
    """A legend of the arms under the figure, in the order of first use."""
    names = list(dict.fromkeys(arms))
    handles = [
        Line2D([], [], **arm_look(arm).line(linewidth=2.0, marker=arm_look(arm).marker if markers else None))
        for arm in names
    ]
    figure.legend(handles, [arm_label(arm) for arm in names], loc="outside lower center", ncols=min(5, len(names)))


def rare_numbers(results: Results) -> Numbers:
    found: list[dict[str, Any]] = []
    for study in studies(results):
        arms = []
        for arm in study.arms:
            rises = rare_rises(results, study, arm)
            arms.append({"arm": arm, "mean": float(rises[:, 0].mean()), "runs": rises.tolist()})
        found.append({"study": study.label, "seeds": list(study.seeds), "arms": arms})
    return {"studies": found}


def rare_paint(numbers: Numbers) -> Figure:
    found = numbers["studies"]
    figure, axes = style.panels(len(found), height=2.8)
    for study, panel in zip(found, axes, strict=True):
        for place, item in enumerate(study["arms"]):
            _runs(panel, place, item, study["seeds"])
        panel.set_xticks(range(len(study["arms"])), [_short(item["arm"]) for item in study["arms"]])
        panel.set_xlim(-0.6, len(study["arms"]) - 0.4)
        low, high = panel.get_ylim()
        panel.set_ylim(min(0.0, low), 1.05 * high)
        panel.grid(visible=False, axis="x")
    axes[0].set_ylabel("rise of NLL (nats a token)")
    style.letter(axes, [f"{study['study']}, {len(study['seeds'])} seeds" for study in found])
    return figure


def _short(arm: str) -> str:
    return (
        arm_label(arm).replace("GRPO, low learning rate", "low\nlearning rate").replace("GRPO (γ = 0)", "GRPO\n(γ = 0)")
    )


def _runs(panel: Axes, place: int, item: Numbers, seeds: Sequence[int]) -> None:
    """One arm: the mean as a bar of no width, each run with its interval and its seed's number."""
    look, width = arm_look(item["arm"]), 0.6
    panel.plot([place - width / 2, place + width / 2], [item["mean"]] * 2, color=look.color, linewidth=2.5)
    places = place + (np.arange(len(seeds)) - (len(seeds) - 1) / 2) * width / max(2, len(seeds))
    for x, (rise, low, high), seed in zip(places, item["runs"], seeds, strict=True):
        panel.plot([x, x], [low, high], color=look.color, linewidth=0.9)
        panel.plot([x], [rise], marker=look.marker, color=look.color, markersize=4, markerfacecolor="white")
        panel.annotate(f"s{seed}", (x, high), (0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=6)


_SPREAD = "Thick: mean over seeds; thin: each seed"

register(
    "llm_pass_at_k",
    title="pass@k of the language-model studies, by arm",
    source="ours (after tables 12 to 14, at small scale)",
    needs=["study_summary", "study_counts"],
    numbers=pass_at_k_numbers,
    paint=pass_at_k_paint,
    caption=f"pass@k on held-out problems at the last step, unbiased (eq. 27). Upper row: by arm. {_SPREAD}; upright "
    "lines: 95 % bootstrap over seeds and problems. Lower row: the difference to GRPO, paired by seed and problem, so that "
    "what all arms of a seed share drops out. With few seeds the intervals reach about as far as the seeds do: read the "
    "thin lines. Curves that lie on each other are arms that agree; a flat curve is a model that answers alike every time.",
    alt="pass@k against k on a logarithmic axis for the start and each arm, one column a study; below, each arm's "
    "difference to plain GRPO.",
)
register(
    "llm_rare",
    title="How much less likely the start's rarest correct answers become",
    source="ours (as appendix M.2, at small scale)",
    needs=["study_summary"],
    numbers=rare_numbers,
    paint=rare_paint,
    caption="Rise of the length-normalised negative log-likelihood of the rare correct answers of the start (appendix M.2) "
    "under the trained policy; one mark a run, named by its seed, with its 95 % bootstrap interval over prompts; the wide "
    "bar is the mean over seeds. All runs of a study share the rare set. Compare arms within a seed: a run that learned little has "
    "also moved little.",
    alt="For each study and arm one mark a seed with an interval, and the mean over seeds as a short bar.",
)
