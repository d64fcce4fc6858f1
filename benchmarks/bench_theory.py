"""Speed of the closed forms: evaluations a second of the tail miss, and the exact expectations of the paper's policy.

    python benchmarks/bench_theory.py [--points 1000000] [--repeats 9] [--json]

Times are CPU seconds of one thread (`time.thread_time`), so that other processes disturb little; each is a median. The
rivals of the tail miss take turns with it in the same loop, and what is reported is the median of the ratios. Left out
on purpose: wall-clock time, several cores, and a pass/fail exit code; a time is no test.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fgrpo_theory import expected_mass_changes, tail_miss_probability, total_mass_change_variance
from fgrpo_theory.cli import softmax_classes
from fgrpo_theory.foundation.printing import Row, render
from fgrpo_theory.foundation.seeds import generator

GROUP_SIZES = (8, 1024, 131072)


def cases(points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, mu, tau): N log-uniform from 2 to 131072, mu uniform, tau / mu log-uniform from 1e-6 to 1."""
    rng = generator(0, "bench theory")
    mu = rng.uniform(1e-3, 1, points)
    return np.floor(2 ** rng.uniform(1, 17, points)), mu, mu * 10 ** rng.uniform(-6, 0, points)


def subtractive(n: np.ndarray, mu: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Lemma 3.1 as printed: no checks, and digits lost where it cancels."""
    return (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n


def by_scipy(n: np.ndarray, mu: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Through scipy.stats: E missed by all N, times activity of the binomial outside E."""
    outside = 1 - tau
    share = np.clip((mu - tau) / outside, 0, 1)
    return binom.pmf(0, n, tau) * (1 - binom.pmf(0, n, share) - binom.pmf(n, n, share))


def transcendentals(n: np.ndarray, mu: np.ndarray, tau: np.ndarray) -> None:
    """The floor: the six elementary functions that the stable form cannot do without, in place, in blocks, unchecked."""
    buffer = np.empty(8192)
    for start in range(0, n.size, buffer.size):
        x = mu[start : start + buffer.size]
        out = buffer[: x.size]
        for function in (np.log, np.log1p, np.log1p, np.exp, np.exp, np.expm1):
            function(x, out=out)


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def bench_tail_miss(points: int, repeats: int) -> list[Row]:
    """Evaluations a second, and the cost of each rival relative to ours in the same round."""
    arrays = cases(points)
    rivals = {
        "tail_miss_probability": tail_miss_probability,
        "floor: its six elementary functions": transcendentals,
        "subtractive, unchecked": subtractive,
        "scipy.stats.binom": by_scipy,
    }
    for function in rivals.values():
        function(*(array[:1000] for array in arrays))
    times = np.array([[seconds(functools.partial(f, *arrays)) for f in rivals.values()] for _ in range(repeats)])
    with np.errstate(all="ignore"):
        truth = tail_miss_probability(*arrays)
        worst = [np.nanmax(np.abs(f(*arrays) / truth - 1)[truth > 1e-300]) for f in (subtractive, by_scipy)]
    middle, ratios = np.median(times, axis=0), np.median(times / times[:, :1], axis=0)
    return [
        {"what": name, "million_a_second": points / t / 1e6, "cost_of_ours": r, "worst_difference": d}
        for name, t, r, d in zip(rivals, middle, ratios, [0.0, None, *map(float, worst)], strict=True)
    ]


def bench_expectations(repeats: int) -> list[Row]:
    """Milliseconds of the exact laws for 128,000 actions in 3 classes."""
    policy = softmax_classes(None, None)
    rows: list[Row] = []
    for surrogate in ("probability", "ratio"):
        for n in GROUP_SIZES:
            for gamma in (0.0, 0.5):
                row: dict[str, object] = {"surrogate": surrogate, "N": n, "gamma": gamma}
                options = {"gamma": gamma, "surrogate": surrogate}
                for name, law in (("mean", expected_mass_changes), ("variance", total_mass_change_variance)):
                    call = functools.partial(law, *policy, n, **options)
                    runs = [seconds(call) for _ in range(repeats)]
                    row[f"{name}_ms"] = 1e3 * float(np.median(runs))
                rows.append(row)
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, default=10**6, help="size of the arrays (1000000)")
    parser.add_argument("--repeats", type=int, default=9, help="rounds; the median is reported (9)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    form = "json" if arguments.json else "table"
    print(render(bench_tail_miss(arguments.points, arguments.repeats), form, digits=3))
    print()
    print(render(bench_expectations(arguments.repeats), form, digits=3))


if __name__ == "__main__":
    main()
