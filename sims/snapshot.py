"""A policy with the group drawn from it, in classes of equal probability: what both engines hand to the tracker."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Snapshot(NamedTuple):
    """Entry k stands for `size[k]` actions; a drawn action has an entry of its own (size 1). All arrays are [entry]."""

    probability: np.ndarray  # float64, probability of one action
    size: np.ndarray  # int64, number of actions (0 is allowed)
    is_correct: np.ndarray  # bool
    start: np.ndarray  # float64, start probability of one action
    counts: np.ndarray  # int64, draws in the group
    marks: np.ndarray  # uint8, bit k: drawn member of subset k (untouched members are not marked)
