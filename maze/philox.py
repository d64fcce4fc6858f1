"""Random words by counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), compiled.

A word depends on (key, maze number, position) and on nothing else, so a maze is the same in whatever chunk, order or
thread it is made. Left out on purpose: jumping, state objects, floating-point output.
"""

from __future__ import annotations

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
def below(limit: int, key: np.uint64, number: np.uint64, position: int, words: np.ndarray) -> tuple[int, int]:
    """(a whole number uniform on 0 ... limit - 1, the next position): Lemire's multiply and reject (2019), exact.

    limit < 2^31. position: how many words of stream `number` are used up; words: uint64[4], the block that it stands in.
    """
    bound = np.uint64(limit)
    threshold = bound
    while True:
        if position & 3 == 0:
            philox(key, number, np.uint64(position >> 2), words)
        product = words[position & 3] * bound
        position += 1
        if product & _LOW >= threshold:
            return int(product >> _HALF), position
        threshold = (np.uint64(1) << _HALF) % bound
        if product & _LOW >= threshold:
            return int(product >> _HALF), position
