"""Means over groups that belong to clusters (the rollout groups of one prompt), with intervals that know of it.

A log is condensed into cells: a cell is a kind of group, such as "8 rollouts, 3 correct". Two statistics are enough for
every mean or ratio of means of functions of the cell: how often each cell occurs, h, and how often each pair of cells
occurs in one cluster, C = sum over clusters of c c' with c the cluster's own counts. Then, for T = (a'h) / (b'h),

    Var T ~ K / (K - 1) * r' C r,   r = (a - T b) / (b'h),

which is the linearised (sandwich) variance over clusters: right whatever the dependence inside a cluster. K is the
effective number of clusters, Kish's (b'h)^2 / b'Cb. Source: Liang and Zeger 1986; Kish 1965.

The interval of a mean that lies in [0, 1] is Wilson's (1927) for T (1 - T) / Var T independent trials; where the variance
is estimated as 0 it is that of K trials, the widest law on [0, 1] being binary. Its quantile is Student's at K - 1, or at
twice the effective number of clusters that carry a, or b - a, if that is less: where few clusters carry a total, the
variance is as uncertain as their number (ours; without it the mean of Beta(0.2, 4) was covered 93 % instead of 95 %).
Left out on purpose: the bootstrap, which needs the clusters themselves and gives [0, 0] where no event was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import stdtrit

from .foundation.checks import ArrayLike, FloatArray, as_float, as_probability, as_whole, require

_ROUNDING = 1e-14


@dataclass(frozen=True)
class Estimate:
    """An estimate with its interval."""

    value: float
    lower: float
    upper: float
    level: float
    """Nominal coverage of [lower, upper]."""
    clusters: float
    """Effective number of clusters."""


@dataclass(frozen=True)
class ClusterCounts:
    """How often each cell occurs (h), and each pair of cells in one cluster (C)."""

    totals: FloatArray
    """h, one number a cell."""
    pairs: Any
    """C, a symmetric scipy sparse array over cells."""

    def add(self, other: ClusterCounts) -> ClusterCounts:
        """Both together; no cluster may occur in both."""
        return ClusterCounts(self.totals + other.totals, self.pairs + other.pairs)

    def total(self, values: ArrayLike) -> float:
        """Sum over groups of a function of the cell."""
        return float(as_float("values", values) @ self.totals)

    def effective_clusters(self, weights: ArrayLike) -> float:
        """(w'h)^2 / w'Cw, the number of clusters if each has the same total weight."""
        w = as_float("weights", weights)
        square = float(w @ (self.pairs @ w))
        return float(w @ self.totals) ** 2 / square if square > 0 else 0.0

    def influence(self, numerator: ArrayLike, denominator: ArrayLike) -> tuple[float, FloatArray]:
        """T and r of the module's docstring. Raises ValueError unless the denominator's total is positive."""
        a, b = as_float("numerator", numerator), as_float("denominator", denominator)
        below = float(b @ self.totals)
        require(below > 0, "denominator must have a positive total", total=below)
        value = float(a @ self.totals) / below
        return value, np.asarray((a - value * b) / below)

    def variance(self, influence: FloatArray, clusters: float) -> float:
        """K / (K - 1) r'Cr; infinite for K <= 1."""
        square = max(0.0, float(influence @ (self.pairs @ influence)))
        return square * clusters / (clusters - 1) if clusters > 1 else float("inf")


def count_clusters(cluster: ArrayLike, cell: ArrayLike, cells: int) -> ClusterCounts:
    """Condense groups into counts.

    cluster, cell: one whole number a group, from 0; cell below `cells`. Raises ValueError.

    >>> counts = count_clusters([0, 0, 1], [0, 1, 1], 2)
    >>> counts.totals.tolist(), counts.pairs.toarray().tolist()
    ([1.0, 2.0], [[1.0, 1.0], [1.0, 2.0]])
    """
    who, kind = as_whole("cluster", cluster, least=0), as_whole("cell", cell, least=0)
    require(who.ndim == 1 and who.shape == kind.shape, "cluster and cell must be lists of one length", shape=kind.shape)
    require(kind < cells, "cell must be below cells", cell=kind, cells=cells)
    rows, columns = who.astype(np.int64), kind.astype(np.int64)
    height = int(rows.max()) + 1 if rows.size else 0
    # Duplicates are summed on conversion.
    matrix = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(height, cells))
    return ClusterCounts(np.bincount(columns, minlength=cells).astype(np.float64), (matrix.T @ matrix).tocsr())


