"""Groups of rollouts: means over the scorable ones, and rollouts brought together by the identity of their prompt.

Left out on purpose: the standardised advantage and the focal weight, which are typed once, in fgrpo_theory.focal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fgrpo_theory.foundation.checks import require


def group_mean(
    values: Float[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Float[Tensor, "prompt 1"]:
    """Mean over the scorable rollouts of each group; 0 where there is none. NaN of unscorable rollouts is not read."""
    kept = torch.where(scorable, values, 0.0)
    return kept.sum(-1, keepdim=True) / scorable.sum(-1, keepdim=True).clamp(min=1)


def centred(
    rewards: Float[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Float[Tensor, "prompt rollout"]:
    """R - mean R; exactly 0 for unscorable rollouts and in groups whose rewards are all equal."""
    require(rewards.shape[-1] >= 2, "rewards must hold groups of at least 2 rollouts", shape=tuple(rewards.shape))
    highest = torch.where(scorable, rewards, -torch.inf).amax(-1, keepdim=True)
    lowest = torch.where(scorable, rewards, torch.inf).amin(-1, keepdim=True)
    # Decided on the rewards: the rounding of a mean would leave a tiny advantage.
    return torch.where(scorable & (highest > lowest), rewards - group_mean(rewards, scorable), 0.0)


def is_active(
    success: Bool[Tensor, "prompt rollout"], scorable: Bool[Tensor, "prompt rollout"]
) -> Bool[Tensor, " prompt"]:
    """0 < X < N, N counting the scorable rollouts."""
    return (success & scorable).any(-1) & (~success & scorable).any(-1)


def index_by_identity(
    groups: Sequence[Hashable],
) -> tuple[Int[Tensor, "prompt rollout"], Bool[Tensor, "prompt rollout"]]:
    """Where the rollouts of each prompt stand in a flat batch, whatever their order and however many there are.

    groups: one key a rollout. Returns (index, present): row i holds the positions of the i-th distinct key, in order of
    appearance; rows shorter than the longest are filled with index 0 and marked absent. Raises ValueError if empty.

    >>> index_by_identity(["p1", "p2", "p1"])[0].tolist()
    [[0, 2], [1, 0]]
    """
    require(len(groups) > 0, "groups must name at least one rollout", rollouts=len(groups))
    rows: dict[Hashable, list[int]] = {}
    for position, key in enumerate(groups):
        rows.setdefault(key, []).append(position)
    longest = max(map(len, rows.values()))
    index = torch.tensor([row + [0] * (longest - len(row)) for row in rows.values()])
    present = torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows.values()])
    return index, present
