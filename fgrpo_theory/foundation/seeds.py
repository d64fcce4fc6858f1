"""The one seed rule: a stream is named, and adding a stream moves no other.

>>> int(generator(0, "rollouts", 3).integers(1000)) == int(generator(0, "rollouts", 3).integers(1000))
True
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from .checks import as_whole, require


def seed_sequence(root: int, name: str, *index: int) -> np.random.SeedSequence:
    """`SeedSequence(root, spawn_key=(crc32(name), *index))`.

    Raises ValueError if root or an index is not a whole number of at least 0, or the name is empty.
    """
    as_whole("root", root, least=0)
    as_whole("index", list(index), least=0)
    require(bool(name), "name must not be empty", name=name)
    return np.random.SeedSequence(int(root), spawn_key=(crc32(name.encode()), *map(int, index)))


def generator(root: int, name: str, *index: int) -> np.random.Generator:
    """A PCG64 generator over that stream."""
    return np.random.Generator(np.random.PCG64(seed_sequence(root, name, *index)))
