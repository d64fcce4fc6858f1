"""Exact draws from the sparse policy, compiled.

N actions are drawn i.i.d. by inverting the cumulative weights in float64: a binary search over blocks, then over the
lanes and rows of one block. From `BUCKET_FROM` draws on, the unit interval is cut into 2048 equal buckets; the number
of draws in each is drawn first (11 random bits a draw), and the buckets are then worked through in order, so that all
searches are short and stay in the nearest cache. Both ways draw from the same law.

Left out on purpose: torch.multinomial and any float32 sum, which are visibly biased over 128,000 actions.
Random numbers: xoshiro256++ (Blackman and Vigna, 2019), 53 bits a uniform.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .state import BLOCK, LANES, State

MOST_BUCKET_BITS = 11
DRAWS_A_BUCKET = 64
_TO_UNIT = 2.0**-53
_S11, _S17, _S23, _S45 = np.uint64(11), np.uint64(17), np.uint64(23), np.uint64(45)
_S19, _S41, _ONE = np.uint64(19), np.uint64(41), np.uint64(1)


class Slots(NamedTuple):
    """The part of the state that a draw of a touched action needs."""

    edge: np.ndarray
    lane: np.ndarray
    prefix: np.ndarray
    weight: np.ndarray
    counts: np.ndarray
    hits: np.ndarray
    classes: int
    blocks: int


@njit(nogil=True, cache=True, error_model="numpy")
def random_words(rng: np.ndarray, words: np.ndarray) -> None:
    """Fill `words` (uint64) with xoshiro256++ output and advance its state, uint64[4]."""
    s0, s1, s2, s3 = rng[0], rng[1], rng[2], rng[3]
    for k in range(words.size):
        mixed = s0 + s3
        words[k] = ((mixed << _S23) | (mixed >> _S41)) + s0
        moved = s1 << _S17
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= moved
        s3 = (s3 << _S45) | (s3 >> _S19)
    rng[0], rng[1], rng[2], rng[3] = s0, s1, s2, s3


@njit(nogil=True, cache=True, error_model="numpy")
def next_uniform(rng: np.ndarray) -> float:
    """A multiple of 2^-53 in [0, 1)."""
    word = np.empty(1, dtype=np.uint64)
    random_words(rng, word)
    return np.int64(word[0] >> _S11) * _TO_UNIT


@njit(nogil=True, cache=True, error_model="numpy")
def refresh_block(weight: np.ndarray, prefix: np.ndarray, lane_start: np.ndarray, mass: np.ndarray, block: int) -> None:
    """Rebuild the running sums of one block from its weights. Unsigned places: they let the compiler use vectors."""
    base, lanes = np.uint64(block * BLOCK), np.uint64(LANES)
    for j in range(np.uint64(0), lanes):
        prefix[base + j] = weight[base + j]
    for j in range(lanes, np.uint64(BLOCK)):
        prefix[base + j] = prefix[base + j - lanes] + weight[base + j]
    before = 0.0
    for lane in range(LANES):
        lane_start[block * LANES + lane] = before
        before += prefix[block * BLOCK + BLOCK - LANES + lane]
    mass[block] = before


@njit(nogil=True, cache=True, error_model="numpy")
def refresh_edges(state: State) -> float:
    """Cumulative masses of untouched classes and blocks; returns (and keeps) the total weight."""
    total, classes = 0.0, state.class_size.size
    for c in range(classes):
        total += (state.class_size[c] - state.class_used[c]) * state.class_weight[c]
        state.edge[c] = total
    for block in range(state.mass.size):
        total += state.mass[block]
        state.edge[classes + block] = total
    state.total[0] = total
    return total


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def find_edge(edge: np.ndarray, low: np.uint64, bits: int, point: float) -> np.uint64:
    """First index from `low` on whose edge lies above `point`, known to be among the next 2^bits.

    Written without a branch that could be mispredicted, and with unsigned places, which need no test for being negative.
    """
    for bit in range(bits):
        half = _ONE << np.uint64(bits - 1 - bit)
        low += half * np.uint64(edge[low + half - _ONE] <= point)
    return low


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def find_slot(lane_start: np.ndarray, prefix: np.ndarray, block: np.uint64, point: float) -> np.uint64:
    """The slot of a block that holds `point`, measured from the block's start: three halvings a side of the square."""
    lanes = block * np.uint64(LANES)
    lane = np.uint64(lane_start[lanes + np.uint64(4)] <= point) << np.uint64(2)
    lane += np.uint64(lane_start[lanes + lane + np.uint64(2)] <= point) << _ONE
    lane += np.uint64(lane_start[lanes + lane + _ONE] <= point)
    point -= lane_start[lanes + lane]
    base = block * np.uint64(BLOCK) + lane
    row = np.uint64(prefix[base + np.uint64(3 * LANES)] <= point) << np.uint64(5)
    row += np.uint64(prefix[base + row + np.uint64(LANES)] <= point) << np.uint64(4)
    row += np.uint64(prefix[base + row] <= point) << np.uint64(3)
    return base + row


@njit(nogil=True, cache=True, error_model="numpy")
def touch(state: State, c: int) -> int:
    """Give the next untouched action of class `c` a slot that starts as its representative; returns the slot."""
    slot = state.class_start[c] + state.class_used[c]
    if state.labels_left[c] > 0:
        place = np.int64(next_uniform(state.rng) * (state.class_size[c] - state.class_used[c]))
        if place < state.labels_left[c]:
            state.labels_left[c] -= 1
            label = state.labels[c, place]
            state.labels[c, place] = state.labels[c, state.labels_left[c]]
            state.marks[slot] = state.label_marks[c, label]
    state.class_used[c] += 1
    fill_slot(state, c, slot)
    return slot


