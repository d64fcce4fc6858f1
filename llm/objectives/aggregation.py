"""How token losses become one loss: a weight for each token that does not depend on the micro-batches.

    token      1 / T                 T: loss tokens of the whole optimizer step; the paper's and DAPO's choice
    sequence   1 / (S len_i)         S: rollouts with a loss token, len_i: the rollout's loss tokens; GRPO's first form
    constant   1 / (S max_new_tokens)                                    Dr.GRPO

`step_total` is a plain sum over rollouts, so it is summed over micro-batches and ranks before the first backward pass;
the weights of all parts then add up to the whole. One mask decides: what is not in it is in no numerator or denominator.
Degenerate case: nothing in the mask gives weights, loss and gradients of 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.foundation.checks import as_choice

from .settings import AGGREGATIONS


def loss_mask(
    mask: Bool[Tensor, "prompt rollout token"], scorable: Bool[Tensor, "prompt rollout"]
) -> Bool[Tensor, "prompt rollout token"]:
    """The tokens of scorable rollouts. (With truncated="masked", truncated rollouts are not scorable.)"""
    return mask & scorable[..., None]


def step_total(aggregation: str, mask: Bool[Tensor, "prompt rollout token"], max_new_tokens: int) -> float:
    """This part's share of the denominator: loss tokens, or rollouts, or rollouts * max_new_tokens."""
    as_choice("aggregation", aggregation, AGGREGATIONS)
    if aggregation == "token":
        return float(mask.sum())
    return float(mask.any(-1).sum()) * (max_new_tokens if aggregation == "constant" else 1)


def token_weight(
    aggregation: str, mask: Bool[Tensor, "prompt rollout token"], total: float, dtype: torch.dtype
) -> Float[Tensor, "prompt rollout token"]:
    """Each token's weight, 0 outside the mask. total: `step_total` summed over the optimizer step."""
    weight = mask.to(dtype) / max(total, 1.0)
    if aggregation == "sequence":
        weight = weight / mask.sum(-1, keepdim=True).clamp(min=1)
    return weight
