"""The focal weight and the group advantage: the one place where they are typed (eqs. 3, 11, 12, 13).

Pure functions that work on numpy arrays and on torch tensors alike (on any device, inside a computation graph), without
importing torch: simulations, trainers and the TRL and verl adapters all call them. The last axis is the group
(`rewards: "prompt rollout"`).

A rollout that the verifier could not score is left out of N: its advantage is 0 and it has no part in the success rate.
Success is the verifier's boolean, apart from the reward's value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .foundation.checks import ArrayLike, FloatArray, as_float, as_gamma, refuse_masked, require


def focal_weight(success_rate: Any, gamma: float) -> Any:
    """(1 - success_rate) ** gamma, eq. 12. gamma = 0 gives 1 (plain GRPO); success_rate = 1 gives 0 for gamma > 0.

    success_rate: X / N in [0, 1] (eq. 11), any shape, array or tensor. gamma: at least 0. Raises ValueError.

    >>> focal_weight(np.array([0.0, 0.5, 1.0]), 2.0)
    array([1.  , 0.25, 0.  ])
    """
    gamma = as_gamma(gamma)
    rate = _numeric("success_rate", _no_booleans("success_rate", success_rate))
    if not bool(((rate >= 0) & (rate <= 1)).all()):
        raise ValueError(f"success_rate must lie in [0, 1], got values from {float(rate.min())} to {float(rate.max())}")
    return (1 - rate) ** gamma


def focal_weight_of_counts(group_size: FloatArray, correct: FloatArray, gamma: float) -> FloatArray:
    """The same from counts, (N - k) / N to the power gamma: 1 - k/N would lose digits where k is close to a large N.

    group_size, correct: checked whole numbers that broadcast, 0 <= k <= N. Source: eq. 12. Raises ValueError for gamma.

    >>> focal_weight_of_counts(np.array(4.0), np.array([1.0, 3.0]), 2.0)
    array([0.5625, 0.0625])
    """
    return np.asarray(((group_size - correct) / group_size) ** as_gamma(gamma))


def success_rate(success: Any, scorable: Any | None = None) -> Any:
    """X / N of each group (eq. 11), N counting the scorable rollouts only; 0 where there is none.

    success, scorable: "... rollout" booleans. Result: "...", float64, or torch's default dtype. Source: eq. 11.

    >>> success_rate(np.array([False, False, True]), scorable=np.array([False, True, True]))
    np.float64(0.5)
    """
    return _rate(_boolean("success", success), scorable, 1.0)


def success_from_rewards(rewards: Any, reward_correct: float, reward_wrong: float) -> Any:
    """(mean R - R_w) / (R_c - R_w): the success rate where only binary rewards are known (eq. 11).

    rewards: "... rollout", each R_c or R_w. Result: "...". Raises ValueError for any other reward, or R_c <= R_w.

    >>> success_from_rewards(np.array([1.0, -1.0, -1.0, -1.0]), 1.0, -1.0)
    np.float64(0.25)
    """
    require(
        reward_correct > reward_wrong,
        "reward_correct must be greater than reward_wrong",
        reward_correct=reward_correct,
        reward_wrong=reward_wrong,
    )
    rewards = _numeric("rewards", rewards)
    correct = rewards == reward_correct
    if not bool((correct | (rewards == reward_wrong)).all()):
        raise ValueError(
            f"rewards must be binary, reward_correct={reward_correct} or reward_wrong={reward_wrong}, "
            f"got values from {float(rewards.min())} to {float(rewards.max())}"
        )
    return success_rate(correct)


def group_advantage(rewards: Any, *, ddof: int, eps: float, scorable: Any | None = None) -> Any:
    """(R - mean R) / (std R + eps) within each group, eq. 3; exactly 0 where all rewards of a group are equal.

    rewards: "... rollout" floats. ddof: 0 (population std, figure 4) or 1 (torch.std, as TRL and verl). eps: added to the
    std, at least 0 (TRL 1e-4, verl 1e-6). scorable: booleans of the same shape; unscorable rollouts get 0 and do not
    count. Result: the shape of rewards. Raises ValueError, also for groups of one rollout.

    >>> group_advantage(np.array([1.0, 0.0, 0.0, 0.0]), ddof=0, eps=0.0).round(3)
    array([ 1.732, -0.577, -0.577, -0.577])
    >>> group_advantage(np.array([1.0, 0.0]), ddof=1, eps=0.0).round(4)
    array([ 0.7071, -0.7071])
    """
    require(ddof in (0, 1), "ddof must be 0 or 1", ddof=ddof)
    require(bool(np.isfinite(eps)) and eps >= 0, "eps must be finite and at least 0", eps=eps)
    rewards = _numeric("rewards", rewards)
    if rewards.ndim == 0 or rewards.shape[-1] < 2:
        raise ValueError(f"rewards must hold groups of at least 2 rollouts, got rewards.shape={tuple(rewards.shape)}")
    counted = (rewards == rewards) if scorable is None else _boolean("scorable", scorable)
    weight = counted * _one(rewards)
    total = weight.sum(-1)[..., None]
    # A NaN reward of an unscorable rollout must not reach the sums, so it is replaced, not multiplied by 0.
    reference = _first_counted(rewards, weight)
    shifted = _choose(counted, rewards - reference, 0.0)
    mean = shifted.sum(-1)[..., None] / (total + (total == 0))
    centred = _choose(counted, shifted - mean, 0.0)
    variance = (centred**2).sum(-1)[..., None] / _choose(total > ddof, total - ddof, 1.0)
    # Decided on the rewards themselves: rounding of the mean would leave a tiny std and advantages of size 1.
    mixed = (shifted != 0).any(-1)[..., None]
    deviation = _choose(mixed, variance, 1.0) ** 0.5 + eps
    return _choose(mixed, centred / deviation, 0.0)


def focal_advantage(
    rewards: Any, success: Any, gamma: float, *, ddof: int, eps: float, scorable: Any | None = None
) -> Any:
    """g * A for every rollout of the group, eq. 13. gamma = 0 is `group_advantage`, bit for bit.

    rewards, success, scorable: "... rollout". Raises ValueError.

    >>> focal_advantage(np.array([1.0, 1.0, 1.0, 0.0]), np.array([True, True, True, False]), 2.0, ddof=0, eps=0.0).round(4)
    array([ 0.0361,  0.0361,  0.0361, -0.1083])
    """
    advantage = group_advantage(rewards, ddof=ddof, eps=eps, scorable=scorable)
    rate = _rate(_boolean("success", success), scorable, _one(advantage))
    return focal_weight(rate, gamma)[..., None] * advantage


def _rate(success: Any, scorable: Any | None, one: Any) -> Any:
    """The success rate, with the dtype of `one`."""
    counted = success | ~success if scorable is None else _boolean("scorable", scorable)
    total = (counted * one).sum(-1)
    return ((success & counted) * one).sum(-1) / (total + (total == 0))


def _one(like: Any) -> Any:
    """1 with that dtype: a plain 1.0 would widen float32 arrays, and narrow counts to torch's default dtype."""
    return like.new_tensor(1.0) if _is_tensor(like) else like.dtype.type(1)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach")


