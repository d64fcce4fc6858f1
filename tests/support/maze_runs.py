"""A maze study small enough to repeat: 7 x 7 mazes, a one-layer model that supervision has taught a little."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llm.config import ModelConfig, OptimizerConfig, SftConfig, TaskConfig
from maze import policy, presets
from maze.policy import ModelShape
from maze.presets import EvaluationPlan, Grid, Preset

SHAPE = ModelShape(hidden=32, feed_forward=64, layers=1, heads=2, kv_heads=1, positions=128)
MAZES = TaskConfig("maze.task:maze_task", {"size": 7, "train": 100, "heldout": 12, "seed": 0})
PLAN = EvaluationPlan(every=2, mazes=6, samples=8, final_samples=16)
LONGEST = 18
"""tokens that hold every right path of a 7 x 7 maze, DONE and <eos>"""


def tiny_preset(sft_steps: int = 60, steps: int = 4) -> Preset:
    """The preset `smoke` at the size of a test; its model is new:tiny, which `with_tiny_shape` makes known."""
    smoke = presets.PRESETS["smoke"]
    rl = replace(
        smoke.rl, task=MAZES, steps=steps, prompts_per_step=4, checkpoint_every=2, probe_every=PLAN.every,
        sampling=replace(smoke.rl.sampling, group_size=4, max_new_tokens=LONGEST),
        optimizer=OptimizerConfig(learning_rate=1e-3, weight_decay=0.01),
    )  # fmt: skip
    supervised = SftConfig(sft_steps, 16, OptimizerConfig(learning_rate=1e-2))
    sft = replace(rl, model=ModelConfig(source="new:tiny"), sft=supervised, steps=0)
    return Preset(sft=sft, rl=rl, plan=PLAN, grid=Grid(group_sizes=(2, 4), gammas=(0.0, 1.0)))


def with_tiny_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the source new:tiny known."""
    monkeypatch.setitem(policy.SHAPES, "tiny", SHAPE)
