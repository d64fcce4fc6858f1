"""MaxRL: advantages divided by the mean reward instead of the deviation (Tajwar et al. 2026, arXiv 2602.02710).

    A = (R - mean R) / (mean R + eps)

Limits: for rewards 1 and 0 with X of N correct, A = (N - X) / X for a correct rollout and -1 for a wrong one: rare
successes weigh most, and the weight of easy prompts goes to 0, as with a focal weight on GRPO.
Domain: rewards of at least 0. Degenerate case: equal rewards (all 0 too) give A = 0 exactly.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.foundation.checks import require

from .groups import centred, group_mean
from .settings import ObjectiveConfig


def advantage(
    config: ObjectiveConfig, rewards: Float[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Float[Tensor, "prompt rollout"]:
    """(R - mean R) / (mean R + eps). Raises ValueError for a negative reward."""
    lowest = float(torch.where(scorable, rewards, 0.0).min())
    require(lowest >= 0, "rewards must be at least 0 for the maxrl advantage", reward=lowest)
    deviation = centred(rewards, scorable)
    divisor = group_mean(rewards, scorable) + config.eps
    return torch.where(deviation == 0, 0.0, deviation / torch.where(divisor > 0, divisor, 1.0))
