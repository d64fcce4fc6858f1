"""Figures of the closed forms of the tail miss: paper figure 1, tail miss against N, and the map of the worst N.

Everything is evaluated by fgrpo_theory; figure 1's panels (b) and (c) are the paper's table 2. The parameters of panel
(a), and the layout of figure 3, are ours: the paper's originals were not at hand, and the captions say so.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import fgrpo_theory as theory

from . import style
from .inputs import Results, published, where
from .registry import Numbers, register

MU, RARE_FRACTION = 0.2, 0.1
"""The example of figure 1 (a): one rollout in five is right, one right one in ten is of the rare kind."""


def whole_numbers(highest: int, count: int) -> np.ndarray:
    """Distinct whole numbers from 1 to `highest`, about evenly spaced on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, highest, count)).astype(int))


def figure1_numbers(results: Results) -> Numbers:
    sizes = whole_numbers(1024, 120)
    tau = RARE_FRACTION * MU
    lowest, highest = theory.concentration_zone(MU, tau, level=0.5)
    table = published("table2_group_size")
    plain, focal = where(table, method="GRPO"), where(table, method="F-GRPO")
    columns = [name for name in table if name not in ("method", "group_size")]
    return {
        "mu": MU,
        "tau": tau,
        "group_size": sizes.tolist(),
        "tail_miss": theory.tail_miss_probability(sizes, MU, tau).tolist(),
        "active": theory.active_probability(sizes, MU).tolist(),
        "peak": int(theory.peak_group_size(MU, tau)),
        "zone": [int(lowest), int(highest)],
        "published_group_size": plain["group_size"].tolist(),
        "published": {name: plain[name].tolist() for name in columns},
        "focal_group_size": int(focal["group_size"][0]),
        "focal": {name: float(focal[name][0]) for name in columns},
    }


def figure1_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(2, 2, height=2.4)
    left, math, other, rare = axes
    _regimes(left, numbers)
    for name, label, column, panel in (
        ("math", "math", "math_pass_at_", math),
        ("ood", "out of domain", "ood_pass_at_", other),
    ):
        for k, look in (("256", style.SERIES[0]), ("1", style.SERIES[2])):
            _published_line(panel, numbers, column + k, f"pass@{k}", look)
        panel.set_ylabel(f"{label}: pass@k (%)")
        panel.set_ylim(0, 85)
        panel.legend(
            loc="lower right" if name == "math" else "center right",
            ncols=2,
            title="GRPO; star: F-GRPO",
            title_fontsize=7.5,
        )
    _published_line(rare, numbers, "delta_nll_rare", "", style.SERIES[1])
    rare.set_ylabel("rise of NLL on rare solutions")
    rare.set_ylim(0, 0.8)
    style.letter(
        axes,
        [
            "a group is active, or misses the rare kind",
            "math (published table 2)",
            "out of domain (published table 2)",
            "drift of rare solutions (published table 2)",
        ],
    )
    return figure


def _regimes(panel: Axes, numbers: Numbers) -> None:
    sizes, (lowest, highest) = numbers["group_size"], numbers["zone"]
    edges = [1, lowest, highest, sizes[-1]]
    for (start, end), shade, name in zip(
        pairwise(edges),
        ("#f0f0f0", "#f7dcc9", "#dcecf5"),
        ("mostly\ninactive", "active,\nmisses", "covers the\nrare kind"),
        strict=True,
    ):
        panel.axvspan(start, end, color=shade, linewidth=0, zorder=0)
        panel.text((start * end) ** 0.5, 1.04, name, ha="center", va="bottom", fontsize=7)
    panel.plot(sizes, numbers["active"], label="Pr(active)", **style.SERIES[0].line())
    panel.plot(sizes, numbers["tail_miss"], label="Pr(tail miss)", **style.SERIES[1].line())
    panel.vlines(numbers["peak"], 0, 1, color=style.GREY, linewidth=0.8, linestyle=":")
    panel.set_ylim(0, 1.32)
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1])
    panel.set_xlim(1, sizes[-1])
    panel.set_ylabel("probability")
    panel.legend(
        loc="center right", handlelength=1.8, title=f"µ = {numbers['mu']:g}, τ = {numbers['tau']:g}", title_fontsize=7.5
    )
    style.log2_axis(panel)


def _published_line(panel: Axes, numbers: Numbers, column: str, label: str, look: style.Look) -> None:
    panel.plot(
        numbers["published_group_size"], numbers["published"][column], label=label, **look.line(marker=look.marker)
    )
    panel.plot(
        [numbers["focal_group_size"]],
        [numbers["focal"][column]],
        marker="*",
        markersize=10,
        color=look.color,
        markeredgecolor="black",
        markeredgewidth=0.6,
        linestyle="none",
    )
    style.log2_axis(panel)
    panel.set_xticks(numbers["published_group_size"], [str(size) for size in numbers["published_group_size"]])


def figure3_numbers(results: Results) -> Numbers:
    sizes = whole_numbers(100_000, 160)
    curves: list[Numbers] = [
        {"panel": panel, "mu": mu, "rho": rho}
        for panel, pairs in (
            ("mu", [(mu, 0.1) for mu in (0.05, 0.3, 0.6, 0.95)]),
            ("rho", [(0.3, rho) for rho in (0.5, 0.1, 0.01, 0.001)]),
        )
        for mu, rho in pairs
    ]
    for curve in curves:
        mu, tau = curve["mu"], curve["mu"] * curve["rho"]
        curve["tail_miss"] = theory.tail_miss_probability(sizes, mu, tau).tolist()
        curve["conditional"] = theory.conditional_tail_miss_probability(sizes[1:], mu, tau).tolist()
        curve["peak"] = int(theory.peak_group_size(mu, tau))
        curve["peak_value"] = float(theory.tail_miss_probability(curve["peak"], mu, tau))
    return {"group_size": sizes.tolist(), "curves": curves}


