"""`fgrpo theory`: tail-miss tables, worst group sizes, a planner, exact drift, the size of a run, and proofs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .expectation import expected_mass_changes, expected_unsampled_correct_mass
from .foundation.checks import BoolArray, FloatArray, as_whole, require
from .foundation.files import output_file, to_plain, write_json
from .foundation.printing import Row, add_form, render
from .foundation.signals import tidy_on_sigterm
from .planning import concentration_zone, covering_group_size, peak_group_size
from .sizing_cli import add_size
from .tail_miss import active_probability, conditional_tail_miss_probability, tail_miss_probability
from .update_scale import expected_update_scale, learning_rate_multiplier
from .variance import total_mass_change_variance

_POWERS = [2**i for i in range(1, 18)]
# The policy of section 5.1: (actions, start logit) of the correct and of the wrong classes.
PAPER_CORRECT = [(1.0, 5.0), (9999.0, 3.0)]
PAPER_WRONG = [(118000.0, 0.0)]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands to the `fgrpo theory` parser."""
    commands = parser.add_subparsers(dest="theory_command", metavar="COMMAND", required=True)
    _add_tail_miss(commands)
    _add_peak(commands)
    _add_plan(commands)
    _add_drift(commands)
    add_size(commands)
    prove = commands.add_parser(
        "prove",
        help="prove the identities with sympy; exit code 1 if one fails",
        description="Proves each identity that the laws rest on, and says so as it comes; exit code 1 if one fails. "
        "Example: fgrpo theory prove --out results/theory/proofs.json",
    )
    add_form(prove)
    prove.add_argument("--out", type=Path, metavar="FILE", help="also write the proofs to this JSON file")
    prove.set_defaults(run=run_prove)


def _add_tail_miss(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tail-miss",
        help="activity and tail miss against group size (eq. 7, Lemma 3.1)",
        description="Probability that a group of N rollouts is active, that it is active and misses the rare-correct subset "
        "(tail miss), and that an active group misses it. Example: fgrpo theory tail-miss --mu 0.3 --rho 0.1",
    )
    _add_policy(parser)
    parser.add_argument(
        "--group-sizes",
        type=float,
        nargs="+",
        default=[2, 4, 8, 16, 32, 64, 128, 256],
        metavar="N",
        help="group sizes (2 4 ... 256)",
    )
    add_form(parser)
    parser.set_defaults(run=run_tail_miss)


def _add_peak(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "peak",
        help="the worst group size and the concentration zone around it",
        description="The group size with the largest tail miss, and the range in which it stays above LEVEL times that. "
        "Example: fgrpo theory peak --mu 0.1 0.3 0.5 --rho 0.1 0.01",
    )
    _add_policy(parser)
    parser.add_argument(
        "--level", type=float, default=0.5, help="share of the largest tail miss that bounds the zone (0.5)"
    )
    add_form(parser)
    parser.set_defaults(run=run_peak)


def _add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="which group size keeps the tail miss low, and what the present one costs",
        description="Sets your group size beside the worst one and the least safe one, with the focal weight's mean effect. "
        "Example: fgrpo theory plan --mu 0.3 --rho 0.1 --max-miss 0.05 --group-size 8",
    )
    _add_policy(parser, many=False)
    parser.add_argument("--max-miss", type=float, default=0.05, help="tail miss that you accept (0.05)")
    parser.add_argument("--group-size", type=float, default=8, metavar="N", help="the group size that you use now (8)")
    parser.add_argument(
        "--gamma", type=float, nargs="+", default=[0.0, 0.5, 1.0, 2.0], help="focal exponents to compare"
    )
    add_form(parser)
    parser.set_defaults(run=run_plan)


