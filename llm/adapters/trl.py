"""F-GRPO in TRL: `FocalGRPOTrainer` for `trl.GRPOTrainer`, `FocalMixin` for a subclass of it.

    from llm.adapters.trl import FocalGRPOTrainer

    trainer = FocalGRPOTrainer(model=..., reward_funcs=accuracy_reward, args=..., train_dataset=..., gamma=1.0)

TRL's advantages, whatever its `scale_rewards`, times g = (1 - X/N)^gamma of their group (eqs. 11 to 13 of arXiv 2602.06717). X/N
is read from one named reward column, as gathered over all processes, so a group that straddles processes has one weight. The
weight goes into each sample's advantage as soon as TRL has computed it: later shuffling, buffering and evaluation cannot mix
weights up. gamma = 0 multiplies by exactly 1: TRL bit for bit.

Two methods of TRL are extended, `_calculate_rewards` and `_generate_and_score_completions`; both exist from TRL 0.19 on.
Left out: trainers that compute advantages elsewhere (AsyncGRPOTrainer does it in a child process) or differently
(RLOOTrainer); they are refused. See docs/trl.md.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from trl import GRPOTrainer

from fgrpo_theory.focal import focal_weight, success_rate
from fgrpo_theory.foundation.checks import as_gamma

from .success import checked_threshold, verdicts

if TYPE_CHECKING:
    from trl import GRPOTrainer as _Trainer
else:
    # The mixin stands before any trainer of the family; what it is mixed into brings TRL's methods.
    _Trainer = object

REQUIRED_METHODS = ("_calculate_rewards", "_generate_and_score_completions")


class FocalMixin(_Trainer):
    """Put before a subclass of `trl.GRPOTrainer`: `class MyFocalTrainer(FocalMixin, MyTrainer)`.

    gamma: the focal exponent, at least 0; 0 is the trainer without the mixin, bit for bit.
    success_reward: name of the reward function whose reward is the verdict; may be left out if there is only one. A verdict
        that shall not be part of the reward has `reward_weights` 0 in TRL's configuration.
    success_threshold: a reward of at least this is a success. None: 1 is, 0 and -1 are not, anything else is refused.

    A reward of None or NaN is unscorable and left out of N. Everything else goes to the trainer. Logs `focal/weight`,
    `focal/success_rate` and `focal/unscorable`. Raises ValueError for bad arguments and for trainers outside the GRPO family.
    """

    def __init__(
        self,
        *args: Any,
        gamma: float,
        success_reward: str | None = None,
        success_threshold: float | None = None,
        **kwargs: Any,
    ) -> None:
        _require_grpo(type(self))
        self.focal_gamma = as_gamma(gamma)
        self._success_threshold = checked_threshold("success_threshold", success_threshold)
        self._focal_weights: Tensor | None = None
        super().__init__(*args, **kwargs)
        self._success_column = _column_of(success_reward, self.reward_func_names)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Float[Tensor, "rollout function"]:
        """TRL's rewards of all processes; their weights are kept for `_generate_and_score_completions`, its only caller."""
        rewards: Tensor = super()._calculate_rewards(*args, **kwargs)
        self._focal_weights = self._weigh(rewards[:, self._success_column])
        return rewards

    def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """TRL's batch of this process, each sample's advantage times the weight of its group."""
        self._focal_weights = None
        batch: dict[str, Any] = super()._generate_and_score_completions(*args, **kwargs)
        weights, self._focal_weights = self._focal_weights, None
        advantages = batch["advantages"]
        if weights is None or len(weights) != len(advantages) * self.accelerator.num_processes:
            raise ValueError(
                "FocalMixin must stand before a trainer that scores every completion with _calculate_rewards, got "
                f"{type(self).__name__} with {len(advantages)} advantages and {0 if weights is None else len(weights)} rewards"
            )
        own = weights[self.accelerator.process_index * len(advantages) :][: len(advantages)]
        batch["advantages"] = advantages * own.reshape(-1, *[1] * (advantages.dim() - 1))
        _weigh_newest(self._logged_advantages(), weights)
        return batch

    def _weigh(self, rewards: Float[Tensor, " rollout"]) -> Float[Tensor, " rollout"]:
        """The weight of each rollout's group, from the rewards of all processes; groups lie in a row, as TRL has them."""
        training = self.model.training
        apart = not training and hasattr(self, "num_generations_eval")
        group_size: int = self.num_generations_eval if apart else self.num_generations
        success, scorable = (
            flags.view(-1, group_size) for flags in verdicts(rewards, self._success_threshold, name="success_threshold")
        )
        rate = success_rate(success, scorable).to(rewards)
        weight: Tensor = focal_weight(rate, self.focal_gamma)
        metrics = self._metrics["train" if training else "eval"]
        judged = scorable.any(1)
        if bool(judged.any()):
            metrics["focal/success_rate"].append(rate[judged].mean().item())
            metrics["focal/weight"].append(weight[judged].mean().item())
        metrics["focal/unscorable"].append(1 - scorable.float().mean().item())
        return weight.repeat_interleave(group_size)

    def _logged_advantages(self) -> deque[float]:
        """TRL's record for the completions table; `_textual_logs` is its name in early releases."""
        logs: dict[str, deque[float]] = self._logs if hasattr(self, "_logs") else self._textual_logs
        return logs["advantages"]


class FocalGRPOTrainer(FocalMixin, GRPOTrainer):
    """`trl.GRPOTrainer` with the focal weight: the same arguments, and `gamma`; see `FocalMixin` for those that are added."""


def _require_grpo(trainer: type) -> None:
    if not issubclass(trainer, GRPOTrainer) or not all(hasattr(GRPOTrainer, name) for name in REQUIRED_METHODS):
        bases = ", ".join(base.__name__ for base in trainer.__bases__)
        raise ValueError(
            "FocalMixin must stand before trl.GRPOTrainer (TRL 0.19 or later) or a subclass of it; trainers that compute "
            f"their advantages elsewhere, such as AsyncGRPOTrainer, are not supported, got bases {bases}"
        )


def _column_of(success_reward: str | None, names: list[str]) -> int:
    """The position of the success reward among the reward functions; with several, one must be named."""
    if success_reward is None and len(names) == 1:
        return 0
    if success_reward is None or names.count(success_reward) != 1:
        raise ValueError(
            f"success_reward must name exactly one of the reward functions {', '.join(names)}, got "
            f"success_reward={success_reward!r}"
        )
    return names.index(success_reward)


def _weigh_newest(logged: deque[float], weights: Float[Tensor, " rollout"]) -> None:
    """Multiply the newest entries, those of this batch; the record may be shorter than a batch."""
    newest = [logged.pop() for _ in range(min(len(weights), len(logged)))][::-1]
    kept = weights[len(weights) - len(newest) :].cpu()
    logged.extend((torch.tensor(newest, dtype=kept.dtype) * kept).tolist())
