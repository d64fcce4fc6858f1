"""The maze study's named scales: mazes, model, supervised start, RL, evaluation and grid (section 5.2, appendix K).

`smoke` runs everything end to end in about two minutes on two cores and shows nothing; `laptop` is the study that two
cores can do; `paper` has all settings of appendix K and is for a GPU: built and checked in the tests, not measured on a GPU.
Where the paper is silent: weight decay 0.01 and gradient clipping at 1, as in its language-model runs (appendix L); the group
std has ddof 1 and eps 1e-6, as verl's. Mazes and prompts' order depend on the seed, never on the arm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgrpo_theory.foundation.checks import as_choice, as_gamma, as_whole, require
from llm.config import ModelConfig, OptimizerConfig, SamplingConfig, SftConfig, TaskConfig, TrainConfig
from llm.objectives.settings import OBJECTIVES

OBJECTIVE_NAMES = ("grpo", "maxrl", "rloo", "ds_grpo")


@dataclass(frozen=True)
class EvaluationPlan:
    """When and how held-out mazes are sampled, at temperature 1."""

    every: int = 25
    """RL steps between two evaluations; the start and the end are always evaluated"""
    mazes: int = 128
    """held-out mazes, the first ones"""
    samples: int = 256
    """samples a maze during training"""
    final_samples: int = 2048
    """samples a maze at the end"""
    batch_size: int = 8192
    """samples decoded at once; no effect on the result"""

    def __post_init__(self) -> None:
        for name in ("every", "mazes", "samples", "final_samples", "batch_size"):
            as_whole(name, getattr(self, name))


@dataclass(frozen=True)
class Grid:
    """The arms of a study: every group size with every gamma, objective and seed."""

    group_sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    """N"""
    gammas: tuple[float, ...] = (0.0, 0.5, 1.0)
    """focal exponents"""
    objectives: tuple[str, ...] = ("grpo",)
    """names of llm's objectives"""
    seeds: tuple[int, ...] = (0,)
    """roots of the random streams; all arms of a seed share prompts and start"""

    def __post_init__(self) -> None:
        for name in ("group_sizes", "gammas", "objectives", "seeds"):
            values = getattr(self, name)
            require(0 < len(values) == len(set(values)), f"{name} must be distinct and not empty", **{name: values})
        as_whole("group_sizes", self.group_sizes, least=2)
        as_whole("seeds", self.seeds, least=0)
        for gamma in self.gammas:
            as_gamma(gamma)
        for objective in self.objectives:
            as_choice("objectives", objective, OBJECTIVE_NAMES)


@dataclass(frozen=True)
class Preset:
    """One scale of the study."""

    sft: TrainConfig
    """the supervised run that makes the start"""
    rl: TrainConfig
    """RL from the start, to be varied by the grid"""
    plan: EvaluationPlan
    """how held-out mazes are sampled"""
    grid: Grid
    """the study's arms"""
    measured: bool = True
    """whether this project has run it"""


def _mazes(size: int, train: int, heldout: int) -> TaskConfig:
    return TaskConfig("maze.task:maze_task", {"size": size, "train": train, "heldout": heldout, "seed": 0})


def _preset(
    shape: str, start: str, task: TaskConfig, sft_steps: int, rl: TrainConfig, plan: EvaluationPlan, grid: Grid,
    *, measured: bool = True,
) -> Preset:  # fmt: skip
    """start: folder or name of RL's first policy; "start" stands for the one that the study trains.

    SFT: batch 32, lr 5e-4; RL: lr 1e-4, one update a step. Both AdamW.
    """
    supervised = SftConfig(sft_steps, 32, OptimizerConfig(learning_rate=5e-4, weight_decay=0.01))
    shared = {"task": task, "optimizer": OptimizerConfig(learning_rate=1e-4, weight_decay=0.01), "log_entropy": False}
    return Preset(
        sft=replace(rl, model=ModelConfig(source=f"new:{shape}"), sft=supervised, steps=0, **shared),
        rl=replace(rl, model=ModelConfig(source=start), probe_every=plan.every, **shared),
        plan=plan, grid=grid, measured=measured,
    )  # fmt: skip


PRESETS = {
    "smoke": _preset(
        "smoke", "start", _mazes(9, 20_000, 64), 150,
        TrainConfig(sampling=SamplingConfig(group_size=8, max_new_tokens=20), steps=6, prompts_per_step=16,
                    micro_batch_tokens=32768, checkpoint_every=50),
        EvaluationPlan(every=3, mazes=32, samples=64, final_samples=256),
        Grid(group_sizes=(4, 16), gammas=(0.0, 1.0)),
    ),
    "laptop": _preset(
        "laptop", "laptop", _mazes(11, 100_000, 256), 700,
        TrainConfig(sampling=SamplingConfig(group_size=8, max_new_tokens=30), steps=100, prompts_per_step=32,
                    micro_batch_tokens=32768, checkpoint_every=25),
        EvaluationPlan(), Grid(),
    ),
    "paper": _preset(
        "paper", "start", _mazes(17, 1_000_000, 256), 1500,
        TrainConfig(sampling=SamplingConfig(group_size=8, max_new_tokens=64), steps=20_000, prompts_per_step=256,
                    micro_batch_tokens=262_144, checkpoint_every=200),
        EvaluationPlan(every=200, mazes=256, samples=256, final_samples=2048, batch_size=65536), Grid(), measured=False,
    ),
}  # fmt: skip


def arm(rl: TrainConfig, objective: str, group_size: int, gamma: float, seed: int) -> TrainConfig:
    """The RL configuration of one arm. Raises ValueError for an unknown objective or values outside their domain."""
    as_choice("objective", objective, tuple(OBJECTIVES))
    return replace(
        rl, objective=replace(OBJECTIVES[objective], gamma=gamma), seed=seed,
        sampling=replace(rl.sampling, group_size=group_size),
    )  # fmt: skip
