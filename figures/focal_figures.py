"""Figures of the focal weight: paper figure 4, the gamma sweep of table 6, the exact drift and the exact update scale.

Everything exact comes from fgrpo_theory. Figure 5's layout is ours (the paper's own was not at hand): it draws the
published table 6.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from matplotlib.figure import Figure

import fgrpo_theory as theory

from . import policy, style
from .inputs import Results, published, where
from .registry import Numbers, register

GAMMAS = (0.0, 0.5, 1.0, 2.0)
SCALE_GROUP_SIZES = (8, 64)
MODELS = ("Qwen2.5-7B", "Qwen3-4B-Base", "Llama-3.2-3B-Instruct")
METHODS = ("GRPO", "DAPO", "CISPO")
METRICS = {
    "math_pass_at_1": "math pass@1",
    "math_pass_at_256": "math pass@256",
    "ood_pass_at_1": "OOD pass@1",
    "ood_pass_at_256": "OOD pass@256",
}


def figure4_numbers(results: Results) -> Numbers:
    mu = np.linspace(0.01, 0.99, 197)
    curves = []
    for gamma in GAMMAS:
        right, wrong = theory.advantage_magnitudes(mu, gamma)
        curves.append({"gamma": gamma, "right": right.tolist(), "wrong": wrong.tolist()})
    return {"mu": mu.tolist(), "curves": curves}


def figure4_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, height=2.7)
    for panel, key in zip(axes, ("right", "wrong"), strict=True):
        for curve in numbers["curves"]:
            panel.plot(
                numbers["mu"], curve[key], label=f"γ = {curve['gamma']:g}", **style.gamma_look(curve["gamma"]).line()
            )
        panel.set_xlabel("success probability µ")
        panel.set_ylim(0, 4)
        panel.set_xlim(0, 1)
    axes[0].set_ylabel("advantage magnitude")
    axes[0].legend(loc="upper right")
    style.letter(axes, ["of a right rollout, g·A⁺", "of a wrong rollout, g·|A⁻|"])
    return figure


def figure5_numbers(results: Results) -> Numbers:
    table = published("table6_gamma")
    series = []
    for model, method in product(MODELS, METHODS):
        rows = where(table, model=model, method=method)
        series.append(
            {
                "model": model,
                "method": method,
                "gamma": rows["gamma"].tolist(),
                **{metric: rows[metric].tolist() for metric in METRICS},
            }
        )
    return {"series": series}


def figure5_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(len(MODELS), len(METRICS), height=1.5)
    looks = dict(zip(METHODS, style.SERIES, strict=False))
    for index, (metric, model) in enumerate(product(METRICS, MODELS)):
        panel = axes[index]
        for series in (series for series in numbers["series"] if series["model"] == model):
            look = looks[series["method"]]
            panel.plot(
                range(len(series["gamma"])), series[metric], label=series["method"], **look.line(marker=look.marker)
            )
        panel.set_xticks(range(len(series["gamma"])), [f"{gamma:g}" for gamma in series["gamma"]])
        if index < len(MODELS):
            panel.set_title(model)
        if index % len(MODELS) == 0:
            panel.set_ylabel(METRICS[metric] + " (%)", fontsize=7)
        if index >= len(MODELS) * (len(METRICS) - 1):
            panel.set_xlabel("γ")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS))
    return figure


def drift_numbers(results: Results) -> Numbers:
    sizes = policy.GROUP_SIZES
    curves = []
    for surrogate, gamma in product(("probability", "ratio"), GAMMAS):
        pairs = [policy.expected_changes(size, gamma=gamma, surrogate=surrogate) for size in sizes]
        total, unsampled = ([pair[side] for pair in pairs] for side in (0, 1))
        curves.append({"surrogate": surrogate, "gamma": gamma, "dQ_pos": total, "dQ_u_pos": unsampled})
    return {"group_size": list(sizes), "curves": curves}


def drift_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, 2, height=2.3)
    for panel, (key, surrogate) in zip(axes, product(("dQ_u_pos", "dQ_pos"), ("probability", "ratio")), strict=True):
        for curve in numbers["curves"]:
            if curve["surrogate"] == surrogate:
                look = style.gamma_look(curve["gamma"])
                panel.plot(
                    numbers["group_size"],
                    curve[key],
                    label=f"γ = {curve['gamma']:g}",
                    **look.line(marker=look.marker, markersize=3),
                )
        panel.axhline(0, color="black", linewidth=0.7)
        style.log2_axis(panel, "group size N" if key == "dQ_pos" else "")
        panel.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
    axes[0].set_ylabel("E[ΔQ unsampled-correct] / η")
    axes[2].set_ylabel("E[ΔQ correct] / η")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(GAMMAS))
    style.letter(
        axes,
        [
            "unsampled-correct, as printed (eq. 10)",
            "unsampled-correct, ratio surrogate",
            "all correct, as printed (eq. 17)",
            "all correct, ratio surrogate",
        ],
    )
    return figure


def scale_numbers(results: Results) -> Numbers:
    mu = np.linspace(0.005, 0.995, 67)
    curves = [
        {
            "group_size": size,
            "gamma": gamma,
            "scale": theory.expected_update_scale(size, mu, gamma, ddof=0, eps=0.0).tolist(),
        }
        for size, gamma in product(SCALE_GROUP_SIZES, GAMMAS)
    ]
    gammas = np.linspace(0, 3, 121)
    return {
        "mu": mu.tolist(),
        "curves": curves,
        "gamma": gammas.tolist(),
        "multiplier": [float(theory.learning_rate_multiplier(gamma)) for gamma in gammas],
        "marked": {f"{gamma:g}": float(theory.learning_rate_multiplier(gamma)) for gamma in GAMMAS},
    }


def scale_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(3, height=2.7)
    for panel, size in zip(axes, SCALE_GROUP_SIZES, strict=False):
        chosen = [curve for curve in numbers["curves"] if curve["group_size"] == size]
        plain = np.array(chosen[0]["scale"])
        for curve in chosen:
            look = style.gamma_look(curve["gamma"])
            panel.plot(numbers["mu"], curve["scale"], label=f"γ = {curve['gamma']:g}", **look.line())
            if curve["gamma"]:
                panel.plot(numbers["mu"], numbers["marked"][f"{curve['gamma']:g}"] * plain, **look.line(linewidth=0.7))
        panel.set_xlabel("success probability µ")
        panel.set_ylim(0, 1.1)
    axes[0].set_ylabel("mean update scale E[g |A|]")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(GAMMAS))
    axes[2].plot(numbers["gamma"], numbers["multiplier"], color="black")
    for gamma, value in numbers["marked"].items():
        look = style.gamma_look(float(gamma))
        axes[2].plot([float(gamma)], [value], marker=look.marker, color=look.color, linestyle="none", markersize=6)
        axes[2].annotate(f"{value:.3f}", (float(gamma), value), textcoords="offset points", xytext=(6, 3))
    axes[2].set_xlabel("γ")
    axes[2].set_xlim(-0.1, 3)
    axes[2].set_ylim(0, 1.1)
    style.letter(axes, *[[f"N = {size}" for size in SCALE_GROUP_SIZES] + ["matched learning rate m(γ)"]])
    return figure


register(
    "figure4",
    title="The focal weight tames groups that mostly succeed",
    source="4",
    numbers=figure4_numbers,
    paint=figure4_paint,
    caption="Magnitude of the binary group advantage in the population limit, times the focal weight (1 - µ)^γ. "
    "Plain GRPO (γ = 0) punishes the few wrong rollouts of an easy prompt without bound; γ of 0.5 already "
    "bounds it.",
    alt="Advantage magnitudes against success probability for four values of gamma; larger gamma pulls the "
    "curves to zero as the success probability nears one.",
)
register(
    "figure5",
    title="Published sweep of γ: three models, three methods",
    source="5 (layout ours; table 6)",
    published=["table6_gamma"],
    numbers=figure5_numbers,
    paint=figure5_paint,
    caption="Published pass@1 and pass@256 (percent) on math and out of domain against γ (table 6). The paper's own "
    "figure 5 was not at hand, so choice and layout are ours.",
    alt="Twelve small panels, one for each metric and model, with a line for each of GRPO, DAPO and CISPO "
    "against gamma.",
)
register(
    "expected_drift",
    title="Which way unsampled-correct mass moves, exactly",
    source="ours",
    numbers=drift_numbers,
    paint=drift_paint,
    caption="Exact expectation over sampling of one step's change of the unsampled-correct mass (a, b) and of the "
    "correct mass (c, d) under the paper's 128,000-action start policy, rewards 1 and -1, learning rate η; "
    "left for the surrogate as printed (Prop. 3.2, raw rewards), right for the importance-ratio surrogate "
    "(centred rewards, multiplicities).",
    alt="At every group size and gamma the unsampled-correct mass falls while the correct mass rises. The fall "
    "is largest at small and middle group sizes and vanishes at the largest; a larger gamma makes both "
    "smaller.",
)
register(
    "update_scale",
    title="The focal weight is also a smaller step; this is how much smaller",
    source="ours (appendix N)",
    numbers=scale_numbers,
    paint=scale_paint,
    caption="(a, b) Exact mean of g |A| over groups of N rollouts (ours; population std) against the success "
    "probability. Thick: with focal weight γ. Thin, same colour: plain GRPO at the learning rate matched to "
    "that γ. The control has the same mean over uniform µ, but another shape. (c) The matched multiplier "
    "m(γ) of appendix N.",
    alt="Update scale against success probability: with larger gamma the curve is lower and leans to hard "
    "prompts. The matched multiplier falls from 1 at gamma 0 through 0.679 at 0.5.",
)
