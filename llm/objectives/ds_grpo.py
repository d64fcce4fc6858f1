"""DS-GRPO, differential smoothing: flatten the policy over right answers, sharpen it against wrong ones (Gai et al. 2025,
arXiv 2511.19942; appendix L's control).

    A' = A - c l   for correct rollouts,   A + c l   for wrong ones,   l = mean of log pi_old over the rollout's tokens

Since l <= 0, every correct rollout gains and an unlikely one gains most; an unlikely wrong one loses most.
Limits: c = 0 is plain GRPO. Domain: rollouts of at least one token. Degenerate case: a group with equal rewards keeps
the smoothing term, so with c > 0 it does have a gradient; unscorable rollouts have none.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def smoothed(
    advantages: Float[Tensor, "prompt rollout"],
    smoothing: float,
    old_logprobs: Float[Tensor, "prompt rollout token"],
    mask: Bool[Tensor, "prompt rollout token"],
    success: Bool[Tensor, "prompt rollout"],
    scorable: Bool[Tensor, "prompt rollout"],
) -> Float[Tensor, "prompt rollout"]:
    """A -/+ c l, with no gradient through l. mask: the tokens of each rollout."""
    total = torch.where(mask, old_logprobs.detach(), 0.0).sum(-1)
    mean = (total / mask.sum(-1).clamp(min=1)).to(advantages.dtype)
    return torch.where(
        scorable, torch.where(success, advantages - smoothing * mean, advantages + smoothing * mean), 0.0
    )
