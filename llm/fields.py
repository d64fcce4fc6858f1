"""Frozen dataclasses as JSON, and the checks and help texts that they share.

Left out on purpose: unions and optional fields; a setting that is off has a plain value that says so (0, an empty tuple).
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import types
import typing
from collections.abc import Mapping
from typing import Any

from fgrpo_theory.foundation.checks import as_float, require


def field_help(kind: type) -> dict[str, str]:
    """The docstring under each field of a dataclass: one source for readers and for `--help`."""
    body = ast.parse(inspect.getsource(kind).strip()).body[0].body  # type: ignore[attr-defined]
    return {
        name.target.id: text.value.value  # type: ignore[union-attr, attr-defined]
        for name, text in itertools.pairwise(body)
        if isinstance(name, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def above_zero(config: object, name: str) -> None:
    """Refuse a field that is not a finite number above 0."""
    value = as_float(name, getattr(config, name))
    require((value > 0) & (value < float("inf")), f"{name} must be finite and above 0", **{name: value})


def decode(kind: Any, value: Any, name: str) -> Any:
    """JSON as `kind`: nested dataclasses, tuples for lists, floats for whole numbers; anything else must have the type."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        require(isinstance(value, Mapping), f"{name} must be a mapping", value=value)
        for key in value:
            require(key in hints, f"{name} has no such field", field=key)
        return kind(**{key: decode(hints[key], inner, key) for key, inner in value.items()})  # type: ignore[operator]
    origin = typing.get_origin(kind) or kind
    if origin is tuple:
        require(isinstance(value, list | tuple), f"{name} must be a list", value=value)
        return tuple(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    plain = isinstance(kind, type | types.GenericAlias) or origin is Mapping
    matches = isinstance(value, origin) and not (isinstance(value, bool) and kind is int)
    require(plain and matches, f"{name} must be of type {getattr(origin, '__name__', origin)}", **{name: repr(value)})
    return value
