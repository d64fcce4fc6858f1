"""Tiny random models and a small tokenizer: everything the LLM tests need without a download."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 64
_SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
_ROTARY = {**_SIZES, **_SPECIAL, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 96}

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'][0] }}{{ message['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}a{% endif %}"
)


def build_model(kind: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **options):
    """A random model of one kind; the wide initialisation gives peaked, varied laws."""
    torch.manual_seed(seed)
    wide = {"initializer_range": 0.2, **options}
    if kind == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(**_SIZES, **_SPECIAL, n_positions=96, **wide))
    elif kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**_ROTARY, **wide))
    elif kind == "llama-tied":
        model = LlamaForCausalLM(LlamaConfig(**_ROTARY, tie_word_embeddings=True, **wide))
    elif kind == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**_ROTARY, **wide))
    elif kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**_ROTARY, head_dim=12, **wide))
    else:
        model = MistralForCausalLM(MistralConfig(**_ROTARY, sliding_window=4, **wide))
    return model.to(dtype)


SHARING = ("gpt2", "llama", "qwen2", "qwen3")
"""Kinds whose prompts can be shared."""
EVERY_KIND = (*SHARING, "mistral-window")


def build_tokenizer(*, adds_bos: bool = False, pad: bool = False) -> PreTrainedTokenizerFast:
    """One token a character; <s> = 1 begins, </s> = 2 ends; no pad token unless asked for."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789 +-=.,:?"
    names = ["<unk>", "<s>", "</s>", *characters]
    vocabulary = {name: number for number, name in enumerate(names)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    if adds_bos:
        from tokenizers.processors import TemplateProcessing

        core.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    extra = {"pad_token": "<unk>"} if pad else {}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>", **extra
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
