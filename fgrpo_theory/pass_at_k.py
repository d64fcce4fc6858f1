"""pass@k: the chance that at least one of k answers is correct, estimated without bias from n >= k samples.

Source: F-GRPO (arXiv 2602.06717) eq. 27, after Chen et al. 2021: 1 - C(n - c, k) / C(n, k) for c correct of n samples.
The ratio is a product of min(c, k) factors 1 - max(c, k) / (n - i), because c and k may be exchanged; it is summed as
log1p and closed with expm1, so small values keep their digits and no factorial is formed. The variance is that of a
U-statistic (Hoeffding 1948), a sum of positive terms. Left out on purpose: pooling over problems of unequal samples;
pass@k is per problem, and `mean_pass_at_k` averages it.
"""

from __future__ import annotations

import numpy as np

from .foundation.checks import ArrayLike, FloatArray, as_probability, as_whole, require, together
from .hypergeometric import hypergeometric_weights

_LARGEST_SAMPLES = 2**53
# exp(-40) is below half an ulp of 1.
_CERTAIN = 40.0
_BLOCK_ELEMENTS = 2**20


def pass_at_k(samples: ArrayLike, correct: ArrayLike, k: ArrayLike) -> FloatArray:
    """1 - C(samples - correct, k) / C(samples, k), eq. 27, per problem; the three arguments broadcast.

    `samples` answers were drawn for the problem and `correct` of them are right; the result lies in [0, 1].

    Raises ValueError unless all are whole, 1 <= k <= samples <= 2**53, 0 <= correct <= samples, and shapes broadcast.

    >>> pass_at_k(2048, [0, 1, 2048], 1024).tolist()
    [0.0, 0.5, 1.0]
    >>> pass_at_k(10, 3, 5).round(6)
    np.float64(0.916667)
    """
    sizes, rights, tries = _checked(samples, correct, k)
    fewer, more = np.minimum(rights, tries), np.maximum(rights, tries)
    result = np.ones(sizes.shape)
    # Each factor is at most 1 - more / samples, so the product is at most exp(-fewer * more / samples).
    open_cases = (fewer + more <= sizes) & (fewer * (more / sizes) <= _CERTAIN)
    result[open_cases] = 0.0 - np.expm1(_log_product(sizes[open_cases], fewer[open_cases], more[open_cases]))
    return result[()]


def mean_pass_at_k(samples: ArrayLike, correct: ArrayLike, k: ArrayLike) -> FloatArray:
    """The mean of pass@k over problems, which lie along the last axis of samples and correct; k may be an array.

    The result has the shape of k followed by the leading axes of the problems.

    Raises ValueError as `pass_at_k`, and if there is no problem.

    >>> mean_pass_at_k(4, [0, 1, 4], [1, 2]).round(6).tolist()
    [0.416667, 0.5]
    """
    sizes, rights = together(samples=as_whole("samples", samples), correct=as_whole("correct", correct, least=0))
    require(
        rights.ndim > 0 and rights.shape[-1] > 0,
        "correct must hold one count a problem along its last axis",
        **{"correct.shape": rights.shape},
    )
    tries = as_whole("k", k)
    spread = tries.reshape(tries.shape + (1,) * rights.ndim)
    means: FloatArray = np.mean(pass_at_k(sizes, rights, spread), axis=-1)
    return means


def pass_at_k_variance(samples: ArrayLike, mu: ArrayLike, k: ArrayLike) -> FloatArray:
    """Var[pass_at_k(samples, X, k)] for X ~ Binomial(samples, mu), per problem; the three arguments broadcast.

    With q = 1 - mu it is sum over c of H(c) (q**(2k - c) - q**(2k)), where H(c) is the chance that two random k-subsets
    of the samples share c members (hypergeometric). For k = 1 it is mu (1 - mu) / samples.

    Source: Hoeffding 1948, eq. 5.13, for the kernel "all k answers are wrong". Time grows as the width of H.
    Raises ValueError as `pass_at_k`, and unless mu lies in [0, 1].

    >>> pass_at_k_variance(4, 0.5, 1)
    np.float64(0.0625)
    """
    sizes, tries = as_whole("samples", samples), as_whole("k", k)
    sizes, chances, tries = together(samples=sizes, mu=as_probability("mu", mu), k=tries)
    _check_sizes(sizes, tries)
    result = np.empty(sizes.shape)
    for index in np.ndindex(sizes.shape):
        result[index] = _one_variance(int(sizes[index]), float(chances[index]), int(tries[index]))
    return result[()]


def _checked(samples: ArrayLike, correct: ArrayLike, k: ArrayLike) -> tuple[FloatArray, ...]:
    sizes, rights, tries = together(
        samples=as_whole("samples", samples), correct=as_whole("correct", correct, least=0), k=as_whole("k", k)
    )
    _check_sizes(sizes, tries)
    require(rights <= sizes, "correct must be at most samples", correct=rights, samples=sizes)
    return sizes, rights, tries


def _check_sizes(sizes: FloatArray, tries: FloatArray) -> None:
    require(sizes <= _LARGEST_SAMPLES, "samples must be at most 2**53", samples=sizes)
    require(tries <= sizes, "k must be at most samples", k=tries, samples=sizes)


def _log_product(sizes: FloatArray, fewer: FloatArray, more: FloatArray) -> FloatArray:
    """sum over i < fewer of log(1 - more / (sizes - i)), for flat arrays, a bounded block of terms at a time."""
    order = np.argsort(-fewer)
    sizes, lengths, more = sizes[order], fewer[order], more[order]
    totals, start, rows = np.zeros(sizes.size), 0, int(np.count_nonzero(lengths > 0))
    while rows:
        terms = np.arange(start, start + max(1, min(_BLOCK_ELEMENTS // rows, int(lengths[0]) - start)))
        inside = terms < lengths[:rows, None]
        shares = np.where(inside, more[:rows, None] / np.where(inside, sizes[:rows, None] - terms, 1.0), 0.0)
        totals[:rows] += np.log1p(-shares).sum(axis=1)
        start += terms.size
        rows = int(np.count_nonzero(lengths > start))
    result = np.empty(sizes.size)
    result[order] = totals
    return result


def _one_variance(size: int, chance: float, tries: int) -> float:
    if chance == 1.0:
        return 0.0
    first, weights = hypergeometric_weights(size, tries, tries)
    shared = first + np.arange(weights.size, dtype=np.float64)
    log_wrong = np.log1p(-chance)
    return float(np.sum(weights * np.exp((2 * tries - shared) * log_wrong) * -np.expm1(shared * log_wrong)))
