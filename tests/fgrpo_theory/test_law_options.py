"""The keywords that the laws share: one list, one set of defaults, the same in every law's signature and help."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np
import pytest

import fgrpo_theory as ft
from fgrpo_theory.policy import LawOptions, as_options

DEFAULTS = {
    "gamma": 0.0,
    "learning_rate": 1.0,
    "reward_correct": 1.0,
    "reward_wrong": -1.0,
    "surrogate": "probability",
    "std_scaled": False,
    "ddof": 1,
    "eps": 0.0,
}
GROUP = ([0.5, 0.2, 0.3], [True, True, False], [1, 0, 1])
CLASSES = ([0.4, 0.1, 0.2], [1, 2, 2], [True, True, False], 4)
LAWS: dict[Callable[..., Any], tuple[Any, ...]] = {
    law: arguments
    for arguments, laws in (
        (GROUP, (ft.logit_update, ft.total_mass_change, ft.unsampled_mass_change)),
        (CLASSES, (ft.expected_mass_changes, ft.total_mass_change_variance, ft.unsampled_mass_change_variance)),
    )
    for law in laws
}
# A value that is not the default, and what it needs beside it.
OTHER = {
    "gamma": {"gamma": 1.5},
    "learning_rate": {"learning_rate": 0.1},
    "reward_correct": {"reward_correct": 2.0},
    "reward_wrong": {"reward_wrong": 0.0},
    "surrogate": {"surrogate": "ratio"},
    "std_scaled": {"surrogate": "ratio", "std_scaled": True},
    "ddof": {"surrogate": "ratio", "std_scaled": True, "ddof": 0},
    "eps": {"surrogate": "ratio", "std_scaled": True, "eps": 0.5},
}
each_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)


def numbers(result: Any) -> list[Any]:
    """A result's numbers, whatever holds them."""
    parts = (
        vars(result).values() if isinstance(result, ft.MassChange) else result if type(result) is tuple else [result]
    )
    return [np.asarray(part).tolist() for part in parts]


def test_every_public_law_that_takes_the_options_is_tested_here() -> None:
    public = [getattr(ft, name) for name in ft.__all__]
    takers = {law for law in public if inspect.isfunction(law) and "surrogate" in inspect.signature(law).parameters}
    assert takers == set(LAWS)


@each_law
def test_signature_and_help_spell_out_every_keyword(law: Callable[..., Any]) -> None:
    keywords = {
        name: parameter.default
        for name, parameter in inspect.signature(law).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert keywords == DEFAULTS
    assert list(keywords) == list(DEFAULTS)
    shown = pydoc.plain(pydoc.render_doc(law))
    assert "options" not in shown.partition(")")[0]
    for name, value in DEFAULTS.items():
        assert f"{name}: '{type(value).__name__}' = {value!r}" in shown


def test_the_typed_keywords_are_those_of_the_check() -> None:
    keywords = {
        name: parameter.annotation
        for name, parameter in inspect.signature(as_options, eval_str=True).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert get_type_hints(LawOptions) == keywords


@each_law
@pytest.mark.parametrize("name", DEFAULTS)
def test_every_keyword_reaches_the_law(law: Callable[..., Any], name: str) -> None:
    arguments, other = LAWS[law], OTHER[name]
    plain = {key: value for key, value in other.items() if key != name}
    assert numbers(law(*arguments, **{**DEFAULTS, **plain})) == numbers(law(*arguments, **plain))
    assert numbers(law(*arguments, **other)) != numbers(law(*arguments, **plain))


@each_law
def test_an_unknown_keyword_and_a_further_position_are_refused(law: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="gama"):
        law(*LAWS[law], gama=1.0)
    with pytest.raises(TypeError, match="positional"):
        law(*LAWS[law], 1.0)
