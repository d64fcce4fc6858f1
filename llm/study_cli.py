"""`fgrpo llm study`: several methods and seeds on one task, trained, evaluated and put in tables.

    fgrpo llm study --preset smollm2 --out results/llm/sums
    fgrpo llm study --preset smollm2-letters --arms grpo focal-1 --seeds 0 1 2 --workers 2 --threads 1

The same command goes on with a study that was stopped; more arms or seeds may be asked for later.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation import workers
from fgrpo_theory.foundation.files import output_folder
from fgrpo_theory.foundation.printing import add_form, render

from .config import assignments, changed
from .presets import PRESETS
from .study import ARMS, Measurement, Study, collect, compute, jobs_of, keep, measure_start


def configure_study(commands: Any) -> None:
    """Add `study`."""
    parser = commands.add_parser(
        "study",
        help="several methods and seeds on one task, in one table",
        description="Trains every arm with every seed, evaluates each run on held-out problems, and writes summary, dynamics, "
        "probes and pass_at_k tables. Example: fgrpo llm study --preset smollm2 --out results/llm/sums",
    )
    parser.add_argument("--preset", choices=sorted(PRESETS), default="smollm2", metavar="NAME",
                        help="base run (smollm2)")  # fmt: skip
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", dest="settings",
                        help="fields of the base run, by dotted name")  # fmt: skip
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS), metavar="ARM",
                        help=f"methods ({' '.join(ARMS)})")  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1], metavar="S", help="seeds (0 1)")
    parser.add_argument("--samples", type=int, default=256, metavar="N", help="answers a held-out problem (256)")
    parser.add_argument("--problems", type=int, default=64, metavar="K", help="most held-out problems (64)")
    parser.add_argument("--workers", type=int, default=1, metavar="W", help="runs at once, in processes (1)")
    parser.add_argument("--threads", type=int, default=0, metavar="T", help="threads a run; 0 is PyTorch's choice (0)")
    parser.add_argument("--ray", nargs="?", const="", metavar="ADDRESS",
                        help="compute the runs on this Ray cluster, which must share the folder (or on a local Ray)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="study folder (results/llm/study-PRESET)")
    add_form(parser)
    parser.set_defaults(run=run_study)


def run_study(arguments: argparse.Namespace) -> int:
    """Train and measure what is missing, then print the summary."""
    from tqdm import tqdm

    from .comparison import terminal_rows
    from .loop import Interrupted

    out = (arguments.out or Path("results") / "llm" / f"study-{arguments.preset}").resolve()
    base = changed(PRESETS[arguments.preset], assignments(arguments.settings))
    study = Study(base, tuple(arguments.arms), tuple(arguments.seeds),
                  Measurement(samples=arguments.samples, problems=arguments.problems))  # fmt: skip
    output_folder(out)
    keep(study, out)
    measure_start(study, out)
    jobs = jobs_of(study, out, arguments.threads)
    if arguments.ray is None:
        results = workers.local(compute, jobs, arguments.workers)
    else:
        results = workers.cluster(compute, jobs, arguments.ray or None, arguments.workers)
    try:
        for _, name in tqdm(results, total=len(jobs), desc="study", unit="run", file=sys.stderr):
            collect(study, out)
            print(f"{name} is finished", file=sys.stderr)
    except Interrupted as stopped:
        print(f"fgrpo llm: {stopped}; the same command goes on", file=sys.stderr)
        return 130
    rows = collect(study, out)
    print(render(terminal_rows(rows) if arguments.form == "table" else rows, arguments.form))
    return 0
