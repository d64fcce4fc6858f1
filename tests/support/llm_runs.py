"""A run small enough to repeat: a one-layer character model on `sums`, four prompts of six rollouts a step."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm.config import ModelConfig, OptimizerConfig, SamplingConfig, ScratchConfig, SftConfig, TaskConfig, TrainConfig
from llm.tasks import Problem, SumsTask, Verdict

SMALL = TrainConfig(
    model=ModelConfig(scratch=ScratchConfig("01234+ \n", hidden=32, layers=1, heads=2, feed_forward=64), device="cpu"),
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


def defined_metrics() -> list[str]:
    """Names in the first column of the tables of docs/trainer.md."""
    text = (Path(__file__).parents[2] / "docs" / "trainer.md").read_text()
    section = text.partition("## Metrics")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


class FirstDigit:
    """Right if the text begins with 0, 1 or 2: a third of random text is. Texts that begin with + cannot be scored."""

    name = "first-digit"

    def __init__(self) -> None:
        self._sums = SumsTask(lowest_total=1, highest_total=4)

    def train_prompts(self, seed: int) -> list[Problem]:
        return self._sums.train_prompts(seed)

    def heldout(self) -> list[Problem]:
        return self._sums.heldout()

    def close(self) -> None:
        """No processes to end."""

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return [Verdict(None, float("nan"), "none") if text[:1] == "+" else
                Verdict(text[:1] in ("0", "1", "2"), float(text[:1] in ("0", "1", "2"))) for text in texts]  # fmt: skip
