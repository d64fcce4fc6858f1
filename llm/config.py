"""What a training run is: frozen dataclasses, one docstring a field, checked where they are made.

`TrainConfig` holds a model, a task, sampling, an objective, an optimizer and the sizes of a step. It goes to JSON and back
(`resolved`, `from_json`), and `changed` sets fields by dotted name, as the command line does. Named instances: presets.py.
Words: a *step* samples one rollout batch of `prompts_per_step` groups; an *update* is one optimizer step on a mini-batch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fgrpo_theory.foundation.checks import as_choice, as_float, as_probability, as_whole, require
from fgrpo_theory.update_scale import learning_rate_multiplier

from .fields import above_zero, decode
from .objectives.settings import ObjectiveConfig

PRECISIONS = ("fp32", "bf16", "bf16-pure")
SCHEDULES = ("constant", "cosine")
LOGGERS = ("tensorboard", "wandb")


@dataclass(frozen=True)
class ScratchConfig:
    """A small Qwen2-style model with random weights, for runs that start with supervised training."""

    alphabet: str = "0123456789+=\n "
    """characters of the vocabulary, one token each; special tokens come on top"""
    hidden: int = 64
    """width of the residual stream"""
    layers: int = 2
    """transformer blocks"""
    heads: int = 4
    """attention heads"""
    feed_forward: int = 256
    """width of the feed-forward layers"""

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "feed_forward"):
            as_whole(name, getattr(self, name))
        require(self.hidden % (2 * self.heads) == 0, "hidden must be a multiple of 2 * heads",
                hidden=self.hidden, heads=self.heads)  # fmt: skip
        require(len(set(self.alphabet)) == len(self.alphabet) > 0, "alphabet must hold distinct characters",
                alphabet=self.alphabet)  # fmt: skip


@dataclass(frozen=True)
class ModelConfig:
    """Which model, and in what form."""

    source: str = "scratch"
    """folder, hub name, GGUF file, `smollm2-135m` (fetched once) or `scratch`"""
    scratch: ScratchConfig = ScratchConfig()
    """the model to make where source is `scratch`"""
    precision: str = "fp32"
    """fp32; bf16: float32 weights, bfloat16 passes; bf16-pure: bfloat16 weights (small learning rates round to nothing)"""
    device: str = "auto"
    """auto (CUDA if there is one), cpu or a CUDA device"""
    lora_rank: int = 0
    """width of LoRA adapters; 0 trains all weights"""
    lora_alpha: float = 32.0
    """LoRA's scale: alpha / rank multiplies the adapter"""
    gradient_checkpointing: bool = False
    """compute activations again in the backward pass: less memory, about a third more time"""

    def __post_init__(self) -> None:
        require(bool(self.source), "source must not be empty", source=self.source)
        as_choice("precision", self.precision, PRECISIONS)
        as_whole("lora_rank", self.lora_rank, least=0)
        above_zero(self, "lora_alpha")


@dataclass(frozen=True)
class TaskConfig:
    """Where prompts come from and who verifies the answers."""

    name: str = "sums"
    """name of a task (see `fgrpo llm train --help`), or `module:function` of your own"""
    options: Mapping[str, Any] = field(default_factory=dict)
    """options of that task"""


@dataclass(frozen=True)
class SamplingConfig:
    """How a group of rollouts is drawn."""

    group_size: int = 8
    """N, rollouts a prompt; at least 2"""
    max_new_tokens: int = 64
    """longest completion; what has no end by then is truncated"""
    temperature: float = 1.0
    """divides the logits, in sampling and in training"""
    top_p: float = 1.0
    """nucleus: least set of tokens with this probability; 1 is off"""
    top_k: int = 0
    """only the k likeliest tokens; 0 is off"""
    min_p: float = 0.0
    """only tokens with at least this share of the likeliest one's probability; 0 is off"""
    stop_strings: tuple[str, ...] = ()
    """texts that end a completion, beside the EOS tokens"""
    batch_size: int = 0
    """most rollouts decoded at once, which bounds memory; 0 is all; no effect on the result"""

    def __post_init__(self) -> None:
        as_whole("group_size", self.group_size, least=2)
        as_whole("max_new_tokens", self.max_new_tokens)
        as_whole("top_k", self.top_k, least=0)
        as_whole("batch_size", self.batch_size, least=0)
        as_probability("min_p", self.min_p)
        require(0 < self.top_p <= 1, "top_p must lie in (0, 1]", top_p=self.top_p)
        above_zero(self, "temperature")


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with a warm-up; the learning rate depends on the step alone."""

    learning_rate: float = 1e-5
    """largest learning rate"""
    betas: tuple[float, float] = (0.9, 0.999)
    """decay rates of the first and second moment"""
    eps: float = 1e-8
    """added to the root of the second moment"""
    weight_decay: float = 0.01
    """decoupled weight decay"""
    max_grad_norm: float = 1.0
    """the gradient is scaled down to this norm; 0 is off"""
    warmup_steps: int = 0
    """steps of linear warm-up: the first has 1 / warmup_steps of the rate"""
    schedule: str = "constant"
    """after the warm-up: constant, or cosine down to 0 at the last step"""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "eps"):
            above_zero(self, name)
        for name in ("weight_decay", "max_grad_norm"):
            value = as_float(name, getattr(self, name))
            require((value >= 0) & (value < float("inf")), f"{name} must be finite and at least 0", **{name: value})
        require(len(self.betas) == 2, "betas must be two numbers", betas=tuple(self.betas))
        require(all(0 <= beta < 1 for beta in self.betas), "betas must lie in [0, 1)", betas=tuple(self.betas))
        as_whole("warmup_steps", self.warmup_steps, least=0)
        as_choice("schedule", self.schedule, SCHEDULES)


@dataclass(frozen=True)
class SftConfig:
    """Supervised training before RL, on the task's demonstrations; the loss is on the completions alone."""

    steps: int = 0
    """updates; 0 is none"""
    batch: int = 32
    """demonstrations an update"""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-3, weight_decay=0.0)
    """its own optimizer"""

    def __post_init__(self) -> None:
        as_whole("steps", self.steps, least=0)
        as_whole("batch", self.batch)


