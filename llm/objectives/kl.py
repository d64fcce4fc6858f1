"""KL(policy || reference) at each token by the estimator k3 (Schulman 2020; GRPO's KL term).

    k3 = exp(d) - 1 - d,   d = log pi_ref - log pi

Limits: 0 at pi = pi_ref with zero gradient; never negative; its gradient (1 - exp(d)) grad log pi lowers the divergence
when it is descended, with or without an advantage. Written with expm1: nothing cancels near d = 0.
The reference is the starting policy, with its adapter if it has one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def k3(
    logprobs: Float[Tensor, "*shape token"], reference_logprobs: Float[Tensor, "*shape token"]
) -> Float[Tensor, "*shape token"]:
    """exp(d) - 1 - d, with d = reference - policy."""
    difference = reference_logprobs.detach() - logprobs
    return torch.expm1(difference) - difference
