"""The paper's claims as data, with functions that compute each verdict from tables and theory.

No verdict is written down: a claim has a `judge` that looks at results and says what it found. A claim without a
judge belongs to an experiment that this repository does not run at the paper's scale, and is listed as such with its
published value. The claims themselves are in theory_claims, simulation_claims, study_claims, maze_claims and
published_claims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .inputs import SOURCES, Results

REPRODUCED, DIFFERS, NOT_RUN, MISSING = "reproduced", "differs", "not run at this scale", "not made yet"
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


@dataclass(frozen=True)
class Finding:
    """What a judge found."""

    ours: str
    """Our value, in words and numbers."""
    holds: bool | None
    """Whether the claim holds in our results; None if they do not decide it."""
    why: str = ""
    """If it does not, or only with a caveat: which, and why."""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper (or of ours, which `source` then says)."""

    name: str
    group: str
    """theory, simulation, cross-check, language models or maze"""
    text: str
    source: str
    published: str
    judge: Callable[[Results], Finding] | None = None
    needs: tuple[str, ...] = ()
    """Result tables that the judge reads."""
    evidence: str = ""
    """The anchor of the figure or section that shows it."""
    three_way: bool = False
    """Whether it is judged as "holds", "fails" or "undecided": a question of ours, not a result to reproduce."""


@dataclass(frozen=True)
class Verdict:
    """A judged claim, as the report prints it."""

    claim: Claim
    verdict: str
    ours: str
    why: str


def verdict(claim: Claim, results: Results) -> Verdict:
    """Judge one claim; a claim whose tables do not exist yet says which command makes them."""
    if claim.judge is None:
        return Verdict(claim, NOT_RUN, "-", "")
    missing = results.missing(claim.needs)
    if missing:
        commands = " and ".join(dict.fromkeys(f"`{SOURCES[name].command}`" for name in missing))
        return Verdict(claim, MISSING, "-", f"{commands} makes the table")
    finding = claim.judge(results)
    yes, no = (HOLDS, FAILS) if claim.three_way else (REPRODUCED, DIFFERS)
    word = UNDECIDED if finding.holds is None else yes if finding.holds else no
    return Verdict(claim, word, finding.ours, finding.why)


def all_claims(results: Results | None = None) -> list[Claim]:
    """Every claim, in the order of the report. The language-model studies of `results` have claims of their own."""
    from . import maze_claims, published_claims, simulation_claims, study_claims, theory_claims

    return [
        *theory_claims.CLAIMS,
        *simulation_claims.CLAIMS,
        *study_claims.claims(results),
        *maze_claims.claims(results),
        *published_claims.claims(),
    ]
