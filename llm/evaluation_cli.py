"""`fgrpo llm evaluate | rare | compare`: sample and score finished runs, measure rare-solution drift, set runs side by side.

    fgrpo llm evaluate results/llm/tiny --samples 256
    fgrpo llm rare results/llm/tiny results/llm/tiny-g1
    fgrpo llm compare results/llm/tiny results/llm/tiny-g1 --start results/llm/tiny/evaluation_start_heldout

`cli.py` adds these sub-commands. What a command has finished it does not repeat.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import read_json, write_json
from fgrpo_theory.foundation.printing import add_form, render


def configure_evaluation(commands: Any) -> None:
    """Add evaluate, rare and compare."""
    _add_evaluate(commands)
    _add_rare(commands)
    _add_compare(commands)


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="sample answers of finished runs: pass@k with intervals, exact masses",
        description="Writes RUN/evaluation_SPLIT (with --start RUN/evaluation_start_SPLIT) and prints pass@k. "
        "Example: fgrpo llm evaluate results/llm/tiny --samples 256",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="finished run folders")
    parser.add_argument("--split", choices=("heldout", "train"), default="heldout", help="which problems (heldout)")
    parser.add_argument("--samples", type=int, default=1024, metavar="N", help="answers a problem (1024)")
    parser.add_argument("--problems", type=int, metavar="K", help="the first K problems only (all)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="root of the sampling streams (0)")
    parser.add_argument("--batch-size", type=int, default=128, metavar="B", help="answers decoded at once (128)")
    parser.add_argument("--start", action="store_true", help="evaluate the model that RL started from")
    add_form(parser)
    parser.set_defaults(run=run_evaluate)


def _add_rare(commands: Any) -> None:
    parser = commands.add_parser(
        "rare",
        help="how much less likely the start's rarest correct answers have become",
        description="The rare set (appendix M.2) is drawn once, from the start of the first RUN on its training problems, and "
        "kept in RUN/rare.parquet; each run gets a rare.json. Example: fgrpo llm rare results/llm/tiny results/llm/tiny-g1",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="finished run folders of the same start")
    parser.add_argument("--samples", type=int, default=800, metavar="N", help="rollouts a problem (800)")
    parser.add_argument("--problems", type=int, default=256, metavar="K", help="most problems (256)")
    parser.add_argument("--fraction", type=float, default=0.01, metavar="F", help="share that is rare (0.01)")
    parser.add_argument("--repeats", action="store_true", help="count equal rollouts as often as they were drawn")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="root of the sampling streams (0)")
    add_form(parser)
    parser.set_defaults(run=run_rare)


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="evaluated runs side by side, with the paired test against the first",
        description="Reads evaluations; runs nothing. Example: fgrpo llm compare results/llm/tiny results/llm/tiny-g1",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="evaluated runs; the first is the baseline")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 16, 256], metavar="K", help="tries shown (1 16 256)")
    parser.add_argument(
        "--start", type=Path, metavar="FOLDER", help="evaluation of the start, for M_ret (the first run)"
    )
    parser.add_argument("--split", choices=("heldout", "train"), default="heldout", help="which problems (heldout)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write .parquet, .csv or .json")
    add_form(parser)
    parser.set_defaults(run=run_compare)


def run_evaluate(arguments: argparse.Namespace) -> None:
    """Evaluate each run and print its pass@k."""
    from .evaluation import EvaluationSettings, evaluate
    from .models import load_model

    rows = []
    for run in arguments.runs:
        config, task = _config_and_task(run)
        out = run / f"evaluation_{'start_' if arguments.start else ''}{arguments.split}"
        settings = EvaluationSettings(
            samples=arguments.samples, max_new_tokens=config.sampling.max_new_tokens,
            temperature=config.sampling.temperature, seed=arguments.seed, batch_size=arguments.batch_size,
        )  # fmt: skip
        if not out.exists():
            problems = task.heldout() if arguments.split == "heldout" else task.train_prompts(config.seed)
            policy = load_model(_start_of(run, config) if arguments.start else run / "model")
            evaluate(
                policy, task, problems[: arguments.problems], settings, out, about={"problems": arguments.problems}
            )
        else:
            kept = read_json(out / "config.json")
            same = kept["settings"] == asdict(settings) and kept["problems"] == arguments.problems
            require(same, "an existing evaluation must have the same settings", folder=str(out))
            print(f"{out} is finished", file=sys.stderr)
        rows += [{"run": run.name, **row} for row in _table_rows(out / "pass_at_k.parquet")]
        task.close()
    print(render(rows, arguments.form))


def run_rare(arguments: argparse.Namespace) -> None:
    """Draw the rare set once and print each run's drift."""
    from .models import load_model
    from .rare import RareSet, drift, rare_set

    first = arguments.runs[0]
    config, task = _config_and_task(first)
    path = first / "rare.parquet"
    if not path.exists():
        problems = sorted(task.train_prompts(config.seed), key=lambda problem: problem.id)[: arguments.problems]
        rare_set(
            load_model(_start_of(first, config)), task, problems, samples=arguments.samples, fraction=arguments.fraction,
            distinct=not arguments.repeats, max_new_tokens=config.sampling.max_new_tokens, seed=arguments.seed,
        ).save(path)  # fmt: skip
    task.close()
    rare, rows = RareSet.load(path), []
    for run in arguments.runs:
        moved = asdict(drift(load_model(run / "model"), rare, seed=arguments.seed))
        write_json(run / "rare.json", moved)
        rows.append({"run": run.name, **moved})
    print(render(rows, arguments.form))


def run_compare(arguments: argparse.Namespace) -> None:
    """Print the comparison, and write it if asked."""
    from .comparison import compare, terminal_rows, write_comparison

    rows = compare(arguments.runs, ks=arguments.k, start=arguments.start, name=f"evaluation_{arguments.split}")
    if arguments.out is not None:
        write_comparison(rows, arguments.out)
    print(render(terminal_rows(rows) if arguments.form == "table" else rows, arguments.form))


def _config_and_task(run: Path) -> tuple[Any, Any]:
    from .config import TrainConfig
    from .tasks import load_task

    require((run / "model").is_dir(), "run must be a finished run folder", run=str(run))
    config = TrainConfig.from_json(read_json(run / "config.json"))
    return config, load_task(config.task.name, config.task.options)


def _start_of(run: Path, config: Any) -> Path | str:
    from .training_run import resolve_source

    return run / "start" if (run / "start").is_dir() else resolve_source(config.model.source)


def _table_rows(path: Path) -> list[dict[str, Any]]:
    from fgrpo_theory.foundation.files import read_table

    table = read_table(path)
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
