"""F-GRPO in verl: the advantage estimator `fgrpo`, found by verl through the entry point group `verl.plugins`.

    python -m verl.trainer.main_ppo algorithm.adv_estimator=fgrpo +algorithm.focal_gamma=1.0 ...

verl's own GRPO advantage (`norm_adv_by_std_in_grpo` is honoured) times g = (1 - X/N)^gamma of the prompt's group (eqs. 11 to 13 of
arXiv 2602.06717). Groups go by uid, whatever the order of rows. The exponent is `algorithm.focal_gamma`, since `algorithm.gamma` is
verl's discount. `algorithm.focal_success_threshold` is the least score of a success; without it scores must be -1, 0 or 1.

verl hands an estimator the reward alone, so the verifier's score is won back from it: the DAPO reward manager's overlong penalty
is a known function of the length, and is taken out; a KL penalty in the reward cannot be, and is refused (verl's GRPO has it in
the loss). Left out: agent loops that make several rows of one rollout; they are refused too. See docs/verl.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from verl.trainer.ppo import core_algos

from fgrpo_theory.focal import focal_weight, success_rate
from fgrpo_theory.foundation.checks import as_gamma

from .success import checked_threshold, verdicts

THRESHOLD = "algorithm.focal_success_threshold"


@core_algos.register_adv_est("fgrpo")
def focal_grpo_advantage(
    token_level_rewards: Float[Tensor, "rollout token"],
    response_mask: Tensor,
    index: np.ndarray,
    config: Any,
    **_: Any,
) -> tuple[Float[Tensor, "rollout token"], Float[Tensor, "rollout token"]]:
    """(advantages, returns), equal as in verl's GRPO; what verl calls for `algorithm.adv_estimator=fgrpo`.

    index: the uid of each row's prompt. config: verl's algorithm section. A rollout whose reward is NaN is unscorable: out of N
    and of the baseline, with advantage 0; a rollout whose siblings are all unscorable has advantage 0 too. focal_gamma = 0 is
    verl's GRPO bit for bit (where no reward is NaN). Raises ValueError.
    """
    gamma, threshold = _options(config)
    score = verifier_score(token_level_rewards, response_mask, config)
    success, scorable = verdicts(score, threshold, name=THRESHOLD)
    groups = _groups(index, config)
    advantages = _verl_advantage(token_level_rewards, response_mask, index, config, scorable)
    weight = torch.ones_like(score)
    for rows in groups:
        weight[rows] = focal_weight(success_rate(success[rows], scorable[rows]).to(weight), gamma)
        if len(rows) > 1 and int(scorable[rows].sum()) == 1:
            # verl passes the raw reward of a group of one on as its advantage; this one is alone by mishap only.
            advantages[rows] = 0.0
    advantages = advantages * weight[:, None]
    return advantages, advantages


def verifier_score(
    token_level_rewards: Float[Tensor, "rollout token"], response_mask: Tensor, config: Any
) -> Float[Tensor, " rollout"]:
    """The verifier's score of each response: its reward without the overlong penalty of verl's DAPO reward manager.

    Exact to four decimals where a penalty was taken out, else to the bit. Raises ValueError where the score is lost.
    """
    if config.get("use_kl_in_reward", False):
        raise ValueError(
            "algorithm.use_kl_in_reward must be False with fgrpo, since the verifier's score is lost in the sum; put the "
            "penalty in the loss (actor_rollout_ref.actor.use_kl_loss=True), got algorithm.use_kl_in_reward=True"
        )
    reward = token_level_rewards.sum(-1)
    buffer = _whole(config, "reward.reward_kwargs.overlong_buffer_cfg")
    if buffer is None or not buffer.enable or _whole(config, "reward.reward_manager.name") != "dapo":
        return reward
    rejection = (config.get("rollout_correction") or {}).get("rollout_rs")
    if rejection is not None:
        raise ValueError(
            "algorithm.rollout_correction.rollout_rs must be null with fgrpo and an overlong penalty, since rejected tokens "
            f"hide the length of a response, got rollout_rs={rejection}"
        )
    # A zero of the mask within a response is a tool's token: the length ends at the last own token, or at the reward.
    position = torch.arange(1, response_mask.shape[1] + 1, device=response_mask.device)
    last = ((response_mask != 0) | (token_level_rewards != 0)) * position
    start = _whole(config, "reward.reward_kwargs.max_resp_len") - buffer.len
    penalty = ((start - last.amax(-1)) / buffer.len * buffer.penalty_factor).clamp(max=0)
    return torch.where(penalty < 0, (reward - penalty).round(decimals=4), reward)


def _options(config: Any) -> tuple[float, float | None]:
    gamma = None if config is None else config.get("focal_gamma")
    if gamma is None:
        raise ValueError("algorithm.focal_gamma must be set with fgrpo (+algorithm.focal_gamma=1.0), got none")
    return as_gamma(gamma), checked_threshold(THRESHOLD, config.get("focal_success_threshold"))


def _groups(index: np.ndarray, config: Any) -> list[list[int]]:
    """The rows of each uid. More rows than rollouts are several rows of one rollout, which would count X and N wrongly."""
    rows: dict[Any, list[int]] = defaultdict(list)
    for row, uid in enumerate(index):
        rows[uid].append(row)
    rollouts = _whole(config, "actor_rollout_ref.rollout.n")
    largest = max(map(len, rows.values()))
    if rollouts is not None and largest > rollouts:
        raise ValueError(
            "fgrpo needs one row a rollout, at most actor_rollout_ref.rollout.n rows of a uid (agent loops with several "
            f"outputs a rollout are not supported), got {largest} rows with n={rollouts}"
        )
    return list(rows.values())


def _verl_advantage(
    rewards: Float[Tensor, "rollout token"],
    response_mask: Tensor,
    index: np.ndarray,
    config: Any,
    scorable: Bool[Tensor, " rollout"],
) -> Float[Tensor, "rollout token"]:
    """verl's GRPO over the scorable rows; 0 for the others."""
    advantages = torch.zeros_like(rewards)
    advantages[scorable], _ = core_algos.compute_grpo_outcome_advantage(
        token_level_rewards=rewards[scorable],
        response_mask=response_mask[scorable],
        index=index[scorable.cpu().numpy()],
        norm_adv_by_std_in_grpo=config.get("norm_adv_by_std_in_grpo", True),
    )
    return advantages


def _whole(config: Any, key: str) -> Any:
    """An entry of the configuration that the algorithm section is a part of; None where it is not set, or stands alone."""
    parent = config._get_parent() if isinstance(config, DictConfig) else None
    return None if parent is None else OmegaConf.select(parent, key)