@njit(nogil=True, cache=True, error_model="numpy")
def fill_slot(state: State, c: int, slot: int) -> None:
    """Start a slot as the representative of class `c`."""
    state.weight[slot] = state.class_weight[c]
    state.first[slot] = state.class_first[c]
    state.second[slot] = state.class_second[c]
    if state.logit.size:
        state.logit[slot] = state.class_logit[c]


@njit(nogil=True, cache=True, error_model="numpy")
def draw_untouched(state: State, used: np.ndarray, c: int, point: float) -> int:
    """The slot of the action at `point` of untouched class `c`, or -1 if rounding put it outside.

    The class counts as it was at the start of this step (`used`): its first places went to actions touched since.
    """
    place = np.int64(point / state.class_weight[c])
    if place >= state.class_size[c] - used[c]:
        return -1
    if place < state.class_used[c] - used[c]:
        return state.class_start[c] + used[c] + place
    return touch(state, c)


@njit(nogil=True, cache=True, error_model="numpy")
def draw_rare(state: State, used: np.ndarray, low: int, bits: int, point: float) -> int:
    """The slot at `point`, whichever it is: an untouched class, or -1 where rounding put it beside the slots in use."""
    index, classes = np.int64(find_edge(state.edge, np.uint64(low), bits, point)), state.class_size.size
    rest = point - state.edge[index - 1] if index > 0 else point
    if index < classes:
        return draw_untouched(state, used, index, rest)
    if index - classes >= state.mass.size:
        return -1
    slot = np.int64(find_slot(state.lane, state.prefix, np.uint64(index - classes), rest))
    return slot if state.weight[slot] > 0.0 else -1


@njit(nogil=True, cache=True, error_model="numpy")
def draw_touched(slots: Slots, low: int, bits: int, words: np.ndarray, span: tuple[float, float], hits: int
                 ) -> tuple[int, int]:
    """Draw one slot a word at uniform points of [span[0], span[0] + span[1]), which the 2^bits edges from `low` on cover.

    Fills counts and hits from place `hits` on. Points that hit no slot in use are left as the first words, which the
    caller settles. Returns the new number of hits and the number of points left.
    """
    edge, lane, prefix, weight = slots.edge, slots.lane, slots.prefix, slots.weight
    listed, counts, classes, blocks = slots.hits, slots.counts, np.uint64(slots.classes), np.uint64(slots.blocks)
    start, width, first, left = span[0], span[1] * _TO_UNIT, np.uint64(low), 0
    for k in range(words.size):
        point = start + np.int64(words[k] >> _S11) * width
        index = find_edge(edge, first, bits, point)
        # Below 0 the unsigned number of the block wraps far past the last one: one test for both sides.
        if index - classes < blocks:
            slot = find_slot(lane, prefix, index - classes, point - edge[index - _ONE])
            if weight[slot] > 0.0:
                listed[np.uint64(hits)] = slot
                hits += counts[slot] == 0
                counts[slot] += 1
                continue
        words[left] = words[k]
        left += 1
    return hits, left


@njit(nogil=True, cache=True, error_model="numpy")
def window(edge: np.ndarray, low: int, high: int, start: float, end: float) -> tuple[int, int, int]:
    """Move `low` and `high` on to the first edges above `start` and `end`; also the bits that count the edges between."""
    while edge[low] <= start:
        low += 1
    high = max(high, low)
    while edge[high] <= end:
        high += 1
    bits = 0
    while (1 << bits) < high - low + 1:
        bits += 1
    return low, high, bits


@njit(nogil=True, cache=True, error_model="numpy")
def bucket_counts(rng: np.ndarray, group_size: int, bits: int) -> np.ndarray:
    """How many of `group_size` uniforms fall into each of 2^bits equal buckets; five bucket numbers from one random word."""
    counts = np.zeros(1 << bits, dtype=np.int32)
    words = np.empty(group_size // 5 + 1, dtype=np.uint64)
    random_words(rng, words)
    shift, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    for k in range(group_size // 5):
        word = words[k]
        for _ in range(5):
            counts[np.int64(word & mask)] += 1
            word >>= shift
    word = words[-1]
    for _ in range(group_size % 5):
        counts[np.int64(word & mask)] += 1
        word >>= shift
    return counts


@njit(nogil=True, cache=True, error_model="numpy")
def draw(state: State, group_size: int) -> int:
    """Draw a group: `counts` of the slots drawn, listed once each in `hits`; returns the number of hits."""
    total, used, edge = refresh_edges(state), state.class_used.copy(), state.edge
    slots = Slots(edge, state.lane, state.prefix, state.weight, state.counts, state.hits, used.size, state.mass.size)
    bucket_bits = 0
    while bucket_bits < MOST_BUCKET_BITS and (DRAWS_A_BUCKET << (bucket_bits + 1)) <= group_size:
        bucket_bits += 1
    wanted, width = bucket_counts(state.rng, group_size, bucket_bits), total / (1 << bucket_bits)
    words = np.empty(wanted.max(), dtype=np.uint64)
    hits, low, high = 0, 0, 0
    for bucket in range(wanted.size):
        start, chosen = bucket * width, words[: wanted[bucket]]
        low, high, bits = window(edge, low, high, start, start + width)
        random_words(state.rng, chosen)
        hits, left = draw_touched(slots, low, bits, chosen, (start, width), hits)
        for k in range(left):
            slot = draw_rare(state, used, low, bits, start + np.int64(chosen[k] >> _S11) * (width * _TO_UNIT))
            while slot < 0:
                slot = draw_rare(state, used, low, bits, start + next_uniform(state.rng) * width)
            state.hits[hits] = slot
            hits += state.counts[slot] == 0
            state.counts[slot] += 1
    return hits
