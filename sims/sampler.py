"""Exact draws from the sparse policy, compiled.

N actions are drawn i.i.d. by inverting the cumulative weights in float64. The unit interval is cut into equal buckets
of about 64 draws; the number of draws in each is drawn first, and the buckets are then worked through in order, close in
memory. Inside a bucket there are two ways, which put every uniform into the same slot (but for rounding):

    search   for each draw, over blocks, then over the lanes and rows of one block: where slots outnumber draws
    count    for each slot, how many uniforms lie below its end: where a bucket holds few slots

Left out on purpose: torch.multinomial and any float32 sum, which are visibly biased over 128,000 actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .rng import TO_UNIT, bucket_counts, next_uniform, random_words
from .state import BLOCK, LANES, State

MOST_BUCKET_BITS = 11
DRAWS_A_BUCKET = 64
# A bucket with fewer slots than this many times its draws is drawn by counting, any other by searching.
COUNT_WHILE = 2
_S11, _ONE = np.uint64(11), np.uint64(1)
_LANE, _SIX, _INSIDE = np.uint64(LANES - 1), np.uint64(6), np.uint64(BLOCK - 1)


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
def touch(state: State, c: int) -> np.int64:
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
    return np.int64(slot)


@njit(nogil=True, cache=True, error_model="numpy")
def fill_slot(state: State, c: int, slot: int) -> None:
    """Start a slot as the representative of class `c`."""
    state.weight[slot] = state.class_weight[c]
    state.first[slot] = state.class_first[c]
    state.second[slot] = state.class_second[c]
    if state.logit.size:
        state.logit[slot] = state.class_logit[c]


@njit(nogil=True, cache=True, error_model="numpy")
def draw_untouched(state: State, used: np.ndarray, c: int) -> np.int64:
    """The slot of a uniform action of untouched class `c`, as the class was at the start of this step (`used`).

    Its first places went to actions touched since. The place must be a fresh random number: points come in rising order,
    so a place read off the point would depend on the draws before it.
    """
    place = np.int64(next_uniform(state.rng) * (state.class_size[c] - used[c]))
    if place < state.class_used[c] - used[c]:
        return np.int64(state.class_start[c] + used[c] + place)
    return touch(state, c)


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def slot_order(slot: np.uint64) -> np.uint64:
    """Place of a slot in the order of sampling, and back: inside a block, lane and row change places."""
    return (slot & ~_INSIDE) | ((slot & _LANE) << np.uint64(3)) | ((slot >> np.uint64(3)) & _LANE)


@njit(nogil=True, cache=True, error_model="numpy")
def find_place(slots: Slots, low: int, bits: int, point: float) -> np.int64:
    """Place, in the order of sampling, of the slot at `point` (the last place of all beyond the last block)."""
    index = find_edge(slots.edge, np.uint64(low), bits, point)
    block = index - np.uint64(slots.classes)
    if block >= np.uint64(slots.blocks):
        return np.int64(slots.blocks * BLOCK - 1)
    return np.int64(slot_order(find_slot(slots.lane, slots.prefix, block, point - slots.edge[index - _ONE])))


@njit(nogil=True, cache=True, error_model="numpy")
def draw_by_count(
    slots: Slots, first: np.int64, last: np.int64, words: np.ndarray, span: tuple[float, float], hits: int
) -> tuple[int, int]:
    """As `draw_touched`, for a range that covers the places first ... last only: each slot counts the points below its end.

    A compare-and-add over all points is one vector operation for four of them, and nothing has to be predicted.
    """
    edge, lane, prefix, weight, listed, counts = (
        slots.edge,
        slots.lane,
        slots.prefix,
        slots.weight,
        slots.hits,
        slots.counts,
    )
    before, scale, classes = 0, 1.0 / (span[1] * TO_UNIT), np.uint64(slots.classes)
    for k in range(words.size):
        words[k] >>= _S11
    for step in range(first, last + 1):
        place = np.uint64(step)
        slot, block = slot_order(place), place >> _SIX
        end = edge[block + classes - _ONE] + lane[place >> np.uint64(3)] + prefix[slot]
        limit, below = np.uint64(max(0.0, (end - span[0]) * scale)), 0
        for k in range(words.size):
            below += words[k] < limit
        # Rounding may set the end of a slot a hair too low or, of a slot not in use, too high; neither draws then.
        drawn = max(0, below - before) * (weight[slot] > 0.0)
        before += drawn
        listed[np.uint64(hits)] = slot
        hits += (drawn > 0) & (counts[slot] == 0)
        counts[slot] += drawn
    return hits, words.size - before


@njit(nogil=True, cache=True, error_model="numpy")
def draw_rare(state: State, used: np.ndarray, low: int, bits: int, point: float) -> np.int64:
    """The slot at `point`, whichever it is: an untouched class, or -1 where rounding put it beside the slots in use."""
    index, classes = int(find_edge(state.edge, np.uint64(low), bits, point)), state.class_size.size
    if index < classes:
        return draw_untouched(state, used, index)
    if index - classes >= state.mass.size:
        return np.int64(-1)
    slot = np.int64(find_slot(state.lane, state.prefix, np.uint64(index - classes), point - state.edge[index - 1]))
    return slot if state.weight[slot] > 0.0 else np.int64(-1)


@njit(nogil=True, cache=True, error_model="numpy")
def draw_touched(
    slots: Slots, low: int, bits: int, words: np.ndarray, span: tuple[float, float], hits: int
) -> tuple[int, int]:
    """Draw one slot a word at uniform points of [span[0], span[0] + span[1]), which the 2^bits edges from `low` on cover.

    Fills counts and hits from place `hits` on. Points that hit no slot in use are left as the first words, which the
    caller settles. Returns the new number of hits and the number of points left.
    """
    edge, lane, prefix, weight = slots.edge, slots.lane, slots.prefix, slots.weight
    listed, counts, classes, blocks = slots.hits, slots.counts, np.uint64(slots.classes), np.uint64(slots.blocks)
    start, width, first, left = span[0], span[1] * TO_UNIT, np.uint64(low), 0
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
def draw_rest(
    state: State, used: np.ndarray, low: int, bits: int, points: np.ndarray, span: tuple[float, float], hits: int
) -> int:
    """Settle the words that `draw_touched` has left; returns the new number of hits."""
    for k in range(points.size):
        slot = draw_rare(state, used, low, bits, span[0] + np.int64(points[k] >> _S11) * (span[1] * TO_UNIT))
        while slot < 0:
            slot = draw_rare(state, used, low, bits, span[0] + next_uniform(state.rng) * span[1])
        state.hits[hits] = slot
        hits += state.counts[slot] == 0
        state.counts[slot] += 1
    return hits


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
    hits, low, high, last = 0, 0, 0, np.int64(-1)
    for bucket in range(wanted.size):
        span, chosen = (bucket * width, width), words[: wanted[bucket]]
        low, high, bits = window(edge, low, high, span[0], span[0] + width)
        random_words(state.rng, chosen)
        if low >= used.size:
            first = last if last >= 0 else find_place(slots, low, bits, span[0])
            last = find_place(slots, low, bits, span[0] + width)
            if last - first < COUNT_WHILE * chosen.size:
                hits, left = draw_by_count(slots, first, last, chosen, span, hits)
                for _ in range(left):
                    redrawn = chosen[:1]
                    random_words(state.rng, redrawn)
                    hits = draw_rest(state, used, low, bits, redrawn, span, hits)
                continue
        hits, left = draw_touched(slots, low, bits, chosen, span, hits)
        hits = draw_rest(state, used, low, bits, chosen[:left], span, hits)
    return hits
