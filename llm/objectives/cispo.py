"""CISPO: clip the importance weight, keep every token's gradient (MiniMax 2025, arXiv 2506.13585; appendix B).

    S = sg(clip(r, 1 - eps_low, 1 + eps_high)) A log pi                   sg: no gradient

Both bounds are offsets around 1, as in the paper: eps_low = 1 and eps_high = 5 clamp to [0, 6]. (TRL's `epsilon_high`
is an absolute cap, 6 for the same bound, and TRL has no lower bound; verl's is an offset.)
Limits: a ratio of 1 stays 1, and the gradient is A grad log pi, as GRPO's. With infinite bounds it is the plain
importance-weighted policy gradient. Degenerate case: A = 0 gives exactly no gradient.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from .grpo import Surrogate
from .settings import ObjectiveConfig


def surrogate(
    config: ObjectiveConfig,
    logprobs: Float[Tensor, "prompt rollout token"],
    log_ratio: Float[Tensor, "prompt rollout token"],
    advantages: Float[Tensor, "prompt rollout 1"],
) -> Surrogate:
    """sg(clip(r)) A log pi at each token; the gradient goes through `logprobs` alone."""
    ratio = log_ratio.detach().exp()
    low, high = 1 - config.eps_low, 1 + config.eps_high
    return Surrogate(ratio.clamp(low, high) * advantages * logprobs, ratio < low, ratio > high)
