"""What the categorical laws share: a checked policy, checked options, and numbers that are float64 or exact.

If the probabilities are `fractions.Fraction` (or whole numbers), the laws compute with rationals from end to end and return
Fractions: that is how they are compared with enumeration, exactly. Otherwise everything is float64.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypedDict, TypeVar

import numpy as np

from .focal import focal_weight_of_counts
from .foundation.checks import (
    ArrayLike,
    BoolArray,
    FloatArray,
    as_boolean,
    as_choice,
    as_float,
    as_gamma,
    refuse_masked,
    require,
)

# Arrays (or scalars, where an axis is summed away) of float64, or of Fractions as objects.
Numbers: TypeAlias = Any
# float, or Fraction.
Scalar: TypeAlias = Any
SURROGATES = ("probability", "ratio")
Law = TypeVar("Law", bound=Callable[..., Any])

# How far float64 probabilities may sum from 1; 128,000 of them stay within 1e-12.
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Options:
    """The keyword arguments that every law takes."""

    gamma: float
    """Focal exponent, at least 0; 0 is plain GRPO."""
    learning_rate: Scalar
    """eta of eq. 5."""
    reward_correct: Scalar
    """R_c."""
    reward_wrong: Scalar
    """R_w, less than R_c."""
    surrogate: str
    """\"probability\": raw rewards, distinct actions (eq. 5). \"ratio\": importance ratios, centred rewards."""
    std_scaled: bool
    """Divide the centred rewards by their std (eq. 3); "ratio" only."""
    ddof: int
    """0 or 1, of that std."""
    eps: float
    """Added to that std."""
    exact: bool
    """Compute with Fractions."""

    @property
    def gap(self) -> Scalar:
        """R_c - R_w."""
        return self.reward_correct - self.reward_wrong

    def weight(self, group_size: Any, correct: Numbers) -> Numbers:
        """g(k) = (1 - k/N)^gamma, eq. 12; 0^0 = 1."""
        if self.exact:
            return np.asarray(((group_size - correct) / group_size) ** int(self.gamma))
        return focal_weight_of_counts(np.asarray(group_size, dtype=np.float64), correct, self.gamma)

    def spread(self, group_size: Any, correct: Numbers) -> Numbers:
        """What centred rewards are divided by at X = k, 0 < k < N: 1, or std + eps."""
        if not self.std_scaled:
            return np.ones_like(correct)
        variance = correct * (group_size - correct) / (group_size * (group_size - self.ddof))
        return np.asarray(self.gap * np.sqrt(variance) + self.eps)


class LawOptions(TypedDict, total=False):
    """The keywords of a law, as `Options` explains them and `as_options` gives their defaults."""

    gamma: float
    learning_rate: float
    reward_correct: float
    reward_wrong: float
    surrogate: str
    std_scaled: bool
    ddof: int
    eps: float


def as_options(
    exact: bool,
    *,
    gamma: float = 0.0,
    learning_rate: float = 1.0,
    reward_correct: float = 1.0,
    reward_wrong: float = -1.0,
    surrogate: str = "probability",
    std_scaled: bool = False,
    ddof: int = 1,
    eps: float = 0.0,
) -> Options:
    """Check the options of a law; the defaults here are those of every law. Raises ValueError."""
    as_choice("surrogate", surrogate, SURROGATES)
    as_gamma(gamma)
    for name, value in (
        ("learning_rate", learning_rate),
        ("reward_correct", reward_correct),
        ("reward_wrong", reward_wrong),
    ):
        require(bool(np.isfinite(as_float(name, float(value)))), f"{name} must be finite", **{name: value})
    require(
        reward_correct > reward_wrong,
        "reward_correct must be greater than reward_wrong",
        reward_correct=reward_correct,
        reward_wrong=reward_wrong,
    )
    require(not std_scaled or surrogate == "ratio", "std_scaled needs surrogate='ratio'", surrogate=surrogate)
    require(ddof in (0, 1), "ddof must be 0 or 1", ddof=ddof)
    require(bool(np.isfinite(eps)) and eps >= 0, "eps must be finite and at least 0", eps=eps)
    if exact:
        require(
            float(gamma).is_integer() and not std_scaled,
            "exact fractions need a whole gamma and std_scaled=False",
            gamma=gamma,
            std_scaled=std_scaled,
        )
    numbers = (learning_rate, reward_correct, reward_wrong)
    eta, right, wrong = (Fraction(x) for x in numbers) if exact else numbers
    return Options(gamma, eta, right, wrong, surrogate, std_scaled, ddof, eps, exact)


def takes_options(law: Law) -> Law:
    """Show the keywords and defaults of `as_options` where `help` and editors look, in place of the law's `**options`."""
    signature = inspect.signature(law)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [p for p in inspect.signature(as_options).parameters.values() if p.kind is p.KEYWORD_ONLY]
    law.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return law


def as_numbers(name: str, value: ArrayLike) -> Numbers:
    """One axis of float64, or of Fractions if any element is one."""
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        array = as_float(name, value)  # a ragged list, which it names
    if array.dtype == object and any(isinstance(x, Fraction) for x in array.flat):
        as_float(name, array)  # what is no number beside the Fractions, it names
        array = np.array([Fraction(x) for x in array.flat], dtype=object).reshape(array.shape)
    else:
        array = as_float(name, value)
    require(
        array.ndim == 1 and array.size > 0,
        f"{name} must have one axis and at least one element",
        **{f"{name}.shape": array.shape},
    )
    return array


def as_fractions(whole: FloatArray) -> Numbers:
    """Whole float64 numbers as an array of Fractions."""
    return np.array([Fraction(int(x)) for x in whole.flat], dtype=object).reshape(whole.shape)


def as_policy(
    p: ArrayLike,
    is_correct: ArrayLike,
    size: ArrayLike | None = None,
    *,
    name: str = "p",
    size_name: str = "size",
) -> tuple[Numbers, BoolArray, Numbers]:
    """Checked (p of one action, is_correct, number of such actions), each of one axis. Raises ValueError.

    The probabilities, counted with their sizes, must sum to 1: within 1e-9, or exactly if they are Fractions.
    """
    probability, correct = as_numbers(name, p), as_boolean("is_correct", is_correct)
    sizes = np.ones(probability.shape) if size is None else as_float(size_name, size)
    for other, array in (("is_correct", correct), (size_name, sizes)):
        require(
            array.shape == probability.shape,
            f"{other} must have the shape of {name}",
            **{f"{other}.shape": array.shape, f"{name}.shape": probability.shape},
        )
    require(
        (sizes >= 1) & (np.floor(sizes) == sizes) & np.isfinite(sizes),
        f"{size_name} must be whole numbers of at least 1",
        **{size_name: sizes},
    )
    require((probability >= 0) & (probability <= 1), f"{name} must lie in [0, 1]", **{name: probability})
    if probability.dtype == object:
        sizes = as_fractions(sizes)
        require(sum(probability * sizes) == 1, f"{name} must sum to 1", sum=sum(probability * sizes))
    else:
        total = math.fsum((probability * sizes).tolist())
        require(abs(total - 1) <= _SUM_TOLERANCE, f"{name} must sum to 1 within 1e-9", sum=total)
    return probability, correct, sizes


def as_group_size(group_size: int) -> int:
    """One whole N >= 1. Raises ValueError."""
    array = as_float("group_size", group_size)
    require(array.ndim == 0, "group_size must be a single number", **{"group_size.shape": array.shape})
    require(
        (array >= 1) & np.isfinite(array) & (np.floor(array) == array),
        "group_size must be a whole number of at least 1",
        group_size=array,
    )
    return int(array)
