"""A study: some methods (arms) on one task and model, each with several seeds, trained, evaluated and put in one table.

    OUT/ARM-sSEED/            a run each (llm.training_run), with evaluation_heldout/ and rare.json inside
    OUT/start/                the policy before RL: evaluation_heldout/ and rare.parquet, the rare set of all runs
    OUT/summary.parquet       a row a run: pass@k, exact masses, rare drift with intervals
    OUT/dynamics.parquet      a row a run and step: the metrics of training
    OUT/probes.parquet        a row a run and probe: exact mu, M_ret and unsampled mass (tasks that list their answers)
    OUT/pass_at_k.parquet     a row a run and k

Arms of one seed share prompts and the streams of their draws. Whatever is finished is not repeated, a stopped run goes on
from its checkpoint, and runs are computed in several processes if asked. Left out on purpose: sharing of one run between
processes, which is training's own matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.checks import as_choice, as_whole, require
from fgrpo_theory.foundation.files import read_json, read_table, write_json, write_table
from fgrpo_theory.foundation.printing import Row

from .config import TrainConfig, changed, matched_low_lr


@dataclass(frozen=True)
class Arm:
    """One method of a study."""

    gamma: float = 0.0
    """focal exponent"""
    low_lr: float = 0.0
    """above 0: the control, plain with the learning rate matched to this exponent (section 5.5)"""

    def of(self, base: TrainConfig) -> TrainConfig:
        """The base configuration with this method."""
        return matched_low_lr(base, self.low_lr) if self.low_lr else changed(base, {"objective.gamma": self.gamma})


ARMS = {"grpo": Arm(), "focal-0.5": Arm(gamma=0.5), "focal-1": Arm(gamma=1.0), "low-lr": Arm(low_lr=0.5)}


@dataclass(frozen=True)
class Measurement:
    """What is measured on every run when it is trained."""

    samples: int = 256
    """answers a held-out problem"""
    problems: int = 64
    """most held-out problems"""
    batch_size: int = 256
    """answers decoded at once"""
    rare_samples: int = 128
    """rollouts of the start a training problem, for the rare set"""
    rare_problems: int = 24
    """training problems of the rare set"""
    rare_fraction: float = 0.05
    """share of the distinct correct answers that is rare"""


@dataclass(frozen=True)
class Study:
    """A base run, its arms and seeds, and the measurement."""

    base: TrainConfig
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: tuple[int, ...] = (0, 1)
    measurement: Measurement = Measurement()

    def __post_init__(self) -> None:
        require(bool(self.arms), "arms must not be empty", arms=self.arms)
        require(bool(self.seeds), "seeds must not be empty", seeds=self.seeds)
        for arm in self.arms:
            as_choice("arms", arm, tuple(ARMS))
        for seed in self.seeds:
            as_whole("seeds", seed, least=0)

    def runs(self) -> dict[str, TrainConfig]:
        """Name and configuration of every run; all arms of a seed before the next seed."""
        return {
            f"{arm}-s{seed}": ARMS[arm].of(replace(self.base, seed=seed)) for seed in self.seeds for arm in self.arms
        }


@dataclass(frozen=True)
class Job:
    """One run to train and measure; travels to a worker."""

    config: TrainConfig
    measurement: Measurement
    out: Path
    start: Path
    threads: int
    """of PyTorch, in the worker; 0 leaves its default"""


def jobs_of(study: Study, out: Path, threads: int) -> list[Job]:
    """The study's runs that are not yet trained and measured, in order."""
    jobs = [Job(config, study.measurement, out / name, out / "start", threads) for name, config in study.runs().items()]
    return [job for job in jobs if not (job.out / "rare.json").exists()]


def measure_start(study: Study, out: Path, threads: int = 0) -> None:
    """Evaluate the policy before RL and draw the rare set, once."""
    from .evaluation import evaluate
    from .models import load_model
    from .rare import rare_set
    from .training_run import resolve_source

    _prepare(threads)
    start, chosen = out / "start", study.measurement
    require(study.base.sft.steps == 0, "sft.steps must be 0 in a study, whose runs share one start",
            steps=study.base.sft.steps)  # fmt: skip
    if (start / "rare.parquet").exists():
        return
    policy, task = load_model(resolve_source(study.base.model.source)), _task(study.base)
    try:
        if not (start / "evaluation_heldout").exists():
            problems = task.heldout()[: chosen.problems]
            evaluate(policy, task, problems, _settings(study.base, chosen), start / "evaluation_heldout")
        problems = sorted(task.train_prompts(0), key=lambda problem: problem.id)[: chosen.rare_problems]
        rare_set(
            policy, task, problems, samples=chosen.rare_samples, fraction=chosen.rare_fraction,
            max_new_tokens=study.base.sampling.max_new_tokens, batch_size=chosen.batch_size,
        ).save(start / "rare.parquet")  # fmt: skip
    finally:
        task.close()


