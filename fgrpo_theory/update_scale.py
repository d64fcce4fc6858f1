"""How large the binary advantages are, and how much of the update the focal weight leaves (figure 4, appendix N).

Of N rollouts with X = k correct and rewards R_c > R_w, eq. 3 without eps gives, whatever the rewards are,

    A+ = sqrt((N - ddof) / N * (N - k) / k),   |A-| = sqrt((N - ddof) / N * k / (N - k)),

and in the limit A+ = sqrt((1 - mu) / mu), |A-| = sqrt(mu / (1 - mu)). Each is multiplied by g = (1 - k/N)^gamma.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from .binomial import binomial_expectation
from .focal import focal_weight_of_counts
from .foundation.checks import ArrayLike, FloatArray, as_float, as_gamma, as_probability, as_whole, require, together


def advantage_magnitudes(mu: ArrayLike, gamma: float) -> tuple[FloatArray, FloatArray]:
    """(A+, |A-|) in the population limit, times the focal weight: figure 4.

    mu: success probability, in (0, 1). gamma: at least 0. Relative error at most 1e-12. Raises ValueError.

    >>> [float(a) for a in advantage_magnitudes(0.2, 0.0)]
    [2.0, 0.5]
    """
    gamma, mu_ = as_gamma(gamma), as_probability("mu", mu, open_ends=True)
    # One power each, so that g = (1 - mu)^gamma may underflow without making A- = 0 * inf.
    return ((1 - mu_) ** (gamma + 0.5) / np.sqrt(mu_))[()], (np.sqrt(mu_) * (1 - mu_) ** (gamma - 0.5))[()]


def group_advantage_magnitudes(
    group_size: ArrayLike, correct: ArrayLike, gamma: float, *, ddof: int = 1, eps: float = 0.0, reward_gap: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """(A+, |A-|) of a group with `correct` of `group_size` rollouts correct, times the focal weight (eqs. 3, 12, 13).

    group_size: N >= 2. correct: k in [0, N]; both magnitudes are 0 at k = 0 and k = N. ddof: 0 or 1. eps: added to the
    std. reward_gap: R_c - R_w, which matters only if eps > 0. Raises ValueError.

    >>> [float(a.round(4)) for a in group_advantage_magnitudes(4, 1, 0.0, ddof=0)]
    [1.7321, 0.5774]
    """
    n, k = together(
        group_size=as_whole("group_size", group_size, least=2), correct=as_whole("correct", correct, least=0)
    )
    require(k <= n, "correct must be at most group_size", correct=k, group_size=n)
    scale = focal_weight_of_counts(n, k, gamma) * _advantage_unit(n, k, ddof, eps, reward_gap)
    return (scale * (n - k))[()], (scale * k)[()]


def expected_update_scale(
    group_size: ArrayLike, mu: ArrayLike, gamma: float, *, ddof: int = 1, eps: float = 0.0, reward_gap: float = 1.0
) -> FloatArray:
    """E[g |A|], the mean over rollouts and over X ~ Binomial(N, mu) of the focally weighted advantage's size (ours).

    group_size: N >= 2. mu: in [0, 1]. Both broadcast; the rest as for `group_advantage_magnitudes`.
    A sum of positive terms, relative error at most 1e-12. Raises ValueError.

    >>> expected_update_scale(8, 0.5, 0.0, ddof=0).round(6)
    np.float64(0.927828)
    """
    n, mu_ = together(group_size=as_whole("group_size", group_size, least=2), mu=as_probability("mu", mu))
    gamma = as_gamma(gamma)
    result = np.empty(n.shape)
    for index in np.ndindex(n.shape):
        size = float(n[index])

        def scale(k: FloatArray, size: float = size) -> FloatArray:
            # k rollouts of size A+ and N - k of size |A-|, over N.
            both = 2 * k * (size - k) / size * _advantage_unit(np.full_like(k, size), k, ddof, eps, reward_gap)
            return np.asarray(focal_weight_of_counts(np.full_like(k, size), k, gamma) * both)

        result[index] = binomial_expectation(int(size), float(mu_[index]), scale)
    return result[()]


def learning_rate_multiplier(gamma: ArrayLike) -> FloatArray:
    """m_gamma = B(3/2, gamma + 3/2) / B(3/2, 3/2) = (4 / sqrt(pi)) Gamma(gamma + 3/2) / Gamma(gamma + 3), appendix N.

    gamma: at least 0, at most 1e8; broadcasts. The learning rate of plain GRPO that matches the focal weight's mean
    update over mu ~ Uniform(0, 1). Raises ValueError.

    >>> learning_rate_multiplier([0.0, 0.5, 1.0]).round(6)
    array([1.      , 0.679061, 0.5     ])
    """
    gamma_ = as_float("gamma", gamma)
    require((gamma_ >= 0) & (gamma_ <= 1e8), "gamma must lie in [0, 1e8]", gamma=gamma_)
    # Gamma(x) / Gamma(x + 3/2): by log-gammas while those are small, beyond by the difference of Stirling series.
    small = np.exp(gammaln(np.minimum(gamma_, 20) + 1.5) - gammaln(np.minimum(gamma_, 20) + 3))
    ratio: FloatArray = np.where(gamma_ < 20, small, _gamma_ratio(np.maximum(gamma_, 20)))
    return np.asarray(4 / np.sqrt(np.pi) * ratio)[()]


def _gamma_ratio(gamma: FloatArray) -> FloatArray:
    """Gamma(gamma + 3/2) / Gamma(gamma + 3) for gamma >= 20, from Stirling's series of both."""
    low, high = gamma + 1.5, gamma + 3.0

    def remainder(x: FloatArray) -> FloatArray:
        return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / x**2) / x**2) / x**2) / x

    # (low - 1/2) log low - low - (high - 1/2) log high + high, with log(low / high) = log1p(-3/2 / high).
    exponent = (low - 0.5) * np.log1p(-1.5 / high) + 1.5 + remainder(low) - remainder(high)
    return np.asarray(np.exp(exponent) * high**-1.5)


def _advantage_unit(n: FloatArray, k: FloatArray, ddof: int, eps: float, gap: float) -> FloatArray:
    """gap / N / (std + eps): A+ is this times N - k and |A-| this times k; 0 where the group is not active."""
    require(ddof in (0, 1), "ddof must be 0 or 1", ddof=ddof)
    require(bool(np.isfinite(eps)) and eps >= 0, "eps must be finite and at least 0", eps=eps)
    require(bool(np.isfinite(gap)) and gap > 0, "reward_gap must be finite and greater than 0", reward_gap=gap)
    deviation = gap * np.sqrt(k * (n - k) / (n * (n - ddof))) + eps
    active = (k > 0) & (k < n)
    return np.divide(gap / n, deviation, out=np.zeros_like(k), where=active)
