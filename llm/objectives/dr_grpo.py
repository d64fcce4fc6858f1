"""Dr.GRPO: centred rewards, no division by the standard deviation or by lengths (Liu et al. 2025, arXiv 2503.20783).

    A = R - mean R,   every loss token weighs 1 / (rollouts * max_new_tokens)  (aggregation "constant")

Limits: hard and easy prompts weigh by their variance, X/N (1 - X/N), where GRPO's division lifts both.
Domain: groups of at least 2 rollouts. Degenerate case: equal rewards give A = 0 exactly.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from .groups import centred
from .settings import ObjectiveConfig


def advantage(
    config: ObjectiveConfig, rewards: Float[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Float[Tensor, "prompt rollout"]:
    """R - mean R over the scorable rollouts; `config` is not used."""
    return centred(rewards, scorable)
