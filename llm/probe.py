"""Exact numbers of a task that lists its answers, measured while a run goes on (see exact.py).

A probe row of metrics.jsonl holds, for the training and the held-out prompts, means over prompts: mu (probability of a
correct rollout), retained (M_ret of eq. 26 against the policy at the start of RL) and unsampled (expected correct mass that
a group of N misses). The start's laws are kept as a table in the run, so a resumed run measures against the same start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import read_json, write_table

from .exact import AnswerLaw, exact_laws, law_columns, read_laws, retained_mass
from .models import LanguageModel, load_model
from .tasks.base import Problem

SPLITS = ("train", "heldout")


class ExactProbe:
    """Measures the policy on a task with `correct_answers`. folder: where the start's laws are kept (None: not kept)."""

    def __init__(
        self, policy: LanguageModel, task: Any, *, group_size: int, temperature: float, folder: Path | None
    ) -> None:
        self.policy, self.task, self.group_size, self.temperature, self.folder = (
            policy, task, group_size, temperature, folder,
        )  # fmt: skip
        self.problems: dict[str, list[Problem]] = {
            # Sorted by identity: the seed of the order must not move a mean's last bits.
            "train": sorted(task.train_prompts(0), key=lambda problem: problem.id),
            "heldout": list(task.heldout()),
        }
        self._start: dict[str, list[AnswerLaw]] = {}

    def __call__(self, step: int) -> Mapping[str, float]:
        """Measure now; the first call of a run, before any step, is the start."""
        self.policy.model.eval()
        values: dict[str, float] = {}
        for split in SPLITS:
            laws = self.laws(split)
            start = self._start_of(split, laws)
            values |= {
                f"mu_{split}": _mean([law.mu for law in laws]),
                f"retained_{split}": _mean(retained_mass(start, laws).tolist()),
                f"unsampled_{split}": _mean([law.expected_unsampled_mass(self.group_size) for law in laws]),
            }
        return values

    def laws(self, split: str) -> list[AnswerLaw]:
        """The answers' laws of a split, now."""
        problems = self.problems[split]
        answers = [self.task.correct_answers(problem) for problem in problems]
        return exact_laws(
            self.policy.model,
            self.policy.tokenizer,
            problems,
            answers,
            self.policy.eos_ids,
            temperature=self.temperature,
        )

    def _start_of(self, split: str, laws: list[AnswerLaw]) -> list[AnswerLaw]:
        if split not in self._start:
            path = None if self.folder is None else self.folder / f"start_laws_{split}.parquet"
            if path is not None and not path.exists():
                write_table(path, law_columns(laws))
            self._start[split] = laws if path is None else read_laws(path)
        return self._start[split]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def exact_rows(run: Path, *, keep_laws: bool = False) -> list[dict[str, Any]]:
    """Exact numbers of a finished run on its own task, one row a split; keep_laws also writes `laws_SPLIT.parquet` there.

    Raises ValueError if the run is not finished, or its task does not list its answers.
    """
    from .config import TrainConfig
    from .tasks import load_task
    from .training_run import resolve_source

    require((run / "model").is_dir(), "run must be a finished run folder", run=str(run))
    config = TrainConfig.from_json(read_json(run / "config.json"))
    task: Any = load_task(config.task.name, config.task.options)
    require(hasattr(task, "correct_answers"), "the run's task must list its answers", task=config.task.name)
    start = run / "start" if (run / "start").is_dir() else resolve_source(config.model.source)
    before, after = (
        ExactProbe(load_model(source), task, group_size=config.sampling.group_size,
                   temperature=config.sampling.temperature, folder=None)
        for source in (start, run / "model")
    )  # fmt: skip
    rows = []
    for split in SPLITS:
        old, new = before.laws(split), after.laws(split)
        if keep_laws:
            write_table(run / f"laws_{split}.parquet", law_columns(new))
        rows.append({
            "run": run.name, "split": split, "prompts": len(new), "mu_start": _mean([law.mu for law in old]),
            "mu": _mean([law.mu for law in new]), "retained": _mean(retained_mass(old, new).tolist()),
            "unsampled": _mean([law.expected_unsampled_mass(config.sampling.group_size) for law in new]),
        })  # fmt: skip
    return rows
