"""The group-size study: N x gamma x objective x seed from one start, trained, evaluated and put in tables (section 5.2).

    OUT/study.json                  the preset's name, what was changed, and how runs are evaluated
    OUT/start/                      the supervised run, where the preset's start is trained here (its policy: start/start)
    OUT/runs/NAME/                  one run each, NAME = OBJECTIVE-N8-g0.5-s0 (see maze.training), with final.parquet
    OUT/runs.parquet                a row a run: its scale, pass@1 ... pass@2048 at the end, the lowest pass@256 on the way
    OUT/evaluations.parquet         a row a run, step and held-out maze: path_length, samples, correct, truncated
    OUT/final.parquet               the same after the last step, with more samples
    OUT/groups.parquet              a row a run, step and group: problem, correct (X), scorable (N)
    OUT/paths.parquet               a row a run, step, maze and sample of a few: the completion's text, whether right, why not
    OUT/mazes.parquet               a row a held-out maze: maze, size, walls (rows of # and space, joined by /), solution (text)
    OUT/provenance.json             written last

Every table but the last has the columns run, objective, group_size, gamma, seed. All arms of a seed share the start, the
mazes, the order of the prompts and the streams of their draws. What is finished is not repeated; a stopped run goes on
from its checkpoint.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import safe_open

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import read_json, read_table, write_json, write_table
from fgrpo_theory.foundation.printing import Row
from fgrpo_theory.foundation.provenance import config_hash, provenance
from llm.config import ModelConfig, TrainConfig, changed

from .evaluation import heldout_counts, summary
from .mazes import Mazes
from .policy import load_policy
from .presets import EvaluationPlan, Grid, Preset, arm
from .tokens import completion_ids, to_text
from .training import task_of, train_mazes

KS = tuple(2**power for power in range(12))
"""k = 1, 2, 4, ..., 2048."""
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Job:
    """One run to train and evaluate; travels to a worker."""

    config: TrainConfig
    plan: EvaluationPlan
    out: Path
    threads: int
    """of PyTorch; 0 leaves its default"""


def run_name(objective: str, group_size: int, gamma: float, seed: int) -> str:
    """The folder of an arm.

    >>> run_name("grpo", 8, 0.5, 0)
    'grpo-N8-g0.5-s0'
    """
    return f"{objective}-N{group_size}-g{gamma:g}-s{seed}"


def arms(preset: Preset, grid: Grid, start: str) -> dict[str, TrainConfig]:
    """Name and configuration of every run of a grid, all arms of a seed before the next seed."""
    rl = replace(preset.rl, model=ModelConfig(source=start))
    every = itertools.product(grid.seeds, grid.objectives, grid.gammas, grid.group_sizes)
    return {
        run_name(objective, size, gamma, seed): arm(rl, objective, size, gamma, seed)
        for seed, objective, gamma, size in every
    }


def train_start(preset: Preset, out: Path, threads: int = 0) -> str:
    """The source of RL's first policy: the preset's own, or the one trained here by supervision, once.

    Raises as `train_mazes`.
    """
    if preset.rl.model.source != "start":
        return preset.rl.model.source
    _use(threads)
    folder = out / "start"
    if not folder.exists():
        train_mazes(preset.sft, folder)
    return str(folder / "start")


def compute(job: Job) -> str:
    """Train one run and evaluate it at its end; returns its name. What is finished of it stays."""
    _use(job.threads)
    if not job.out.exists():
        train_mazes(job.config, job.out, job.plan)
    table = heldout_counts(
        load_policy(job.out / "model"), task_of(job.config), job.plan, samples=job.plan.final_samples,
        max_new_tokens=job.config.sampling.max_new_tokens, seed=job.config.seed,
    )  # fmt: skip
    write_table(job.out / "final.parquet", table)
    return job.out.name


def _use(threads: int) -> None:
    import torch

    if threads:
        torch.set_num_threads(threads)


def jobs_of(runs: dict[str, TrainConfig], plan: EvaluationPlan, out: Path, threads: int) -> list[Job]:
    """The runs that are not yet trained and evaluated; the longest (largest N) first, so that workers end together."""
    jobs = [Job(config, plan, out / "runs" / name, threads) for name, config in runs.items()]
    waiting = [job for job in jobs if not (job.out / "final.parquet").exists()]
    return sorted(waiting, key=lambda job: (job.config.seed, -job.config.sampling.group_size))


def keep(out: Path, preset: str, settings: dict[str, Any], plan: EvaluationPlan) -> None:
    """Write what the study is, or check that the folder's is the same but for its grid. Raises ValueError."""
    plain = {"preset": preset, "settings": settings, "plan": asdict(plan)}
    path = out / "study.json"
    if path.exists():
        require(read_json(path) == plain, "out must hold no study of other settings", out=str(out))
    write_json(path, plain)


