"""Random numbers of the sparse engine, compiled: xoshiro256++ (Blackman and Vigna, 2019), 53 bits a uniform.

The state is uint64[4], seeded from the run's own `SeedSequence` stream, so no global generator exists.
"""

from __future__ import annotations

import numpy as np
from numba import njit

TO_UNIT = 2.0**-53
_S11, _S17, _S23, _S45 = np.uint64(11), np.uint64(17), np.uint64(23), np.uint64(45)
_S19, _S41 = np.uint64(19), np.uint64(41)


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
    return np.int64(word[0] >> _S11) * TO_UNIT


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
