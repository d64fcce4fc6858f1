"""Reinforcement learning, one step: sample a rollout batch, then one or more optimizer updates on it.

    loss of an update = sum over its loss tokens of the objective, divided by a total over the whole update

so neither micro-batches nor ranks change the gradient. The ratio's denominator is frozen before the first update; with a
single update it is that pass itself, and every ratio is 1. Groups whose rollouts all have advantage 0 are not computed
when no other term could give them a gradient: their share of the gradient is exactly 0, and they stay in the denominator.
Left out on purpose: the loop, checkpoints and logs (loop.py), and any objective's formula (objectives/).
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fgrpo_theory.foundation.checks import require

from .checkpoint import trained_parameters
from .config import OptimizerConfig, TrainConfig
from .distributed import World
from .logprobs import completion_logprobs
from .metrics import Means, peak_memory
from .models import LanguageModel
from .objectives import policy_loss, step_total
from .rollout_batch import Batch, Collector, precision
from .rollout_log import write_step
from .rollouts import Rollouts, split
from .tasks.base import Task


class Trainer:
    """The learner of the phase "rl" (see loop.Learner)."""

    phase = "rl"

    def __init__(
        self,
        policy: LanguageModel,
        task: Task,
        config: TrainConfig,
        world: World,
        *,
        log_groups: bool = False,
        rollout_folder: Path | None = None,
    ) -> None:
        """log_groups: a step's metrics also hold "groups", the columns of its groups' counts.

        rollout_folder: where each step writes its rollouts as a table; None: nowhere.
        """
        require(world.size <= config.prompts_per_step, "prompts_per_step must be at least the number of processes",
                prompts_per_step=config.prompts_per_step, processes=world.size)  # fmt: skip
        self.policy, self.model, self.config, self.world = policy, policy.model, config, world
        self.steps, self.log_groups, self.rollout_folder = config.steps, log_groups, rollout_folder
        self.optimizer = make_optimizer(self.model, config.optimizer)
        self.collector = Collector(policy, task, config, world, keep_rollouts=rollout_folder is not None)
        # The KL's reference is the policy as training starts, adapter included; only trained weights differ from it.
        self._start: dict[str, Tensor] = {}
        if config.objective.kl:
            self._start = {name: p.detach().clone() for name, p in trained_parameters(self.model).items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps beside weights, optimizer and generators."""
        return {"position": self.collector.position}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.collector.position = int(state["position"])

    def step(self, index: int) -> dict[str, Any]:
        """Rollout batch number `index` and its updates; returns the step's metrics."""
        start, means = time.perf_counter(), Means()
        rate = learning_rate(self.config.optimizer, index, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = self.collector.collect(index, means)
        sampled = time.perf_counter()
        if self.rollout_folder is not None:
            write_step(self.rollout_folder, index + 1, self.collector.rollouts, self.world)
        self.learn(batch, means)
        seconds = time.perf_counter() - start
        means.add({"training_seconds": (time.perf_counter() - sampled, 1 / self.world.size)})
        memory, longest = self.world.largest([peak_memory(self.world.device), seconds])
        numbers = means.result(self.world)
        tokens = numbers["tokens"]
        values = {**numbers, "learning_rate": rate, "peak_memory_mib": memory, "seconds": longest,
                  "tokens_per_second": tokens / longest}  # fmt: skip
        return {**values, "groups": self._groups()} if self.log_groups else values

    def _groups(self) -> dict[str, list[Any]]:
        """Columns problem, correct (X), scorable (N) of the groups of all ranks."""
        rows = [row for part in self.world.gathered(self.collector.groups) for row in part]
        return {name: [getattr(row, name) for row in rows] for name in ("problem", "correct", "scorable")}

    def learn(self, batch: Batch, means: Means) -> None:
        """All updates on a rollout batch: epochs over its mini-batches, in order."""
        self.model.train()
        computed = replace(batch.rollouts, mask=batch.loss_mask & self._needed(batch)[..., None, None])
        old = self._frozen(computed)
        with self._at_start() as reference_differs:
            reference = self._evaluate(computed) if reference_differs else None
        size = self.config.mini_batch_prompts or self.config.prompts_per_step
        for _ in range(self.config.epochs):
            for first in range(0, self.config.prompts_per_step, size):
                rows = slice(bisect_left(batch.places, first), bisect_left(batch.places, first + size))
                self._update(batch, computed, rows, old, reference, means)

    def accumulate(
        self, batch: Batch, computed: Rollouts, rows: slice, old: Tensor | None, reference: Tensor | None, means: Means
    ) -> bool:
        """Add the gradient of one update over all micro-batches and ranks; False if it has no loss token anywhere."""
        objective, mask = self.config.objective, batch.loss_mask[rows]
        total = step_total(objective.aggregation, mask, self.config.sampling.max_new_tokens)
        total, tokens = self.world.add_numbers([total, float(mask.sum())])
        if tokens == 0:
            return False
        loss_sum, mini = 0.0, computed.groups(rows.start, rows.stop)
        for groups, slots, part in split(mini, self.config.micro_batch_tokens) if mini.prompts else ():
            if not part.mask.any():
                continue
            lp, entropy = self._logprobs(part, entropy=self.config.log_entropy or objective.entropy_bonus > 0)
            loss, metrics = policy_loss(
                objective, lp, lp.detach() if old is None else old[rows][groups, slots],
                batch.advantages[rows][groups, slots], part.mask, token_total=total, entropy=entropy,
                reference_logprobs=None if reference is None else reference[rows][groups, slots],
            )  # fmt: skip
            torch.autograd.backward(loss)
            loss_sum += loss.item()
            means.add(metrics)
        means.add({"loss": (loss_sum, 1 / self.world.size)})
        self.world.add_gradients(trained_parameters(self.model).values())
        return True

    def _update(
        self, batch: Batch, computed: Rollouts, rows: slice, old: Tensor | None, reference: Tensor | None, means: Means
    ) -> None:
        parameters = list(trained_parameters(self.model).values())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        if not self.accumulate(batch, computed, rows, old, reference, means):
            return
        norm = clip_gradient(parameters, self.config.optimizer.max_grad_norm)
        means.add({"grad_norm": (norm / self.world.size, 1 / self.world.size)})
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _needed(self, batch: Batch) -> Tensor:
        """Which groups can have a gradient."""
        if self.config.objective.kl or self.config.objective.entropy_bonus:
            return torch.ones_like(batch.advantages[:, 0], dtype=torch.bool)
        return (batch.advantages != 0).any(-1)

    def _frozen(self, computed: Rollouts) -> Tensor | None:
        """Log-probs of the policy that sampled, or None where the only pass of a single update gives them."""
        if self.config.old_logprobs == "sampling":
            return computed.old_logprobs
        return None if self.config.updates_per_step == 1 else self._evaluate(computed)

    @torch.no_grad()
    def _evaluate(self, computed: Rollouts) -> Tensor:
        if not computed.prompts:
            return computed.old_logprobs
        return self._logprobs(computed, entropy=False)[0]

    def _logprobs(self, rollouts: Rollouts, *, entropy: bool) -> tuple[Tensor, Tensor | None]:
        # Precision is entered for each pass: autocast keeps its casts of the weights until it is left.
        with precision(self.config.model.precision, self.world.device):
            return completion_logprobs(
                self.model,
                rollouts,
                temperature=self.config.sampling.temperature,
                with_entropy=entropy,
                micro_batch_tokens=None if torch.is_grad_enabled() else self.config.micro_batch_tokens,
            )

    @contextmanager
    def _at_start(self) -> Iterator[bool]:
        """The model with its start weights inside the block; False (and nothing changed) if none are kept."""
        parameters = trained_parameters(self.model)
        now = {name: parameters[name].detach().clone() for name in self._start}
        _put(parameters, self._start)
        try:
            yield bool(self._start)
        finally:
            _put(parameters, now)


@torch.no_grad()
def _put(parameters: dict[str, torch.nn.Parameter], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        parameters[name].copy_(value)


def make_optimizer(model: Any, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW over the trained parameters, in their order by name."""
    parameters = list(trained_parameters(model).values())
    return torch.optim.AdamW(
        parameters, lr=config.learning_rate, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay
    )


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`: linear warm-up, then constant or a cosine that ends at 0 after the last.

    >>> [learning_rate(OptimizerConfig(learning_rate=1.0, warmup_steps=4), step, 10) for step in (0, 3, 9)]
    [0.25, 1.0, 1.0]
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    done = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def clip_gradient(parameters: list[torch.nn.Parameter], largest: float) -> float:
    """The gradient's norm, then scaled down to `largest` (0: not at all). Raises ValueError if it is not finite."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, largest or math.inf)
    value = float(norm)
    require(math.isfinite(value), "the gradient must be finite", grad_norm=value)
    return value
