"""Which rollouts are right: the verdict behind a reward, for trainers that hand over rewards alone.

Success is a boolean (eq. 11), the trainers know numbers. Rewards of -1, 0 and 1 need no explanation; anything else does, and
is refused without a threshold. The weight itself is `fgrpo_theory.focal_weight`; nothing of it is typed here.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from fgrpo_theory.foundation.checks import as_float, require


def checked_threshold(name: str, threshold: float | None) -> float | None:
    """`threshold` as a finite float, or None. Raises ValueError."""
    if threshold is None:
        return None
    value = as_float(name, threshold)
    require(
        bool(np.isfinite(value).all()) and value.ndim == 0, f"{name} must be one finite number", **{name: threshold}
    )
    return float(value)


def verdicts(
    rewards: Float[Tensor, " rollout"], threshold: float | None, *, name: str
) -> tuple[Bool[Tensor, " rollout"], Bool[Tensor, " rollout"]]:
    """(success, scorable) of each rollout; a NaN reward is unscorable and no success.

    threshold: a reward of at least this is a success. None: 1 is a success, 0 and -1 are not, and any other reward raises
    ValueError, since it may be a share of tests passed or a shaped reward. name: of the threshold, for that message.

    >>> import torch
    >>> [v.tolist() for v in verdicts(torch.tensor([1.0, 0.0, torch.nan]), None, name="success_threshold")]
    [[True, False, False], [True, True, False]]
    """
    scorable = ~rewards.isnan()
    if threshold is not None:
        return rewards >= threshold, scorable
    odd = scorable & (rewards != 1) & (rewards != 0) & (rewards != -1)
    if bool(odd.any()):
        value = float(rewards[odd][0])
        raise ValueError(f"{name} must be set, since not all rewards are -1, 0 or 1, got reward={value:.6g}")
    return rewards == 1, scorable
