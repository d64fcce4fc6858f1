"""Loss and gradients of our objectives against the installed code of TRL and verl, on the same batch of the same model.

    python -m venv venv-trl  && venv-trl/bin/pip install 'trl==1.16.*' -e .
    venv-trl/bin/python benchmarks/compare_losses.py
    python -m venv venv-verl && venv-verl/bin/pip install 'verl==0.9.1' 'transformers<5.11' -e .
    venv-verl/bin/python benchmarks/compare_losses.py

Each framework that can be imported is compared; exit code 1 if a difference exceeds 1e-5 (float32), 2 if there is none.
TRL: its GRPOTrainer computes log-probs, advantages and loss from rollouts that we hand over through its `rollout_func`, and its
loss is differentiated down to the model's weights. verl: its registered policy losses and its GRPO advantage, on tensors.
The ratio is off 1 on purpose (old log-probs are shifted), so that clips are at work.

Conventions that differ, and what is set here so that both compute the same thing:
    TRL   loss_type "grpo" is the mean of the rollouts' means (our aggregation "sequence"); "dapo" and "cispo" divide by the
          tokens of the batch; "dr_grpo" by rollouts * max_completion_length. The std has ddof 1 and eps 1e-4.
          CISPO's epsilon_high is an absolute cap: our eps_high 5 is its 6; it has no lower bound (our eps_low 1).
    verl  token-mean; the std has ddof 1 and eps 1e-6. CISPO's bounds are offsets, as ours.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fgrpo_theory.foundation.printing import render
from llm.config import ScratchConfig
from llm.generation import group_generators, sample
from llm.logprobs import completion_logprobs
from llm.models import encode_prompt
from llm.objectives import OBJECTIVES, ObjectiveConfig, advantages, policy_loss, step_total
from llm.rollouts import Rollouts
from llm.scratch import scratch_model

LIMIT = 1e-5
GROUPS, GROUP_SIZE, MAX_NEW_TOKENS = 4, 4, 12
Row = dict[str, object]


def make_batch() -> tuple[Any, Rollouts, Tensor, Tensor]:
    """(policy, rollouts, old log-probs off by up to 0.6, rewards) of a small random model; prompts of unequal length."""
    policy = scratch_model(
        ScratchConfig("0123456789+ \n", hidden=32, layers=2, heads=2, feed_forward=64), 0, torch.device("cpu")
    )
    prompts = [encode_prompt(policy.tokenizer, text) for text in ("1", "12\n", "3 + 45", "7\n7\n7")]
    rollouts = sample(
        policy.model, policy.tokenizer, prompts, GROUP_SIZE, generators=group_generators(0, "compare", groups=range(GROUPS)),
        eos_ids=policy.eos_ids, pad_id=policy.pad_id, max_new_tokens=MAX_NEW_TOKENS,
    )  # fmt: skip
    noise = torch.rand(rollouts.mask.shape, generator=torch.Generator().manual_seed(1)) * 1.2 - 0.6
    # One group is inactive; success does not come from the text, so that every pattern is there.
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]])
    return policy, rollouts, (rollouts.old_logprobs + noise) * rollouts.mask, rewards


def gradients_of(model: Any, loss: Tensor) -> list[Tensor]:
    """The loss's gradient with respect to every weight."""
    return list(torch.autograd.grad(loss, list(model.parameters())))


def ours(
    policy: Any, rollouts: Rollouts, old: Tensor, rewards: Tensor, config: ObjectiveConfig
) -> tuple[Tensor, list[Tensor]]:
    """(loss, gradients) by this project's own path: shared prompts, advantages from fgrpo_theory."""
    logprobs, _ = completion_logprobs(policy.model, rollouts, temperature=1.0)
    weighed = advantages(config, rewards, rewards > 0, torch.ones_like(rewards, dtype=torch.bool))
    total = step_total(config.aggregation, rollouts.mask, MAX_NEW_TOKENS)
    loss, _ = policy_loss(config, logprobs, old, weighed, rollouts.mask, token_total=total)
    return loss, gradients_of(policy.model, loss)


def compared(framework: str, name: str, mine: tuple[Tensor, list[Tensor]], theirs: tuple[Tensor, list[Tensor]]) -> Row:
    """One row: the difference of the losses, and the largest difference of the gradients beside their size."""
    difference = max(float((a - b).abs().max()) for a, b in zip(mine[1], theirs[1], strict=True))
    return {
        "framework": framework, "objective": name, "loss": mine[0].item(),
        "loss_difference": abs(mine[0].item() - theirs[0].item()),
        "largest_gradient": max(float(g.abs().max()) for g in mine[1]), "gradient_difference": difference,
    }  # fmt: skip


# TRL: (our config, its options)
TRL_CASES: dict[str, tuple[ObjectiveConfig, dict[str, object]]] = {
    "grpo": (replace(OBJECTIVES["grpo"], aggregation="sequence", eps=1e-4), {"loss_type": "grpo", "epsilon": 0.2}),
    "dapo": (replace(OBJECTIVES["dapo"], eps=1e-4), {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}),
    "dr_grpo": (OBJECTIVES["dr_grpo"], {"loss_type": "dr_grpo", "epsilon": 0.2, "scale_rewards": "none"}),
    "cispo": (replace(OBJECTIVES["cispo"], eps=1e-4), {"loss_type": "cispo", "epsilon_high": 6.0}),
    # A cap that is reached: 1 + 0.3.
    "cispo, cap 1.3": (
        replace(OBJECTIVES["cispo"], eps=1e-4, eps_high=0.3),
        {"loss_type": "cispo", "epsilon_high": 1.3},
    ),
}