def figure3_paint(numbers: Numbers) -> Figure:
    figure, axes = style.panels(3, height=2.9)
    sizes = numbers["group_size"]
    for panel, which, key in (
        (axes[0], "mu", "tail_miss"),
        (axes[1], "rho", "tail_miss"),
        (axes[2], "rho", "conditional"),
    ):
        chosen = [curve for curve in numbers["curves"] if curve["panel"] == which]
        for curve, look in zip(chosen, style.SERIES, strict=False):
            name = "µ" if which == "mu" else "ρ"
            panel.plot(sizes[-len(curve[key]) :], curve[key], label=f"{name} = {curve[which]:g}", **look.line())
            if key == "tail_miss":
                panel.plot(
                    [curve["peak"]],
                    [curve["peak_value"]],
                    marker=look.marker,
                    color=look.color,
                    linestyle="none",
                    markeredgecolor="black",
                    markeredgewidth=0.5,
                    label=f"peak N = {curve['peak']}",
                )
        panel.set_xscale("log")
        panel.set_xlabel("group size N")
        panel.set_xlim(1, sizes[-1])
        panel.set_xticks([1, 10, 100, 1e3, 1e4, 1e5])
        panel.set_ylim(0, 1.02)
        panel.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.24),
            ncols=2 if key == "tail_miss" else 1,
            columnspacing=0.8,
            handlelength=2.0,
        )
    axes[0].set_ylabel("Pr(tail miss)")
    axes[2].set_ylabel("Pr(tail miss | active)")
    style.letter(axes, ["ρ = 0.1, several µ", "µ = 0.3, several ρ", "µ = 0.3, given active"])
    return figure


def worst_numbers(results: Results) -> Numbers:
    odds = np.linspace(np.log(0.01 / 0.99), np.log(0.99 / 0.01), 101)
    mu, rho = 1 / (1 + np.exp(-odds)), np.geomspace(1e-3, 0.95, 81)
    peak = theory.peak_group_size(mu[None, :], mu[None, :] * rho[:, None])
    return {"mu": mu.tolist(), "rho": rho.tolist(), "peak": np.asarray(peak).astype(int).tolist()}


def worst_paint(numbers: Numbers) -> Figure:
    figure, (panel,) = style.panels(1, height=4.2)
    peak = np.asarray(numbers["peak"])
    mesh = panel.pcolormesh(
        numbers["mu"],
        numbers["rho"],
        peak,
        norm=LogNorm(2, peak.max()),
        cmap="viridis",
        shading="nearest",
        rasterized=True,
    )
    levels = [level for level in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096) if level < peak.max()]
    lines = panel.contour(numbers["mu"], numbers["rho"], peak, levels=levels, colors="white", linewidths=0.9)
    for text in panel.clabel(lines, fmt="N = %d", fontsize=7, inline=False):
        text.set_bbox({"facecolor": "black", "alpha": 0.55, "edgecolor": "none", "pad": 1})
    panel.set_xscale("logit")
    panel.set_yscale("log")
    panel.grid(False)
    panel.set_xlabel("success probability µ of one rollout")
    panel.set_ylabel("rare fraction ρ = τ / µ")
    figure.colorbar(mesh, ax=panel, label="group size with the largest tail miss")
    return figure


register(
    "figure1",
    title="Which group size misses the rare kind most often",
    source="1",
    published=["table2_group_size"],
    numbers=figure1_numbers,
    paint=figure1_paint,
    caption="(a) Probability that a group gives any gradient (eq. 7), and that it does so without containing the "
    "rare-correct kind (Lemma 3.1); the middle band is where the tail miss is at least half of its peak, the "
    "dotted line the peak itself. The parameters are ours. (b, c) Published pass@k of GRPO against group "
    "size on math and out of domain, the star is F-GRPO at N = 8. (d) Published rise of the mean negative "
    "log-likelihood of rare solutions.",
    alt="Four panels. The tail miss rises to a peak near N = 8 and falls again while activity rises to one. "
    "Published pass@256 is lowest near N = 8 to 16, where the drift of rare solutions is largest; F-GRPO at "
    "N = 8 is better on each.",
)
register(
    "figure3",
    title="The tail miss has one peak, wherever the problem lies",
    source="3 (layout ours)",
    numbers=figure3_numbers,
    paint=figure3_paint,
    caption="Tail-miss probability (Lemma 3.1) against group size: (a) for several success probabilities, (b) for "
    "several rare fractions, with the exact peak of each marked; (c) the same given that the group is "
    "active. The paper's own figure 3 was not at hand, so choice and layout are ours.",
    alt="Bell-shaped curves on a logarithmic axis of group sizes; rarer kinds peak at larger group sizes and "
    "higher. Given an active group the tail miss only falls.",
)
register(
    "worst_group_size",
    title="The worst group size for every difficulty",
    source="ours",
    numbers=worst_numbers,
    paint=worst_paint,
    caption="The group size with the largest tail-miss probability (exact, ours), over the success probability of a "
    "rollout and the rare fraction of the correct mass. It grows for hard prompts (left), which need many "
    "rollouts for one right answer, and for very easy ones (right), which need many for one wrong answer; "
    "and it grows as the kind gets rarer.",
    alt="A map: the worst group size is two to eight for middling prompts and common kinds, and grows to "
    "hundreds for hard prompts, and for very easy ones with very rare kinds.",
)
