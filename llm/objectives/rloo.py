"""RLOO: each rollout against the mean of the others (Ahmadian et al. 2024, arXiv 2402.14740).

    A_i = R_i - mean of R_j, j != i  =  N / (N - 1) (R_i - mean R)

Limits: for large N it is Dr.GRPO's advantage; the baseline does not see its own rollout, so the estimate is unbiased.
Domain: groups of at least 2 rollouts. Degenerate case: equal rewards, or one scorable rollout, give A = 0 exactly.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from .groups import centred
from .settings import ObjectiveConfig


def advantage(
    config: ObjectiveConfig, rewards: Float[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Float[Tensor, "prompt rollout"]:
    """N / (N - 1) (R - mean R), N counting the scorable rollouts; `config` is not used."""
    total = scorable.sum(-1, keepdim=True)
    return centred(rewards, scorable) * (total / (total - 1).clamp(min=1))