def _no_booleans(name: str, value: Any) -> Any:
    """A verdict is no rate: one boolean a rollout where one rate a group is meant would pass for rates of 0 and 1."""
    dtype = value.dtype if _is_tensor(value) else np.asarray(value).dtype
    if str(dtype) in ("bool", "torch.bool"):
        raise ValueError(f"{name} must be numbers, not booleans, got {name}.dtype={dtype}")
    return value


def _numeric(name: str, value: Any) -> Any:
    if _is_tensor(value):
        return value if value.is_floating_point() else value.double()
    refuse_masked(name, value)
    array: ArrayLike = value
    if np.asarray(array).dtype == np.float32:
        return np.asarray(array)
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        return as_float(name, array)


def _boolean(name: str, value: Any) -> Any:
    if not _is_tensor(value):
        refuse_masked(name, value)
    array = value if _is_tensor(value) else np.asarray(value)
    if str(array.dtype) not in ("bool", "torch.bool"):
        raise ValueError(f"{name} must be booleans, got {name}.dtype={array.dtype}")
    return array


def _choose(condition: Any, value: Any, otherwise: float) -> Any:
    """where(condition, value, otherwise), with a zero gradient on what is not chosen."""
    if _is_tensor(value):
        return value.where(condition, value.new_tensor(otherwise))
    return np.where(condition, value, np.asarray(otherwise, dtype=value.dtype))


def _first_counted(rewards: Any, weight: Any) -> Any:
    """The first scorable reward of each group (any finite value where there is none), as a column."""
    index = weight.argmax(-1)[..., None]
    first = rewards.gather(-1, index) if _is_tensor(rewards) else np.take_along_axis(rewards, index, -1)
    return _choose(first == first, first, 0.0)
