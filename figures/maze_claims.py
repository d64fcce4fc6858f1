"""Claims about the maze study at this project's scale: the early drop under GRPO, what the focal weight changes, the end.

The study is smaller than the paper's, so a verdict says "holds", "fails" or "undecided" of it and nothing of the paper's.
The rule: every group size is one measurement (the mean over its seeds of a difference paired by maze), and Student's t
interval over group sizes must exclude 0. Beside it stand the group sizes whose own interval over mazes excludes 0.
The order of the exponents at the end is judged at each group size by itself (figures/maze_order.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .claims import Claim, Finding
from .inputs import Results
from .maze_groups import pooled
from .maze_order import order_rows
from .maze_study import (
    Floats,
    Moment,
    differences,
    maze_study,
    mean_and_half,
    moments,
    seeds_of,
    start_values,
)
from .studies import gamma_name, seed_interval

GROUP = "maze study"
NEEDS = ("maze_runs", "maze_evaluations", "maze_final", "maze_groups")
VISIBLE = 0.05
"""A difference of measured and expected shares that the data must be able to show."""
GAMMAS = (0.5, 1.0)
"""Of the claims that are listed before a study exists."""

BySize = dict[int, list[Floats]]
"""N -> a difference a maze, one array a seed."""


def claims(results: Results | None = None) -> list[Claim]:
    """One claim of each kind and focal exponent; without results those that a study would answer."""
    known = results is not None and not results.missing(NEEDS)
    gammas = [gamma for gamma in maze_study(results).gammas if gamma] if known and results is not None else GAMMAS
    return [
        _claim("maze_study_drop", "GRPO's pass@k drops early, below the start's", early_drop, "maze_dynamics"),
        _claim("maze_study_activity", "Training groups are active as often as eq. 7 says", activity_agrees, "maze_groups"),
        _claim("maze_study_weight", "Training groups have the mean focal weight that eq. 12 gives", weight_agrees, "maze_groups"),
        _claim("maze_study_order_1", "At every N the exponents end in the order of table 4, by pass@1",
               partial(same_order, which=0), "maze_final"),
        _claim("maze_study_order_k", "At every N the exponents end in the order of table 4, by pass@k",
               partial(same_order, which=1), "maze_final"),
        *(
            _claim(f"maze_study_{name}_{gamma:g}", f"{gamma_name(gamma)} {text}", partial(judge, gamma=gamma), "maze_differences")
            for gamma in gammas
            for name, text, judge in (
                ("drop", "keeps more pass@k than GRPO after the early drop", smaller_drop),
                ("end_k", "keeps more pass@k than GRPO at the end", more_at_the_end),
                ("end_1", "reaches a higher pass@1 than GRPO at the end", better_at_the_end),
            )
        ),
    ]  # fmt: skip


def _claim(name: str, text: str, judge: Callable[[Results], Finding], figure: str) -> Claim:
    source = "section 5.2 and table 4, at small scale"
    return Claim(name, GROUP, text, source, "-", judge, NEEDS, f"fig-{figure}", three_way=True)


def early_drop(results: Results) -> Finding:
    study, (early, *_) = maze_study(results), moments(results, maze_study(results))
    found = {
        size: [
            start_values(results, study, size, 0.0, seed, early.k) - early.of(results, study, size, 0.0, seed)
            for seed in seeds_of(results, study, size, 0.0)
        ]
        for size in study.group_sizes
    }
    return judged(found, f"start's pass@{early.k} less {early.label}")


def activity_agrees(results: Results) -> Finding:
    return _agreement(results, "active", "share of active groups")


def weight_agrees(results: Results) -> Finding:
    return _agreement(results, "weight", "mean focal weight, γ above 0")


def _agreement(results: Results, name: str, label: str) -> Finding:
    """Holds if the interval of measured less expected covers 0 and is narrow enough to see VISIBLE."""
    found = pooled(results, maze_study(results))[name]
    difference, half = found["difference"], found["half"]
    ours = f"{label}, measured less expected: {difference:+.4f} ± {half:.4f} over {found['groups']} groups"
    if abs(difference) > half:
        return Finding(ours, False, "the interval excludes 0")
    if not half <= VISIBLE:
        return Finding(ours, None, f"the interval is too wide to see a difference of {VISIBLE:g}")
    return Finding(ours, True, "")


def same_order(results: Results, which: int) -> Finding:
    """Holds if every pair of exponents is told apart and as in table 4, fails if one is told apart against it."""
    rows = order_rows(results)
    name = list(dict.fromkeys(row["quantity"] for row in rows))[which]
    rows = [row for row in rows if row["quantity"] == name]
    ours = f"{name} at the end: " + "; ".join(f"N = {r['N']}: {r['here']} (table 4: {r['table 4']})" for r in rows)
    agreed, against, open_ = (sum(row[key] for row in rows) for key in ("as table 4", "against it", "open"))
    holds = False if against else True if agreed and not open_ else None
    return Finding(
        ours, holds, f"of {agreed + against + open_} pairs {agreed} as in table 4, {against} against it, {open_} open"
    )


def smaller_drop(results: Results, gamma: float) -> Finding:
    return _against_plain(results, gamma, 0)


def more_at_the_end(results: Results, gamma: float) -> Finding:
    return _against_plain(results, gamma, 1)


def better_at_the_end(results: Results, gamma: float) -> Finding:
    return _against_plain(results, gamma, 2)


def _against_plain(results: Results, gamma: float, which: int) -> Finding:
    study = maze_study(results)
    moment: Moment = moments(results, study)[which]
    found = {size: list(differences(results, study, moment, size, gamma).values()) for size in study.group_sizes}
    return judged(found, f"{moment.label}, less GRPO's")


def judged(found: BySize, head: str) -> Finding:
    """The verdict on differences by group size: the module's rule. One group size decides nothing."""
    kept = {size: values for size, values in found.items() if values}
    means = {size: float(np.mean([value.mean() for value in values])) for size, values in kept.items()}
    parts = [f"N = {size}: {_values(values)}" for size, values in kept.items()]
    low, high = seed_interval(np.array(list(means.values())))
    if low is None or high is None:
        return Finding(f"{head}: {'; '.join(parts) or 'no pair of runs'}", None, "one group size decides nothing")
    sign = 1 if sum(means.values()) > 0 else -1
    clear = [size for size, values in kept.items() if all(_clear(value, sign) for value in values)]
    ours = f"{head}: mean over N {np.mean(list(means.values())):+.3f} [{low:+.3f}, {high:+.3f}]; {'; '.join(parts)}"
    holds = True if low > 0 else False if high < 0 else None
    word = "above" if sign > 0 else "below"
    why = f"{word} 0 by every seed's own interval at {len(clear)} of {len(kept)} group sizes"
    if holds is None:
        parted = "disagree in sign" if min(means.values()) < 0 < max(means.values()) else "spread too widely"
        why = f"group sizes {parted}; {why}"
    return Finding(ours, holds, why)


def _values(values: list[Floats]) -> str:
    return ", ".join(f"{value.mean():+.3f} ± {mean_and_half(value)[1]:.3f}" for value in values)


def _clear(value: Floats, sign: int) -> bool:
    mean, half = mean_and_half(value)
    return sign * mean > half
