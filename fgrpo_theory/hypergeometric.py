"""Hypergeometric weights: the correct answers in a subsample drawn without replacement.

Source: textbook; used for eq. 27's variance (F-GRPO, arXiv 2602.06717) and for the subsampling test of its appendix Q.
The same walk outward from the mode as in `binomial`, normalised by its own sum, down to where double precision ends.
Left out on purpose: checks of the arguments, which the public functions make once at their border.
"""

from __future__ import annotations

import numpy as np

from .binomial import walk_from_mode
from .foundation.checks import FloatArray

# Relative to the mode. Small tails matter: a p-value may lie there, and the variance of pass@k weighs them up.
_CUT = 1e-300


def hypergeometric_weights(population: int, successes: int, draws: int) -> tuple[int, FloatArray]:
    """The pmf of the successes among `draws` items, at the counts first, first + 1, ...; returns first and the weights.

    0 <= successes <= population and 0 <= draws <= population, not checked here. Source: the module's docstring.

    >>> first, weights = hypergeometric_weights(4, 2, 2)
    >>> first, [round(6 * float(w), 12) for w in weights]
    (0, [1.0, 4.0, 1.0])
    """
    lowest, highest = max(0, draws + successes - population), min(successes, draws)
    mode = min(max((successes + 1) * (draws + 1) // (population + 2), lowest), highest)
    spare = population - successes - draws
    chance = successes / population
    block = 64 + int(10 * np.sqrt(draws * chance * (1 - chance)))
    below = walk_from_mode(lambda step: _down(successes, draws, spare, mode - step), mode - lowest, block, _CUT)[::-1]
    above = walk_from_mode(lambda step: _up(successes, draws, spare, mode + step), highest - mode, block, _CUT)
    weights = np.concatenate([below, [1.0], above])
    return mode - below.size, weights / weights.sum()


def _up(successes: int, draws: int, spare: int, here: FloatArray) -> FloatArray:
    """p(here + 1) / p(here); spare = population - successes - draws."""
    return (successes - here) / (here + 1.0) * ((draws - here) / (spare + here + 1.0))


def _down(successes: int, draws: int, spare: int, here: FloatArray) -> FloatArray:
    return here / (successes - here + 1.0) * ((spare + here) / (draws - here + 1.0))
