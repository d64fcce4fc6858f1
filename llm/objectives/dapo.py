"""DAPO's additions to GRPO (Yu et al. 2025, arXiv 2503.14476): clip-higher, soft length penalty, dynamic sampling.

Clip-higher is grpo.surrogate with eps_high > eps_low (0.28 and 0.2): unlikely tokens may grow more before the clip.
Dynamic sampling keeps groups with 0 < X < N and draws further prompts in place of the rest (rollout_batch.py).

    penalty(L) = 0                          L <= max - buffer
               = (L - (max - buffer)) / buffer       between
               = 1                          L >= max                      reward: R - overlong_penalty * penalty(L)

Limits: buffer = 0 is no penalty. Domain: 0 <= buffer <= max_new_tokens. Success is not touched: the focal weight of a
group does not depend on lengths.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from fgrpo_theory.foundation.checks import require

from .settings import ObjectiveConfig


def length_penalty(
    config: ObjectiveConfig, lengths: Int[Tensor, "prompt rollout"], max_new_tokens: int
) -> Float[Tensor, "prompt rollout"]:
    """What to subtract from the rewards, in [0, overlong_penalty]. Raises ValueError if the buffer is too long."""
    buffer = config.overlong_buffer
    require(buffer <= max_new_tokens, "overlong_buffer must be at most max_new_tokens",
            overlong_buffer=buffer, max_new_tokens=max_new_tokens)  # fmt: skip
    over = (lengths - (max_new_tokens - buffer)).double() / max(buffer, 1)
    return over.clamp(0.0, 1.0 if buffer else 0.0) * config.overlong_penalty
