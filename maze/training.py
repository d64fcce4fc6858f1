"""One run on mazes, supervised or RL: llm's training run with the maze's model, task and evaluation.

The run folder is llm's (see `llm.training_run`), with `evaluation/` (see `maze.evaluation`) and, in each RL row of
metrics.jsonl, the counts of every group under "groups". Left out on purpose: a loop of its own.
"""

from __future__ import annotations

from pathlib import Path

from fgrpo_theory.foundation.checks import require
from llm.config import TrainConfig
from llm.distributed import pick_device, start_world
from llm.tasks import load_task
from llm.training_run import run_phases

from .evaluation import HeldoutProbe
from .policy import make_policy
from .presets import EvaluationPlan
from .task import MazeTask


def task_of(config: TrainConfig) -> MazeTask:
    """The mazes of a configuration. Raises ValueError if its task is another one."""
    require(config.task.name == "maze.task:maze_task", "task.name must be maze.task:maze_task", name=config.task.name)
    task = load_task(config.task.name, config.task.options)
    assert isinstance(task, MazeTask)
    return task


def train_mazes(config: TrainConfig, out: Path | str, plan: EvaluationPlan | None = None) -> Path:
    """Train, or go on training, into `out`; returns the finished folder. Without a plan nothing is evaluated.

    Raises FileExistsError if the run is finished, ValueError if a partial run there has another configuration, and
    llm.loop.Interrupted if it was asked to stop (a checkpoint is saved).
    """
    with start_world(pick_device(config.model.device)) as world:
        policy = make_policy(config.model.source, config.seed, world.device)
        task = task_of(config)
        probe = HeldoutProbe(policy, task, config, plan, world.is_first) if plan is not None else None
        return run_phases(policy, task, config, Path(out), world, probe=probe, log_groups=True)
