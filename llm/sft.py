"""Supervised training before RL: cross-entropy on demonstrations, on the completions alone.

A task demonstrates by `demonstrate(problem, generator)`, or by listing its correct answers (`correct_answers`): then the
answer of rank r (from 1, in the list's order) is drawn with probability proportional to 1 / r, which gives the policy a
few common and many rare answers. The demonstrations of a step depend on (seed, "sft", step) alone.
"""

from __future__ import annotations

import time
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.seeds import generator

from .checkpoint import trained_parameters
from .config import TrainConfig
from .distributed import World
from .logprobs import completion_logprobs
from .metrics import Means, peak_memory
from .models import LanguageModel, encode_prompt
from .rollout_batch import PromptOrder, precision
from .rollouts import Rollouts, split
from .tasks.base import Problem, Task
from .trainer import clip_gradient, learning_rate, make_optimizer


@runtime_checkable
class Demonstrator(Protocol):
    """A task that writes demonstrations itself."""

    def demonstrate(self, problem: Problem, stream: np.random.Generator) -> str:
        """One correct completion, without its EOS."""


def demonstration(task: Any, problem: Problem, stream: np.random.Generator) -> str:
    """One correct completion of a problem. Raises ValueError if the task has none to show."""
    if isinstance(task, Demonstrator):
        return task.demonstrate(problem, stream)
    require(hasattr(task, "correct_answers"), "sft.steps must be 0 for a task without demonstrations", task=task.name)
    answers = task.correct_answers(problem)
    weight = 1.0 / np.arange(1, len(answers) + 1)
    return str(answers[stream.choice(len(answers), p=weight / weight.sum())])


class SupervisedTrainer:
    """The learner of the phase "sft" (see loop.Learner)."""

    phase = "sft"

    def __init__(self, policy: LanguageModel, task: Task, config: TrainConfig, world: World) -> None:
        self.policy, self.model, self.task, self.config, self.world = policy, policy.model, task, config, world
        self.steps = config.sft.steps
        self.optimizer = make_optimizer(self.model, config.sft.optimizer)
        self.order = PromptOrder(task, config.seed)

    def state(self) -> dict[str, Any]:
        """Nothing: the demonstrations follow from the step."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""

    def step(self, index: int) -> dict[str, float]:
        """One update on a batch of demonstrations; returns its metrics."""
        start, means, settings = time.perf_counter(), Means(), self.config.sft
        rate = learning_rate(settings.optimizer, index, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = self.demonstrations(index)
        tokens = self.world.add_numbers([float(batch.mask.sum())])[0]
        self.model.train()
        parameters = list(trained_parameters(self.model).values())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for _, _, part in split(batch, self.config.micro_batch_tokens):
            with precision(self.config.model.precision, self.world.device):
                logprobs, _ = completion_logprobs(self.model, part, temperature=1.0)
            loss = -(logprobs * part.mask).sum() / tokens
            torch.autograd.backward(loss)
            means.add({"loss": (loss.item(), 0.0)})
        self.world.add_gradients(parameters)
        norm = clip_gradient(parameters, settings.optimizer.max_grad_norm)
        self.optimizer.step()
        means.add({"loss": (0.0, 1 / self.world.size)})
        memory, seconds = self.world.largest([peak_memory(self.world.device), time.perf_counter() - start])
        return {**means.result(self.world), "grad_norm": norm, "learning_rate": rate, "tokens": tokens,
                "tokens_per_second": tokens / seconds, "seconds": seconds, "peak_memory_mib": memory}  # fmt: skip

    def demonstrations(self, index: int) -> Rollouts:
        """This rank's demonstrations of a step, as groups of one completion that ends with EOS."""
        policy, size, device = self.policy, self.config.sft.batch, self.world.device
        prompts, completions = [], []
        for place in self.world.share(size):
            problem = self.order.at(index * size + place)
            text = demonstration(self.task, problem, generator(self.config.seed, "sft", index, place))
            ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
            prompts.append(encode_prompt(policy.tokenizer, problem.prompt, device=device))
            completions.append([*ids, policy.eos_ids[0]])
        longest = max(map(len, completions))
        padded = [[row + [policy.pad_id] * (longest - len(row))] for row in completions]
        lengths = torch.tensor([[len(row)] for row in completions], device=device)
        mask = torch.arange(longest, device=device) < lengths[..., None]
        ids = torch.tensor(padded, device=device)
        return Rollouts(
            prompts, ids, mask, torch.zeros(ids.shape, device=device), torch.zeros_like(lengths, dtype=torch.bool),
            [[""]] * len(prompts),
        )  # fmt: skip
