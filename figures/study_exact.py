"""Exact masses of the studies' models: against the training step, and M_ret where equally much is learned.

Every correct answer of a prompt is listed and scored, so mu, M_ret and the unsampled-correct mass are exact; what varies is
the run. The comparison at equal mu is that of figures/study_masses.py.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style
from .inputs import Results
from .registry import Numbers, register
from .studies import PLAIN, arm_look, studies
from .study_dynamics import track
from .study_figures import arm_legend
from .study_masses import LEVELS, SPLIT_LABEL, SPLITS, WIDEST, first_reached, paths, probed, retained_levels

EXACT = {"mu": "µ", "retained": "M_ret", "unsampled": "unsampled-correct mass"}
MU_TICKS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def exact_numbers(results: Results) -> Numbers:
    found = []
    for study in (study for study in studies(results) if probed(results, study)):
        arms = []
        for arm in study.arms:
            track_of = paths(results, study, arm)
            columns = {
                f"{name}_{split}": {
                    "seeds": track_of[f"{name}_{split}"],
                    "mean": np.mean(track_of[f"{name}_{split}"], axis=0).tolist(),
                }
                for split in SPLITS
                for name in EXACT
            }
            arms.append({"arm": arm, "step": track_of["step"], "columns": columns})
        found.append({"study": study.label, "seeds": list(study.seeds), "arms": arms})
    return {"studies": found}


def exact_paint(numbers: Numbers) -> Figure:
    found = numbers["studies"]
    figure, axes = style.panels(3, 2 * len(found), height=2.1)
    titles = []
    for place, study in enumerate(found):
        for row, split in enumerate(SPLITS):
            chosen = axes[(2 * place + row) * 3 : (2 * place + row + 1) * 3]
            for panel, name in zip(chosen, EXACT, strict=True):
                for item in study["arms"]:
                    track(panel, item["step"], item["columns"][f"{name}_{split}"], item["arm"])
                panel.set_xlabel("step")
                panel.set_ylim(bottom=0.0)
            chosen[0].set_ylabel(f"{study['study']}, {SPLIT_LABEL[split]}")
            titles += list(EXACT.values())
    style.letter(axes, titles)
    arm_legend(figure, [item["arm"] for study in found for item in study["arms"]])
    return figure


def equal_mu_numbers(results: Results) -> Numbers:
    found = []
    for study in (study for study in studies(results) if probed(results, study)):
        splits = {}
        for split in SPLITS:
            tracks = {arm: paths(results, study, arm) for arm in study.arms}
            splits[split] = {
                "arms": [_against_mu(arm, tracks[arm], split) for arm in study.arms],
                "differences": retained_levels(results, study, split),
            }
        found.append({"study": study.label, "seeds": list(study.seeds), "base": study.arms[0], "splits": splits})
    return {"studies": found}


def _against_mu(arm: str, path: Numbers, split: str) -> dict[str, Any]:
    """The probes of each seed, and where every seed first reaches a level, the mean over seeds."""
    mus, kept = path[f"mu_{split}"], path[f"retained_{split}"]
    reached = {level: [first_reached(mu, one, level) for mu, one in zip(mus, kept, strict=True)] for level in LEVELS}
    whole = {
        level: float(np.mean([value for value in values if value is not None]))
        for level, values in reached.items()
        if all(value is not None for value in values)
    }
    return {"arm": arm, "mu": mus, "retained": kept, "level": list(whole), "mean": list(whole.values())}


def equal_mu_paint(numbers: Numbers) -> Figure:
    found = numbers["studies"]
    figure, axes = style.panels(2, 2 * len(found), height=2.5)
    titles = []
    for place, study in enumerate(found):
        for column, split in enumerate(SPLITS):
            above, below = axes[4 * place + column], axes[4 * place + 2 + column]
            arms = study["splits"][split]["arms"]
            for item in arms:
                _retained_against_mu(above, item)
            below.axhline(0, **arm_look(study["base"]).line(linewidth=1.0), zorder=1)
            for item in study["splits"][split]["differences"]:
                track(below, item["level"], item, item["arm"], marks=True)
            lowest = min(min(mu) for item in arms for mu in item["mu"])
            for panel in (above, below):
                _mu_axis(panel, lowest)
            above.set_ylim(-0.03, 1.05)
            above.set_ylabel("M_ret")
            below.set_ylabel("M_ret less GRPO's" if study["base"] == PLAIN else "difference of M_ret")
        titles += [f"{study['study']}, {SPLIT_LABEL[split]}" for split in SPLITS]
        titles += [f"at equal µ, {SPLIT_LABEL[split]}" for split in SPLITS]
    style.letter(axes, titles)
    arm_legend(figure, [item["arm"] for study in found for item in study["splits"]["train"]["arms"]], markers=True)
    return figure


def _retained_against_mu(panel: Axes, item: dict[str, Any]) -> None:
    """Probes as marks; the lines between them are straight in mu, as the interpolation is, and so bent on this axis."""
    look, shares = arm_look(item["arm"]), np.linspace(0.0, 1.0, 25)
    for mu, kept in zip(item["mu"], item["retained"], strict=True):
        panel.plot(mu, kept, linestyle="none", marker=look.marker, color=look.color, markersize=2.5)
        for (before, kept_before), (after, kept_after) in pairwise(zip(mu, kept, strict=True)):
            x, y = (first + shares * (last - first) for first, last in ((before, after), (kept_before, kept_after)))
            known = abs(after - before) <= WIDEST
            panel.plot(x, y, **look.line(linewidth=0.7, alpha=0.8 if known else 0.25))
    panel.plot(item["level"], item["mean"], **look.line(linewidth=2.0))


def _mu_axis(panel: Axes, lowest: float) -> None:
    panel.set_xscale("log")
    panel.set_xlim(0.85 * lowest, 1.15)
    ticks = [tick for tick in MU_TICKS if tick >= 0.85 * lowest]
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("exact µ (mean over prompts)")


register(
    "llm_exact",
    title="Exact success probability, retained and unsampled-correct mass of a language model in training",
    source="ours (eq. 26 and 9, exact)",
    needs=["study_summary", "study_probes"],
    numbers=exact_numbers,
    paint=exact_paint,
    caption="Every correct answer of a prompt is listed and scored, so these are exact numbers, means over prompts: µ, the "
    "share M_ret of each correct answer's mass that is kept from the start, and the correct mass that a group of N rollouts "
    "is expected to miss. Thin: each seed, thick: mean over seeds.",
    alt="Three panels for training and three for held-out prompts: success probability, retained mass and "
    "unsampled-correct mass against the step, a line for each arm and seed.",
)
register(
    "llm_equal_mu",
    title="What is kept once equally much is learned: M_ret against µ",
    source="ours (eq. 26, exact)",
    needs=["study_summary", "study_probes"],
    numbers=equal_mu_numbers,
    paint=equal_mu_paint,
    caption="Upper row: M_ret against µ, both exact; thin lines follow each seed from probe to probe (marks; µ can fall), "
    "thick ones are the mean over seeds where every seed of the arm first reaches that µ. Lower row: M_ret less GRPO's "
    "where both first reach the same µ, interpolated between probes; thin lines with marks are seeds, at the levels that "
    f"all arms of the seed reach, thick ones their mean where every seed has the level. Where µ jumps by more than {WIDEST:g} "
    "between two probes (faint lines) nothing is interpolated: there the runs were too fast for their probes.",
    alt="Retained mass falls as the success probability rises, a line for each arm and seed; below, each arm's difference to "
    "GRPO at equal success probability.",
)
