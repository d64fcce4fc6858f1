"""What a GRPO run costs: rollouts, tokens, FLOP, memory, GPUs and hours, from the shape of a dense transformer.

Source: arithmetic; every formula stands in the docstring of its function. P parameters, P' of them in matrix products, L layers,
attention width w = heads * head width, key-value width v = kv heads * head width, hidden width d, feed-forward width f,
vocabulary V, prompt p and response r tokens. FLOP count a multiply-add as 2. Two numbers are assumptions about how
well a machine is used and are arguments: the shares of peak FLOP and of memory bandwidth.
Left out on purpose: mixture-of-experts models, speculative decoding, optimizer offload, communication, and stragglers (every
response is taken to be of the mean length).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .foundation.checks import as_choice, as_probability, as_whole, require

STATE_BYTES = 16
"""A parameter in training: weight and gradient in bfloat16 (2 + 2), float32 master weight (4), Adam's two moments (4 + 4).
Float32 weights and gradients without a master copy (our trainer) take the same 16."""
USABLE_MEMORY = 0.9
"""Share of a GPU's memory that is planned for; the rest is the CUDA context, buffers and fragmentation."""
WEIGHTS_SHARE = 0.5
"""Most of the usable memory that weights may fill in sampling."""
LARGEST_NODE = 8
"""GPUs of one machine."""


@dataclass(frozen=True)
class ModelShape:
    """A dense decoder with grouped-query attention and a gated feed-forward layer (Llama, Qwen2, Qwen3)."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    vocabulary: int
    tied: bool = False
    """Input and output embedding are one table."""
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def width(self) -> int:
        """w."""
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        """v."""
        return self.kv_heads * self.head_width

    @property
    def parameters(self) -> int:
        """P = L (2 d w + 2 d v + 3 d f + 2 d [+ w + 2 v biases] [+ 2 head norms]) + d + V d (2 V d if not tied)."""
        matrices = self.hidden * (2 * self.width + 2 * self.kv_width + 3 * self.feed_forward)
        small = 2 * self.hidden + self.qkv_bias * (self.width + 2 * self.kv_width) + self.qk_norm * 2 * self.head_width
        return self.layers * (matrices + small) + self.hidden + self.vocabulary * self.hidden * (2 - self.tied)

    @property
    def multiplied(self) -> int:
        """P': parameters in matrix products, L (2 d w + 2 d v + 3 d f) + V d. The input embedding is only looked up."""
        matrices = self.hidden * (2 * self.width + 2 * self.kv_width + 3 * self.feed_forward)
        return self.layers * matrices + self.vocabulary * self.hidden

    @property
    def kv_bytes(self) -> int:
        """Cache of one token, keys and values in bfloat16: 4 L v."""
        return 4 * self.layers * self.kv_width


MODELS = {
    "smollm2-135m": ModelShape(30, 576, 9, 3, 64, 1536, 49152, tied=True),
    "qwen3-0.6b": ModelShape(28, 1024, 16, 8, 128, 3072, 151936, tied=True, qk_norm=True),
    "qwen3-1.7b": ModelShape(28, 2048, 16, 8, 128, 6144, 151936, tied=True, qk_norm=True),
    "llama-3.2-3b": ModelShape(28, 3072, 24, 8, 128, 8192, 128256, tied=True),
    "qwen3-4b": ModelShape(36, 2560, 32, 8, 128, 9728, 151936, tied=True, qk_norm=True),
    "qwen2.5-7b": ModelShape(28, 3584, 28, 4, 128, 18944, 152064, qkv_bias=True),
    "qwen3-8b": ModelShape(36, 4096, 32, 8, 128, 12288, 151936, qk_norm=True),
    "qwen3-14b": ModelShape(40, 5120, 40, 8, 128, 17408, 151936, qk_norm=True),
    "qwen3-32b": ModelShape(64, 5120, 64, 8, 128, 25600, 151936, qk_norm=True),
    "llama-3.3-70b": ModelShape(80, 8192, 64, 8, 128, 28672, 128256),
}
"""Shapes by name, from the models' published config.json."""


@dataclass(frozen=True)
class Gpu:
    """A GPU's data sheet: bytes of memory, bytes a second, dense bfloat16 FLOP a second."""

    memory: float
    bandwidth: float
    flops: float


GPUS = {
    "rtx4090": Gpu(24e9, 1.008e12, 165e12),
    "a100": Gpu(80e9, 2.039e12, 312e12),
    "h100": Gpu(80e9, 3.35e12, 989e12),
    "h200": Gpu(141e9, 4.8e12, 989e12),
    "b200": Gpu(180e9, 7.7e12, 2250e12),
}