@dataclass(frozen=True)
class TrainConfig:
    """One run, fully resolved. Raises ValueError of one line at the first field that breaks its rule."""

    model: ModelConfig = ModelConfig()
    """the policy"""
    task: TaskConfig = TaskConfig()
    """prompts and verifier"""
    sampling: SamplingConfig = SamplingConfig()
    """how rollouts are drawn"""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """what is maximised"""
    optimizer: OptimizerConfig = OptimizerConfig()
    """how the weights move"""
    sft: SftConfig = SftConfig()
    """supervised training first"""
    steps: int = 100
    """rollout batches; 0 trains by supervision alone"""
    prompts_per_step: int = 8
    """groups in a rollout batch, over all processes"""
    mini_batch_prompts: int = 0
    """groups in an update; 0 takes the whole rollout batch"""
    epochs: int = 1
    """passes over each rollout batch"""
    micro_batch_tokens: int = 16384
    """most tokens in one forward and backward pass; no effect on the result"""
    old_logprobs: str = "frozen"
    """the ratio's denominator: frozen (the policy's own pass before the first update) or sampling (as drawn)"""
    max_draws: int = 8
    """dynamic sampling: most rounds of prompts to fill a batch"""
    log_entropy: bool = True
    """measure the policy's entropy in training, which costs a pass over the logits"""
    rare_fraction: float = 0.1
    """rho, the rare subset's share of the correct mass, in the logged tail miss"""
    seed: int = 0
    """root of every random stream"""
    checkpoint_every: int = 10
    """steps between two checkpoints"""
    keep_checkpoints: int = 2
    """checkpoints kept while the run lasts"""
    probe_every: int = 0
    """steps between two measurements of the task's exact quantities, where it has them; 0 is never"""
    loggers: tuple[str, ...] = ()
    """beside metrics.jsonl: tensorboard, wandb"""

    def __post_init__(self) -> None:
        require(self.steps + self.sft.steps > 0, "steps must be at least 1 without supervised steps", steps=self.steps)
        for name in ("prompts_per_step", "epochs", "micro_batch_tokens", "max_draws", "checkpoint_every",
                     "keep_checkpoints"):  # fmt: skip
            as_whole(name, getattr(self, name))
        for name in ("steps", "mini_batch_prompts", "seed", "probe_every"):
            as_whole(name, getattr(self, name), least=0)
        require(self.prompts_per_step % (self.mini_batch_prompts or self.prompts_per_step) == 0,
                "prompts_per_step must be a multiple of mini_batch_prompts",
                prompts_per_step=self.prompts_per_step, mini_batch_prompts=self.mini_batch_prompts)  # fmt: skip
        require(0 < self.rare_fraction <= 1, "rare_fraction must lie in (0, 1]", rare_fraction=self.rare_fraction)
        as_choice("old_logprobs", self.old_logprobs, ("frozen", "sampling"))
        for logger in self.loggers:
            as_choice("loggers", logger, LOGGERS)
        require(self.objective.overlong_buffer <= self.sampling.max_new_tokens,
                "overlong_buffer must be at most max_new_tokens",
                overlong_buffer=self.objective.overlong_buffer, max_new_tokens=self.sampling.max_new_tokens)  # fmt: skip

    @property
    def updates_per_step(self) -> int:
        """Optimizer steps on each rollout batch."""
        return self.epochs * (self.prompts_per_step // (self.mini_batch_prompts or self.prompts_per_step))

    def resolved(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The inverse of `resolved`. Raises ValueError for a field that does not exist."""
        result: TrainConfig = decode(cls, values, "config")
        return result


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """FIELD=VALUE words of a command line, with VALUE read as JSON where it is JSON, else as text.

    Raises ValueError for a word without a name or a sign.

    >>> assignments(["steps=20", "task.name=sums"])
    {'steps': 20, 'task.name': 'sums'}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        require(bool(name and sign), "set must be written FIELD=VALUE", set=text)
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def changed(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """The config with fields set by dotted name, checked again.

    >>> changed(TrainConfig(), {"objective.gamma": 1.0}).objective.gamma
    1.0
    """
    plain = config.resolved()
    for name, value in settings.items():
        *path, last = name.split(".")
        place: Any = plain
        for part in path:
            place = place.get(part) if isinstance(place, dict) else None
        known = isinstance(place, dict) and (last in place or path[-2:] == ["task", "options"])
        require(known, "settings must name a field of the configuration", setting=name)
        place[last] = value
    return TrainConfig.from_json(plain)


def matched_low_lr(config: TrainConfig, gamma: float) -> TrainConfig:
    """The control of section 5.5: no focal weight, the learning rate times m_gamma (appendix N)."""
    rate = config.optimizer.learning_rate * float(learning_rate_multiplier(gamma))
    return changed(config, {"objective.gamma": 0.0, "optimizer.learning_rate": rate})
