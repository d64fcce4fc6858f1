"""The paper's categorical start policy (section 5.1, appendix J), as the three classes that the closed forms take.

128,000 actions: one "anchor" correct action with logit 5, 9,999 other correct ones ("leaves") with logit 3, 118,000
wrong ones with logit 0. Only the start policy is here; the simulation is in sims, which figures never import.
"""

from __future__ import annotations

import math

import numpy as np

import fgrpo_theory as theory

CLASS_LOGIT = (5.0, 3.0, 0.0)
CLASS_SIZE = (1, 9_999, 118_000)
CLASS_IS_CORRECT = (True, True, False)

_TOTAL = sum(size * math.exp(logit) for logit, size in zip(CLASS_LOGIT, CLASS_SIZE, strict=True))

CLASS_PROBABILITY = tuple(math.exp(logit) / _TOTAL for logit in CLASS_LOGIT)
"""The probability of one action of each class."""

ANCHOR_PROBABILITY, LEAF_PROBABILITY, WRONG_PROBABILITY = CLASS_PROBABILITY

CORRECT_MASS = ANCHOR_PROBABILITY + CLASS_SIZE[1] * LEAF_PROBABILITY
"""Q_pos of the start policy, which is also one rollout's success probability."""

GROUP_SIZES = tuple(2**power for power in range(1, 18))
"""The group sizes of figure 2: 2, 4, ..., 131072."""


def expected_changes(group_size: int, *, surrogate: str, gamma: float = 0.0) -> tuple[float, float]:
    """Exact expectation of one step's (dQ_pos, dQ_u,pos) at learning rate 1, rewards 1 and -1, under this policy."""
    classes = (np.array(CLASS_PROBABILITY), np.array(CLASS_SIZE), np.array(CLASS_IS_CORRECT))
    changes = theory.expected_mass_changes(*classes, group_size, surrogate=surrogate, gamma=gamma, learning_rate=1.0)
    return float(changes[0]), float(changes[1])
