"""Every rollout of a training as a table a step, in the columns that `fgrpo diagnose` reads.

    RUN/rollouts/step-00000001.parquet: step, prompt (the problem's id), completion, success (null: unscorable)

A step that is repeated after a kill is the same step, so it writes the same file again. Left out on purpose: prompts as
text, which the task gives for an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fgrpo_theory.foundation.files import write_table

from .distributed import World
from .rollouts import Rollouts
from .tasks.base import Problem

FOLDER = "rollouts"


@dataclass(frozen=True)
class LoggedRollout:
    """One row."""

    prompt: str
    """The problem's id."""
    completion: str
    """Its text, or its token ids where the task judges ids."""
    success: bool | None
    """None: unscorable."""


def logged(
    problems: Sequence[Problem], rollouts: Rollouts, success: Sequence[Sequence[bool | None]]
) -> list[LoggedRollout]:
    """Rows of some groups, in order. success: a verdict for each prompt and rollout."""
    rows = []
    for group, problem in enumerate(problems):
        for slot, verdict in enumerate(success[group]):
            rows.append(LoggedRollout(problem.id, _text(rollouts, group, slot), verdict))
    return rows


def write_step(folder: Path, step: int, rows: list[LoggedRollout], world: World) -> None:
    """Write the rows of all ranks as the table of `step` (counted from 1)."""
    everything = [row for part in world.gathered(rows) for row in part]
    if world.is_first:
        folder.mkdir(exist_ok=True)
        columns = {"step": [step] * len(everything)} | {
            name: [getattr(row, name) for row in everything] for name in ("prompt", "completion", "success")
        }
        write_table(folder / f"step-{step:08d}.parquet", columns)


def _text(rollouts: Rollouts, group: int, slot: int) -> str:
    if rollouts.texts and rollouts.texts[group]:
        return rollouts.texts[group][slot]
    ids = rollouts.completions[group, slot][rollouts.mask[group, slot]]
    return " ".join(str(token) for token in ids.tolist())
