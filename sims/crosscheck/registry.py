"""Builds the suite: a cell for every law at every point of `grid` where it can be counted.

The full profile is what `fgrpo sims crosscheck` runs; "quick" resolves a quarter as finely with a sixteenth of the groups,
and is what the tests run. Both pass through the same refusals (see `cells.Suite`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from fgrpo_theory.foundation.checks import as_choice

from . import grid, spreads
from .cells import Cell, Suite
from .enumeration import all_groups, is_small, step_values
from .laws import LAWS
from .scenarios import (
    ActiveGroups,
    AdvantageSizes,
    GivenCount,
    Policy,
    Population,
    Rollouts,
    Singletons,
    StepOptions,
    Steps,
    Subsets,
)

PROFILES = {"full": 1.0, "quick": 4.0}


@lru_cache(maxsize=2)
def suite(profile: str = "full") -> Suite:
    """The suite of a profile. Raises ValueError for an unknown one, or if a cell is refused."""
    as_choice("profile", profile, tuple(PROFILES))
    coarser = PROFILES[profile]
    builders = (_events, _conditional, _populations, _steps, _given_counts, _advantages, _passes, _subsets, _singletons)
    return Suite(LAWS, tuple(cell for build in builders for cell in build(coarser)))


def _events(coarser: float) -> Iterator[Cell]:
    for n, mu, tau, resolution, laws in grid.EVENTS:
        drawn = Rollouts(f"rollouts N{n} mu{mu:g}", resolution * coarser, n, mu, tau)
        place = f"N {n}, mu {mu:g}"
        if "t" in laws:
            yield Cell(
                "tail miss", f"{place}, tau {tau:g}", drawn, {"group_size": n, "mu": mu, "tau": tau}, "event", "miss"
            )
        if "a" in laws:
            yield Cell("activity", place, drawn, {"group_size": n, "mu": mu}, "event", "active")
        for k in grid.COUNTS.get((n, mu), ()):
            yield Cell(
                "binomial count", f"{place}, k {k}", drawn, {"group_size": n, "mu": mu, "k": k}, "event", "correct", k
            )


def _conditional(coarser: float) -> Iterator[Cell]:
    for n, mu, tau, activity, resolution in grid.CONDITIONAL:
        drawn = ActiveGroups(f"active N{n} mu{mu:g}", resolution * coarser, n, mu, tau, activity)
        yield Cell(
            "conditional tail miss",
            f"N {n}, mu {mu:g}, tau {tau:g}",
            drawn,
            {"group_size": n, "mu": mu, "tau": tau},
            "event",
            "miss",
        )


def _populations(coarser: float) -> Iterator[Cell]:
    for n, alpha, beta, fraction, resolution in grid.POPULATIONS:
        drawn = Population(f"population N{n}", resolution * coarser, n, alpha, beta, fraction)
        given = {"group_size": n, "alpha": alpha, "beta": beta, "rare_fraction": fraction}
        yield Cell(
            "population tail miss", f"N {n}, Beta({alpha:g}, {beta:g}), rho {fraction:g}", drawn, given, "event", "miss"
        )


def _steps(coarser: float) -> Iterator[Cell]:
    for policy, n, options, resolution in grid.STEPS:
        drawn = Steps(f"steps {policy.name} N{n}", resolution * coarser, n, policy, options)
        place = f"{policy.name}, N {n}"
        right = policy.p[policy.is_correct]
        yield Cell(
            "E[Q_u,pos]",
            place,
            drawn,
            {"policy": policy, "group_size": n},
            "mean",
            "sums",
            0,
            spreads.unseen_spread(right, right, n),
            float(right.sum()),
        )
        for index, option in enumerate(options):
            yield from _one_option(drawn, place, index, option)
            if (policy, n) in grid.VARIANCES:
                yield from _one_variance(drawn, place, index, option)


def _one_option(drawn: Steps, place: str, index: int, option: StepOptions) -> Iterator[Cell]:
    """E[dQ_pos], and E[dQ_u,pos] where its spread is known."""
    for part, (spread, reach) in enumerate(_step_spreads(drawn.policy, drawn.group_size, option)):
        if spread > 0:
            law = f"E[{('dQ_pos', 'dQ_u,pos')[part]}] {option.surrogate}"
            given = {"policy": drawn.policy, "group_size": drawn.group_size, "options": option}
            yield Cell(
                law, f"{place}, {option.label}", drawn, given, "mean", "sums", 1 + 2 * index + part, spread, reach
            )


def _step_spreads(policy: Policy, n: int, option: StepOptions) -> list[tuple[float, float]]:
    if not is_small(policy, n):
        return list(spreads.wide_step(policy, n, option))
    groups = all_groups(policy, n)
    return [(groups.spread(values), groups.reach(values)) for values in step_values(policy, n, option)]


def _one_variance(drawn: Steps, place: str, index: int, option: StepOptions) -> Iterator[Cell]:
    """Var[dQ_pos], and Var[dQ_u,pos] for the ratio surrogate, through squares about the exact means."""
    groups = all_groups(drawn.policy, drawn.group_size)
    centres = spreads.step_means(drawn.policy, drawn.group_size, option)
    values = step_values(drawn.policy, drawn.group_size, option)
    for part in range(2 if option.surrogate == "ratio" else 1):
        square = (values[part] - centres[part]) ** 2
        law = f"Var[{('dQ_pos', 'dQ_u,pos')[part]}] {option.surrogate}"
        given = {"policy": drawn.policy, "group_size": drawn.group_size, "options": option}
        yield Cell(
            law,
            f"{place}, {option.label}",
            drawn,
            given,
            "mean",
            "sums",
            1 + 2 * index + part,
            groups.spread(square),
            groups.reach(square),
            centres[part],
        )


def _given_counts(coarser: float) -> Iterator[Cell]:
    for policy, n, k, rewards, resolution in grid.GIVEN_COUNTS:
        drawn = GivenCount(f"given {policy.name} N{n} k{k}", resolution * coarser, n, policy, k, rewards)
        spread, reach = spreads.sampled_spread(policy, n, k, rewards)
        place = f"{policy.name}, N {n}, k {k}"
        given = {"policy": policy, "group_size": n, "correct": k}
        for side, law in enumerate(("E[P_pos | X]", "E[P_neg | X]")):
            if spread[side] > 0:
                yield Cell(law, place, drawn, {**given, "side": side}, "mean", "sums", side, spread[side], reach[side])
        yield Cell(
            "E[S_R | X]",
            f"{place}, R({rewards[0]:g},{rewards[1]:g})",
            drawn,
            {**given, "rewards": rewards},
            "mean",
            "sums",
            2,
            spread[2],
            reach[2],
        )


def _advantages(coarser: float) -> Iterator[Cell]:
    for n, mu, resolution in grid.ADVANTAGES:
        drawn = AdvantageSizes(f"advantages N{n} mu{mu:g}", resolution * coarser, n, mu, grid.ADVANTAGE_OPTIONS)
        for index, option in enumerate(grid.ADVANTAGE_OPTIONS):
            _, spread, reach = spreads.advantage_moments(n, mu, option)
            gamma, ddof, eps, high, low = option
            yield Cell(
                "E[g|A|]",
                f"N {n}, mu {mu:g}, g{gamma:g} ddof {ddof:g} eps {eps:g} R({high:g},{low:g})",
                drawn,
                {"group_size": n, "mu": mu, "option": option},
                "mean",
                "sums",
                index,
                spread,
                reach,
            )


def _passes(coarser: float) -> Iterator[Cell]:
    for n, mu, tries, resolution in grid.PASSES:
        drawn = Rollouts(f"samples n{n} mu{mu:g}", resolution * coarser, n, mu, mu)
        for k in tries:
            values, given = spreads.pass_at_k_values(n, k), {"group_size": n, "mu": mu, "k": k}
            mean, spread, reach = spreads.estimator_moments(n, mu, values)
            yield Cell("E[pass@k]", f"n {n}, mu {mu:g}, k {k}", drawn, given, "mean", "correct", 0, spread, reach)
            _, spread, reach = spreads.estimator_moments(n, mu, (values - mean) ** 2)
            yield Cell(
                "Var[pass@k]", f"n {n}, mu {mu:g}, k {k}", drawn, given, "mean", "correct", 0, spread, reach, mean
            )


def _subsets(coarser: float) -> Iterator[Cell]:
    for n, c, k, resolution in grid.SUBSETS:
        drawn = Subsets(f"subsets n{n} c{c} k{k}", resolution * coarser, n, c, k)
        yield Cell(
            "pass@k given c", f"n {n}, c {c}, k {k}", drawn, {"group_size": n, "correct": c, "k": k}, "event", "hit"
        )


def _singletons(coarser: float) -> Iterator[Cell]:
    for policy, n, resolution in grid.SINGLETONS:
        drawn = Singletons(f"singletons {policy.name} n{n}", resolution * coarser, n, policy)
        yield Cell(
            "E[f1/n]",
            f"{policy.name}, n {n}",
            drawn,
            {"policy": policy, "group_size": n},
            "mean",
            "once",
            0,
            spreads.singleton_spread(np.asarray(policy.p), n),
            1.0,
        )
        for method, level in grid.STATED_COVERAGE.items() if n >= grid.LEAST_SAMPLES_OF_INTERVALS else ():
            yield Cell(
                "Good-Turing coverage",
                f"{policy.name}, n {n}, {method}",
                drawn,
                {"policy": policy, "method": method, "level": level},
                "at least",
                "once",
            )
