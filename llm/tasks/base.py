"""What a task is: problems to pose and a verifier that answers right, wrong or "cannot say".

Success is the verifier's boolean, apart from the reward's value, and None when the answer could not be scored: the
verifier timed out, crashed, ran out of memory, raised, or returned no verdict. A rollout with None is counted apart
and never taken for a wrong one. Source: conventions of this project; F-GRPO (arXiv 2602.06717) eqs. 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer

Turn = dict[str, str]
"""One chat turn: {"role": "system" | "user" | "assistant", "content": text}."""


@dataclass(frozen=True)
class Problem:
    """One prompt with what its verifier needs."""

    id: str
    """Unique within the task; results are joined on it."""
    prompt: list[Turn] | str
    """Chat turns, rendered by the tokenizer's template, or plain text."""
    answer: object
    """The gold answer, in the form the task's verifier takes."""


@dataclass(frozen=True)
class Verdict:
    """The verifier's word on one completion."""

    success: bool | None
    """None: unscorable."""
    reward: float
    """1.0 or 0.0 unless the verifier shapes it; NaN where unscorable, as `fgrpo_theory.group_advantage` takes it."""
    reason: str = ""
    """Why a completion is wrong or unscorable, in a few words; the first word names the kind."""


@runtime_checkable
class Task(Protocol):
    """What the trainer and the evaluation ask of a task."""

    @property
    def name(self) -> str:
        """What tables and messages call it."""
        ...

    def train_prompts(self, seed: int) -> Sequence[Problem]:
        """The training problems, in an order drawn from the seed (procedural tasks draw the problems as well)."""
        ...

    def heldout(self) -> Sequence[Problem]:
        """Problems that are never trained on; the same for every seed."""
        ...

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """One verdict for each (problem, completion text) pair."""
        ...

    def close(self) -> None:
        """End the verifier's worker processes, if it has any."""
        ...


@runtime_checkable
class IdVerifier(Protocol):
    """A task that judges token ids: its completions need not be decoded."""

    def verify_ids(
        self,
        problems: Sequence[Problem],
        completions: Integer[np.ndarray, "completion token"],
        lengths: Integer[np.ndarray, " completion"],
    ) -> list[Verdict]:
        """One verdict for each (problem, completion) pair; the first `lengths` ids of a row are the completion."""
        ...


def verdict_of(success: bool, reason: str = "") -> Verdict:
    """A verdict with the binary reward 1 or 0."""
    return Verdict(success, float(success), reason)


def same_length(problems: Sequence[Problem], texts: Sequence[str]) -> None:
    """Refuse a batch that does not pair each text with one problem."""
    if len(problems) != len(texts):
        raise ValueError(f"texts must match problems, got len(problems)={len(problems)}, len(texts)={len(texts)}")
