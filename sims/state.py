"""Memory of the sparse engine: arrays only, so that compiled code can work on it in place.

Only *touched* actions (drawn at least once) have a slot; the untouched ones of a class share one representative. Slots
of a class are contiguous, in blocks of 64, so a block never mixes classes. Which untouched action takes the next slot
does not matter, as they are exchangeable; only membership of the watched subsets is drawn along (`labels`).

A block of 64 slots is an 8 x 8 square, slot = 8 row + lane. The order of sampling is lane after lane, so its cumulative
weights are eight independent running sums, which a vector unit adds at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fgrpo_theory.foundation.seeds import seed_sequence

from .config import SimConfig

BLOCK = 64
LANES = 8


class State(NamedTuple):
    """All memory of one run. `slot` arrays have one entry a slot, `block` arrays one a block, `class` arrays one a class."""

    weight: np.ndarray  # float64[slot], exp(logit / temperature - shift); 0 marks a slot not in use
    first: np.ndarray  # float64[slot], Adam's first moment (lazy rule: divided by beta1^t)
    second: np.ndarray  # float64[slot], Adam's second moment (lazy rule: its root, divided by beta2^(t/2))
    logit: np.ndarray  # float64[slot] (full rule only, else empty)
    prefix: np.ndarray  # float64[slot], running sum of the weights down the slot's lane
    counts: np.ndarray  # int32[slot], draws of this step; zero between steps
    marks: np.ndarray  # uint8[slot], bit k set: the action belongs to subset k
    hits: np.ndarray  # int32[...], the slots drawn in this step, each once
    lane: np.ndarray  # float64[block * 8], weight of the block's lanes before this one
    mass: np.ndarray  # float64[block], sum of weights
    awake: np.ndarray  # bool[block], whether an update can still change a weight
    edge: np.ndarray  # float64[class + block + ...], cumulative masses: untouched classes first, then blocks, then inf
    total: np.ndarray  # float64[1], total weight when the group was drawn
    class_weight: np.ndarray  # float64[class], weight of one untouched action
    class_first: np.ndarray  # float64[class]
    class_second: np.ndarray  # float64[class]
    class_logit: np.ndarray  # float64[class]
    class_size: np.ndarray  # int64[class]
    class_start: np.ndarray  # int64[class], first slot
    class_used: np.ndarray  # int64[class], touched actions
    class_correct: np.ndarray  # bool[class]
    labels: np.ndarray  # int64[class, most], untouched actions with a subset mark, in the first `labels_left` places
    labels_left: np.ndarray  # int64[class]
    label_marks: np.ndarray  # uint8[class, most], marks of each label
    is_correct: np.ndarray  # bool[block], whether the block's slots are correct actions
    rng: np.ndarray  # uint64[4], xoshiro256++
    clock: np.ndarray  # int64[2]: updates done; updates done at the last rescaling
    shift: np.ndarray  # float64[1], log of the factor taken out of the weights
    history: np.ndarray  # int32[step], correct draws of each step
    missed: np.ndarray  # int64[subset], active steps without a draw in the subset


def build_state(config: SimConfig, *, keep_logits: bool) -> State:
    """The start of a run: no touched action, streams seeded by the whole configuration."""
    sizes = np.array([group.size for group in config.classes], dtype=np.int64)
    logits = np.array([group.logit for group in config.classes], dtype=np.float64)
    correct = np.array([group.is_correct for group in config.classes])
    blocks = -(-sizes // BLOCK)
    slots = int(blocks.sum()) * BLOCK
    shift = float((logits / config.temperature).max())
    labels, marks = _labels(config)

    def zeros(size: int, kind: type = np.float64) -> np.ndarray:
        return np.zeros(size, dtype=kind)

    return State(
        weight=zeros(slots),
        first=zeros(slots),
        second=zeros(slots),
        logit=zeros(slots if keep_logits else 0),
        prefix=zeros(slots),
        counts=zeros(slots, np.int32),
        marks=zeros(slots, np.uint8),
        hits=zeros(min(slots, config.group_size) + 1, np.int32),
        lane=zeros(slots // LANES),
        mass=zeros(slots // BLOCK),
        awake=zeros(slots // BLOCK, np.bool_),
        edge=_padded(len(sizes) + slots // BLOCK),
        total=zeros(1),
        class_weight=np.exp(logits / config.temperature - shift),
        class_first=zeros(len(sizes)),
        class_second=zeros(len(sizes)),
        class_logit=logits.copy(),
        class_size=sizes,
        class_start=(np.cumsum(blocks) - blocks) * BLOCK,
        class_used=zeros(len(sizes), np.int64),
        class_correct=correct,
        is_correct=np.repeat(correct, blocks),
        labels=labels,
        labels_left=np.count_nonzero(marks, axis=1).astype(np.int64),
        label_marks=marks,
        rng=_stream(config),
        clock=zeros(2, np.int64),
        shift=np.array([shift]),
        history=zeros(config.steps, np.int32),
        missed=zeros(len(config.subsets), np.int64),
    )


def _padded(size: int) -> np.ndarray:
    # A search over the next 2^bits edges may look past the last one; infinity there needs no test.
    edge = np.full(size + (1 << size.bit_length()), np.inf)
    edge[:size] = 0.0
    return edge


def _labels(config: SimConfig) -> tuple[np.ndarray, np.ndarray]:
    most = max((subset.size for subset in config.subsets), default=0)
    marks = np.zeros((len(config.classes), most), dtype=np.uint8)
    for bit, subset in enumerate(config.subsets):
        marks[subset.class_index, : subset.size] |= np.uint8(1 << bit)
    return np.tile(np.arange(most, dtype=np.int64), (len(config.classes), 1)), marks


def _stream(config: SimConfig) -> np.ndarray:
    # Gamma enters in millionths: runs of one seed that differ in any swept setting share no random number.
    index = (config.group_size, round(config.gamma * 1e6))
    return seed_sequence(config.seed, f"sims.{config.surrogate}.{config.optimizer}", *index).generate_state(
        4, np.uint64
    )
