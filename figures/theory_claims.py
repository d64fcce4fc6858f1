"""Claims that the closed forms decide, evaluated with fgrpo_theory; nothing here needs a simulation."""

from __future__ import annotations

import numpy as np

import fgrpo_theory as theory

from . import policy
from .claims import Claim, Finding
from .inputs import Results

LARGEST = policy.GROUP_SIZES[-1]


def rounds_to(value: float, published: float, digits: int) -> bool:
    """Whether `value` rounded to so many significant digits is the published number."""
    return f"{value:.{digits - 1}e}" == f"{published:.{digits - 1}e}"


def start_policy(results: Results) -> Finding:
    values = (policy.CORRECT_MASS, policy.ANCHOR_PROBABILITY, policy.LEAF_PROBABILITY)
    holds = all(
        rounds_to(value, published, 3) for value, published in zip(values, (0.630, 4.65e-4, 6.30e-5), strict=True)
    )
    return Finding("Q_pos {:.4f}, anchor {:.3e}, leaf {:.3e}".format(*values), holds)


PROMPTS = ((0.05, 0.1), (0.3, 0.1), (0.3, 0.01), (0.6, 0.5), (0.95, 0.1))
"""(µ, ρ) of the prompts whose tail miss is followed along N."""


def one_peak(results: Results) -> Finding:
    sizes = np.arange(1, 3001)
    single = 0
    for mu, rho in PROMPTS:
        steps = np.sign(np.diff(theory.tail_miss_probability(sizes, mu, mu * rho)))
        steps = steps[steps != 0]
        single += bool(steps[0] > 0 > steps[-1] and np.count_nonzero(np.diff(steps)) == 1)
    zero = float(theory.tail_miss_probability(1, 0.3, 0.03))
    return Finding(
        f"{zero:g} at N = 1; rises to one peak and falls from there for {single} of {len(PROMPTS)} prompts "
        f"(N up to {sizes[-1]})",
        single == len(PROMPTS) and zero == 0,
    )


def usual_sizes(results: Results) -> Finding:
    active = float(theory.active_probability(8, 0.2))
    miss = theory.conditional_tail_miss_probability(np.array([8, 16]), 0.2, 0.02)
    return Finding(
        f"µ = 0.2, τ = 0.02: Pr(active) {active:.2f} at N = 8; an active group misses the rare kind with "
        f"probability {miss[0]:.2f} at N = 8 and {miss[1]:.2f} at N = 16",
        bool(active > 0.5 and (miss > 0.5).all()),
    )


def leaf_is_covered(results: Results) -> Finding:
    value = float(theory.tail_miss_probability(LARGEST, policy.CORRECT_MASS, policy.LEAF_PROBABILITY))
    return Finding(f"{value:.3e}", value < 1e-3 and rounds_to(value, 2.6e-4, 2))


def shrinks_while_growing(results: Results) -> Finding:
    found = []
    for surrogate in ("probability", "ratio"):
        pairs = np.array([policy.expected_changes(size, surrogate=surrogate) for size in policy.GROUP_SIZES])
        both = np.array(policy.GROUP_SIZES)[(pairs[:, 0] > 0) & (pairs[:, 1] < 0)]
        found.append((surrogate, both))
    ours = "; ".join(
        f"{name} surrogate: N = {both.min()} to {both.max()}, {len(both)} of {len(policy.GROUP_SIZES)} group sizes"
        if len(both)
        else f"{name} surrogate: at no group size"
        for name, both in found
    )
    return Finding("exact expectations, Q_pos up and unsampled-correct mass down: " + ours, len(found[0][1]) > 0)


def multiplier(results: Results) -> Finding:
    value = float(theory.learning_rate_multiplier(0.5))
    return Finding(
        f"m = {value:.4f}, so 1e-6 becomes {value * 1e-6:.1e}",
        rounds_to(value, 0.679, 3) and rounds_to(value * 1e-6, 6.8e-7, 2),
    )


def proofs(results: Results) -> Finding:
    rows = results["proofs"]
    wrong = [str(row["name"]) for row in rows if str(row["residual"]) != "0"]
    return Finding(
        f"{len(rows) - len(wrong)} of {len(rows)} identities have residual 0",
        bool(rows) and not wrong,
        f"not zero: {', '.join(wrong)}" if wrong else "",
    )


CLAIMS = (
    Claim(
        "proofs",
        "theory",
        "The lemmas and the one-step laws hold as identities",
        "Lemma 3.1, eqs. 10, 17, 19, appendices H and N",
        "derived in the appendices",
        proofs,
        ("proofs",),
        "proofs",
    ),
    Claim(
        "one_peak",
        "theory",
        "The tail miss is non-monotonic in the group size",
        "section 3, Lemma 3.1",
        "non-monotonic",
        one_peak,
        evidence="fig-figure3",
    ),
    Claim(
        "usual_sizes",
        "theory",
        "At N = 8 to 16 groups are active and yet miss rare-correct solutions",
        "sections 1 and 3",
        "active, misses the rare kind",
        usual_sizes,
        evidence="fig-figure1",
    ),
    Claim(
        "start_policy",
        "simulation",
        "The start policy of the categorical simulation",
        "appendix J",
        "Q_pos 0.630, anchor 4.65e-4, leaf 6.30e-5",
        start_policy,
        evidence="simulation",
    ),
    Claim(
        "leaf_is_covered",
        "simulation",
        "At N = 131072 a given leaf is hardly ever missed",
        "section 5.1",
        "tail miss under 1e-3 (2.6e-4)",
        leaf_is_covered,
        evidence="fig-zone",
    ),
    Claim(
        "shrinks_while_growing",
        "theory",
        "Unsampled-correct mass can shrink while total correct mass grows",
        "Prop. 3.2",
        "can be negative",
        shrinks_while_growing,
        evidence="fig-expected_drift",
    ),
    Claim(
        "multiplier",
        "theory",
        "The learning rate matched to γ = 0.5",
        "appendix N",
        "m = 0.679; 1e-6 becomes 6.8e-7",
        multiplier,
        evidence="fig-update_scale",
    ),
)
