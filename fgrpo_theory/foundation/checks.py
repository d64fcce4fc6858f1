"""Input checks, made once at the border of a public function.

Every failure is a `ValueError` of one line that names the parameter, the rule and the offending value, for example
`tau must lie in (0, mu], got tau=0.4, mu=0.3`. Of an array, the first offending element is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
else:
    # Run-time checkers read numpy's ArrayLike without int, so `as_float` judges inputs; 0-d results are numpy scalars.
    ArrayLike = object
    FloatArray = NDArray[np.float64] | np.float64
    IntArray = NDArray[np.int64] | np.int64
BoolArray = NDArray[np.bool_]


def as_float(name: str, value: ArrayLike) -> FloatArray:
    """`value` as float64, refusing text, booleans, complex numbers, masked arrays, ragged lists and NaN."""
    refuse_masked(name, value)
    try:
        raw = np.asarray(value)
        array = np.asarray(raw, dtype=np.float64) if raw.dtype.kind in "iuf" or _objects(raw) else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise ValueError(
            f"{name} must be a real number or an array of them, got {name}={' '.join(repr(value).split())}"
        )
    if np.isnan(array).any():
        raise ValueError(f"{name} must not be NaN, got {name}={_shown(array)}")
    return array


def as_boolean(name: str, value: ArrayLike) -> BoolArray:
    """`value` as an array of booleans; numbers are refused, 0 and 1 too."""
    refuse_masked(name, value)
    array = np.asarray(value)
    require(array.dtype == np.bool_, f"{name} must be booleans", **{f"{name}_dtype": array.dtype})
    return array


def refuse_masked(name: str, value: object) -> None:
    """Refuse a masked array: what lies under its mask would be taken for data."""
    if isinstance(value, np.ma.MaskedArray):
        hidden = int(np.ma.getmaskarray(value).sum())
        raise ValueError(f"{name} must not be a masked array, got {name} with {hidden} of {value.size} values masked")


def as_whole(name: str, value: ArrayLike, *, least: int = 1) -> FloatArray:
    """Whole numbers of at least `least`, as float64 (exact up to 2**53)."""
    array = as_float(name, value)
    require(
        (array >= least) & (np.floor(array) == array) & np.isfinite(array),
        f"{name} must be a whole number of at least {least}",
        **{name: array},
    )
    return array


def as_probability(name: str, value: ArrayLike, *, open_ends: bool = False) -> FloatArray:
    """Probabilities in [0, 1], or in (0, 1) with `open_ends`."""
    array = as_float(name, value)
    inside = (array > 0) & (array < 1) if open_ends else (array >= 0) & (array <= 1)
    require(inside, f"{name} must lie in {'(0, 1)' if open_ends else '[0, 1]'}", **{name: array})
    return array


def as_gamma(value: float) -> float:
    """The focal exponent: one finite number of at least 0."""
    array = as_float("gamma", value)
    if array.ndim:
        raise ValueError(f"gamma must be a single number, got gamma={value!r}")
    require((array >= 0) & np.isfinite(array), "gamma must be finite and at least 0", gamma=array)
    return float(array)


def as_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """One of the named choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {name}={value!r}")
    return value


def together(**arrays: FloatArray) -> tuple[FloatArray, ...]:
    """Broadcast the arrays against each other, or name their shapes."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name}.shape={array.shape}" for name, array in arrays.items())
        raise ValueError(f"{' and '.join(arrays)} must broadcast together, got {shapes}") from None


def require(holds: BoolArray | bool | np.bool_, rule: str, **values: Any) -> None:
    """Raise `ValueError(rule, values)` unless `holds` everywhere.

    Of arrays, the first offending elements are shown; a tuple, such as a shape, is shown whole.
    """
    holds = np.asarray(holds)
    if holds.all():
        return
    raise ValueError(f"{rule}, got {_first_offender(np.asarray(~holds), values)}")


def _first_offender(offending: BoolArray, values: Mapping[str, Any]) -> str:
    index = np.unravel_index(int(np.argmax(offending)), offending.shape)
    shown = []
    for name, value in values.items():
        element = value if isinstance(value, tuple) else np.broadcast_to(np.asarray(value), offending.shape)[index]
        shown.append(
            f"{name}={float(element)!r}".removesuffix(".0") if isinstance(element, np.floating) else f"{name}={element}"
        )
    return ", ".join(shown)


def _objects(raw: NDArray[Any]) -> bool:
    """Whether these are Python objects without a boolean among them (Fractions, large whole numbers)."""
    return raw.dtype.kind == "O" and not any(isinstance(element, bool | np.bool_) for element in raw.flat)


def _shown(array: FloatArray) -> str:
    return str(array[()]) if array.ndim == 0 else f"an array with {int(np.isnan(array).sum())} NaN"
