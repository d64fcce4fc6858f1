"""The Beta law of the prompts' success probabilities, and what it says about group sizes that the log does not hold.

For N up to the log's own, the tail miss needs no model (`measures.tail_miss`); beyond, it is the Beta law's, given only
where that law describes the counts. Its interval is the law's (delta method): it covers where the prompts are Beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrpo_theory.beta_fit import (
    BetaFit,
    beta_binomial_tail_miss,
    beta_fit_quality,
    beta_interval,
    fit_beta,
    log_beta_binomial,
)
from fgrpo_theory.clustered import Estimate

from .cells import Cells
from .measures import LEVEL, Entry, floats, too_little

FACTORS = (2, 4, 8, 16, 32, 64, 128)
"""Group sizes beyond the log's own, as multiples of it."""
LEAST_ACTIVE = 15
"""Active groups below which no Beta law is fitted."""
GOOD, FAIR = 0.02, 0.05
"""Excess distances: up to GOOD (or not rejected at 0.05) the fit is good, up to FAIR fair, beyond it poor."""


def population(cells: Cells, size: int, rare_fractions: Sequence[float], factors: Sequence[int] = FACTORS) -> Entry:
    """Histogram, fit with its quality, and the tail miss at `factors` times the log's group size for each rare fraction."""
    chosen = cells.where(cells.columns["n"] >= 2)
    n, x = floats(chosen)
    result: Entry = {"histogram": histogram(cells, size)}
    lacking = _lacking(chosen)
    if lacking:
        return result | {"lacking": lacking}
    fit = fit_beta(chosen.counts, n, x)
    quality = beta_fit_quality(fit, chosen.counts, n, x)
    kind = _kind(quality.excess, quality.p_value)
    result |= {
        "alpha": fit.alpha,
        "beta": fit.beta,
        "quality": kind,
        "distance": quality.distance,
        "distance_by_chance": quality.by_chance,
        "p_value": quality.p_value if np.isfinite(quality.p_value) else None,
        "fitted_histogram": np.exp(log_beta_binomial(size, np.arange(size + 1), fit.alpha, fit.beta)).tolist(),
    }
    lacking = too_little(fit.clusters)
    if not lacking and fit.at_bound:
        lacking = "not enough data: the spread of the prompts' success rates cannot be told"
    if not lacking and kind == "poor":
        lacking = "a Beta law does not describe the success rates, so larger groups cannot be foretold"
    if lacking:
        return result | {"lacking": lacking}
    result["mean"] = entry(beta_interval(fit, lambda a, b: a / (a + b), level=LEVEL))
    result["concentration"] = entry(beta_interval(fit, lambda a, b: a + b, level=LEVEL, scale="log"))
    result["tail_miss"] = [{"rare_fraction": rho, "curve": beyond(fit, size, rho, factors)} for rho in rare_fractions]
    return result


def beyond(fit: BetaFit, size: int, rho: float, factors: Sequence[int] = FACTORS) -> list[Entry]:
    """The Beta law's tail miss at the log's group size and at multiples of it."""
    rows = []
    for group_size in (size, *(factor * size for factor in factors)):

        def miss(alpha: float, beta: float, group_size: int = group_size) -> float:
            return beta_binomial_tail_miss(group_size, alpha, beta, rho)

        rows.append({"group_size": group_size, **entry(beta_interval(fit, miss, level=LEVEL))})
    return rows


def histogram(cells: Cells, size: int) -> list[float]:
    """Shares of the groups of the usual size with 0, 1, ..., N right."""
    mine = cells.columns["n"] == size
    counts = np.bincount(cells.columns["correct"][mine], weights=cells.counts.totals[mine], minlength=size + 1)
    shares: list[float] = (counts / counts.sum()).tolist()
    return shares


def entry(found: Estimate) -> Entry:
    """An estimate as the report shows it."""
    return {"value": found.value, "lower": found.lower, "upper": found.upper}


def _lacking(cells: Cells) -> str | None:
    n, x = floats(cells)
    active = float(cells.counts.totals[(x > 0) & (x < n)].sum())
    if not n.size:
        return "not enough data: groups of one rollout say nothing about the spread of success rates"
    if active < LEAST_ACTIVE:
        return f"not enough data: {active:.0f} active groups, {LEAST_ACTIVE} needed"
    return None


def _kind(excess: float, p_value: Any) -> str:
    if excess <= GOOD or p_value >= 0.05:
        return "good"
    return "fair" if excess <= FAIR else "poor"