def trl_rows() -> list[Row]:
    """Each objective against TRL's trainer."""
    rows = []
    for name, (config, options) in TRL_CASES.items():
        policy, rollouts, old, rewards = make_batch()
        with tempfile.TemporaryDirectory() as folder:
            theirs = trl_loss(policy, rollouts, old, rewards, options, folder)
        rows.append(compared("trl", name, ours(policy, rollouts, old, rewards, config), theirs))
    return rows


def trl_loss(
    policy: Any, rollouts: Rollouts, old: Tensor, rewards: Tensor, options: dict[str, object], folder: str
) -> tuple[Tensor, list[Tensor]]:
    """(loss, gradients) as TRL's GRPOTrainer computes them from the same rollouts and rewards."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    prompts = [prompt.tolist() for prompt in rollouts.prompts for _ in range(GROUP_SIZE)]
    flat = rollouts.completions.flatten(0, 1)
    completions = [ids[: int(mask.sum())].tolist() for ids, mask in zip(flat, rollouts.mask.flatten(0, 1), strict=True)]

    def hand_over(asked: list[Any], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": prompts,
            "completion_ids": completions,
            "logprobs": [[0.0] * len(ids) for ids in completions],
        }

    arguments = GRPOConfig(
        output_dir=folder, use_cpu=True, bf16=False, report_to=[], beta=0.0, num_generations=GROUP_SIZE,
        per_device_train_batch_size=len(prompts), max_completion_length=MAX_NEW_TOKENS, gradient_checkpointing=False, **options,
    )  # fmt: skip
    texts = [policy.tokenizer.decode(ids) for ids in prompts]
    trainer = GRPOTrainer(
        model=policy.model, args=arguments, processing_class=policy.tokenizer, rollout_func=hand_over,
        reward_funcs=lambda completions, **_: rewards.flatten().tolist(), train_dataset=Dataset.from_dict({"prompt": texts}),
    )  # fmt: skip
    # What its training loop sets before the first step.
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    inputs = trainer._generate_and_score_completions([{"prompt": text} for text in texts])
    inputs["old_per_token_logps"] = old.flatten(0, 1)
    loss = trainer._compute_loss(trainer.model, inputs)
    return loss, gradients_of(policy.model, loss)


def verl_rows() -> list[Row]:
    """verl's policy losses with respect to log-probs, and its advantage."""
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig

    cases = {
        "grpo": (OBJECTIVES["grpo"], "vanilla", {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2}),
        "dapo": (OBJECTIVES["dapo"], "vanilla", {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.28}),
        "cispo": (OBJECTIVES["cispo"], "cispo", {"clip_ratio_low": 1.0, "clip_ratio_high": 5.0}),
        "cispo, cap 1.3": (replace(OBJECTIVES["cispo"], eps_high=0.3), "cispo", {"clip_ratio_low": 1.0, "clip_ratio_high": 0.3}),
    }  # fmt: skip
    rows = []
    for name, (config, registered, options) in cases.items():
        policy, rollouts, old, rewards = make_batch()
        flat_mask = rollouts.mask.flatten(0, 1).float()
        token_rewards = torch.zeros(flat_mask.shape)
        token_rewards[:, 0] = rewards.flatten()
        index = [str(i // GROUP_SIZE) for i in range(len(flat_mask))]
        weighed, _ = core_algos.compute_grpo_outcome_advantage(token_rewards, flat_mask, _object_array(index))
        logprobs, _ = completion_logprobs(policy.model, rollouts, temperature=1.0)
        actor = ActorConfig(
            strategy="fsdp", rollout_n=GROUP_SIZE, ppo_micro_batch_size_per_gpu=1, clip_ratio_c=1e6, **options
        )
        loss, *_ = core_algos.get_policy_loss_fn(registered)(
            old.flatten(0, 1), logprobs.flatten(0, 1), weighed, flat_mask, "token-mean", actor
        )
        theirs = loss, gradients_of(policy.model, loss)
        rows.append(compared("verl", name, ours(policy, rollouts, old, rewards, config), theirs))
    return rows


def _object_array(values: list[str]) -> Any:
    import numpy as np

    return np.array(values, dtype=object)


def main() -> int:
    """Print the comparison; 0 if all agree."""
    known: dict[str, Callable[[], list[Row]]] = {"trl": trl_rows, "verl": verl_rows}
    here = [name for name in known if importlib.util.find_spec(name)]
    if not here:
        print("neither trl nor verl is installed here; see the top of this file", file=sys.stderr)
        return 2
    rows = [row for name in here for row in known[name]()]
    print(render(rows, digits=3))
    worst = max(max(float(str(row["loss_difference"])), float(str(row["gradient_difference"]))) for row in rows)
    print(f"largest difference {worst:.1e}, allowed {LIMIT:.0e}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