@dataclass(frozen=True)
class Workload:
    """One step of GRPO: what is sampled, and in which pieces it is trained on."""

    prompts: int = 256
    group_size: int = 8
    prompt_tokens: int = 200
    response: int = 4096
    """Mean tokens of a response; the cap gives an upper bound."""
    micro_tokens: int = 16384
    """Tokens of one forward and backward pass on one GPU; at least one whole rollout."""
    checkpointing: bool = True
    """Recompute activations in the backward pass."""

    def __post_init__(self) -> None:
        for name in ("prompts", "group_size", "prompt_tokens", "response", "micro_tokens"):
            as_whole(name, getattr(self, name))

    @property
    def rollouts(self) -> int:
        """prompts * N."""
        return self.prompts * self.group_size

    @property
    def length(self) -> int:
        """p + r."""
        return self.prompt_tokens + self.response


def shape_of_size(parameters: float) -> ModelShape:
    """A typical shape where only the size is known: 12 d^2 a layer, d = 128 L, heads of 128, 8 kv heads, f = 3.5 d, V = 128,000.

    parameters: at least 1e8. The shape has about that many. Raises ValueError.

    >>> shape_of_size(7e9).layers, round(shape_of_size(7e9).parameters / 1e9, 1)
    (30, 6.7)
    """
    require(1e8 <= parameters <= 1e12, "model_parameters must lie in [1e8, 1e12]", model_parameters=parameters)
    shapes = [_typical(layers, tied=parameters < 4e9) for layers in range(2, 200)]
    return min(shapes, key=lambda shape: abs(shape.parameters - parameters))


