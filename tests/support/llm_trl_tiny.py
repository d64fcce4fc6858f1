"""A two-layer random model, a ten-word tokenizer and GRPO trainers on them, for the tests against the installed TRL."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from llm.adapters.trl import FocalGRPOTrainer

WORDS = [f"w{i}" for i in range(8)]
GROUP = 4


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(["<pad>", "<eos>", *WORDS])}, unk_token="<pad>")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=10, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def prompts(count: int = 8) -> datasets.Dataset:
    return datasets.Dataset.from_list([{"prompt": f"w{i % 8} w{(i + 3) % 8}"} for i in range(count)])


def early_words(completions: list[str], **_: Any) -> list[float]:
    """1 if the first word is one of the first five, else 0: a random model is right in about half of its tries."""
    return [float(text.split()[:1] in [[word] for word in WORDS[:5]]) for text in completions]


def scripted(rewards: list[float | None], name: str = "scripted") -> Any:
    """A reward function that hands out these rewards in turn, whatever the completions."""

    def reward(completions: list[str], **_: Any) -> list[float | None]:
        return [rewards[i % len(rewards)] for i in range(len(completions))]

    reward.__name__ = name
    return reward


def trainer(
    folder: Path,
    kind: type[GRPOTrainer] = FocalGRPOTrainer,
    rewards: Any = early_words,
    *,
    options: Any = None,
    **config: Any,
) -> GRPOTrainer:
    """A trainer of that class; `options` go to it, `config` to TRL's configuration."""
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": GROUP, "max_steps": 2,
        "max_completion_length": 4, "learning_rate": 0.05, "report_to": "none", "use_cpu": True, "logging_steps": 1,
        "save_strategy": "no", "seed": 3, "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True,
    } | config  # fmt: skip
    data = prompts()
    return kind(
        model=model(),
        reward_funcs=rewards,
        args=GRPOConfig(output_dir=str(folder), **settings),
        train_dataset=data,
        eval_dataset=prompts(2),
        processing_class=tokenizer(),
        **(options or {}),
    )


def scored(made: GRPOTrainer, groups: int = 2, *, training: bool = True, group_size: int = GROUP) -> dict[str, Any]:
    """The batch that the trainer makes of so many prompts, each `group_size` times."""
    made.model.train(training)
    rows = [{"prompt": f"w{i} w{i + 1}"} for i in range(groups) for _ in range(group_size)]
    torch.manual_seed(7)
    return made._generate_and_score_completions(rows)


def weights_of(made: GRPOTrainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in made.model.state_dict().items()}


def recording(kind: type[GRPOTrainer]) -> type[GRPOTrainer]:
    """That class, keeping (advantages, prompt ids, completion ids) of every loss of the training in `seen`."""

    class Recording(kind):  # type: ignore[valid-type,misc]
        seen: list[tuple[torch.Tensor, ...]]

        @functools.wraps(kind.compute_loss)
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if model.training:
                columns = (inputs[name].clone() for name in ("advantages", "prompt_ids", "completion_ids"))
                self.seen = [*getattr(self, "seen", []), tuple(columns)]
            return super().compute_loss(model, inputs, *args, **kwargs)

    return Recording


def by_hand(rewards: list[float | None], gamma: float, group_size: int = GROUP) -> np.ndarray:
    """(1 - X/N)^gamma for every rollout, written out: X counts the ones, N what is not None."""
    weights = []
    for start in range(0, len(rewards), group_size):
        group = [reward for reward in rewards[start : start + group_size] if reward is not None]
        wrong = sum(1 for reward in group if reward != 1)
        weights += [(wrong / len(group)) ** gamma if group else 1.0] * group_size
    return np.array(weights)
