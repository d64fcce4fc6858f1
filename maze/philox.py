"""Random words by counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), compiled.

A word depends on (key, maze number, position) and on nothing else, so a maze is the same in whatever chunk, order or
thread it is made. Left out on purpose: jumping, state objects, floating-point output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@njit(nogil=True, cache=True, error_model="numpy")
def philox(key: np.uint64, number: np.uint64, block: np.uint64, words: np.ndarray) -> None:
    """Fill words[0:4] (uint64, each below 2^32) with the output for counter (block low, block high, number low, number high)."""
    c0, c1, c2, c3 = block & _LOW, block >> _HALF, number & _LOW, number >> _HALF
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(10):
        p0, p1 = _MULTIPLY_0 * c0, _MULTIPLY_1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    words[0], words[1], words[2], words[3] = c0, c1, c2, c3


@njit(nogil=True, cache=True, error_model="numpy")
def next_word(key: np.uint64, number: np.uint64, used: np.ndarray, words: np.ndarray) -> Any:
    """The next 32-bit word (uint64) of stream `number`; used: uint64[1], the count of words taken; words: uint64[4], its block."""
    position = used[0]
    if position & np.uint64(3) == np.uint64(0):
        philox(key, number, position >> np.uint64(2), words)
    used[0] = position + np.uint64(1)
    return words[position & np.uint64(3)]


@njit(nogil=True, cache=True, error_model="numpy")
def below(limit: int, key: np.uint64, number: np.uint64, used: np.ndarray, words: np.ndarray) -> int:
    """A whole number uniform on 0 ... limit - 1, exactly: Lemire's multiply and reject (2019). limit < 2^31."""
    bound = np.uint64(limit)
    product = next_word(key, number, used, words) * bound
    if product & _LOW < bound:
        threshold = (np.uint64(1) << _HALF) % bound
        while product & _LOW < threshold:
            product = next_word(key, number, used, words) * bound
    return np.int64(product >> _HALF)  # type: ignore[return-value]
