"""Rare-solution drift: how much less likely the base model's rarest correct answers become under a trained model.

Source: F-GRPO (arXiv 2602.06717) appendix M.2: 256 training prompts, 800 base-model rollouts each; of the correct ones
the 1 % with the highest length-normalised negative log-likelihood under the base model is the rare set; the rise of its
mean NLL is the drift. Sampled at temperature 1. Truncated rollouts are left out: their likelihood lacks an end.
The paper does not say whether equal rollouts count once; here they do with `distinct`, the default, because a short
answer that is drawn often is not several rare solutions. Interval: bootstrap over prompts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fgrpo_theory.foundation.checks import as_probability, as_whole, require
from fgrpo_theory.foundation.files import read_table, write_table
from fgrpo_theory.foundation.seeds import generator

from .generation import group_generators, sample
from .logprobs import completion_logprobs
from .models import LanguageModel, encode_prompt
from .rollouts import Rollouts
from .tasks.base import Problem, Task


@dataclass(frozen=True)
class RareSet:
    """Rare correct completions of a base model; one entry of each field a completion."""

    problems: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    """Prompt token ids."""
    completions: tuple[tuple[int, ...], ...]
    """Completion token ids, with the EOS."""
    base_nll: NDArray[np.float64]
    """Nats a token under the base model."""
    correct: int
    """Correct rollouts (distinct ones, if so chosen) that the rare ones were taken from."""

    def save(self, path: Path | str) -> None:
        """Write a parquet table."""
        columns = {
            "problem": list(self.problems),
            "prompt": [json.dumps(ids) for ids in self.prompts],
            "completion": [json.dumps(ids) for ids in self.completions],
            "base_nll": self.base_nll,
            "correct": [self.correct] * len(self.problems),
        }
        write_table(path, columns)

    @classmethod
    def load(cls, path: Path | str) -> RareSet:
        """Read what `save` wrote."""
        table = read_table(path)
        prompts, completions = (
            tuple(tuple(json.loads(ids)) for ids in table[name]) for name in ("prompt", "completion")
        )
        nll = table["base_nll"].astype(np.float64)
        return cls(tuple(table["problem"].tolist()), prompts, completions, nll, int(table["correct"][0]))


@dataclass(frozen=True)
class Drift:
    """The rare set under a trained model, in nats a token."""

    base_nll: float
    nll: float
    rise: float
    """nll - base_nll."""
    low: float
    high: float
    """95 % bootstrap interval of the rise, over prompts."""
    solutions: int


def rare_set(
    policy: LanguageModel,
    task: Task,
    problems: Sequence[Problem],
    *,
    samples: int = 800,
    fraction: float = 0.01,
    distinct: bool = True,
    max_new_tokens: int = 64,
    seed: int = 0,
    batch_size: int = 128,
) -> RareSet:
    """Draw `samples` rollouts of each problem from the base model and keep the rarest `fraction` of the correct ones.

    At least one is kept. Raises ValueError if no rollout is correct, or a setting is outside its domain.
    """
    as_whole("samples", samples)
    as_probability("fraction", fraction, open_ends=True)
    found: list[tuple[float, str, tuple[int, ...], tuple[int, ...]]] = []
    for index, problem in enumerate(problems):
        prompt = encode_prompt(policy.tokenizer, problem.prompt, device=policy.model.device)
        rollouts = sample(
            policy.model, policy.tokenizer, [prompt], samples, generators=group_generators(seed, "rare", groups=[index]),
            eos_ids=policy.eos_ids, pad_id=policy.pad_id, max_new_tokens=max_new_tokens, batch_size=batch_size,
        )  # fmt: skip
        kept = _correct(task, problem, rollouts)
        kept = list(dict(kept).items()) if distinct else kept
        found += [(nll, problem.id, tuple(prompt.tolist()), ids) for ids, nll in kept]
    require(bool(found), "the base model must have a correct rollout", correct=len(found))
    # Ties go by identity, so that the set does not depend on the order of the problems.
    rarest = sorted(found, key=lambda entry: (-entry[0], *entry[1:]))[: math.ceil(fraction * len(found))]
    chosen = RareSet(
        tuple(entry[1] for entry in rarest),
        tuple(entry[2] for entry in rarest),
        tuple(entry[3] for entry in rarest),
        np.zeros(len(rarest)),
        len(found),
    )
    return RareSet(chosen.problems, chosen.prompts, chosen.completions, nll_of(policy, chosen), len(found))


def _correct(task: Task, problem: Problem, rollouts: Rollouts) -> list[tuple[tuple[int, ...], float]]:
    """(token ids, NLL a token) of the correct rollouts that have ended."""
    verdicts = task.verify([problem] * rollouts.group_size, rollouts.texts[0])
    nll = -rollouts.old_logprobs[0].double().sum(-1) / rollouts.lengths[0]
    return [
        (tuple(ids[:length].tolist()), float(value))
        for ids, length, value, cut, verdict in zip(
            rollouts.completions[0].cpu(), rollouts.lengths[0].tolist(), nll.cpu(), rollouts.truncated[0].tolist(), verdicts,
            strict=True,
        )
        if verdict.success and not cut
    ]  # fmt: skip


@torch.no_grad()
def nll_of(policy: LanguageModel, rare: RareSet) -> NDArray[np.float64]:
    """Length-normalised NLL of each completion at temperature 1, in nats a token; prompts are computed once."""
    values = np.zeros(len(rare.completions))
    for prompt in dict.fromkeys(rare.prompts):
        places = [place for place, other in enumerate(rare.prompts) if other == prompt]
        rollouts = _as_rollouts(prompt, [rare.completions[place] for place in places], policy)
        logprobs, _ = completion_logprobs(policy.model, rollouts, temperature=1.0)
        values[places] = (-logprobs[0].double().sum(-1) / rollouts.lengths[0]).cpu().numpy()
    return values


def _as_rollouts(prompt: Sequence[int], completions: Sequence[Sequence[int]], policy: LanguageModel) -> Rollouts:
    device, longest = policy.model.device, max(map(len, completions))
    padded = [[*ids, *[policy.pad_id] * (longest - len(ids))] for ids in completions]
    lengths = torch.tensor([len(ids) for ids in completions], device=device)
    mask = torch.arange(longest, device=device) < lengths[:, None]
    return Rollouts(
        prompts=[torch.tensor(prompt, device=device)],
        completions=torch.tensor([padded], device=device),
        mask=mask[None],
        old_logprobs=torch.zeros(1, *mask.shape, device=device),
        truncated=torch.zeros(1, len(completions), dtype=torch.bool, device=device),
        texts=[[""] * len(completions)],
    )


def drift(policy: LanguageModel, rare: RareSet, *, draws: int = 2000, seed: int = 0) -> Drift:
    """The rise of the rare set's mean NLL under a trained policy."""
    nll = nll_of(policy, rare)
    rises = nll - rare.base_nll
    names = sorted(set(rare.problems))
    inside = np.array([[problem == name for problem in rare.problems] for name in names])
    totals, counts = inside @ rises, inside.sum(axis=1)
    picks = generator(seed, "rare bootstrap").integers(len(names), size=(draws, len(names)))
    low, high = np.quantile(totals[picks].sum(axis=1) / counts[picks].sum(axis=1), [0.025, 0.975])
    return Drift(float(rare.base_nll.mean()), float(nll.mean()), float(rises.mean()), float(low), float(high), len(nll))
