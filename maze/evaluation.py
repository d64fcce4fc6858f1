"""Held-out mazes, sampled: how many of n samples are right on each, and pass@k with intervals.

During training `HeldoutProbe` writes one small table a measurement into the run (`evaluation/step-00000025.parquet`), so the
metrics stay numbers and a resumed run writes the same tables again. All steps and arms of a seed use the same uniforms.
Columns of such a table, a row a maze: maze (place among the held-out ones), path_length (grid steps), samples, correct,
truncated. Beside it `evaluation/paths-00000025.parquet` keeps a few completions of a few mazes to look at: maze, sample,
completion (text), success, reason. Source: section 5.2 and eq. 27; sampling and counting are llm's.
Left out on purpose: greedy decoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_theory import pass_at_k
from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import write_table
from llm.config import TrainConfig
from llm.evaluation import EvaluationSettings, sample_outcomes
from llm.generation import group_generators, sample
from llm.models import LanguageModel, encode_prompt

from .presets import EvaluationPlan
from .task import MazeTask, longest_completion

Table = dict[str, NDArray[Any]]
SHOWN_MAZES, SHOWN_SAMPLES = 8, 6
"""Of the tables of paths."""


def heldout_counts(
    policy: LanguageModel, task: MazeTask, plan: EvaluationPlan, *, samples: int, max_new_tokens: int, seed: int
) -> Table:
    """Sample the first `plan.mazes` held-out mazes; columns as in the module's docstring.

    Raises ValueError if there are fewer held-out mazes, or a right path would not fit into max_new_tokens.
    """
    require(plan.mazes <= len(task.heldout_mazes), "mazes must be at most the held-out ones",
            mazes=plan.mazes, heldout=len(task.heldout_mazes))  # fmt: skip
    mazes = task.heldout_mazes[: plan.mazes]
    longest = longest_completion(mazes)
    require(longest <= max_new_tokens, "max_new_tokens must hold the longest right path",
            max_new_tokens=max_new_tokens, longest=longest)  # fmt: skip
    settings = EvaluationSettings(
        samples=samples, max_new_tokens=max_new_tokens, seed=seed, batch_size=plan.batch_size, exact=False
    )
    policy.model.eval()
    outcomes = sample_outcomes(policy, task, task.heldout()[: plan.mazes], settings)
    return {
        "maze": np.arange(plan.mazes),
        "path_length": mazes.solution_lengths(),
        **{name: np.array([getattr(outcome, name) for outcome in outcomes])
           for name in ("samples", "correct", "truncated")},
    }  # fmt: skip


def summary(table: Mapping[str, NDArray[Any]], ks: Sequence[int] = (1, 16, 256)) -> dict[str, float]:
    """pass@k for the k that the samples allow, and the share of mazes that were never solved."""
    samples, correct = table["samples"], table["correct"]
    rates = {f"pass_at_{k}": float(np.mean(pass_at_k(samples, correct, k))) for k in ks if k <= samples.min()}
    return {**rates, "never_solved": float(np.mean(correct == 0))}


def sampled_paths(
    policy: LanguageModel, task: MazeTask, *, mazes: int, samples: int, max_new_tokens: int, seed: int
) -> dict[str, list[Any]]:
    """A few completions of the first held-out mazes; columns maze, sample, completion, success, reason."""
    problems = list(task.heldout()[:mazes])
    policy.model.eval()
    rollouts = sample(
        policy.model, policy.tokenizer, [encode_prompt(policy.tokenizer, p.prompt, device=policy.model.device) for p in problems],
        samples, generators=group_generators(seed, "maze/paths", groups=range(len(problems))), eos_ids=policy.eos_ids,
        pad_id=policy.pad_id, max_new_tokens=max_new_tokens,
    )  # fmt: skip
    texts = [text for row in rollouts.texts for text in row]
    verdicts = task.verify([problem for problem in problems for _ in range(samples)], texts)
    return {
        "maze": [maze for maze in range(len(problems)) for _ in range(samples)],
        "sample": list(range(samples)) * len(problems),
        "completion": texts,
        "success": [bool(verdict.success) for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
    }


def step_table(folder: Path, step: int) -> Path:
    """Where a run keeps its evaluation after `step` steps."""
    return folder / "evaluation" / f"step-{step:08d}.parquet"


@dataclass(frozen=True)
class HeldoutProbe:
    """Evaluates the policy in memory (see `llm.training_run.Probe`)."""

    policy: LanguageModel
    task: MazeTask
    config: TrainConfig
    plan: EvaluationPlan
    writes: bool = True
    """False on ranks other than the first"""

    def __call__(self, folder: Path, step: int) -> Mapping[str, float]:
        """Sample, write the table, return its summary."""
        table = heldout_counts(
            self.policy, self.task, self.plan, samples=self.plan.samples,
            max_new_tokens=self.config.sampling.max_new_tokens, seed=self.config.seed,
        )  # fmt: skip
        if self.writes:
            path = step_table(folder, step)
            path.parent.mkdir(exist_ok=True)
            write_table(path, table)
            paths = sampled_paths(
                self.policy, self.task, mazes=SHOWN_MAZES, samples=SHOWN_SAMPLES, seed=self.config.seed,
                max_new_tokens=self.config.sampling.max_new_tokens,
            )  # fmt: skip
            write_table(path.with_name(path.name.replace("step-", "paths-")), paths)
        return summary(table)