def collect(out: Path) -> list[Row]:
    """Write the study's tables from its finished runs; returns the rows of runs.parquet.

    Raises ValueError if no run is finished.
    """
    folders = sorted(path.parent for path in (out / "runs").glob("*/final.parquet"))
    require(bool(folders), "out must hold a finished run", out=str(out))
    tables: dict[str, Columns] = {name: {} for name in ("runs", "evaluations", "final", "groups", "paths")}
    # The arms of a study have one task, so any run tells.
    mazes = task_of(TrainConfig.from_json(read_json(folders[0] / "config.json"))).heldout_mazes
    rows = []
    for folder in folders:
        labels = _labels(folder)
        rows.append({**labels, "maze_size": mazes.size, **_scale(folder), **_summary(folder)})
        for name, part in _parts(folder):
            _append(tables[name], labels, part)
    tables["runs"] = {name: [row[name] for row in rows] for name in rows[0]}
    for name, columns in tables.items():
        write_table(out / f"{name}.parquet", columns)
    write_table(out / "mazes.parquet", _drawn(mazes))
    study = read_json(out / "study.json")
    commits = {str(read_json(folder / "provenance.json").get("commit", "unknown")) for folder in folders}
    write_json(
        out / "provenance.json",
        provenance(config_hash=config_hash(study), runs=len(rows), commits_of_runs=sorted(commits)),
    )
    return rows


def _drawn(mazes: Mazes) -> Columns:
    walls = ["/".join("".join("#" if wall else " " for wall in row) for row in grid) for grid in mazes.grids()]
    return {
        "maze": list(range(len(mazes))),
        "size": [mazes.size] * len(mazes),
        "walls": walls,
        "solution": [to_text(completion_ids(solution, eos=False)) for solution in mazes.solutions()],
    }


def _labels(folder: Path) -> Row:
    config = TrainConfig.from_json(read_json(folder / "config.json"))
    return {"run": folder.name, "objective": folder.name.split("-")[0], "group_size": config.sampling.group_size,
            "gamma": config.objective.gamma, "seed": config.seed}  # fmt: skip


def _scale(folder: Path) -> Row:
    config = TrainConfig.from_json(read_json(folder / "config.json"))
    with safe_open(folder / "model" / "model.safetensors", "numpy") as weights:
        parameters = sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    return {"parameters": parameters, "steps": config.steps, "prompts_per_step": config.prompts_per_step,
            "learning_rate": config.optimizer.learning_rate}  # fmt: skip


def _summary(folder: Path) -> Row:
    """pass@k at the end, with the final samples, and by the smaller evaluations the lowest pass@256 on the way."""
    final, during = read_table(folder / "final.parquet"), _evaluations(folder)
    largest = min(256, min(int(table["samples"].min()) for _, table in during))
    on_the_way = {step: summary(table, (largest,))[f"pass_at_{largest}"] for step, table in during}
    return {
        **summary(final, KS), "k_on_the_way": largest,
        "start_pass_at_k": on_the_way[0], "lowest_pass_at_k": min(on_the_way.values()),
        "lowest_step": min(on_the_way, key=lambda step: (on_the_way[step], step)),
    }  # fmt: skip


def _evaluations(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    paths = sorted((folder / "evaluation").glob("step-*.parquet"))
    return [(int(path.stem.removeprefix("step-")), read_table(path)) for path in paths]


def _parts(folder: Path) -> Iterator[tuple[str, Columns]]:
    """(table, columns) of everything that a run adds."""
    yield "final", {name: list(values) for name, values in read_table(folder / "final.parquet").items()}
    for step, table in _evaluations(folder):
        yield "evaluations", {"step": [step] * len(table["maze"]), **{name: list(v) for name, v in table.items()}}
    for path in sorted((folder / "evaluation").glob("paths-*.parquet")):
        table, step = read_table(path), int(path.stem.removeprefix("paths-"))
        yield "paths", {"step": [step] * len(table["maze"]), **{name: list(v) for name, v in table.items()}}
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "groups" in row:
            yield "groups", {"step": [row["step"]] * len(row["groups"]["correct"]), **row["groups"]}


def _append(table: Columns, labels: Row, part: Columns) -> None:
    length = len(next(iter(part.values())))
    for name, values in {**{name: [value] * length for name, value in labels.items()}, **part}.items():
        table.setdefault(name, []).extend(values)


def with_settings(preset: Preset, settings: dict[str, Any]) -> Preset:
    """The preset with fields of its RL configuration changed by dotted name. Raises ValueError as `llm.config.changed`."""
    return replace(preset, rl=changed(preset.rl, settings)) if settings else preset


def grid_of(preset: Preset, chosen: dict[str, Sequence[Any] | None]) -> Grid:
    """The preset's grid with the given axes replaced (None leaves one)."""
    return replace(preset.grid, **{name: tuple(values) for name, values in chosen.items() if values is not None})
