"""GRPO: standardised group advantages under a clipped ratio (Shao et al. 2024, arXiv 2402.03300; eq. 3, appendix B).

    A = (R - mean R) / (std R + eps)          S = min(r A, clip(r, 1 - eps_low, 1 + eps_high) A),   r = pi / pi_old

Limits: at r = 1, S = A and its gradient is A grad log pi. Once r > 1 + eps_high with A > 0, or r < 1 - eps_low with
A < 0, the token has no gradient. Domain: groups of at least 2 rollouts.
Degenerate case: a group with equal rewards has A = 0 and exactly no gradient.
Left out on purpose: the division by each rollout's own length; the paper takes the token-mean (see aggregation.py).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.focal import group_advantage

from .settings import ObjectiveConfig


class Surrogate(NamedTuple):
    """The quantity to be maximised at each token, and where the ratio is clipped."""

    value: Float[Tensor, "prompt rollout token"]
    clipped_low: Bool[Tensor, "prompt rollout token"]
    clipped_high: Bool[Tensor, "prompt rollout token"]


def advantage(
    config: ObjectiveConfig, rewards: Float[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Float[Tensor, "prompt rollout"]:
    """Eq. 3, by fgrpo_theory.focal.group_advantage with this objective's ddof and eps."""
    result: Tensor = group_advantage(rewards, ddof=config.ddof, eps=config.eps, scorable=scorable)
    return result


def surrogate(
    config: ObjectiveConfig,
    logprobs: Float[Tensor, "prompt rollout token"],
    log_ratio: Float[Tensor, "prompt rollout token"],
    advantages: Float[Tensor, "prompt rollout 1"],
) -> Surrogate:
    """min(r A, clip(r, 1 - eps_low, 1 + eps_high) A) at each token; `logprobs` is not used."""
    ratio = log_ratio.exp()
    low, high = 1 - config.eps_low, 1 + config.eps_high
    value = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
    return Surrogate(value, (ratio < low) & (advantages < 0), (ratio > high) & (advantages > 0))
