"""Objectives: each method a short module, put together here and nowhere else.

    advantages(config, ...)     group advantage (grpo, dr_grpo, rloo, maxrl), DS-GRPO's smoothing, times the focal weight
    policy_loss(config, ...)    surrogate (clip, cispo), KL and entropy terms, aggregated over the optimizer step

Left out on purpose: rewards, sampling and log-probs; these are functions of tensors alone.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.focal import focal_weight, success_rate
from fgrpo_theory.foundation.checks import require

from . import cispo, dr_grpo, grpo, maxrl, rloo
from .aggregation import loss_mask, step_total, token_weight
from .dapo import length_penalty
from .ds_grpo import smoothed
from .groups import index_by_identity, is_active
from .kl import k3
from .settings import OBJECTIVES, ObjectiveConfig

__all__ = [
    "OBJECTIVES", "ObjectiveConfig", "advantages", "index_by_identity", "is_active", "length_penalty", "loss_mask",
    "policy_loss", "step_total",
]  # fmt: skip

_ADVANTAGE = {"grpo": grpo.advantage, "dr_grpo": dr_grpo.advantage, "rloo": rloo.advantage, "maxrl": maxrl.advantage}
_SURROGATE = {"clip": grpo.surrogate, "cispo": cispo.surrogate}
# exp(20) is far outside every clip; beyond it a ratio could overflow and turn a zero advantage into NaN.
_LARGEST_LOG_RATIO = 20.0

Metrics = dict[str, tuple[float, float]]


def advantages(
    config: ObjectiveConfig,
    rewards: Float[Tensor, "prompt rollout"],
    success: Bool[Tensor, "prompt rollout"],
    scorable: Bool[Tensor, "prompt rollout"],
    *,
    old_logprobs: Float[Tensor, "prompt rollout token"] | None = None,
    mask: Bool[Tensor, "prompt rollout token"] | None = None,
) -> Float[Tensor, "prompt rollout"]:
    """g * A of each rollout (eq. 13); 0 for unscorable ones. g comes from `success`, never from the shaped rewards.

    rewards: R, NaN allowed where not scorable. old_logprobs, mask: needed if config.smoothing > 0 (DS-GRPO).
    Raises ValueError, also for groups of one rollout.
    """
    result: Tensor = _ADVANTAGE[config.advantage](config, rewards, scorable)
    if config.smoothing > 0:
        if old_logprobs is None or mask is None:
            raise ValueError(f"old_logprobs and mask must be given when smoothing is above 0, got {config.smoothing}")
        result = smoothed(result, config.smoothing, old_logprobs, mask, success, scorable)
    weight = focal_weight(success_rate(success, scorable), config.gamma)
    weighed: Tensor = result * weight[..., None].to(result.dtype)
    return weighed.to(rewards.dtype)


def policy_loss(
    config: ObjectiveConfig,
    logprobs: Float[Tensor, "prompt rollout token"],
    old_logprobs: Float[Tensor, "prompt rollout token"],
    advantages: Float[Tensor, "prompt rollout"],
    mask: Bool[Tensor, "prompt rollout token"],
    *,
    token_total: float,
    reference_logprobs: Float[Tensor, "prompt rollout token"] | None = None,
    entropy: Float[Tensor, "prompt rollout token"] | None = None,
) -> tuple[Float[Tensor, ""], Metrics]:
    """This part's share of the optimizer step's loss, and metrics as (weighted sum, weight) over its loss tokens.

    logprobs: of the policy being trained; old_logprobs: of the policy that sampled; both natural logs. mask: loss tokens
    (`loss_mask`); what lies outside is never read. token_total: `step_total` summed over all parts of the step.
    reference_logprobs: needed if config.kl > 0. entropy: needed if config.entropy_bonus > 0, logged whenever given.
    Raises ValueError.
    """
    _check(config, reference_logprobs, entropy)
    # Low precision is lifted before any difference; what the mask leaves out may be anything, so it is replaced.
    dtype = torch.promote_types(logprobs.dtype, torch.float32)
    lp = torch.where(mask, logprobs.to(dtype), 0.0)
    old = torch.where(mask, old_logprobs.detach().to(dtype), 0.0)
    log_ratio = (lp - old).clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
    weight = token_weight(config.aggregation, mask, token_total, dtype)
    token = _SURROGATE[config.surrogate](config, lp, log_ratio, advantages.to(dtype)[..., None])
    value = token.value
    metrics = {"ratio": log_ratio.detach().exp(), "clip_low": token.clipped_low, "clip_high": token.clipped_high}
    if reference_logprobs is not None:
        divergence = k3(lp, torch.where(mask, reference_logprobs.to(dtype), 0.0))
        value = value - config.kl * divergence
        metrics["kl"] = divergence
    if entropy is not None:
        uncertainty = torch.where(mask, entropy.to(dtype), 0.0)
        if config.entropy_bonus:
            value = value + config.entropy_bonus * uncertainty
        metrics["entropy"] = uncertainty
    return -(weight * value).sum(), _over_tokens(metrics, mask)


def _check(config: ObjectiveConfig, reference_logprobs: Tensor | None, entropy: Tensor | None) -> None:
    require((reference_logprobs is not None) or not config.kl, "reference_logprobs must be given for kl", kl=config.kl)
    require((entropy is not None) or not config.entropy_bonus, "entropy must be given for entropy_bonus",
            entropy_bonus=config.entropy_bonus)  # fmt: skip


def _over_tokens(values: dict[str, Tensor], mask: Tensor) -> Metrics:
    """(sum over the loss tokens, their number) of each value, so that unequal parts can be added."""
    count = float(mask.sum())
    return {name: (float((value.detach().double() * mask).sum()), count) for name, value in values.items()}
