"""The paper's categorical start policy (section 5.1, appendix J), as the three classes that the closed forms take.

128,000 actions: one "anchor" correct action with logit 5, 9,999 other correct ones ("leaves") with logit 3, 118,000
wrong ones with logit 0. Only the start policy is here; the simulation is in sims, which figures never import.
"""

from __future__ import annotations

import math

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
