"""Bad input to every public law: a ValueError of one line that names the parameter and the value; in the CLI, exit code 2.

Each case is (parameter to be named, call). Fractions, text, None and arrays are tried on all laws that take numbers.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrpo


def as_users_have_it() -> Any:
    """The package without the run-time type checker of the tests, which would answer before the checks under test."""
    loaded = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "fgrpo_theory"}
    finders = sys.meta_path[:]
    sys.meta_path[:] = [finder for finder in finders if not type(finder).__module__.startswith("jaxtyping")]
    try:
        return importlib.import_module("fgrpo_theory")
    finally:
        sys.meta_path[:] = finders
        for name in [name for name in sys.modules if name.partition(".")[0] == "fgrpo_theory"]:
            del sys.modules[name]
        sys.modules.update(loaded)


ft = as_users_have_it()
ROOT = Path(__file__).parents[2]
MASKED = np.ma.masked_array([0.5, 0.3], mask=[False, True])
NOT_NUMBERS: list[Any] = [
    True,
    [True, False],
    np.array(True),
    np.array([0.5, True], dtype=object),
    MASKED,
    "half",
    None,
    1j,
    [[1.0], [1.0, 2.0]],
    math.nan,
    [0.5, math.nan],
    {"mu": 1},
]
NOT_PROBABILITIES = [*NOT_NUMBERS, -1e-9, 1.0000001, math.inf, -math.inf, [0.5, 2.0]]
NOT_SIZES = [*NOT_NUMBERS, 0, -3, 2.5, math.inf, [4, 0]]
NOT_GAMMAS = [*NOT_NUMBERS, -0.5, math.inf, [0.0, 1.0]]
PAIR = {"p": [0.5, 0.5], "is_correct": [True, False]}
CLASSES = {"class_probability": [0.5, 0.25], "class_size": [1, 2], "class_is_correct": [True, False]}

# Each law with valid arguments.
VALID: dict[Callable[..., Any], dict[str, Any]] = {
    ft.active_probability: {"group_size": 8, "mu": 0.3},
    ft.tail_miss_probability: {"group_size": 8, "mu": 0.3, "tau": 0.03},
    ft.log_tail_miss_probability: {"group_size": 8, "mu": 0.3, "tau": 0.03},
    ft.conditional_tail_miss_probability: {"group_size": 8, "mu": 0.3, "tau": 0.03},
    ft.peak_group_size: {"mu": 0.3, "tau": 0.03},
    ft.concentration_zone: {"mu": 0.3, "tau": 0.03, "level": 0.5},
    ft.covering_group_size: {"mu": 0.3, "tau": 0.03, "max_miss": 0.05},
    ft.population_tail_miss_probability: {"group_size": 8, "alpha": 1.0, "beta": 2.0, "rare_fraction": 0.1},
    ft.advantage_magnitudes: {"mu": 0.3, "gamma": 1.0},
    ft.group_advantage_magnitudes: {"group_size": 8, "correct": 3, "gamma": 1.0},
    ft.expected_update_scale: {"group_size": 8, "mu": 0.3, "gamma": 1.0},
    ft.learning_rate_multiplier: {"gamma": 1.0},
    ft.focal_weight: {"success_rate": 0.3, "gamma": 1.0},
    ft.sampled_moments: {**PAIR, "counts": [1, 1]},
    ft.logit_update: {**PAIR, "counts": [1, 1], "gamma": 1.0},
    ft.total_mass_change: {**PAIR, "counts": [1, 1], "gamma": 1.0},
    ft.unsampled_mass_change: {**PAIR, "counts": [1, 1], "gamma": 1.0},
    ft.softmax_change: {"p": [0.5, 0.5], "dz": [1.0, 0.0]},
    ft.subset_mass_change: {"p": [0.5, 0.5], "dz": [1.0, 0.0], "subset": [True, False]},
    ft.expected_unsampled_correct_mass: {**PAIR, "group_size": 8},
    ft.expected_sampled_mass: {**PAIR, "group_size": 8, "correct": 3},
    ft.expected_baseline: {**PAIR, "group_size": 8, "correct": 3},
    ft.expected_mass_changes: {**CLASSES, "group_size": 8, "gamma": 1.0},
    ft.total_mass_change_variance: {**CLASSES, "group_size": 8, "gamma": 1.0},
    ft.unsampled_mass_change_variance: {**CLASSES, "group_size": 8, "gamma": 1.0},
    ft.group_advantage: {"rewards": [1.0, 0.0], "ddof": 1, "eps": 0.0},
}  # fmt: skip

# What is wrong for a parameter of that name, wherever it is taken.
WRONG: dict[str, list[Any]] = {
    "mu": NOT_PROBABILITIES,
    "tau": [*NOT_PROBABILITIES, 0.0, 0.4],
    "group_size": NOT_SIZES,
    "level": [*NOT_PROBABILITIES, 0.0],
    "max_miss": [*NOT_PROBABILITIES, 0.0],
    "alpha": [*NOT_NUMBERS, 0.0, -1.0, math.inf, 1e9],
    "beta": [*NOT_NUMBERS, 0.0, -1.0, math.inf, 1e9],
    "rare_fraction": [*NOT_PROBABILITIES, 0.0],
    "gamma": NOT_GAMMAS,
    "correct": [*NOT_NUMBERS, -1, 2.5, 9, math.inf],
    "success_rate": [-0.1, 1.1, math.nan, "half", None, True, [True, False], np.array([True]), MASKED],
    "p": [*NOT_NUMBERS, 0.5, [], [0.7, 0.7], [1.5, -0.5], [[0.5, 0.5]], [0.5, 0.4]],
    "class_probability": [*NOT_NUMBERS, 0.5, [], [0.7, 0.7], [1.5, -0.5], [[0.5, 0.5]], [0.5, 0.5]],
    "is_correct": [None, [1, 0], [True], [[True, False]], "yes", [True, False, True]],
    "class_is_correct": [None, [1, 0], [True], [[True, False]], "yes"],
    "class_size": [[True, True], [1, 0], [1, 2.5], [1, -2], [1], "two", [1, math.nan], [1, math.inf]],
    "counts": [*NOT_NUMBERS, 1, [1], [1, 1, 1], [1, -1], [1, 0.5], [0, 0], [[1, 1], [0, 0]], [1, math.inf]],
    "dz": [*NOT_NUMBERS, 1.0, [1.0], [1.0, 0.0, 0.0]],
    "subset": [[1, 0], [True], None, "yes"],
    "rewards": [MASKED, 1.0, [1.0], [[1.0], [0.0]], "half", None, 1j, []],
    "ddof": [2, -1],
    "eps": [-1e-6, math.nan, math.inf],
}  # fmt: skip
# `gamma` of the multiplier may be an array.
EXEMPT = {(ft.learning_rate_multiplier, "[0.0, 1.0]")}
# What the message may call a parameter that is judged by its dtype, or under the name of the shared check.
ALIAS = {"class_is_correct": "is_correct"}

CASES = [
    pytest.param(law, name, value, id=f"{law.__name__}-{name}-{value!r}")
    for law, valid in VALID.items()
    for name in valid
    for value in WRONG[name]
    if (law, repr(value)) not in EXEMPT
]


def one_line(error: pytest.ExceptionInfo[ValueError]) -> str:
    """The message, which must be one line and say what was got."""
    message = str(error.value)
    assert "\n" not in message
    assert ", got " in message
    return message


@pytest.mark.parametrize("law", VALID, ids=lambda law: law.__name__)
def test_the_valid_arguments_are_valid(law: Callable[..., Any]) -> None:
    assert law(**VALID[law]) is not None


@pytest.mark.parametrize(("law", "name", "value"), CASES)
def test_a_bad_value_is_named(law: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=", got ") as error:
        law(**{**VALID[law], name: value})
    message = one_line(error)
    rule, _, got = message.partition(", got ")
    assert ALIAS.get(name, name) in rule, message
    assert got, message


# The public functions beside the laws above, each with valid arguments.
OTHERS: dict[Callable[..., Any], dict[str, Any]] = {
    ft.pass_at_k: {"samples": 8, "correct": 3, "k": 2},
    ft.mean_pass_at_k: {"samples": [8, 9], "correct": [3, 4], "k": 2},
    ft.pass_at_k_variance: {"samples": 8, "mu": 0.3, "k": 2},
    ft.missing_mass: {"counts": [2, 1], "level": 0.9},
    ft.subsampling_test: {"baseline_correct": [3, 4], "focal_correct": [4, 5], "samples": [8, 8], "subsample": 4, "k": 1},
    ft.subsampling_test_monte_carlo: {"baseline_correct": [3, 4], "focal_correct": [4, 5], "samples": [8, 8], "subsample": 4,
                                      "k": 1, "draws": 10, "generator": np.random.default_rng(0)},
    ft.binomial_weights: {"group_size": 8, "mu": 0.3},
    ft.binomial_expectation: {"values": lambda k: k, "group_size": 8, "mu": 0.3},
    ft.success_rate: {"success": [True, False], "scorable": [True, True]},
    ft.success_from_rewards: {"rewards": [1.0, -1.0], "reward_correct": 1.0, "reward_wrong": -1.0},
    ft.focal_advantage: {"rewards": [1.0, 0.0], "success": [True, False], "gamma": 1.0, "ddof": 1, "eps": 0.0},
}  # fmt: skip
# Not a number of the law: functions, generators, and what is one whole number or a setting of a convention.
NO_NUMBERS = {"values", "generator", "ddof", "eps", "draws", "reward_correct", "reward_wrong"}
BOOLEANS = {"is_correct", "class_is_correct", "subset", "success", "scorable"}
EVERY = {**VALID, **OTHERS}


def test_every_public_function_is_among_those_tested_for_masks_and_booleans() -> None:
    public = {getattr(ft, name) for name in ft.__all__ if inspect.isfunction(getattr(ft, name))}
    assert public == set(EVERY)
    for law, valid in OTHERS.items():
        assert law(**valid) is not None


@pytest.mark.parametrize(("law", "name"), [
    pytest.param(law, name, id=f"{law.__name__}-{name}") for law, valid in EVERY.items() for name in valid if name not in NO_NUMBERS
])  # fmt: skip
def test_masked_arrays_are_refused_everywhere_and_booleans_where_numbers_are_meant(
    law: Callable[..., Any], name: str
) -> None:
    """What lies under a mask would be taken for data, and True for a probability of 1."""
    value = EVERY[law][name]
    bad: list[Any] = [np.ma.masked_array(value), np.ma.masked_array(value, mask=np.ones(np.shape(value), dtype=bool))]
    if name not in BOOLEANS | {"rewards"}:
        bad += [np.full(np.shape(value), True), np.full(np.shape(value), True).tolist()]
    for one in bad:
        with pytest.raises(ValueError, match=f"{ALIAS.get(name, name)} must .*, got ") as error:
            law(**{**EVERY[law], name: one})
        one_line(error)


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("surrogate", {"surrogate": "ppo"}),
    ("reward_correct", {"reward_correct": -1.0}),
    ("reward_correct", {"reward_correct": math.nan}),
    ("reward_correct", {"reward_correct": math.inf}),
    ("reward_wrong", {"reward_wrong": 2.0}),
    ("reward_wrong", {"reward_wrong": -math.inf}),
    ("learning_rate", {"learning_rate": math.nan}),
    ("std_scaled", {"std_scaled": True}),
    ("ddof", {"surrogate": "ratio", "std_scaled": True, "ddof": 2}),
    ("eps", {"surrogate": "ratio", "std_scaled": True, "eps": -1.0}),
]


WITH_OPTIONS = [
    ft.logit_update,
    ft.total_mass_change,
    ft.unsampled_mass_change,
    ft.expected_mass_changes,
    ft.total_mass_change_variance,
    ft.unsampled_mass_change_variance,
]


@pytest.mark.parametrize("law", WITH_OPTIONS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_bad_options_are_named(law: Callable[..., Any], name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=name) as error:
        law(**{**VALID[law], **options})
    one_line(error)


def test_exact_fractions_need_whole_gammas_and_no_root() -> None:
    half = [Fraction(1, 2)] * 2
    for options in ({"gamma": 0.5}, {"surrogate": "ratio", "std_scaled": True}):
        with pytest.raises(ValueError, match="exact fractions need") as error:
            ft.total_mass_change(half, [True, False], [1, 1], **options)
        one_line(error)


@pytest.mark.parametrize("law", [ft.tail_miss_probability, ft.log_tail_miss_probability, ft.conditional_tail_miss_probability,
                                 ft.concentration_zone, ft.covering_group_size, ft.expected_update_scale, ft.active_probability],
                         ids=lambda law: law.__name__)  # fmt: skip
def test_shapes_that_do_not_broadcast_are_named(law: Callable[..., Any]) -> None:
    first, second = [name for name in VALID[law] if name != "gamma"][:2]
    values = {first: np.full(2, VALID[law][first]), second: np.full(3, VALID[law][second])}
    with pytest.raises(ValueError, match=f"{first}.*{second}.*must broadcast together") as error:
        law(**{**VALID[law], **values})
    assert f"{first}.shape=(2,)" in one_line(error)
    assert f"{second}.shape=(3,)" in one_line(error)


@pytest.mark.parametrize("law", [ft.active_probability, ft.tail_miss_probability, ft.log_tail_miss_probability,
                                 ft.conditional_tail_miss_probability, ft.peak_group_size, ft.covering_group_size,
                                 ft.population_tail_miss_probability, ft.expected_update_scale, ft.learning_rate_multiplier],
                         ids=lambda law: law.__name__)  # fmt: skip
def test_empty_arrays_give_empty_results(law: Callable[..., Any]) -> None:
    name = next(iter(VALID[law]))
    assert law(**{**VALID[law], name: np.empty((0,))}).shape == (0,)


def test_the_first_offender_of_an_array_is_shown() -> None:
    with pytest.raises(ValueError, match=r"^tau must lie in \(0, mu\], got tau=0.4, mu=0.3$"):
        ft.tail_miss_probability(8, 0.3, [0.1, 0.4, 0.5])
    with pytest.raises(ValueError, match=r"^group_size must be a whole number of at least 1, got group_size=2.5$"):
        ft.active_probability([1, 2.5, -1], 0.3)


COMMANDS = [
    "theory",
    "theory nothing",
    "nothing",
    "",
    "theory tail-miss",
    "theory tail-miss --mu 0.3",
    "theory tail-miss --mu 0.3 --rho 0.1 --tau 0.03",
    "theory tail-miss --mu 1.3 --rho 0.1",
    "theory tail-miss --mu 0.3 --rho 1.1",
    "theory tail-miss --mu 0.3 --rho 0",
    "theory tail-miss --mu 0.3 --tau 0.4",
    "theory tail-miss --mu nan --rho 0.1",
    "theory tail-miss --mu inf --rho 0.1",
    "theory tail-miss --mu half --rho 0.1",
    "theory tail-miss --mu 0.3 --rho 0.1 --group-sizes 0",
    "theory tail-miss --mu 0.3 --rho 0.1 --group-sizes 2.5",
    "theory tail-miss --mu 0.3 --rho 0.1 --group-sizes",
    "theory tail-miss --mu 0.3 --rho 0.1 --group-sizes inf",
    "theory tail-miss --mu 0.3 --rho 0.1 --json --csv",
    "theory tail-miss --mu 0.3 --rho 0.1 --unknown",
    "theory peak --mu 1 --rho 0.1",
    "theory peak --mu 0.3 --rho 1",
    "theory peak --mu 0.3 --rho 0.1 --level 0",
    "theory peak --mu 0.3 --rho 0.1 --level 1.5",
    "theory plan --mu 0.3 --rho 0.1 --max-miss 0",
    "theory plan --mu 0.3 --rho 0.1 --max-miss 2",
    "theory plan --mu 0.3 --rho 0.1 --group-size 0",
    "theory plan --mu 0.3 --rho 0.1 --group-size 1",
    "theory plan --mu 0.3 --rho 0.1 --group-size 7.5",
    "theory plan --mu 0.3 --rho 0.1 --gamma -1",
    "theory plan --mu 0.3 0.4 --rho 0.1",
    "theory drift --group-sizes 0",
    "theory drift --group-sizes 2.5",
    "theory drift --gamma -1",
    "theory drift --correct 0 1.0 --wrong 5 0",
    "theory drift --correct 1.5 1.0 --wrong 5 0",
    "theory drift --correct 1 nan --wrong 5 0",
    "theory drift --correct 1 inf --wrong 5 0",
    "theory drift --correct 1",
    "theory drift --rewards -1 1",
    "theory drift --rewards 1 1",
    "theory drift --rewards 1 nan",
    "theory drift --surrogate ppo",
    "theory drift --surrogate probability --std-scaled",
    "theory drift --learning-rate nan",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_commands_end_with_one_line_and_code_2(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = fgrpo.main(command.split())
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "error: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", [COMMANDS[2], COMMANDS[7], COMMANDS[10]])
def test_bad_commands_in_a_process_of_their_own(command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "fgrpo.py", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


def test_messages_of_the_command_name_the_option_and_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(["theory", "tail-miss", "--mu", "0.3", "--rho", "1.1"]) == 2
    assert capsys.readouterr().err == "fgrpo theory: error: rho must lie in (0, 1], got rho=1.1\n"
    assert fgrpo.main(["theory", "tail-miss", "--mu", "0.3", "--tau", "0.4"]) == 2
    assert capsys.readouterr().err == "fgrpo theory: error: tau must lie in (0, mu], got tau=0.4, mu=0.3\n"


def test_the_traceback_is_there_for_whoever_asks() -> None:
    with pytest.raises(ValueError, match="rho must lie in"):
        fgrpo.main(["--traceback", "theory", "tail-miss", "--mu", "0.3", "--rho", "1.1"])


@pytest.mark.parametrize("place", ["file/inside/proofs.json", "file/proofs.json", "folder"])
def test_a_place_that_cannot_be_written_is_named(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path through a file, and a folder instead of a file (permissions do not stop a root user)."""
    monkeypatch.setattr("fgrpo_theory.symbolic.prove_all", lambda: iter(()))
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    assert fgrpo.main(["theory", "prove", "--out", str(tmp_path / place)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert str(tmp_path) in err
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["file", "folder"]


def test_errors_do_not_break_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    """N = 1 has no conditional tail miss: null, never NaN, which JSON does not know."""
    assert fgrpo.main(["theory", "tail-miss", "--mu", "0.3", "--rho", "0.1", "--group-sizes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["tail_miss_if_active"] is None
