"""verl's own trainer configuration, composed by hydra from override lines, and batches as its trainer has them."""

from __future__ import annotations

import functools

import numpy as np
import torch
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from verl import DataProto


@functools.cache
def composed(*overrides: str) -> DictConfig:
    """The same object for the same lines: composing takes longer than most tests. Nobody writes to it."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def focal(gamma: float, *overrides: str, n: int = 8) -> DictConfig:
    """The configuration of a run with fgrpo: what `main_ppo` would hand to the trainer."""
    lines = ["algorithm.adv_estimator=fgrpo", f"+algorithm.focal_gamma={gamma}", f"actor_rollout_ref.rollout.n={n}"]
    return composed(*lines, *overrides)


def batch(scores: list[float], uids: list[str], lengths: list[int] | None = None, width: int = 6) -> DataProto:
    """One row a rollout; the reward stands on the last token of the response, as verl's reward loop puts it."""
    lengths = lengths or [2 + row % (width - 2) for row in range(len(scores))]
    rewards, mask = torch.zeros(len(scores), width), torch.zeros(len(scores), width)
    for row, (score, length) in enumerate(zip(scores, lengths, strict=True)):
        rewards[row, length - 1] = score
        mask[row, :length] = 1.0
    tensors = {"token_level_scores": rewards, "token_level_rewards": rewards.clone(), "response_mask": mask}
    return DataProto.from_dict(tensors=tensors, non_tensors={"uid": np.array(uids, dtype=object)})
