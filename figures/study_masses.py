"""Exact numbers of a study whose task lists its answers: mu, M_ret and unsampled-correct mass, and M_ret at equal mu.

Source: eq. 26 of F-GRPO (arXiv 2602.06717) for M_ret, the share of each correct answer's mass at the start that is still
there. Two arms at the same step need not have learned equally much, so arms are also compared where mu first reaches the
same level, linear between the probes around the crossing. Probes are means over prompts, so what is interpolated has seeds
but no problems to redraw. Left out on purpose: extrapolation; a level that some arm of a seed does not reach is not used, nor
one that some arm jumps over: between probes further apart than WIDEST the straight line says nothing about M_ret.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fgrpo_theory.foundation.checks import require

from .inputs import Columns, Results
from .studies import START, Floats, Numbers, Study, rows_of

SPLITS = ("train", "heldout")
SPLIT_LABEL = {"train": "training prompts", "heldout": "held-out prompts"}
LEVELS = (0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Levels of mu for the comparison, closer where mu is small."""

WIDEST = 0.2
"""Largest difference of mu between the two probes around a level that is still interpolated."""


def probed(results: Results, study: Study) -> bool:
    """Whether the study has probes."""
    return "study_probes" in results and study.name in results["study_probes"]["study"]


def paths(results: Results, study: Study, arm: str) -> Numbers:
    """The steps of the probes, and for each column of theirs a list a seed. Raises ValueError if steps differ."""
    table = rows_of(results["study_probes"], study=study.name, arm=arm)
    seeds = [_sorted(rows_of(table, seed=seed)) for seed in study.seeds]
    steps = seeds[0]["step"].tolist()
    same = all(rows["step"].tolist() == steps for rows in seeds)
    require(same and bool(steps), "probes must lie at the same steps in every seed", study=study.name, arm=arm)
    names = [f"{name}_{split}" for split in SPLITS for name in ("mu", "retained", "unsampled")]
    return {"step": steps, **{name: [rows[name].tolist() for rows in seeds] for name in names}}


def _sorted(rows: Columns) -> Columns:
    order = np.argsort(rows["step"])
    return {name: column[order] for name, column in rows.items()}


def first_reached(mu: Sequence[float], retained: Sequence[float], level: float) -> float | None:
    """`retained` where `mu` first reaches the level, linear between probes.

    None if it never does, began above it, or the two probes around it are further apart than WIDEST.

    >>> first_reached([0.25, 0.375, 0.3], [1.0, 0.5, 0.4], 0.3125)
    0.75
    """
    if mu[0] > level:
        return None
    for (before, kept_before), (after, kept_after) in pairwise(zip(mu, retained, strict=True)):
        if after >= level:
            if after - before > WIDEST:
                return None
            return kept_before + (level - before) / (after - before) * (kept_after - kept_before)
    return None


def at_equal_mu(results: Results, study: Study, split: str) -> dict[int, dict[float, dict[str, float]]]:
    """M_ret by seed, level and arm, for the levels that every arm of the seed reaches; a seed may have none."""
    tracks = {arm: paths(results, study, arm) for arm in study.arms}
    found: dict[int, dict[float, dict[str, float]]] = {}
    for place, seed in enumerate(study.seeds):
        found[seed] = {}
        for level in LEVELS:
            kept = {
                arm: first_reached(track[f"mu_{split}"][place], track[f"retained_{split}"][place], level)
                for arm, track in tracks.items()
            }
            if all(value is not None for value in kept.values()):
                found[seed][level] = {arm: float(value) for arm, value in kept.items() if value is not None}
    return found


def mean_at_equal_mu(results: Results, study: Study, split: str) -> tuple[list[int], dict[str, Floats]]:
    """The seeds that have a common level, and by arm each such seed's mean of M_ret over its levels."""
    found = {seed: levels for seed, levels in at_equal_mu(results, study, split).items() if levels}
    means = {
        arm: np.array([np.mean([kept[arm] for kept in levels.values()]) for levels in found.values()])
        for arm in study.arms
    }
    return list(found), means


def heldout_masses(results: Results, study: Study) -> dict[str, dict[str, Floats]] | None:
    """{"mu" and "M_ret"}[arm][seed, problem] of the start (one seed) and the trained policies.

    None for a task that does not list its answers.
    """
    if "study_laws" not in results:
        return None
    table = rows_of(results["study_laws"], study=study.name)
    start = _laws(rows_of(table, run=START))
    if not start:
        return None
    masses: dict[str, dict[str, Floats]] = {"mu": {}, "M_ret": {}}
    for arm in (START, *study.arms):
        runs = [START] if arm == START else [study.runs[arm, seed] for seed in study.seeds]
        laws = [_laws(rows_of(table, run=run)) for run in runs]
        masses["mu"][arm] = np.array([[sum(law[problem].values()) for problem in start] for law in laws])
        masses["M_ret"][arm] = np.array([[_retained(start[name], law[name]) for name in start] for law in laws])
    return masses


def _laws(rows: Columns) -> dict[str, dict[str, float]]:
    laws: dict[str, dict[str, float]] = {}
    for problem, answer, mass in zip(rows["problem"], rows["answer"], rows["mass"], strict=True):
        laws.setdefault(str(problem), {})[str(answer)] = float(mass)
    return laws


def _retained(before: dict[str, float], after: dict[str, float]) -> float:
    """Eq. 26."""
    lost = sum(max(0.0, mass - after[answer]) for answer, mass in before.items())
    return 1.0 - lost / sum(before.values())


def retained_levels(results: Results, study: Study, split: str) -> list[dict[str, Any]]:
    """For each arm but the first: M_ret less the first arm's at equal mu, a list a seed with None where a level is not
    reached, and their mean where every seed reaches it. Levels that no seed has are left out.
    """
    found, base = at_equal_mu(results, study, split), study.arms[0]
    levels = sorted({level for kept in found.values() for level in kept})
    differences = []
    for arm in study.arms[1:]:
        seeds = [
            [kept[level][arm] - kept[level][base] if level in kept else None for level in levels]
            for kept in found.values()
        ]
        mean = [
            None if None in column else float(np.mean([value for value in column if value is not None]))
            for column in zip(*seeds, strict=True)
        ]
        differences.append({"arm": arm, "level": levels, "seeds": seeds, "mean": mean})
    return differences
