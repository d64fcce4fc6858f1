"""The maze model and its tokenizer: Qwen2's architecture over 32 tokens (section 5.2 and appendix K of the paper).

`SHAPES["paper"]` has 3,944,704 parameters and `SHAPES["laptop"]` 1.0 M. Both are plain transformers models, saved as a
usual folder (config, safetensors, generation config, tokenizer), so TRL, vLLM and verl load them, and MaxRL's published
checkpoint, which has the same configuration and the same 32 ids, loads here. The tokenizer is always ours: the ids are
fixed by `maze.tokens`, whatever tokenizer files a folder holds.
Left out on purpose: other vocabularies, training (`maze.training`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fgrpo_theory.foundation.checks import as_choice, as_whole, require
from fgrpo_theory.foundation.seeds import seed_sequence
from llm.models import LanguageModel, dropout_off

from .tokens import BOS, EOS, PAD, VOCABULARY

NEW = "new:"
"""prefix of a source that is a fresh model: new:laptop"""
CHECKPOINTS = Path(__file__).parent / "checkpoints"


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a Qwen2 model; the rest (RMSNorm eps 1e-6, SiLU, RoPE base 1e6, tied embeddings) is fixed."""

    hidden: int = 256
    """width of the residual stream"""
    feed_forward: int = 1024
    """width of the feed-forward layers"""
    layers: int = 4
    """transformer blocks"""
    heads: int = 4
    """attention heads"""
    kv_heads: int = 2
    """key-value heads"""
    positions: int = 512
    """longest sequence"""

    def __post_init__(self) -> None:
        for name in ("hidden", "feed_forward", "layers", "heads", "kv_heads", "positions"):
            as_whole(name, getattr(self, name))
        require(self.hidden % (2 * self.heads) == 0, "hidden must be a multiple of 2 * heads",
                hidden=self.hidden, heads=self.heads)  # fmt: skip
        require(self.heads % self.kv_heads == 0, "heads must be a multiple of kv_heads",
                heads=self.heads, kv_heads=self.kv_heads)  # fmt: skip


SHAPES = {
    "paper": ModelShape(),
    "laptop": ModelShape(hidden=128, feed_forward=512),
    "smoke": ModelShape(hidden=64, feed_forward=256),
}


def maze_tokenizer() -> Any:
    """A transformers tokenizer: one token a name of VOCABULARY, names separated by spaces; an unknown name is <unk>.

    It adds no <bos> by itself, for a prompt begins with one. The id 17, a line end, is written but never read back.
    The names are added tokens as well: transformers' AutoTokenizer (5.x) reads every qwen2 folder as a byte-level tokenizer,
    whatever the folder says, and added tokens are what that one keeps. It then writes names without spaces between them,
    which `maze.tokens.from_text` reads too.

    >>> maze_tokenizer()("<bos> GRID_START UP DONE <eos>")["input_ids"]
    [1, 4, 13, 7, 2]
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({name: number for number, name in enumerate(VOCABULARY)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for name in VOCABULARY:
        if name.strip():
            control = name.startswith("<")
            token = AddedToken(name, lstrip=True, rstrip=True, normalized=False, special=control)
            (words.add_special_tokens if control else words.add_tokens)([token])
    fast: Any = PreTrainedTokenizerFast
    return fast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>",
        clean_up_tokenization_spaces=False, padding_side="left",
    )  # fmt: skip


def new_policy(shape: ModelShape, seed: int, device: torch.device | str = "cpu") -> LanguageModel:
    """A model of that shape with weights drawn from the stream (seed, "maze/model") by transformers' own rule."""
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=len(VOCABULARY), hidden_size=shape.hidden, intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.positions, rms_norm_eps=1e-6, hidden_act="silu", tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
    )  # fmt: skip
    # transformers draws from torch's global generator: seed it inside a fork, so that nothing outside moves.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed_sequence(seed, "maze/model").generate_state(1)[0]))
        model: Any = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(do_sample=True, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS)
    return LanguageModel(dropout_off(model.to(device).eval()), maze_tokenizer(), (EOS,), PAD)


def load_policy(folder: Path | str, device: torch.device | str = "cpu") -> LanguageModel:
    """The model of a folder with safetensors.

    Raises ValueError if there is no such folder, or its model has another vocabulary.
    """
    from transformers import AutoModelForCausalLM

    folder = Path(folder)
    require((folder / "config.json").is_file(), "a model must be a folder with config.json", model=str(folder))
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
    )
    require(model.config.vocab_size == len(VOCABULARY), f"a maze model must have {len(VOCABULARY)} tokens",
            vocabulary=model.config.vocab_size, model=str(folder))  # fmt: skip
    return LanguageModel(dropout_off(model.to(device).eval()), maze_tokenizer(), (EOS,), PAD)


def make_policy(source: str, seed: int, device: torch.device | str = "cpu") -> LanguageModel:
    """`new:SHAPE` is a fresh model, the name of a checkpoint that ships with the package is that one, else a folder."""
    if source.startswith(NEW):
        name = as_choice("shape", source.removeprefix(NEW), tuple(SHAPES))
        return new_policy(SHAPES[name], seed, device)
    return load_policy(checkpoint_folder(source), device)


def checkpoint_folder(source: str) -> Path:
    """The folder of a source that is not new: shipped checkpoints by name, others by path."""
    shipped = CHECKPOINTS / source
    return shipped if source and "/" not in source and shipped.is_dir() else Path(source)


def parameter_count(policy: LanguageModel) -> int:
    """Numbers in the model, tied ones once."""
    return sum(parameter.numel() for parameter in policy.model.parameters())