def _add_drift(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "drift",
        help="exact expected change of correct and of unsampled-correct mass in one step",
        description="Which way, and how fast, correct mass and unsampled-correct mass move in expectation over the draw of a "
        "group. Without classes: the paper's policy of 128,000 actions. The results contain eta/N. "
        "Example: fgrpo theory drift --correct 1 2.0 --correct 9 0.0 --wrong 90 0.0 --surrogate ratio",
    )
    parser.add_argument(
        "--correct",
        type=float,
        nargs=2,
        action="append",
        metavar=("ACTIONS", "LOGIT"),
        help="a class of correct actions; may be repeated",
    )
    parser.add_argument(
        "--wrong",
        type=float,
        nargs=2,
        action="append",
        metavar=("ACTIONS", "LOGIT"),
        help="a class of wrong actions; may be repeated",
    )
    parser.add_argument(
        "--group-sizes", type=float, nargs="+", default=_POWERS, metavar="N", help="group sizes (2 4 8 ... 131072)"
    )
    parser.add_argument("--gamma", type=float, nargs="+", default=[0.0, 1.0], help="focal exponents (0 1)")
    parser.add_argument(
        "--surrogate",
        choices=("probability", "ratio"),
        default="ratio",
        help="ratio: importance ratios, centred rewards (GRPO); probability: the paper's eq. 5",
    )
    parser.add_argument(
        "--std-scaled", action="store_true", help="divide the centred rewards by their std (ratio only)"
    )
    parser.add_argument("--learning-rate", type=float, default=1.0, help="eta (1)")
    parser.add_argument(
        "--rewards", type=float, nargs=2, default=[1.0, -1.0], metavar=("CORRECT", "WRONG"), help="rewards (1 -1)"
    )
    add_form(parser)
    parser.set_defaults(run=run_drift)


def _add_policy(parser: argparse.ArgumentParser, *, many: bool = True) -> None:
    several: dict[str, Any] = {"nargs": "+"} if many else {}
    parser.add_argument("--mu", type=float, required=True, help="success probability of a rollout", **several)
    rare = parser.add_mutually_exclusive_group(required=True)
    rare.add_argument("--rho", type=float, help="rare fraction tau / mu", **several)
    rare.add_argument("--tau", type=float, help="probability of the rare-correct subset", **several)


def _policies(arguments: argparse.Namespace) -> tuple[FloatArray, FloatArray]:
    """Every pair of mu and tau as two flat arrays."""
    mu = np.atleast_1d(np.asarray(arguments.mu, dtype=np.float64))
    given = arguments.tau if arguments.rho is None else arguments.rho
    rare = np.atleast_1d(np.asarray(given, dtype=np.float64))
    require((mu > 0) & (mu <= 1), "mu must lie in (0, 1]", mu=mu)
    if arguments.rho is not None:
        require((rare > 0) & (rare <= 1), "rho must lie in (0, 1]", rho=rare)
    grid_mu, grid_rare = np.meshgrid(mu, rare, indexing="ij")
    grid_tau = grid_rare if arguments.rho is None else grid_rare * grid_mu
    return grid_mu.ravel(), grid_tau.ravel()


def run_tail_miss(arguments: argparse.Namespace) -> None:
    """Print a row for every mu, tau and N."""
    rows: list[Row] = []
    for mu, tau in zip(*_policies(arguments), strict=True):
        sizes = np.asarray(arguments.group_sizes)
        columns = zip(
            sizes,
            active_probability(sizes, mu),
            tail_miss_probability(sizes, mu, tau),
            conditional_tail_miss_probability(sizes, mu, tau),
            strict=True,
        )
        rows += [
            {
                "mu": mu,
                "rho": tau / mu,
                "N": int(n),
                "active": active,
                "tail_miss": miss,
                "tail_miss_if_active": None if np.isnan(given) else given,
            }
            for n, active, miss, given in columns
        ]
    print(render(rows, arguments.form))


def run_peak(arguments: argparse.Namespace) -> None:
    """Print a row for every mu and tau."""
    mu, tau = _policies(arguments)
    peak = peak_group_size(mu, tau)
    low, high = concentration_zone(mu, tau, arguments.level)
    print(
        render(
            [
                {
                    "mu": m,
                    "rho": t / m,
                    "worst_N": n,
                    "tail_miss": tail_miss_probability(n, m, t),
                    "zone_from": a,
                    "zone_to": b,
                }
                for m, t, n, a, b in zip(mu, tau, peak, low, high, strict=True)
            ],
            arguments.form,
        )
    )


