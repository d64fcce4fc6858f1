"""A run small enough to repeat: a one-layer character model on `sums`, four prompts of six rollouts a step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm.config import ModelConfig, OptimizerConfig, SamplingConfig, ScratchConfig, SftConfig, TaskConfig, TrainConfig

SMALL = TrainConfig(
    model=ModelConfig(
        scratch=ScratchConfig("01234+ \n", hidden=32, layers=1, heads=2, feed_forward=64), device="cpu"
    ),
    task=TaskConfig("sums", {"lowest_total": 1, "highest_total": 4}),
    sampling=SamplingConfig(group_size=6, max_new_tokens=7),
    optimizer=OptimizerConfig(learning_rate=1e-2, warmup_steps=3, schedule="cosine"),
    sft=SftConfig(steps=40, batch=16, optimizer=OptimizerConfig(learning_rate=2e-2)),
    steps=8,
    prompts_per_step=4,
    checkpoint_every=3,
)
# What the clock and the allocator decide.
UNSTABLE = ("seconds", "tokens_per_second", "peak_memory_mib")


def without_sft(config: TrainConfig = SMALL, **fields: Any) -> TrainConfig:
    """The small run from random weights."""
    return replace(config, sft=SftConfig(steps=0), **fields)


def rows(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without timings and memory."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if not name.endswith(UNSTABLE)} for line in lines]


def weights(folder: Path) -> bytes:
    """The trained model's file."""
    return (folder / "model" / "model.safetensors").read_bytes()
