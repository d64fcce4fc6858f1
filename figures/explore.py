"""The interactive page: N, mu, rare fraction and gamma as sliders, the closed forms as curves.

One self-contained HTML file (`fgrpo figures explore`). Its script computes the laws itself, in doubles and in the forms of
fgrpo_theory in which nothing cancels; a browser test compares the two. Its content policy allows its own style and
script, by hash, and nothing else, so it cannot ask any machine for anything. The settings live in the address after `#`.
What it leaves out on purpose: populations of prompts (`fgrpo diagnose` fits them) and several updates (`fgrpo sims`).
"""

from __future__ import annotations

from pathlib import Path

from fgrpo_theory.foundation.files import output_file, write_text

from . import pages

# Wrong answers of the prompt whose expected changes are drawn; all of the same probability.
WRONG_ANSWERS = 100

CONTROLS = [
    {"name": "N", "symbol": "N", "meaning": "rollouts a prompt (group size)"},
    {"name": "mu", "symbol": "mu", "meaning": "chance that a rollout is correct"},
    {"name": "rho", "symbol": "rho", "meaning": "rare share of the correct answers, tau / mu"},
    {"name": "gamma", "symbol": "gamma", "meaning": "focal exponent; 0 is plain GRPO"},
    {"name": "miss", "symbol": "accepted", "meaning": "tail miss that you accept"},
]

PRESETS = [
    {"label": "Usual: N = 8, hard prompt", "state": "N=8&mu=0.3&rho=0.1&gamma=1&miss=0.05"},
    {"label": "Easy prompt", "state": "N=16&mu=0.9&rho=0.05&gamma=1&miss=0.05"},
    {"label": "Very hard prompt", "state": "N=8&mu=0.02&rho=0.1&gamma=1&miss=0.05"},
    {"label": "Paper's simulation", "state": "N=8192&mu=0.63&rho=0.0001&gamma=1&miss=0.001"},
]

READOUT = [
    {"name": "tail", "label": "tail miss"},
    {"name": "active", "label": "active groups"},
    {"name": "given", "label": "tail miss of an active group"},
    {"name": "tau", "label": "tau = rho mu"},
    {"name": "peak", "label": "worst N"},
    {"name": "zone", "label": "concentration zone"},
    {"name": "cover", "label": "safe from N ="},
    {"name": "weight", "label": "focal weight at mu"},
    {"name": "up", "label": "weighted advantage, correct"},
    {"name": "down", "label": "the same, wrong (size)"},
    {"name": "kept", "label": "update size left by gamma"},
    {"name": "rise", "label": "mean dQ_pos of an update"},
    {"name": "unsampled", "label": "mean dQ_u,pos of an update"},
]

CHARTS = [
    {
        "name": "miss-chart",
        "title": "How often a group updates and misses the rare answers",
        "legend": [
            {"kind": "first", "label": "tail miss"},
            {"kind": "second", "label": "active"},
            {"kind": "band", "label": "concentration zone"},
            {"kind": "cover", "label": "safe from here on"},
        ],
        "caption": "The upright line is your N.",
    },
    {
        "name": "focal-chart",
        "title": "What the focal weight does to the advantages",
        "legend": [
            {"kind": "first", "label": "correct rollout, g A+"},
            {"kind": "second", "label": "wrong rollout, g |A-|"},
            {"kind": "third", "label": "focal weight g"},
        ],
        "caption": "In the limit of large groups, against the prompt's success probability. Thin: gamma = 0. The upright line is "
        "your mu.",
    },
    {
        "name": "drift-chart",
        "title": "Where one update moves unsampled correct mass, in expectation",
        "legend": [{"kind": "first", "label": "dQ_u,pos"}, {"kind": "first faint", "label": "the same at gamma = 0"}],
        "caption": "Exact, per unit of learning rate, for one rare and one common correct answer and "
        f"{WRONG_ANSWERS} equally likely wrong ones; importance ratios, advantages divided by the group's std.",
    },
]


def write_page(out: Path | str) -> Path:
    """Write the page to `out`, making its folder; return its path. Raises ValueError if `out` cannot be written."""
    path = output_file(out)
    write_text(path, render_page())
    return path


def render_page() -> str:
    """The page as HTML; the same bytes every time.

    >>> "http://" in render_page().replace("http://www.w3.org/2000/svg", "") or "https://" in render_page()
    False
    """
    script, script_hash = pages.block(_script())
    return pages.template("explore.html.j2").render(
        **pages.stylesheet("explore.css"),
        script=script,
        script_hash=script_hash,
        controls=CONTROLS,
        presets=PRESETS,
        readout=READOUT,
        charts=CHARTS,
        wrong_answers=WRONG_ANSWERS,
    )


def _script() -> str:
    """The three parts in one strict block."""
    parts = [(pages.TEMPLATES / f"explore_{name}.js").read_text(encoding="utf-8") for name in ("laws", "chart", "page")]
    body = "\n".join(parts).replace("{{ wrong_answers }}", str(WRONG_ANSWERS))
    # One function around all of it: nothing but `fgrpo` becomes global.
    return f'"use strict";\n(() => {{\n{body}}})();\n'
