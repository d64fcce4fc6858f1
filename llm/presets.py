"""Named runs. `tiny` and `smollm2` are measured here; the `paper-*` ones are appendix L's settings, built and checked in the
tests but not measured: they need the paper's machines (16 H100) and its data set.

Conventions stated: advantages divide by the sample std (ddof 1) plus 1e-6, as verl does; token-mean; no KL.
"""

from __future__ import annotations

from dataclasses import replace

from fgrpo_theory.foundation.checks import as_choice

from .config import (
    ModelConfig,
    OptimizerConfig,
    SamplingConfig,
    ScratchConfig,
    SftConfig,
    TaskConfig,
    TrainConfig,
)
from .objectives.settings import OBJECTIVES

# SFT, then RL, of a 0.1 M-parameter model: the whole path in under 3 minutes on two cores.
TINY = TrainConfig(
    model=ModelConfig(
        source="scratch",
        scratch=ScratchConfig(alphabet="0123456789+ \n", hidden=64, layers=2, heads=4, feed_forward=256),
    ),
    task=TaskConfig("sums"),
    sampling=SamplingConfig(group_size=8, max_new_tokens=10),
    optimizer=OptimizerConfig(learning_rate=3e-4, weight_decay=0.0),
    sft=SftConfig(
        steps=300, batch=32, optimizer=OptimizerConfig(learning_rate=3e-3, weight_decay=0.0, warmup_steps=20)
    ),
    steps=100,
    prompts_per_step=8,
    checkpoint_every=20,
    probe_every=10,
)

# The real SmolLM2-135M-Instruct on `sums`; docs/study.md has what it gives.
SMOLLM2 = TrainConfig(
    model=ModelConfig(source="smollm2-135m"),
    task=TaskConfig("sums"),
    # The longest right answer has 9 tokens.
    sampling=SamplingConfig(group_size=8, max_new_tokens=10),
    optimizer=OptimizerConfig(learning_rate=1e-5, weight_decay=0.01),
    steps=60,
    prompts_per_step=8,
    checkpoint_every=20,
    probe_every=10,
)

# The same model counts a letter in a short sentence: one right answer a problem, small counts common, larger ones rare.
SMOLLM2_LETTERS = replace(
    SMOLLM2,
    task=TaskConfig(
        "reasoning_gym",
        {
            "dataset": "letter_counting",
            "options": {"min_words": 3, "max_words": 5},
            "examples": 2,
            "answer_form": "whole",
            "train_size": 512,
            "heldout_size": 48,
        },
    ),
    probe_every=0,
)


def _paper(source: str, response_length: int) -> TrainConfig:
    """Appendix L: DeepScaleR prompts of at most 1,024 tokens, 256 a step in mini-batches of 64, one PPO epoch, N = 8."""
    return TrainConfig(
        model=ModelConfig(source=source, precision="bf16", gradient_checkpointing=True),
        task=TaskConfig("dataset", {"train": "deepscaler.jsonl", "max_prompt_tokens": 1024}),
        sampling=SamplingConfig(group_size=8, max_new_tokens=response_length),
        optimizer=OptimizerConfig(learning_rate=1e-6, weight_decay=0.01, max_grad_norm=1.0, warmup_steps=15),
        objective=OBJECTIVES["grpo"],
        # 10 epochs over 39,202 prompts, 256 a step.
        steps=10 * 39_202 // 256,
        prompts_per_step=256,
        mini_batch_prompts=64,
        checkpoint_every=50,
    )


PRESETS = {
    "tiny": TINY,
    "smollm2": SMOLLM2,
    "smollm2-letters": SMOLLM2_LETTERS,
    "paper-qwen2.5-7b": _paper("Qwen/Qwen2.5-7B", 8192),
    "paper-qwen3-4b": _paper("Qwen/Qwen3-4B-Base", 4096),
    "paper-llama-3.2-3b": _paper("meta-llama/Llama-3.2-3B-Instruct", 8192),
}
NOT_MEASURED = frozenset(name for name in PRESETS if name.startswith("paper-"))


def with_objective(config: TrainConfig, name: str, gamma: float) -> TrainConfig:
    """The preset with another objective of `OBJECTIVES` and a focal exponent. Raises ValueError for an unknown name."""
    as_choice("objective", name, tuple(OBJECTIVES))
    return replace(config, objective=replace(OBJECTIVES[name], gamma=gamma))