def compute(job: Job) -> str:
    """Train and measure one run; returns its name. What is finished of it stays."""
    from .evaluation import evaluate
    from .models import load_model
    from .rare import RareSet, drift
    from .training_run import train_run

    _prepare(job.threads)
    if not job.out.exists():
        train_run(job.config, job.out)
    policy, task = load_model(job.out / "model"), _task(job.config)
    try:
        if not (job.out / "evaluation_heldout").exists():
            problems = task.heldout()[: job.measurement.problems]
            evaluate(policy, task, problems, _settings(job.config, job.measurement), job.out / "evaluation_heldout")
    finally:
        task.close()
    write_json(job.out / "rare.json", asdict(drift(policy, RareSet.load(job.start / "rare.parquet"))))
    return job.out.name


def _prepare(threads: int) -> None:
    import torch

    from .memory import keep_freed_memory

    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)


def _task(config: TrainConfig) -> Any:
    from .tasks import load_task

    return load_task(config.task.name, config.task.options)


def _settings(config: TrainConfig, chosen: Measurement) -> Any:
    from .evaluation import EvaluationSettings

    return EvaluationSettings(
        samples=chosen.samples, max_new_tokens=config.sampling.max_new_tokens,
        temperature=config.sampling.temperature, batch_size=chosen.batch_size,
    )  # fmt: skip


def collect(study: Study, out: Path) -> list[Row]:
    """Write the study's tables from the runs that are finished; returns the summary's rows.

    Raises ValueError if no run is finished.
    """
    from .comparison import compare

    names = [name for name in study.runs() if (out / name / "rare.json").exists()]
    require(bool(names), "out must hold a finished run", out=str(out))
    rows = compare([out / "start", *(out / name for name in names)], ks=(1, 4, 16, 64, study.measurement.samples))
    summary: list[Row] = [{**_labels(study, str(row["run"])), **row} for row in rows]
    write_table(out / "summary.parquet", _columns(summary))
    for table, phase in (("dynamics", "rl"), ("probes", "probe")):
        found = [row for name in names for row in _metric_rows(study, out / name, phase)]
        if found:
            write_table(out / f"{table}.parquet", _columns(found))
    curves = [row for name in ("start", *names) for row in _curve_rows(study, out / name)]
    write_table(out / "pass_at_k.parquet", _columns(curves))
    return summary


def _labels(study: Study, name: str) -> Row:
    """Columns that say which run a row belongs to; seed -1 is the start."""
    config = study.runs().get(name)
    arm = name if config is None else name.rpartition("-s")[0]
    return {"task": study.base.task.options.get("dataset", study.base.task.name), "arm": arm,
            "seed": -1 if config is None else config.seed}  # fmt: skip


def _metric_rows(study: Study, run: Path, phase: str) -> Iterator[Row]:
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.pop("phase") == phase:
            yield {**_labels(study, run.name), **row}


def _curve_rows(study: Study, run: Path) -> Iterator[Row]:
    table: Mapping[str, Any] = read_table(run / "evaluation_heldout" / "pass_at_k.parquet")
    for values in zip(*table.values(), strict=True):
        yield {**_labels(study, run.name), **dict(zip(table, values, strict=True))}


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Columns of rows that may lack some; None and what is missing become NaN."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [float("nan") if row.get(name) is None else row[name] for row in rows] for name in names}


def study_of(folder: Path) -> Study:
    """The study that a folder was made for. Raises ValueError if it holds none."""
    path = folder / "study.json"
    require(path.exists(), "folder must hold a study", folder=str(folder))
    kept = read_json(path)
    return Study(TrainConfig.from_json(kept["base"]), tuple(kept["arms"]), tuple(kept["seeds"]),
                 Measurement(**kept["measurement"]))  # fmt: skip


def keep(study: Study, folder: Path) -> None:
    """Write what the study is, or check that the folder's study differs in its arms and seeds alone.

    Raises ValueError for another base or measurement.
    """
    plain = {"base": study.base.resolved(), "arms": list(study.arms), "seeds": list(study.seeds),
             "measurement": asdict(study.measurement)}  # fmt: skip
    if (folder / "study.json").exists():
        kept = read_json(folder / "study.json")
        same = all(kept[name] == plain[name] for name in ("base", "measurement"))
        require(same, "out must hold no study of other settings", out=str(folder))
    write_json(folder / "study.json", plain)
