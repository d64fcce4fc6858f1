"""The sweep of figure 2 against a dense torch reference over the same grid, in the same run, on the same cores.

    python benchmarks/bench_sims.py                 the full grid: acceptance (about 12 minutes, nearly all of it the reference)
    python benchmarks/bench_sims.py --seeds 1       one of its four seeds, for both: a quarter of the time
    python benchmarks/bench_sims.py --quick         one seed, gamma 0, 100 steps of a third of the group sizes, one process (20 s)

The sweep runs as users run it (`fgrpo sims sweep`, two workers, rows and tables included). The reference is
`sims.dense` with as many torch threads, without tracking. Exit code 1 if a limit is missed. Run it
with nothing else on the machine: torch threads that wait for a core they do not get make the reference look slow.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import resource
import sys
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from fgrpo_theory.foundation.printing import render
from sims.config import SimConfig
from sims.presets import PAPER, SWEEPS, SweepConfig
from sims.sweep import sweep
from sims.workers import compute, local

LIMIT_SECONDS, LIMIT_RATIO, LIMIT_GIB = 60.0, 6.0, 1.0
# The bound: what has to be done whatever the program, at the cost of one core of this kind (see docs/simulation.md).
NANOSECONDS_A_DRAW, NANOSECONDS_AN_UPDATE = 1.0, 1.0


def bound_seconds(runs: list[SimConfig], cores: int) -> tuple[float, float, float]:
    """(draws, updates of a touched action, seconds): updates as if all actions were touched from N = 1024 on, else none."""
    draws = float(sum(run.group_size * run.steps for run in runs))
    updates = float(sum(run.actions * run.steps for run in runs if run.group_size >= 1024))
    return draws, updates, (draws * NANOSECONDS_A_DRAW + updates * NANOSECONDS_AN_UPDATE) * 1e-9 / cores


def time_sweep(grid: SweepConfig, workers: int) -> float:
    """Wall time of the sweep, workers' start included, compilation not."""
    compute(dataclasses.replace(PAPER, steps=2))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        sweep(grid, Path(folder), functools.partial(local, workers=workers))
        return time.perf_counter() - start


def time_dense(runs: list[SimConfig], threads: int) -> float:
    """Wall time of the same runs by the dense reference. torch is imported here: its memory is not the sweep's."""
    import torch

    from sims.dense import DenseEngine

    torch.set_num_threads(threads)
    start = time.perf_counter()
    for run in tqdm(runs, unit="run", desc="dense"):
        DenseEngine(run, "cpu").advance(run.steps)
    return time.perf_counter() - start


def peak_gib() -> float:
    """Peak memory of this process and of its largest worker, added."""
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / unit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small part of the grid; no limit is judged")
    parser.add_argument(
        "--workers", type=int, default=2, help="sweep processes, and torch threads of the reference (2)"
    )
    parser.add_argument(
        "--seeds", type=int, default=4, choices=(1, 2, 3, 4), help="seeds of the grid, for both sides (4)"
    )
    arguments = parser.parse_args()
    grid = dataclasses.replace(SWEEPS["paper"], seeds=SWEEPS["paper"].seeds[: arguments.seeds])
    if arguments.quick:
        arguments.workers = 1
        grid = dataclasses.replace(
            grid,
            base=dataclasses.replace(PAPER, steps=100),
            group_sizes=grid.group_sizes[1::3],
            gammas=(0.0,),
            seeds=(0,),
        )
    runs = list(grid.runs())
    fast = time_sweep(grid, arguments.workers)
    memory = peak_gib()
    slow = time_dense(runs, arguments.workers)
    draws, updates, bound = bound_seconds(runs, arguments.workers)
    print(
        render(
            [
                {"what": "runs", "value": len(runs)},
                {"what": "sweep, s", "value": fast},
                {"what": "dense torch, s", "value": slow},
                {"what": "ratio", "value": slow / fast},
                {"what": "peak memory (parent + largest worker), GiB", "value": memory},
                {"what": "draws", "value": draws},
                {"what": "updates, all touched", "value": updates},
                {"what": "bound, s", "value": bound},
                {"what": "sweep / bound", "value": fast / bound},
            ],
            digits=4,
        )
    )
    met = fast <= LIMIT_SECONDS and slow / fast >= LIMIT_RATIO and memory < LIMIT_GIB
    return 0 if arguments.quick or met else 1


if __name__ == "__main__":
    sys.exit(main())
