"""One rollout batch: prompts in a fixed order, groups sampled, verified, and turned into advantages.

Group i of the batch is drawn from the stream (seed, "rollouts", step, round, i), so a resumed run and any number of
ranks sample the same. Verdicts decide success; unscorable rollouts leave their group (and truncated ones too with
truncated="masked"). Left out on purpose: the update.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.seeds import seed_sequence

from .config import TrainConfig
from .distributed import World
from .generation import group_generators, sample
from .metrics import Means, group_metrics
from .models import LanguageModel, encode_prompt
from .objectives import advantages, is_active, length_penalty, loss_mask
from .rollout_log import LoggedRollout, logged
from .rollouts import Rollouts
from .tasks.base import IdVerifier, Problem, Task, Verdict


@dataclass(frozen=True)
class Batch:
    """This rank's groups of a rollout batch."""

    places: list[int]
    """Where each group stands in the batch of all ranks, ascending."""
    rollouts: Rollouts
    """What was sampled."""
    advantages: Float[Tensor, "prompt rollout"]
    """g * A of each rollout."""
    loss_mask: Bool[Tensor, "prompt rollout token"]
    """The tokens of scorable rollouts: numerator and denominator of the loss."""


def judged(task: Task, problems: Sequence[Problem], rollouts: Rollouts) -> list[Verdict]:
    """The task's verdicts on all rollouts, group by group: every problem once for each of its rollouts, a, a, b, b."""
    repeated = [problem for problem in problems for _ in range(rollouts.group_size)]
    if isinstance(task, IdVerifier):
        return task.verify_ids(
            repeated, rollouts.completions.flatten(0, 1).cpu().numpy(), rollouts.lengths.flatten().cpu().numpy()
        )
    return task.verify(repeated, [text for row in rollouts.texts for text in row])


@dataclass(frozen=True)
class GroupCount:
    """What the verifier found in one group."""

    problem: str
    """The problem's id."""
    correct: int
    """X, right rollouts."""
    scorable: int
    """N, rollouts that could be scored."""


@contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """bfloat16 passes over float32 weights for "bf16"; nothing otherwise."""
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=name == "bf16"):
        yield


class PromptOrder:
    """The training problems, one shuffled epoch after another: problem number `position` of seed `seed`."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._epoch, self._problems = 0, self._read(0)

    def _read(self, epoch: int) -> Sequence[Problem]:
        order = int(seed_sequence(self._seed, "prompts", epoch).generate_state(1)[0])
        problems = self._task.train_prompts(order)
        require(len(problems) > 0, "the task must have training prompts", task=self._task.name)
        return problems

    def at(self, position: int) -> Problem:
        """The problem at a position that counts through all epochs."""
        epoch, place = divmod(position, len(self._problems))
        if epoch != self._epoch:
            self._epoch, self._problems = epoch, self._read(epoch)
        return self._problems[place]


class Collector:
    """Draws rollout batches; its position in the prompts is all that a checkpoint must keep."""

    def __init__(
        self, policy: LanguageModel, task: Task, config: TrainConfig, world: World, *, keep_rollouts: bool = False
    ) -> None:
        self._keep_rollouts = keep_rollouts
        self._policy, self._task, self._config, self._world = policy, task, config, world
        self._order = PromptOrder(task, config.seed)
        self.position = 0
        self.groups: list[GroupCount] = []
        """The groups of the last step, in the order of the batch; those of this rank."""
        self.rollouts: list[LoggedRollout] = []
        """Their rollouts, if they are kept."""

    def collect(self, step: int, means: Means) -> Batch:
        """The batch of `step`; its metrics are added to `means`. With dynamic sampling, active groups alone.

        Raises ValueError if dynamic sampling finds no active group in `max_draws` rounds.
        """
        rounds = self._config.max_draws if self._config.objective.dynamic_sampling else 1
        wanted, kept, parts = self._config.prompts_per_step, 0, []
        self.groups, self.rollouts = [], []
        for draw in range(rounds):
            batch, active = self._round(step, draw, means)
            places = [kept + rank for rank in self._ranks_among_active(batch.places, active)]
            chosen = [i for i, is_in in enumerate(active) if is_in and places[i] < wanted]
            parts.append(_select(batch, chosen, [places[i] for i in chosen]))
            kept += int(self._world.add_numbers([sum(active)])[0])
            if kept >= wanted:
                break
        require(kept > 0, "dynamic sampling must find an active group", max_draws=rounds, step=step + 1)
        return _joined(parts)

    def _round(self, step: int, draw: int, means: Means) -> tuple[Batch, list[bool]]:
        """A full round of prompts on all ranks: this rank's batch, and which groups to keep."""
        config, places = self._config, self._world.share(self._config.prompts_per_step)
        problems = [self._order.at(self.position + place) for place in places]
        self.position += config.prompts_per_step
        start = time.perf_counter()
        rollouts = self._sample(problems, (step, draw), places)
        sampled = time.perf_counter()
        rewards, success, scored = self._verify(problems, rollouts)
        verified = time.perf_counter()
        counts = zip(problems, (success & scored).sum(-1).tolist(), scored.sum(-1).tolist(), strict=True)
        self.groups += [GroupCount(problem.id, correct, scorable) for problem, correct, scorable in counts]
        if self._keep_rollouts:
            self.rollouts += logged(problems, rollouts, _verdicts(success, scored))
        # Sums over the rounds of a step: the weight is that of one process, once.
        share = 1 / self._world.size if draw == 0 else 0.0
        means.add(
            {
                "sampling_seconds": (sampled - start, share),
                "verifying_seconds": (verified - sampled, share),
                "tokens": (float(rollouts.mask.sum()), share),
            }
        )
        means.add(group_metrics(config.objective, rewards, success, scored, config.rare_fraction))
        means.add(_length_metrics(rollouts))
        batch = self._weigh(places, rollouts, rewards, success, scored)
        keep = is_active(success, scored) if config.objective.dynamic_sampling else torch.ones(len(places)) > 0
        return batch, keep.tolist()

    def _sample(self, problems: list[Problem], index: tuple[int, int], places: list[int]) -> Rollouts:
        settings, policy = self._config.sampling, self._policy
        policy.model.eval()
        prompts = [encode_prompt(policy.tokenizer, p.prompt, device=self._world.device) for p in problems]
        with precision(self._config.model.precision, self._world.device):
            return sample(
                policy.model, policy.tokenizer, prompts, settings.group_size,
                generators=group_generators(self._config.seed, "rollouts", *index, groups=places),
                eos_ids=policy.eos_ids, pad_id=policy.pad_id, max_new_tokens=settings.max_new_tokens,
                temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k, min_p=settings.min_p,
                stop_strings=settings.stop_strings, batch_size=settings.batch_size or None,
                decode=not isinstance(self._task, IdVerifier),
            )  # fmt: skip

    def _verify(self, problems: list[Problem], rollouts: Rollouts) -> tuple[Tensor, Tensor, Tensor]:
        """(rewards, success, scorable), each [prompt, rollout]."""
        verdicts = judged(self._task, problems, rollouts)
        shape, device = rollouts.truncated.shape, rollouts.mask.device
        rewards = torch.tensor([v.reward for v in verdicts], dtype=torch.float64, device=device).view(shape)
        success = torch.tensor([v.success is True for v in verdicts], device=device).view(shape)
        scored = torch.tensor([v.success is not None for v in verdicts], device=device).view(shape)
        return rewards, success, scored

    def _weigh(self, places: list[int], rollouts: Rollouts, rewards: Tensor, success: Tensor, scored: Tensor) -> Batch:
        objective = self._config.objective
        scorable = scored & ~rollouts.truncated if objective.truncated == "masked" else scored
        shaped = rewards - length_penalty(objective, rollouts.lengths, self._config.sampling.max_new_tokens)
        weighed = advantages(
            objective, shaped, success, scorable, old_logprobs=rollouts.old_logprobs, mask=rollouts.mask
        )
        return Batch(places, rollouts, weighed, loss_mask(rollouts.mask, scorable))

    def _ranks_among_active(self, places: list[int], active: list[bool]) -> list[int]:
        """For each group of this rank, how many active groups of the round stand before it, over all ranks."""
        flags = [0.0] * self._config.prompts_per_step
        for place, is_in in zip(places, active, strict=True):
            flags[place] = float(is_in)
        everywhere = self._world.add_numbers(flags)
        return [int(sum(everywhere[:place])) for place in places]


