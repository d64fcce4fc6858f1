"""Laws of sums of independent variables on the whole numbers, with a bound on the mass that arithmetic lost.

Source: ours; the error of a transform is that of Higham, Accuracy and Stability, theorem 24.2. Direct convolution adds
positive terms only, so a tail keeps its relative accuracy; it costs the product of the two lengths. The fast transform
is for long laws and is exact to about 1e-12 of the whole mass. Ends of negligible weight are cut off. Both losses are
added up in `lost`, so that a probability read off a law comes with bounds. Left out on purpose: signed weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from .foundation.checks import FloatArray

# Relative to the largest weight; below the second one a transform leaves only rounding noise.
_CUT_DIRECT = 1e-40
_CUT_TRANSFORM = 1e-16


@dataclass(frozen=True)
class LatticeLaw:
    """P(S = first + i) = weights[i], up to mass of at most `lost` that is missing or misplaced."""

    first: int
    weights: FloatArray
    lost: float = 0.0

    def mirrored(self) -> LatticeLaw:
        """The law of -S."""
        return LatticeLaw(1 - self.first - self.weights.size, self.weights[::-1], self.lost)

    def at_most(self, value: int) -> tuple[float, float]:
        """Lower and upper bound of P(S <= value), apart from rounding of about 1e-13 relative."""
        mass = float(self.weights[: max(0, value - self.first + 1)].sum())
        return max(0.0, mass - self.lost), min(1.0, mass + self.lost)

    def quantile(self, level: float) -> int:
        """The least s with P(S <= s) >= level, for 0 < level < 1; rounding of 1e-12 is forgiven."""
        reached = np.cumsum(self.weights) >= level * (1 - 1e-12)
        return self.first + (int(np.argmax(reached)) if reached.any() else self.weights.size - 1)


def sum_law(laws: Sequence[LatticeLaw], *, transform: bool) -> LatticeLaw:
    """The law of the sum of independent variables, merged pairwise; by fast transforms where asked and worth it."""
    level = list(laws)
    while len(level) > 1:
        merged = [_merge(left, right, transform) for left, right in zip(level[::2], level[1::2], strict=False)]
        level = merged + level[2 * len(merged) :]
    return level[0]


def difference_law(left: LatticeLaw, right: LatticeLaw) -> LatticeLaw:
    """The law of left - right for laws with few atoms on a fine lattice: every pair of atoms, positive terms only."""
    at_left, at_right = np.flatnonzero(left.weights), np.flatnonzero(right.weights)
    places = (at_left[:, None] - at_right[None, :] + right.weights.size - 1).ravel()
    masses = np.outer(left.weights[at_left], right.weights[at_right]).ravel()
    first, length = left.first - right.first - right.weights.size + 1, left.weights.size + right.weights.size - 1
    return LatticeLaw(first, _binned(places, masses, length), left.lost + right.lost)


def law_of_values(values: NDArray[np.int64], chances: FloatArray) -> LatticeLaw:
    """The law of a variable that takes values[i] with chances[i]; values may repeat."""
    first = int(values.min())
    return trimmed(LatticeLaw(first, _binned(values - first, chances, int(values.max()) - first + 1)))


def trimmed(law: LatticeLaw, cut: float = _CUT_DIRECT) -> LatticeLaw:
    """The law without its ends that weigh less than `cut` times the largest weight; their mass counts as lost."""
    kept = np.flatnonzero(law.weights >= cut * law.weights.max())
    start, stop = int(kept[0]), int(kept[-1]) + 1
    dropped = float(law.weights[:start].sum() + law.weights[stop:].sum())
    return LatticeLaw(law.first + start, law.weights[start:stop], law.lost + dropped)


def _binned(places: NDArray[np.int64], masses: FloatArray, length: int) -> FloatArray:
    return np.bincount(places, masses, length).astype(np.float64, copy=False)


def _merge(left: LatticeLaw, right: LatticeLaw, transform: bool) -> LatticeLaw:
    lost, first = left.lost + right.lost, left.first + right.first
    if not transform:
        return trimmed(LatticeLaw(first, np.convolve(left.weights, right.weights), lost))
    length = left.weights.size + right.weights.size - 1
    padded = fft.next_fast_len(length, real=True)
    product = fft.rfft(left.weights, padded) * fft.rfft(right.weights, padded)
    weights = np.maximum(fft.irfft(product, padded)[:length], 0.0)
    # Theorem 24.2 for three transforms, in the 2-norm; then Cauchy-Schwarz to the mass.
    norms = float(np.linalg.norm(left.weights) + np.linalg.norm(right.weights))
    error = 16 * np.finfo(float).eps * np.log2(padded) * np.sqrt(padded) * norms
    return trimmed(LatticeLaw(first, weights, lost + float(error)), _CUT_TRANSFORM)
