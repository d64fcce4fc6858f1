"""Every number of the diagnosis, from condensed groups; docs/diagnose.md defines each.

An estimate is a dictionary {value, lower, upper}, or {value, lacking: reason} where the logs hold too little for an
interval that covers at its rate (benchmarks/diagnose_coverage.py measured the limits), or {lacking: reason} alone.
All are means over groups of the present window, with prompts as clusters, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_theory import focal_weight, group_advantage_magnitudes, learning_rate_multiplier, pass_at_k
from fgrpo_theory.clustered import Estimate, difference, share
from fgrpo_theory.group_estimates import subsampled_tail_miss

from .cells import Cells, Condensed

LEVEL = 0.95
LEAST_PROMPTS = 30
"""Effective prompts (with groups that count) below which no interval is given."""
GAMMAS = (0.5, 1.0, 2.0)
RARE_FRACTIONS = (0.3, 0.1, 0.03, 0.01)
LEAST_WITNESSES = 20.0
"""Groups expected to show a kind that holds this share of the correct answers, for the share to be supported."""

Numbers = NDArray[np.float64]
Entry = dict[str, Any]


def measure(condensed: Condensed, rare_fractions: Sequence[float] = RARE_FRACTIONS) -> dict[str, Any]:
    """Counts, estimates and curves as plain numbers. rare_fractions: shares rho of the correct answers."""
    present = condensed.present
    size = usual_size(present)
    return {
        "group_size": size,
        "groups": group_counts(condensed, size),
        "present": group_shares(present),
        "rare_fractions": [supported(present, rho) for rho in rare_fractions],
        "tail_miss": [tail_miss(present, size, rho) for rho in rare_fractions],
        "pass_at_k": pass_curve(present, size),
        "over_time": over_time(condensed, size),
        "trend": trend(condensed, size),
        "unsampled": unsampled(present),
        "focal": [focal(present, gamma) for gamma in GAMMAS],
    }


def usual_size(cells: Cells) -> int:
    """The most frequent number of scorable rollouts of a group, the larger one of two."""
    sizes, inverse = np.unique(cells.columns["n"], return_inverse=True)
    if not sizes.size:
        raise ValueError("logs must hold a group with a scorable rollout in the last window, got none")
    totals = np.bincount(inverse, weights=cells.counts.totals)
    return int(sizes[np.flatnonzero(totals == totals.max())[-1]])


def group_counts(condensed: Condensed, size: int) -> Entry:
    """How many groups of each kind there are, in the whole log and in the present window: facts, no estimates."""
    result: Entry = {
        "all": condensed.groups,
        "prompts": condensed.prompts,
        "without_a_scorable_rollout": condensed.unscorable_groups,
    }
    for name, cells in (("log", condensed.over_time), ("present", condensed.present)):
        n, x, totals = cells.columns["n"], cells.columns["correct"], cells.counts.totals
        result[name] = {
            "scored": int(totals.sum()),
            "all_wrong": int(totals[x == 0].sum()),
            "all_right": int(totals[x == n].sum()),
            "inactive": int(totals[(x == 0) | (x == n)].sum()),
            "active": int(totals[(x > 0) & (x < n)].sum()),
            "of_other_sizes": int(totals[n != size].sum()),
        }
    return result


def group_shares(cells: Cells) -> Entry:
    """Shares of the groups that are active, all right, all wrong; and the mean success rate."""
    n, x = floats(cells)
    one = np.ones(n.size)
    return {
        "active": estimate(cells, (x > 0) & (x < n), one),
        "all_right": estimate(cells, x == n, one),
        "all_wrong": estimate(cells, x == 0, one),
        "success_rate": estimate(cells, x / n, one),
    }


def supported(cells: Cells, rho: float) -> Entry:
    """Whether the log could show kinds with a share rho of the correct answers: E[groups that hold one], if all had one."""
    _, x = floats(cells)
    witnesses = float(cells.counts.totals @ -np.expm1(x * np.log1p(-rho)))
    return {"rare_fraction": rho, "witnesses": witnesses, "supported": witnesses >= LEAST_WITNESSES}


def tail_miss(cells: Cells, size: int, rho: float, sizes: Sequence[int] | None = None) -> Entry:
    """The tail miss without a model, from groups of at least the usual size.

    sizes: group sizes from 2 to the usual one; by default powers of two and the usual one.
    """
    ladder = sizes if sizes is not None else [smaller for smaller in powers(size) if smaller >= 2]
    chosen, rows = cells.where(cells.columns["n"] >= size), []
    n, x = floats(chosen)
    for smaller in ladder:
        missed = subsampled_tail_miss(n, x, smaller, rho)
        rows.append({"group_size": smaller, **estimate(chosen, np.atleast_1d(missed), np.ones(n.size))})
    return {"rare_fraction": rho, "curve": rows}


def pass_curve(cells: Cells, size: int, ks: Sequence[int] | None = None) -> list[Entry]:
    """pass@k for powers of two up to the usual size, and for it (or `ks`), over groups with at least that many rollouts."""
    rows = []
    for k in ks if ks is not None else powers(size):
        chosen = cells.where(cells.columns["n"] >= k)
        n, x = floats(chosen)
        rows.append({"k": k, **estimate(chosen, pass_at_k(n, x, k), np.ones(n.size))})
    return rows


def over_time(condensed: Condensed, size: int) -> list[Entry]:
    """Success rate, active share and pass@k of every window."""
    rows = []
    for index, window in enumerate(condensed.windows):
        cells = condensed.over_time.where(condensed.over_time.columns["window"] == index)
        n, x = floats(cells)
        row: Entry = {"first_step": window.first, "last_step": window.last, "groups": int(cells.counts.totals.sum())}
        if n.size:
            row |= {"active": estimate(cells, (x > 0) & (x < n), np.ones(n.size)), "pass_at_k": []}
            row["pass_at_k"] = pass_curve(cells, min(size, int(n.max())))
        rows.append(row)
    return rows


def trend(condensed: Condensed, size: int) -> Entry:
    """pass@k of the last window less that of the first, paired over prompts that are in both."""
    last = len(condensed.windows) - 1
    if last < 1:
        return {"lacking": "one window of steps: a trend needs two (a window has at least 400 rollouts)"}
    rows = []
    for k in powers(size):
        cells = condensed.over_time.where(condensed.over_time.columns["n"] >= k)
        n, x = floats(cells)
        window, value = cells.columns["window"], pass_at_k(n, x, k)
        first, final = (np.asarray(window == index, dtype=np.float64) for index in (0, last))
        if not (cells.counts.total(first) and cells.counts.total(final)):
            continue
        change = difference(cells.counts, (value * first, first), (value * final, final), level=LEVEL)
        rows.append({"k": k, **_entry(change)})
    return {"changes": rows}


def unsampled(cells: Cells) -> Entry:
    """Good-Turing: the mass of correct answers that a group of n - 1 rollouts has not sampled, and its share of all correct.

    E[f1 / n] = E[Q_u,pos of n - 1 draws] exactly, f1 counting the correct answers that one rollout of the group gave.
    """
    known = cells.where(cells.columns["once"] >= 0)
    unknown = int(cells.counts.totals.sum() - known.counts.totals.sum())
    if unknown or not known.counts.totals.sum():
        # Leaving such groups out would select by outcome, since only correct rollouts need an answer.
        return {
            "lacking": f"{unknown} groups hold correct rollouts without a completion",
            "groups_without_answers": unknown,
        }
    n, x = floats(known)
    once = known.columns["once"].astype(np.float64)
    right = known.counts.total(x)
    result: Entry = {
        "groups_without_answers": unknown,
        "singletons": int(known.counts.total(once)),
        "correct": int(right),
        "mass": estimate(known, once / n, np.ones(n.size)),
        "all_distinct": bool(right) and known.counts.total(once) == right,
    }
    if right:
        result["share_of_correct"] = estimate(known, once / n, x / n)
    if result["all_distinct"]:
        result["note"] = (
            "every correct completion is unique, so completions tell nothing about kinds of answers: name a column that "
            "holds the extracted answer or a label of its kind with --column answer=NAME"
        )
    return result


def focal(cells: Cells, gamma: float) -> Entry:
    """What the focal weight leaves of the updates, each group weighing its total |advantage| (ddof 1, eps 0)."""
    chosen = cells.where(
        (cells.columns["n"] >= 2) & (cells.columns["correct"] > 0) & (cells.columns["correct"] < cells.columns["n"])
    )
    n, x = floats(chosen)
    row: Entry = {"gamma": gamma, "learning_rate_multiplier": float(learning_rate_multiplier(gamma))}
    if not n.size:
        return row | {"lacking": "no active group"}
    up, down = group_advantage_magnitudes(n, x, 0.0, ddof=1)
    plain, weight = x * up + (n - x) * down, focal_weight(x / n, gamma)
    easy = (x / n > 0.5).astype(np.float64)
    return row | {
        "update_kept": estimate(chosen, plain * weight / plain.max(), plain / plain.max()),
        "from_easy_before": estimate(chosen, plain * easy, plain),
        "from_easy_after": estimate(chosen, plain * weight * easy, plain * weight),
    }


def estimate(cells: Cells, numerator: Any, denominator: Numbers) -> Entry:
    """A share with its interval, or why it has none."""
    if not cells.counts.total(denominator):
        return {"lacking": "no group"}
    above = np.asarray(numerator, dtype=np.float64)
    return _entry(share(cells.counts, above, denominator, level=LEVEL))


def _entry(found: Estimate) -> Entry:
    lacking = too_little(found.clusters)
    if lacking:
        return {"value": found.value, "lacking": lacking}
    return {"value": found.value, "lower": found.lower, "upper": found.upper}


def too_little(clusters: float) -> str | None:
    """Why no interval can be given, or None.

    >>> too_little(12.0)
    'not enough data: 12 prompts, 30 needed'
    """
    return f"not enough data: {int(clusters)} prompts, {LEAST_PROMPTS} needed" if clusters < LEAST_PROMPTS else None


def powers(size: int) -> list[int]:
    """1, 2, 4, ... up to the size, and the size."""
    return sorted({size, *(2**i for i in range(31) if 2**i <= size)})


def floats(cells: Cells) -> tuple[Numbers, Numbers]:
    """n and x of every cell."""
    return cells.columns["n"].astype(np.float64), cells.columns["correct"].astype(np.float64)