def _verdicts(success: Tensor, scored: Tensor) -> list[list[bool | None]]:
    """True, False or None (unscorable) for each prompt and rollout."""
    return [
        [right if known else None for right, known in zip(*rows, strict=True)]
        for rows in zip(success.tolist(), scored.tolist(), strict=True)
    ]


def _length_metrics(rollouts: Rollouts) -> dict[str, tuple[float, float]]:
    total, tokens = float(rollouts.truncated.numel()), float(rollouts.mask.sum())
    return {
        "length": (tokens, total),
        "truncated": (float(rollouts.truncated.sum()), total),
        "surprisal": (-float(rollouts.old_logprobs.double().sum()), tokens),
    }


def _select(batch: Batch, chosen: list[int], places: list[int]) -> Batch:
    rows = torch.tensor(chosen, dtype=torch.long, device=batch.loss_mask.device)
    rollouts = replace(
        batch.rollouts,
        prompts=[batch.rollouts.prompts[i] for i in chosen],
        texts=[batch.rollouts.texts[i] for i in chosen],
        **{name: getattr(batch.rollouts, name)[rows] for name in ("completions", "mask", "old_logprobs", "truncated")},
    )
    return Batch(places, rollouts, batch.advantages[rows], batch.loss_mask[rows])


def _joined(parts: list[Batch]) -> Batch:
    """Parts one after another, padded to the longest completion."""
    if len(parts) == 1:
        return parts[0]
    longest = max(part.loss_mask.shape[-1] for part in parts)

    def tokens(name: str) -> Tensor:
        values = [getattr(part.rollouts, name) for part in parts]
        return torch.cat([torch.nn.functional.pad(value, (0, longest - value.shape[-1])) for value in values])

    rollouts = Rollouts(
        prompts=[prompt for part in parts for prompt in part.rollouts.prompts],
        completions=tokens("completions"),
        mask=tokens("mask"),
        old_logprobs=tokens("old_logprobs"),
        truncated=torch.cat([part.rollouts.truncated for part in parts]),
        texts=[row for part in parts for row in part.rollouts.texts],
    )
    scorable = torch.cat([part.loss_mask.any(-1) for part in parts])
    return Batch(
        [place for part in parts for place in part.places],
        rollouts,
        torch.cat([part.advantages for part in parts]),
        loss_mask(rollouts.mask, scorable),
    )
