"""The sizes of fgrpo_theory.sizing against real models: their parameters, and PyTorch's own count of FLOP."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from fgrpo_theory.sizing import forward_flop, shape_of_config

SHAPE: dict[str, Any] = {
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "vocab_size": 101,
}
TOKENS = 13


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_parameters_and_flop_are_the_real_models(kind: str, tied: bool) -> None:
    heads = {"head_dim": 16} if kind == "qwen3" else {}
    config = AutoConfig.for_model(kind, **SHAPE, **heads, tie_word_embeddings=tied, attn_implementation="eager")
    model = AutoModelForCausalLM.from_config(config)
    shape = shape_of_config({"model_type": kind, **SHAPE, **heads, "tie_word_embeddings": tied})
    assert shape.parameters == model.num_parameters()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.arange(TOKENS)[None])
    # This implementation computes the masked half of the scores and values too.
    masked = 4 * shape.layers * shape.width * (TOKENS * (TOKENS - 1) // 2)
    assert counter.get_total_flops() == forward_flop(shape, TOKENS) + masked


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_backward_pass_is_two_forward_passes_and_checkpointing_is_one_more(checkpointing: bool) -> None:
    config = AutoConfig.for_model("llama", **SHAPE, attn_implementation="eager", use_cache=False)
    model = AutoModelForCausalLM.from_config(config)
    if checkpointing:
        # transformers renames it in version 6.
        newer = getattr(model, "activation_checkpointing_enable", None)
        (newer or model.gradient_checkpointing_enable)()
    model.train()

    def count(backward: bool) -> int:
        with FlopCounterMode(display=False) as counter:
            logits = model(torch.arange(TOKENS)[None]).logits
            if backward:
                logits.sum().backward()
        return int(counter.get_total_flops())

    # The head is outside of the checkpoints.
    assert count(backward=True) / count(backward=False) == pytest.approx(4 if checkpointing else 3, rel=0.13)