def _typical(layers: int, tied: bool) -> ModelShape:
    hidden = 128 * layers
    return ModelShape(layers, hidden, layers, min(8, layers), 128, 7 * hidden // 2, 128_000, tied)


def shape_of_config(config: Mapping[str, Any]) -> ModelShape:
    """The shape in a Hugging Face config.json of a llama, qwen2 or qwen3 model. Raises ValueError for any other kind."""
    kind = as_choice("model_type", str(config.get("model_type")), ("llama", "qwen2", "qwen3"))
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
    missing = [name for name in names if name not in config]
    require(not missing, "config must name the model's shape", missing=", ".join(missing))
    layers, hidden, heads, feed_forward, vocabulary = (int(as_whole(name, config[name])) for name in names)
    return ModelShape(
        layers,
        hidden,
        heads,
        int(config.get("num_key_value_heads") or heads),
        int(config.get("head_dim") or hidden // heads),
        feed_forward,
        vocabulary,
        tied=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=kind == "qwen2",
        qk_norm=kind == "qwen3",
    )


def forward_flop(shape: ModelShape, tokens: int, after: int = 0) -> int:
    """FLOP of a forward pass over `tokens` tokens that follow `after` cached ones: 2 P' tokens + 4 L w sum of positions.

    Token t attends to t positions: 2 w for the scores and 2 w for the values, a layer and position.
    """
    positions = tokens * after + tokens * (tokens + 1) // 2
    return 2 * shape.multiplied * tokens + 4 * shape.layers * shape.width * positions


def sampling_flop(shape: ModelShape, work: Workload) -> int:
    """FLOP of sampling: each prompt once a group (its cache is shared), then every response."""
    response = forward_flop(shape, work.response, after=work.prompt_tokens)
    return work.prompts * forward_flop(shape, work.prompt_tokens) + work.rollouts * response


def training_flop(shape: ModelShape, work: Workload) -> int:
    """FLOP of the update: old log-probs (1 forward) and the gradient (3 forwards; 4 with recomputed activations)."""
    passes = 1 + (4 if work.checkpointing else 3)
    return work.rollouts * passes * forward_flop(shape, work.length)


def state_bytes(shape: ModelShape) -> int:
    """Weights, gradients and optimizer: 16 P, shared out by FSDP or ZeRO-3 over all GPUs."""
    return STATE_BYTES * shape.parameters


def activation_bytes(shape: ModelShape, work: Workload) -> int:
    """A micro-batch's activations on one GPU: tokens times (kept + one layer's working set + 8 V for float32 logits and gradient).

    Kept: 2 L d with checkpointing; without, the working set of every layer. Working set: 4 (4 d + 2 w + 2 v + 3 f), in bfloat16
    with gradients. Attention is taken to be fused (no matrix of scores is kept).
    """
    tokens = max(work.micro_tokens, work.length)
    elements = 4 * shape.hidden + 2 * shape.width + 2 * shape.kv_width + 3 * shape.feed_forward
    kept = 2 * shape.layers * shape.hidden if work.checkpointing else 2 * shape.layers * elements
    return tokens * (kept + 4 * elements + 8 * shape.vocabulary)


def rollout_bytes(shape: ModelShape, work: Workload) -> int:
    """Cache of a whole rollout: 4 L v (p + r)."""
    return shape.kv_bytes * work.length


def tensor_parallel(shape: ModelShape, work: Workload, gpu: Gpu) -> int:
    """GPUs of a copy for sampling: the least power of two whose usable memory has room for one rollout's cache, and of which
    the weights, 2 P, fill at most half (the rest is cache: with less, few rollouts are decoded at once).

    Raises ValueError if 8 are too few: then pipeline parallelism is needed, which this does not size.
    """
    need = max(2 * shape.parameters / WEIGHTS_SHARE, 2 * shape.parameters + rollout_bytes(shape, work))
    degree = _power_of_two(need / (USABLE_MEMORY * gpu.memory))
    require(degree <= LARGEST_NODE, "a copy for sampling must fit on 8 GPUs", GPUs=degree)
    return degree


def fewest_gpus(shape: ModelShape, work: Workload, gpu: Gpu) -> int:
    """The least power of two of GPUs with 16 P / GPUs + activations <= 0.9 memory, and at least one copy for sampling.

    Sampling and training take turns on the same GPUs. Raises ValueError if one micro-batch does not fit beside nothing.
    """
    room = USABLE_MEMORY * gpu.memory - activation_bytes(shape, work)
    require(room > 0, "micro_tokens must be fewer: its activations alone fill a GPU", micro_tokens=work.micro_tokens)
    return max(_power_of_two(state_bytes(shape) / room), tensor_parallel(shape, work, gpu))


def _power_of_two(least: float) -> int:
    """The least power of two, from 1 on, of at least that."""
    return 1 << max(0, math.ceil(math.log2(least)))


def trainer_for(least: int, gpus: int) -> str:
    """Where a run belongs that needs `least` GPUs and uses `gpus`: ours keeps whole weights on each, TRL is at home on one node."""
    if gpus > LARGEST_NODE:
        return "verl"
    return "fgrpo llm or TRL" if least == 1 else "TRL"


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step, and how it samples."""

    sampling: float
    training: float
    copy_gpus: int
    """GPUs that share one copy of the model in sampling."""
    wave: int
    """Rollouts of a copy that are decoded at once."""


def step_time(
    shape: ModelShape, work: Workload, gpu: Gpu, gpus: int, *, flop_share: float = 0.35, bandwidth_share: float = 0.6
) -> StepTime:
    """Seconds of one step on `gpus` GPUs, sampling and training in turn.

    Training: its FLOP over gpus * peak * flop_share. Sampling: copies of `tensor_parallel` GPUs share the
    rollouts in waves of as many as the cache holds; a token of a wave takes the longer of computing and of reading weights and the
    cache at mean length, (2 P + rollouts 4 L v (p + r/2)) / (bandwidth * bandwidth_share). Raises ValueError if gpus does
    not hold the run.
    """
    least = fewest_gpus(shape, work, gpu)
    require(gpus >= least, "gpus must hold the run", gpus=gpus, least=least)
    for name, share in (("flop_share", flop_share), ("bandwidth_share", bandwidth_share)):
        require(as_probability(name, share) > 0, f"{name} must lie in (0, 1]", **{name: share})
    reached = Gpu(gpu.memory, gpu.bandwidth * bandwidth_share, gpu.flops * flop_share)
    degree = tensor_parallel(shape, work, gpu)
    sampling, wave = _sampling_time(shape, work, reached, gpus, degree)
    return StepTime(sampling, training_flop(shape, work) / (gpus * reached.flops), degree, wave)


def _sampling_time(shape: ModelShape, work: Workload, reached: Gpu, gpus: int, degree: int) -> tuple[float, int]:
    """(seconds, rollouts at once) with copies of `degree` GPUs that reach that bandwidth and FLOP."""
    copies = gpus // degree
    mine = math.ceil(work.rollouts / copies)
    fits = int((USABLE_MEMORY * degree * reached.memory - 2 * shape.parameters) // rollout_bytes(shape, work))
    wave = min(mine, fits)
    position = work.prompt_tokens + work.response // 2
    reading = (2 * shape.parameters + wave * shape.kv_bytes * position) / reached.bandwidth
    computing = wave * forward_flop(shape, 1, after=position) / reached.flops
    prefill = work.prompts / copies * forward_flop(shape, work.prompt_tokens) / reached.flops
    return (prefill + mine / wave * work.response * max(reading, computing)) / degree, wave