def share(counts: ClusterCounts, numerator: ArrayLike, denominator: ArrayLike, *, level: float = 0.95) -> Estimate:
    """T = total of numerator / total of denominator, which must lie in [0, 1], with its interval.

    numerator, denominator: a value a cell, 0 <= numerator <= denominator. Source: the module's docstring.
    Raises ValueError.

    >>> counts = count_clusters(np.arange(100), np.repeat([0, 1], [80, 20]), 2)
    >>> estimate = share(counts, [0.0, 1.0], [1.0, 1.0])
    >>> estimate.value, round(estimate.lower, 3), round(estimate.upper, 3)
    (0.2, 0.131, 0.292)
    """
    a, b = as_float("numerator", numerator), as_float("denominator", denominator)
    require((a >= -1e-12) & (a <= b + 1e-9), "numerator must lie in [0, denominator]", numerator=a, denominator=b)
    value, influence = counts.influence(a, b)
    clusters = counts.effective_clusters(b)
    carriers = [2 * effective for effective in map(counts.effective_clusters, (a, b - a)) if effective > 0]
    freedom = max(1.0, min(clusters - 1, *carriers))
    lower, upper = unit_interval(value, counts.variance(influence, clusters), clusters, level, freedom)
    return Estimate(value, lower, upper, level, clusters)


def unit_interval(
    value: float, variance: float, clusters: float, level: float, freedom: float | None = None
) -> tuple[float, float]:
    """Wilson's interval of a mean in [0, 1] for value (1 - value) / variance trials; (0, 1) for one cluster or fewer.

    freedom: degrees of freedom of Student's quantile, clusters - 1 unless given.

    >>> unit_interval(0.0, 0.0, 30.0, 0.95)[0]
    0.0
    """
    as_probability("level", level, open_ends=True)
    if clusters <= 1 or not np.isfinite(variance):
        return 0.0, 1.0
    value = min(max(value, 0.0), 1.0)
    spread = value * (1 - value)
    # A variance that is rounding alone is none.
    trials = spread / variance if variance > _ROUNDING * spread else clusters
    z2 = float(stdtrit(clusters - 1 if freedom is None else freedom, (1 + level) / 2)) ** 2 / trials
    centre, half = value + z2 / 2, float(np.sqrt(z2 * (spread + z2 / 4)))
    return max(0.0, (centre - half) / (1 + z2)), min(1.0, (centre + half) / (1 + z2))


def difference(
    counts: ClusterCounts,
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    *,
    level: float = 0.95,
) -> Estimate:
    """Second ratio minus the first, each (numerator, denominator), with Student's interval; clusters may be in both.

    Raises ValueError if a denominator has no positive total.

    >>> counts = count_clusters([0, 0, 1, 1], [0, 1, 0, 1], 2)
    >>> difference(counts, ([1.0, 0.0], [1.0, 1.0]), ([0.0, 1.0], [1.0, 1.0])).value
    0.0
    """
    as_probability("level", level, open_ends=True)
    before, r1 = counts.influence(*first)
    after, r2 = counts.influence(*second)
    clusters = min(counts.effective_clusters(first[1]), counts.effective_clusters(second[1]))
    half = float("inf")
    if clusters > 1:
        half = float(stdtrit(clusters - 1, (1 + level) / 2)) * float(np.sqrt(counts.variance(r2 - r1, clusters)))
    return Estimate(after - before, max(-1.0, after - before - half), min(1.0, after - before + half), level, clusters)
