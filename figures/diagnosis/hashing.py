"""64-bit fingerprints of Arrow columns of any type, without a Python loop over rows.

Prompts and completions are told apart by their fingerprints, so that memory does not grow with text. A value's bytes
are cut into 8-byte words; each is spread over its bits, multiplied by a random odd number of its position, and summed
modulo 2**64; the sum is mixed (multilinear hashing; the mixer is splitmix64's). Two different texts collide with a
chance of at most about 2**-48. The random numbers come from a fixed seed: equal text has an equal fingerprint in every
file and run. Lists (chats) and structs are hashed by their parts. 0 stands for null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

U64 = NDArray[np.uint64]

_SEED = 20260206
_WORD = 8
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
# Words gathered at a time, so that temporaries stay in the tens of megabytes.
_BLOCK = 2**18


def fingerprints(column: Any) -> U64:
    """One fingerprint a row of an Arrow array or chunked array; equal values are equal, null is 0."""
    if isinstance(column, pa.ChunkedArray):
        parts = [fingerprints(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
    result = _values(column)
    if column.null_count:
        result = np.where(np.asarray(column.is_valid()), result, np.uint64(0))
    return result


def mix(*parts: NDArray[Any] | int) -> U64:
    """One fingerprint from several, in order."""
    state: U64 = np.array([_SEED], dtype=np.uint64)
    for part in parts:
        state = _finish(state * _SPREAD + np.asarray(part).astype(np.uint64))
    return state


def _values(column: Any) -> U64:
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = fingerprints(column.dictionary)
        codes = np.asarray(column.indices.fill_null(0)).astype(np.int64)
        return words[codes] if words.size else np.zeros(len(column), dtype=np.uint64)
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.uint64)
    if pa.types.is_struct(kind):
        return mix(*(fingerprints(part) for part in column.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _of_lists(column)
    if not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
        column = pc.cast(column, pa.large_string()) if not pa.types.is_binary(kind) else column.cast(pa.large_binary())
    return _of_bytes(column)


def _of_lists(column: Any) -> U64:
    lengths = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    parts = fingerprints(column.flatten())
    starts = np.cumsum(lengths) - lengths
    position = np.arange(parts.size) - np.repeat(starts, lengths)
    terms = _finish(parts + _multipliers(int(lengths.max(initial=0)))[position])
    return _finish(_sums(terms, starts, lengths) + lengths.astype(np.uint64))


def _of_bytes(column: Any) -> U64:
    _, offsets_buffer, data_buffer = column.buffers()
    count = len(column)
    if not count:
        return np.zeros(0, dtype=np.uint64)
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[column.offset : column.offset + count + 1]
    lengths = np.diff(offsets)
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.zeros(0, dtype=np.uint8)
    data = data[offsets[0] : offsets[-1]]
    # Whole words to the end, and one more, which an unaligned word reaches into.
    aligned = np.zeros(data.size // _WORD + 2, dtype="<u8")
    aligned.view(np.uint8)[: data.size] = data
    words = -(-lengths // _WORD)
    ends, result = np.cumsum(words), np.empty(count, dtype=np.uint64)
    first = 0
    while first < count:
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _BLOCK, side="right")))
        rows = slice(first, last)
        result[rows] = _of_words(aligned, offsets[rows] - offsets[0], lengths[rows], words[rows])
        first = last
    return result


def _of_words(aligned: U64, starts: Any, lengths: Any, words: Any) -> U64:
    begins = np.cumsum(words) - words
    total = int(words.sum())
    position = np.arange(total, dtype=np.int64)
    position -= np.repeat(begins, words)
    at = position + np.repeat(starts // _WORD, words)
    shift = np.repeat((8 * (starts % _WORD)).astype(np.uint64), words)
    values = aligned.take(at) >> shift
    # In two steps, as a shift by 64 is undefined.
    values |= (aligned.take(at + 1) << (np.uint64(63) - shift)) << np.uint64(1)
    # Of a value's last word, only the bytes that belong to it.
    filled = np.flatnonzero(words)
    surplus = (_WORD * words - lengths)[filled].astype(np.uint64)
    values[(begins + words - 1)[filled]] &= np.uint64(2**64 - 1) >> (np.uint64(8) * surplus)
    values *= _SPREAD
    values ^= values >> np.uint64(48)
    values *= _multipliers(int(words.max(initial=0)))[position]
    return np.asarray(_finish(_sums(values, begins, words) + lengths.astype(np.uint64)) | np.uint64(1))


def _sums(terms: U64, starts: Any, lengths: Any) -> U64:
    """Sums of consecutive runs modulo 2**64; empty runs are 0."""
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return np.asarray(running[starts + lengths] - running[starts])


def _multipliers(count: int) -> U64:
    """Odd numbers, the same in every run: splitmix64 of the position."""
    position = np.arange(count, dtype=np.uint64)
    return np.asarray(_finish((position + np.uint64(_SEED)) * _SPREAD) | np.uint64(1))


def _finish(x: U64) -> U64:
    """splitmix64's mixing of the bits."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))
