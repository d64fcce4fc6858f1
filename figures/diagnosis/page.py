"""The diagnosis as one self-contained HTML file: the verdict first, then pictures, tables, and what was counted out.

The same rows as the terminal's (`tables`), the same look as all figures; no script, nothing fetched. Every text that comes
from a log (file names, columns, places of corrupt lines) is escaped, and no completion is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fgrpo_theory.foundation.files import output_file, write_text

from .. import pages, style
from .tables import SECTIONS, Diagnosis, advice_lines

Item = dict[str, Any]


def write_page(found: Diagnosis, out: Path | str) -> Path:
    """Write the page to `out`; return its path. Raises ValueError if `out` cannot be written."""
    path = output_file(out)
    write_text(path, render_page(found))
    return path


def render_page(found: Diagnosis) -> str:
    """The page as HTML; the same diagnosis gives the same bytes."""
    head, *reasons = advice_lines(found)
    with style.applied():
        pictures = [shown for draw in PICTURES if (shown := draw(found)) is not None]
    return pages.template("diagnosis.html.j2").render(
        **pages.stylesheet("report.css"),
        head=head,
        reasons=[reason.removeprefix("- ") for reason in reasons],
        pictures=pictures,
        sections=[{"title": title, "rows": rows} for title, make in SECTIONS if (rows := make(found))],
        origin=found["provenance"],
        level=found["level"],
    )


def success_picture(found: Diagnosis) -> Item | None:
    """Success rates of the present groups as a histogram, with what the Beta fit expects of it."""
    law = found["population"]
    if "histogram" not in law:
        return None
    figure, (panel,) = style.panels(1, height=2.4)
    places = np.arange(len(law["histogram"]))
    panel.bar(places, law["histogram"], 0.8, color=style.SKY, label="groups of the present window")
    if "fitted_histogram" in law:
        name = f"Beta({law['alpha']:.2f}, {law['beta']:.2f})"
        panel.plot(places, law["fitted_histogram"], color=style.BLACK, marker="o", markersize=3, label=name)
    panel.set_xlabel(f"correct rollouts X of N = {len(places) - 1}")
    panel.set_ylabel("share of groups")
    panel.legend()
    return _shown(figure, "Success over prompts",
                  "Groups at the left (all wrong) and right end (all right) have no gradient.")  # fmt: skip


def miss_picture(found: Diagnosis) -> Item | None:
    """The tail miss against N for every supported rare fraction, measured and under the Beta law."""
    kept = [item["rare_fraction"] for item in found["rare_fractions"] if item["supported"]]
    if not kept:
        return None
    figure, (panel,) = style.panels(1, height=2.8)
    drawn = False
    for place, rho in enumerate(kept):
        look = style.SERIES[place % len(style.SERIES)]
        for origin, items in (("measured", found["tail_miss"]), ("Beta law", found["population"].get("tail_miss", []))):
            curve = [row for item in items if item["rare_fraction"] == rho for row in item["curve"] if "value" in row]
            if curve:
                drawn = True
                _curve(panel, curve, "group_size", look, origin == "measured", f"ρ = {rho:g}, {origin}")
    if not drawn:
        return None
    panel.axvline(found["group_size"], color=style.GREY, linewidth=0.8)
    panel.annotate("your N", (found["group_size"], 1.0), (3, -2), xycoords=("data", "axes fraction"),
                   textcoords="offset points", va="top", color=style.GREY)  # fmt: skip
    panel.axhline(found["advice"]["max_miss"], color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    style.log2_axis(panel)
    panel.set_ylim(bottom=0)
    panel.set_ylabel("probability of a tail miss")
    panel.legend()
    return _shown(figure, "Tail miss: an active group without any of a kind of answer",
                  "ρ is the kind's share of the correct answers. Solid: measured on random subgroups of your groups; dashed: "
                  f"under the fitted Beta law. Dotted: the largest miss allowed, {found['advice']['max_miss']:g}.")  # fmt: skip


def _curve(panel: Axes, rows: list[Item], key: str, look: style.Look, solid: bool, label: str) -> None:
    """A line through the values, an interval at each where there is one."""
    x = [row[key] for row in rows]
    panel.plot(x, [row["value"] for row in rows], color=look.color, marker=look.marker, markersize=3,
               linestyle="-" if solid else (0, (4, 2)), label=label)  # fmt: skip
    limits = [(at, row["lower"], row["upper"]) for at, row in zip(x, rows, strict=True) if "lower" in row]
    if limits:
        at, low, high = zip(*limits, strict=True)
        panel.vlines(at, low, high, colors=look.color, linewidth=0.7)


def pass_picture(found: Diagnosis) -> Item | None:
    """pass@k of the first, the middle and the present window."""
    windows = [row for row in found["over_time"] if row.get("pass_at_k")]
    if not windows:
        return None
    chosen = dict.fromkeys((0, len(windows) // 2, len(windows) - 1))
    figure, (panel, right) = style.panels(2, height=2.5)
    for place, index in enumerate(chosen):
        row, look = windows[index], style.SERIES[place]
        _curve(panel, row["pass_at_k"], "k", look, True, f"steps {row['first_step']} to {row['last_step']}")
    style.log2_axis(panel, "k")
    panel.set_ylim(0, 1.03)
    panel.set_ylabel("pass@k")
    panel.legend()
    middle = [(row["first_step"] + row["last_step"]) / 2 for row in windows]
    for place, (label, pick) in enumerate((("pass@1", 0), ("pass@N", -1))):
        rows = [{"step": at, **row["pass_at_k"][pick]} for at, row in zip(middle, windows, strict=True)]
        _curve(right, [row for row in rows if "value" in row], "step", style.SERIES[place + 3], True, label)
    right.set_xlabel("training step")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_ylim(0, 1.03)
    right.legend()
    return _shown(figure, "pass@k, and how it moves",
                  "pass@1 that rises while pass@N falls is the sharpening that the focal weight is made against.")  # fmt: skip


def focal_picture(found: Diagnosis) -> Item | None:
    """What each gamma leaves of the updates, and how much of them comes from prompts that are mostly solved."""
    rows = [row for row in found["focal"] if "value" in row.get("update_kept", {})]
    if not rows:
        return None
    figure, (panel,) = style.panels(1, height=2.2)
    names = (("update_kept", "update kept"), ("from_easy_before", "from easy prompts, before"),
             ("from_easy_after", "from easy prompts, after"))  # fmt: skip
    for place, (name, label) in enumerate(names):
        x = np.arange(len(rows)) + 0.27 * (place - 1)
        panel.bar(
            x, [row[name]["value"] for row in rows], 0.25, color=style.SERIES[place].color, label=label, alpha=0.8
        )
        for at, row in zip(x, rows, strict=True):
            if "lower" in row[name]:
                panel.vlines(at, row[name]["lower"], row[name]["upper"], colors="black", linewidth=0.8)
    panel.set_xticks(range(len(rows)), [f"γ = {row['gamma']:g}" for row in rows])
    panel.set_ylim(0, 1)
    figure.legend(loc="outside lower center", ncols=3)
    return _shown(figure, "What the focal weight would do to these updates",
                  "Shares of the total |advantage| of active groups (eq. 12 and 13). Easy: more than half right.")  # fmt: skip


def unsampled_picture(found: Diagnosis) -> Item | None:
    """The mean correct mass, and the part of it whose answers the group has not drawn."""
    rows = [("all correct answers", found["present"]["success_rate"]),
            ("of them not drawn", found["unsampled"].get("mass", {}))]  # fmt: skip
    if any("value" not in row for _, row in rows) or found["unsampled"]["all_distinct"]:
        return None
    figure, (panel,) = style.panels(1, height=1.4)
    for place, (_, row) in enumerate(rows):
        panel.barh(place, row["value"], 0.6, color=(style.GREY, style.SKY)[place])
        if "lower" in row:
            panel.hlines(place, row["lower"], row["upper"], colors="black", linewidth=0.8)
    panel.set_yticks(range(len(rows)), [name for name, _ in rows])
    panel.invert_yaxis()
    panel.set_xlim(0, 1)
    panel.set_xlabel("probability of a rollout, mean over groups")
    return _shown(figure, "Correct answers that a group has not drawn",
                  "Good-Turing over distinct correct answers: what N - 1 rollouts leave undrawn.")  # fmt: skip


PICTURES: tuple[Callable[[Diagnosis], Item | None], ...] = (
    success_picture,
    miss_picture,
    pass_picture,
    unsampled_picture,
    focal_picture,
)
"""In the order of the page; each draws nothing where the logs hold too little."""


def _shown(figure: Figure, title: str, caption: str) -> Item:
    return {"title": title, "caption": caption, "uri": pages.data_uri(pages.laid_out(figure))}