def run_plan(arguments: argparse.Namespace) -> None:
    """Print the present, the worst and the safe group size; then what the focal weight leaves of the update."""
    (mu,), (tau,) = _policies(arguments)
    present, peak = arguments.group_size, peak_group_size(mu, tau)
    low, high = concentration_zone(mu, tau)
    safe = covering_group_size(mu, tau, arguments.max_miss)
    sizes = [("yours", present), ("worst", peak), ("safe", safe)]
    rows: list[Row] = [
        {
            "group": name,
            "N": int(n),
            "active": active_probability(n, mu),
            "tail_miss": tail_miss_probability(n, mu, tau),
            "rollouts_vs_yours": float(n) / present,
        }
        for name, n in sizes
    ]
    focal: list[Row] = [
        {
            "gamma": gamma,
            "update_scale": expected_update_scale(present, mu, gamma),
            "of_gamma_0": expected_update_scale(present, mu, gamma) / expected_update_scale(present, mu, 0.0),
            "matched_learning_rate": learning_rate_multiplier(gamma),
        }
        for gamma in arguments.gamma
    ]
    if arguments.form == "json":
        print(
            json.dumps(
                {"mu": mu, "tau": tau, "zone": [low, high], "groups": rows, "focal": focal}, indent=2, default=to_plain
            )
        )
        return
    if arguments.form == "csv":
        print(render(rows, "csv"), render(focal, "csv"), sep="\n\n")
        return
    miss = tail_miss_probability(present, mu, tau)
    where = "inside" if low <= present <= high else "outside"
    print(render(rows))
    print(
        f"\nAt N = {present:g} a group updates and misses the rare subset (probability {tau:.3g}) in {miss:.1%} of groups; "
        f"that is {where} the concentration zone, N = {low} to {high}."
    )
    print(
        f"No group size misses it more often than {arguments.max_miss:g}."
        if tail_miss_probability(peak, mu, tau) <= arguments.max_miss
        else f"From N = {safe} on the tail miss is at most {arguments.max_miss:g}: {safe / present:.3g} times your rollouts."
    )
    print("\nThe focal weight costs no rollouts; mean size of the update at your N:")
    print(render(focal))


def run_drift(arguments: argparse.Namespace) -> None:
    """Print a row for every gamma and N."""
    p, size, correct = softmax_classes(arguments.correct, arguments.wrong)
    options = {
        "learning_rate": arguments.learning_rate,
        "reward_correct": arguments.rewards[0],
        "reward_wrong": arguments.rewards[1],
        "surrogate": arguments.surrogate,
        "std_scaled": arguments.std_scaled,
    }
    rows: list[Row] = []
    for gamma in arguments.gamma:
        for n in map(int, as_whole("group_sizes", arguments.group_sizes)):
            total, unsampled = expected_mass_changes(p, size, correct, n, gamma=gamma, **options)
            deviation = total_mass_change_variance(p, size, correct, n, gamma=gamma, **options) ** 0.5
            rows.append(
                {
                    "gamma": gamma,
                    "N": int(n),
                    "mean_dQ_pos": total,
                    "sd_dQ_pos": deviation,
                    "mean_dQ_u_pos": unsampled,
                    "mean_Q_u_pos": expected_unsampled_correct_mass(p, correct, n, size=size),
                }
            )
    print(render(rows, arguments.form))


def softmax_classes(
    correct: Sequence[Sequence[float]] | None, wrong: Sequence[Sequence[float]] | None
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(probability of one action, actions, correct?) of each class, from (actions, logit) pairs; None, None: the paper's."""
    if correct is None and wrong is None:
        correct, wrong = PAPER_CORRECT, PAPER_WRONG
    require(bool(correct) and bool(wrong), "classes must hold correct and wrong actions", correct=correct, wrong=wrong)
    classes = [*(correct or []), *(wrong or [])]
    size, logit = np.array(classes, dtype=np.float64).T
    require(
        (size >= 1) & (np.floor(size) == size) & np.isfinite(size),
        "ACTIONS must be a whole number of at least 1",
        ACTIONS=size,
    )
    require(np.isfinite(logit), "LOGIT must be finite", LOGIT=logit)
    weight = np.exp(logit - logit.max())
    return weight / (size * weight).sum(), size, np.arange(len(classes)) < len(correct or [])


@tidy_on_sigterm()
def run_prove(arguments: argparse.Namespace) -> int:
    """Prove every identity, say each as it comes, and return 1 if one failed."""
    from .symbolic import prove_all

    # Before the work, so that a folder that cannot be made is refused at once.
    if arguments.out:
        output_file(arguments.out)

    rows: list[Row] = []
    for proof in prove_all():
        print(
            f"{'proved' if proof.holds else 'FAILED':7} {proof.seconds:5.1f} s  {proof.name}",
            file=sys.stderr,
            flush=True,
        )
        rows.append(
            {
                "name": proof.name,
                "source": proof.source,
                "statement": proof.statement,
                "residual": str(proof.residual),
                "seconds": round(proof.seconds, 2),
            }
        )
    if arguments.out:
        write_json(arguments.out, rows)
    shown = [{k: row[k] for k in ("name", "source", "residual")} for row in rows] if arguments.form == "table" else rows
    print(render(shown, arguments.form))
    return int(any(row["residual"] != "0" for row in rows))
