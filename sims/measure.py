"""What is measured on a policy, in one compiled pass: a row of a trajectory must not cost more than an update.

Left out: what needs the closed forms, which `sims.tracking` adds.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# An action is above its start when it exceeds it by more than the rounding of its probability.
RISE = 1.0 + 1e-12


@njit(nogil=True, cache=True, error_model="numpy")
def measure(
    probability: np.ndarray, size: np.ndarray, is_correct: np.ndarray, start: np.ndarray, counts: np.ndarray
) -> tuple[float, float, float, float, float, float, float, float, float, float, float]:
    """One pass over the entries of a `Snapshot` (its first five fields).

    Returns Q_pos; sum of min(p, start) and sum of start over correct actions (M_ret is their quotient, eq. 26); number of
    correct actions above their start, and of all; largest loss of one, and largest loss relative to its start (0 without
    a loss); entropy in nats; Q_u,pos; P_neg; X.
    """
    q_pos, kept, mass, above, many, drop, relative = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    entropy, q_u_pos, p_neg, correct = 0.0, 0.0, 0.0, 0.0
    for k in range(probability.size):
        p, n = probability[k], size[k]
        if n == 0:
            continue
        if p > 0.0:
            entropy -= n * p * math.log(p)
        if not is_correct[k]:
            p_neg += n * p if counts[k] else 0.0
            continue
        many += n
        q_pos += n * p
        mass += n * start[k]
        kept += n * min(p, start[k])
        above += n if p > start[k] * RISE else 0
        drop = max(drop, start[k] - p)
        relative = max(relative, 1.0 - p / start[k])
        q_u_pos += 0.0 if counts[k] else n * p
        correct += counts[k]
    return q_pos, kept, mass, above, many, drop, relative, entropy, q_u_pos, p_neg, correct
