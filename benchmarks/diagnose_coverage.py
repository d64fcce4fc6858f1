"""Do the intervals of `fgrpo diagnose` cover? Logs are drawn from known laws and diagnosed; the truth is exact.

    python benchmarks/diagnose_coverage.py --repetitions 1000 --out docs/results/diagnose/coverage.csv

Each repetition draws prompts with mu ~ Beta(alpha, beta), N rollouts of each at every step, and for every correct one a
kind of answer from a Zipf law; then the tool's own code condenses and measures. For every number: how often an interval
was given (not "not enough data"), how often a given one held the truth, and its mean width. Truths are sums over the
beta-binomial law, and Gauss-Legendre integrals over mu for the Good-Turing masses. No figure or model is involved.
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv

from fgrpo_theory import focal_weight, group_advantage_magnitudes, population_tail_miss_probability
from fgrpo_theory.beta_fit import log_beta_binomial
from fgrpo_theory.foundation.files import write_json, write_text
from fgrpo_theory.foundation.printing import Row, render
from fgrpo_theory.foundation.provenance import provenance
from fgrpo_theory.foundation.seeds import generator
from fgrpo_theory.foundation.workers import local
from figures.diagnosis.cells import condense
from figures.diagnosis.measures import focal, group_shares, pass_curve, tail_miss, trend, unsampled, usual_size
from figures.diagnosis.population import population
from figures.diagnosis.records import Records
from figures.diagnosis.store import Store

RHO = 0.1
LARGER = 4
Truths = dict[str, float]


@dataclass(frozen=True)
class Regime:
    """A law of logs."""

    prompts: int
    group_size: int
    alpha: float
    beta: float
    visits: int = 1
    """Steps at which every prompt comes back, within the present window."""
    zipf: float = 1.5
    kinds: int = 30
    """Kinds of correct answers, with probabilities ~ rank**-zipf."""
    earlier: tuple[float, float] | None = None
    """Beta law of an earlier window, whose prompts are the same and keep their rank; for the trend."""

    @property
    def name(self) -> str:
        """Everything that differs from the defaults."""
        parts = [f"Beta({self.alpha:g}, {self.beta:g}), {self.prompts} prompts, N = {self.group_size}"]
        parts += [f"{self.visits} visits"] if self.visits > 1 else []
        parts += [f"Zipf {self.zipf:g} over {self.kinds}"] if (self.zipf, self.kinds) != (1.5, 30) else []
        parts += [f"before Beta({self.earlier[0]:g}, {self.earlier[1]:g})"] if self.earlier else []
        return ", ".join(parts)


REGIMES = (
    *(Regime(prompts, 8, *law) for prompts in (50, 100, 400) for law in ((1, 1), (0.3, 0.6), (0.2, 4), (4, 0.3))),
    Regime(100, 16, 2, 6),
    Regime(1000, 8, 0.2, 4),
    Regime(100, 64, 0.3, 1),
    Regime(100, 8, 0.5, 1, visits=3),
    Regime(100, 8, 1, 1, zipf=1.05, kinds=1000),
    Regime(400, 8, 0.5, 1, zipf=2.5, kinds=1000),
    Regime(100, 8, 1, 1, earlier=(0.5, 1)),
    Regime(400, 8, 1, 3, earlier=(0.5, 1)),
)


def draw(regime: Regime, rng: np.random.Generator) -> Store:
    """One log."""
    store = Store()
    base = rng.random(regime.prompts)
    laws = [regime.earlier] if regime.earlier else []
    steps = [*laws, *[(regime.alpha, regime.beta)] * regime.visits]
    weights = np.arange(1.0, regime.kinds + 1) ** -regime.zipf
    edges = np.cumsum(weights / weights.sum())
    for step, law in enumerate(steps):
        mu = np.repeat(betaincinv(*law, base), regime.group_size)
        rows = mu.size
        correct = rng.random(rows) < mu
        kind = np.searchsorted(edges, rng.random(rows)) + 1
        prompt = np.repeat(np.arange(regime.prompts, dtype=np.uint64), regime.group_size) * np.uint64(
            0x9E3779B97F4A7C15
        )
        # A wrong answer of its own to every wrong rollout: only correct ones count.
        answer = np.where(correct, kind, 10**6 + np.arange(rows)).astype(np.uint64)
        ones = np.ones(rows, dtype=np.int32)
        store.add(Records(np.full(rows, step), prompt + np.uint64(1), answer, ones, correct.astype(np.int32)))
    return store


def estimates(regime: Regime, store: Store) -> dict[str, dict[str, Any]]:
    """Every checked number of the diagnosis."""
    condensed = condense(store, most_windows=2 if regime.earlier else 1)
    present, size = condensed.present, usual_size(condensed.present)
    law = population(present, size, [RHO], [LARGER])
    shares, unseen, weighed = group_shares(present), unsampled(present), focal(present, 1.0)
    half, whole = tail_miss(present, size, RHO, [size // 2, size])["curve"]
    result: dict[str, dict[str, Any]] = {
        **{name: shares[name] for name in ("active", "all_right", "all_wrong", "success_rate")},
        "tail miss, N": whole, "tail miss, N/2": half, "pass@N": pass_curve(present, size, [size])[0],
        "unsampled mass": unseen.get("mass", {}), "its share": unseen.get("share_of_correct", {}),
        "update kept, gamma 1": weighed.get("update_kept", {}), "easy share": weighed.get("from_easy_before", {}),
        "Beta mean": law.get("mean", {}), "Beta concentration": law.get("concentration", {}),
        "Beta tail miss, 4N": law["tail_miss"][0]["curve"][-1] if "tail_miss" in law else {},
    }  # fmt: skip
    if regime.earlier:
        changes = trend(condensed, size)["changes"]
        result |= {"change of pass@1": changes[0], "change of pass@N": changes[-1]}
    return result


def truths(regime: Regime) -> Truths:
    """What the estimates should be, exactly."""
    n, law = regime.group_size, (regime.alpha, regime.beta)
    x = np.arange(n + 1)
    chance = np.exp(log_beta_binomial(n, x, *law))
    up, down = group_advantage_magnitudes(n, x, 0.0, ddof=1)
    update = chance * (x * up + (n - x) * down)
    mass, mean = unsampled_mass(regime), regime.alpha / sum(law)
    result = {
        "active": float(chance[1:-1].sum()), "all_right": float(chance[-1]), "all_wrong": float(chance[0]), "success_rate": mean,
        "tail miss, N": miss(n, law), "tail miss, N/2": miss(n // 2, law), "pass@N": float(1 - chance[0]),
        "unsampled mass": mass, "its share": mass / mean,
        "update kept, gamma 1": float(update @ focal_weight(x / n, 1.0) / update.sum()),
        "easy share": float(update[x / n > 0.5].sum() / update.sum()),
        "Beta mean": mean, "Beta concentration": sum(law), "Beta tail miss, 4N": miss(LARGER * n, law),
    }  # fmt: skip
    if regime.earlier:
        before = np.exp(log_beta_binomial(n, 0, *regime.earlier))
        result["change of pass@1"] = mean - regime.earlier[0] / sum(regime.earlier)
        result["change of pass@N"] = float(before - chance[0])
    return result


def miss(group_size: int, law: tuple[float, float]) -> float:
    """The population tail miss."""
    return float(population_tail_miss_probability(group_size, *law, RHO))


def unsampled_mass(regime: Regime) -> float:
    """E over mu of sum over kinds of mu q (1 - mu q)**(N - 1), over equal quantiles of mu."""
    weights = np.arange(1.0, regime.kinds + 1) ** -regime.zipf
    q = weights / weights.sum()
    nodes, measure_of = np.polynomial.legendre.leggauss(400)
    # mu = sin(angle)**2 tames both ends of the Beta density.
    angle = (nodes + 1) * np.pi / 4
    edges = np.concatenate([[0.0], (angle[1:] + angle[:-1]) / 2, [np.pi / 2]])
    shares = np.diff(betainc(regime.alpha, regime.beta, np.sin(edges) ** 2))
    assert measure_of.size == shares.size
    p = np.sin(angle)[:, None] ** 2 * q
    return float(shares @ np.sum(p * (1 - p) ** (regime.group_size - 1), axis=1))


def check(regime: Regime, repetitions: int, seed: int) -> list[Row]:
    """A row a number."""
    true = truths(regime)
    given, held, width = ({name: np.zeros(repetitions) for name in true} for _ in range(3))
    for repetition in range(repetitions):
        rng = generator(seed, regime.name, repetition)
        with draw(regime, rng) as store:
            found = estimates(regime, store)
        for name, value in true.items():
            entry = found[name]
            if "lower" in entry:
                given[name][repetition] = 1
                held[name][repetition] = entry["lower"] <= value <= entry["upper"]
                width[name][repetition] = entry["upper"] - entry["lower"]
    rows: list[Row] = []
    for name, value in true.items():
        number = int(given[name].sum())
        rows.append({
            "regime": regime.name, "number": name, "truth": value, "repetitions": repetitions, "seed": seed,
            "given": number / repetitions,
            "covered": None if number == 0 else float(held[name].sum() / number),
            "mean_width": None if number == 0 else float(width[name].sum() / number),
        })  # fmt: skip
    return rows


def finished(out: Path | None, repetitions: int, seed: int) -> dict[str, list[Row]]:
    """Regimes that the CSV holds already with these settings, so that an interrupted run goes on."""
    rows: dict[str, list[Row]] = {}
    if out is not None and out.exists():
        with out.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if (row["repetitions"], row["seed"]) == (str(repetitions), str(seed)):
                    values = {key: (None if text == "" else text) for key, text in row.items()}
                    rows.setdefault(row["regime"], []).append(values)
    return rows


def save(out: Path, done: dict[str, list[Row]]) -> list[Row]:
    """Write the CSV in the order of the regimes; return its rows."""
    rows = [row for regime in REGIMES for row in done.get(regime.name, [])]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, render(rows, "csv") + "\n")
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """A row a number: its coverage over the regimes that gave its interval in most logs, and the largest share of wrong logs."""
    result: list[Row] = []
    for name in dict.fromkeys(row["number"] for row in rows):
        mine = [(float(str(row["given"])), float(str(row["covered"] or 0))) for row in rows if row["number"] == name]
        often = sorted(covered for given, covered in mine if given >= 0.5)
        result.append({
            "number": name, "regimes": len(mine), "given in most logs": len(often),
            "covered, least": often[0] if often else None, "mean": sum(often) / len(often) if often else None,
            "most": often[-1] if often else None,
            "given and wrong, most": max(given * (1 - covered) for given, covered in mine),
        })  # fmt: skip
    return result


def main() -> None:
    """Print the summary; write the whole table as CSV with its provenance beside it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=1000, help="logs a regime (1000)")
    parser.add_argument("--seed", type=int, default=0, help="root of the streams (0)")
    parser.add_argument("--regimes", type=int, nargs="*", help="only these, by position")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--out", type=Path, help="CSV file to write; an unfinished one is completed")
    arguments = parser.parse_args()
    chosen = REGIMES if arguments.regimes is None else [REGIMES[i] for i in arguments.regimes]
    done = finished(arguments.out, arguments.repetitions, arguments.seed)
    missing = [regime for regime in chosen if regime.name not in done]
    compute = functools.partial(check, repetitions=arguments.repetitions, seed=arguments.seed)
    for place, found in local(compute, missing, arguments.workers):
        done[missing[place].name] = found
        print(f"{len(done)} of {len(chosen)}: {missing[place].name}", file=sys.stderr, flush=True)
        if arguments.out:
            save(arguments.out, done)
            write_json(arguments.out.with_name(f"{arguments.out.stem}_provenance.json"), provenance())
    rows = [row for regime in chosen for row in done[regime.name]]
    print(render(summary(rows), digits=3))


if __name__ == "__main__":
    main()
