"""A small Qwen2-style model with random weights and a character tokenizer, for runs that start from nothing.

One token a character of the alphabet; special tokens <pad> 0 and <eos> 1 come first. The chat template writes the last
turn alone and a line end, so a task with chat turns and solved examples costs a prompt of a few tokens.
The weights depend on the seed alone. Left out on purpose: an unknown token; a prompt outside the alphabet is refused.
"""

from __future__ import annotations

from typing import Any

import torch

from fgrpo_theory.foundation.seeds import seed_sequence

from .config import ScratchConfig
from .models import LanguageModel, dropout_off

# Inside the expression: a template's last line end would be dropped.
TEMPLATE = "{{ messages[-1]['content'] + '\\n' }}"


def character_tokenizer(alphabet: str) -> Any:
    """A transformers tokenizer with one token a character; it can be saved and loaded like any other.

    >>> character_tokenizer("01+")("1+0")["input_ids"]
    [3, 4, 2]
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate(["<pad>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast: Any = PreTrainedTokenizerFast
    return fast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def scratch_model(config: ScratchConfig, seed: int, device: torch.device) -> LanguageModel:
    """A model of that shape with weights drawn from the stream (seed, "scratch")."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = character_tokenizer(config.alphabet)
    shape = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=config.hidden, intermediate_size=config.feed_forward,
        num_hidden_layers=config.layers, num_attention_heads=config.heads, num_key_value_heads=config.heads,
        max_position_embeddings=512, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    # transformers draws from torch's global generator: seed it inside a fork, so that nothing outside moves.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed_sequence(seed, "scratch").generate_state(1)[0]))
        model: Any = Qwen2ForCausalLM(shape)
    return LanguageModel(dropout_off(model.to(device)), tokenizer, (1,), 0)
