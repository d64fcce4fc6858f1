"""Language models and their tokenizers: loading, saving, and the few facts that sampling and training need.

`load_model` reads a folder or a hub name (safetensors) or a GGUF file, in float32 or bfloat16, with LoRA as an option.
Rules, each a source of silent errors elsewhere:
- every EOS id counts: the tokenizer's, and those of the model's generation config;
- without a pad token the EOS pads; masks never come from the pad id;
- a prompt has exactly one BOS if the chat template writes one or the tokenizer adds one by itself, and no EOS behind it;
- dropout, LoRA's too, is switched off for good, so that sampling, training and recomputation see one policy;
- tied embeddings stay tied. Code from a hub and pickled weights are never run or read.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from fgrpo_theory.foundation.checks import as_choice, require

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters through peft; everything else is frozen. Their dropout is 0 by rule."""

    rank: int = 16
    """Width of the adapters."""
    alpha: float = 32.0
    """Scale: the adapter's output is multiplied by alpha / rank."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """Names of the layers that get an adapter."""


@dataclass(frozen=True)
class LanguageModel:
    """A model with its tokenizer and the ids that end and pad a completion."""

    model: Any
    tokenizer: Any
    eos_ids: tuple[int, ...]
    pad_id: int


def load_model(
    source: Path | str, *, dtype: str = "float32", device: str = "cpu", lora: LoraSettings | None = None
) -> LanguageModel:
    """Load from a folder, a hub name, or a path that ends with .gguf.

    A folder that holds a LoRA adapter (`adapter_config.json`) loads its base model and the adapter, trainable.
    Raises ValueError for an unknown dtype or a tokenizer without EOS, OSError if there is nothing to load.
    """
    from transformers import AutoTokenizer

    as_choice("dtype", dtype, tuple(DTYPES))
    folder, options = _origin(source)
    if (Path(folder) / "adapter_config.json").is_file():
        require(lora is None, "lora must be None for a folder with an adapter", source=str(source))
        model = _with_adapter(folder, DTYPES[dtype])
    else:
        model = _read(folder, options, DTYPES[dtype])
        model = model if lora is None else _add_lora(model, lora)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **options)
    model = dropout_off(model.to(device))
    eos_ids = eos_ids_of(tokenizer, unwrap(model))
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else eos_ids[0]
    return LanguageModel(model, tokenizer, eos_ids, int(pad_id))


def _origin(source: Path | str) -> tuple[str, dict[str, str]]:
    """What transformers' from_pretrained wants: (folder or hub name, {"gguf_file": name} for a GGUF)."""
    path = Path(source)
    if path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}
    return str(source), {}


def _read(folder: str, options: Mapping[str, str], dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    reading: dict[str, Any] = dict(options) or {"use_safetensors": True}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, trust_remote_code=False, **reading)
    return _plain_copy(model) if options else model


def _plain_copy(quantized: Any) -> Any:
    """The same weights in a fresh model of the same config: one that was read from GGUF refuses to be saved."""
    config = quantized.config
    del config.quantization_config
    fresh = type(quantized)(config).to(quantized.dtype)
    fresh.load_state_dict(quantized.state_dict())
    fresh.tie_weights()
    fresh.generation_config = quantized.generation_config
    return fresh.eval()


def _add_lora(model: Any, lora: LoraSettings) -> Any:
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    targets = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # peft divides it by the rank; any number will do
        lora_dropout=0.0,
        target_modules=targets,
        task_type="CAUSAL_LM",
        # GPT-2's layers keep their weights transposed.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    with warnings.catch_warnings():
        # peft still reads an attribute that transformers has renamed.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*", FutureWarning)
        return get_peft_model(model, config)


def _with_adapter(folder: str, dtype: torch.dtype) -> Any:
    from peft import AutoPeftModelForCausalLM

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*", FutureWarning)
        return AutoPeftModelForCausalLM.from_pretrained(folder, dtype=dtype, is_trainable=True, trust_remote_code=False)


def save_model(folder: Path | str, language_model: LanguageModel, *, merge_lora: bool = False) -> Path:
    """Write safetensors and tokenizer to a new folder, whole or not at all; returns the folder.

    With LoRA the adapter alone is written, or with `merge_lora` a full model with the adapter added in (the model in
    memory is left as it is). Raises ValueError if the folder exists.
    """
    folder = Path(folder)
    require(not folder.exists(), "folder must not exist yet", folder=str(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{token_hex(4)}.partial")
    try:
        model = _merged(language_model.model) if merge_lora else language_model.model
        model.save_pretrained(partial)
        language_model.tokenizer.save_pretrained(partial)
        _share(partial)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _share(folder: Path) -> None:
    # safetensors writes files for their owner alone, whatever the umask; the folder beside them tells what the user wants.
    readable = folder.stat().st_mode & 0o666
    for path in folder.iterdir():
        path.chmod(readable)


def _merged(model: Any) -> Any:
    import copy

    return copy.deepcopy(model).merge_and_unload() if hasattr(model, "merge_and_unload") else model


def eos_ids_of(tokenizer: Any, model: Any) -> tuple[int, ...]:
    """Every id that ends a completion: the tokenizer's first, then the generation config's.

    Raises ValueError if there is none.
    """
    configured = getattr(model.generation_config, "eos_token_id", None)
    more = configured if isinstance(configured, list | tuple) else [configured]
    ids = dict.fromkeys(int(token) for token in (tokenizer.eos_token_id, *more) if token is not None)
    require(bool(ids), "the tokenizer must have an EOS token", tokenizer=type(tokenizer).__name__)
    return tuple(ids)


def encode_prompt(
    tokenizer: Any, prompt: str | Sequence[Mapping[str, str]], *, device: torch.device | str = "cpu"
) -> Int[Tensor, " token"]:
    """Token ids of a prompt: chat turns through the chat template, ready for the answer, or plain text.

    Turns are {"role": "system" | "user" | "assistant", "content": text}. Exactly one BOS stands at the start if the
    template writes it or the tokenizer adds one by itself (or both); none if neither does.
    Raises ValueError for an empty prompt, or chat turns without a chat template.
    """
    require(len(prompt) > 0, "prompt must not be empty", prompt=repr(prompt))
    if isinstance(prompt, str):
        text = prompt
    else:
        require(
            tokenizer.chat_template is not None, "chat turns need a chat template", tokenizer=type(tokenizer).__name__
        )
        text = tokenizer.apply_chat_template(
            [dict(turn) for turn in prompt], add_generation_prompt=True, tokenize=False
        )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    bos = tokenizer.bos_token_id
    adds_bos = bos is not None and tokenizer(text, add_special_tokens=True)["input_ids"][:1] == [bos]
    if adds_bos and ids[:1] != [bos]:
        ids = [bos, *ids]
    require(len(ids) > 0, "prompt must have a token", prompt=repr(prompt))
    return torch.tensor(ids, dtype=torch.long, device=device)


def unwrap(model: Any) -> Any:
    """The Hugging Face model inside data-parallel and peft wrappers; LoRA layers stay where they are in it."""
    model = getattr(model, "module", model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def backbone_and_head(model: Any) -> tuple[Any, Any]:
    """(the layers up to the last hidden state, the LM head) of an unwrapped model."""
    return model.base_model, model.get_output_embeddings()


def shares_prompts(model: Any) -> bool:
    """Whether rollouts may share their prompt's keys and values: full attention in every layer, and unscaled logits."""
    config = model.config
    full = all(kind == "full_attention" for kind in getattr(config, "layer_types", None) or ())
    plain = all(getattr(config, name, None) in (None, False, 1, 1.0) for name in _SPECIAL)
    return bool(model._supports_attention_backend and full and plain and model.get_output_embeddings() is not None)


_SPECIAL = (
    "sliding_window",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
    "alibi",
    "is_encoder_decoder",
    "add_cross_attention",
)


def recompute_activations(model: Any) -> None:
    """Gradient checkpointing: keep each layer's input alone and compute the rest again in the backward pass.

    Works in train mode alone (transformers ignores it in eval mode), which is set here; dropout is off by rule.
    """
    unwrap(model).activation_checkpointing_enable({"use_reentrant": False})
    model.train()


def dropout_off(model: Any) -> Any:
    """The model, with the probability of every dropout set to 0 for good, in train mode too."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and value and ("dropout" in name or name.endswith("drop")):
                setattr(module, name, 0.0)
    return model
