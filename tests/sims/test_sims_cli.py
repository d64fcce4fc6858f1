"""`fgrpo sims`: what is printed, what is kept, and how bad input ends."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest

import fgrpo
from sims.config import SimConfig, field_help
from sims.presets import SIMULATIONS, SMOKE, SWEEPS
from sims.sparse import SparseEngine
from sims.tracking import trajectory


def run(*words: str) -> int:
    return fgrpo.main(["sims", *words])


def test_run_prints_the_trajectory_as_json(capsys):
    assert run("run", "--preset", "smoke", "--group-size", "16", "--gamma", "1", "--seed", "3", "--json") == 0
    expected = list(trajectory(SparseEngine(dataclasses.replace(SMOKE, group_size=16, gamma=1.0, seed=3))))
    assert json.loads(capsys.readouterr().out) == expected


def test_run_takes_every_option(capsys, tmp_path):
    words = [
        "run",
        "--preset",
        "smoke",
        "--classes",
        "2:1:correct",
        "1:20:correct",
        "0:50:wrong",
        "--subsets",
        "rare:1:5",
        "--surrogate",
        "probability",
        "--optimizer",
        "adamw",
        "--betas",
        "0.8",
        "0.9",
        "--eps",
        "1e-6",
        "--weight-decay",
        "0.01",
        "--reward-correct",
        "1",
        "--reward-wrong",
        "0",
        "--raw-rewards",
        "--temperature",
        "0.9",
        "--steps",
        "4",
        "--record-every",
        "2",
        "--learning-rate",
        "0.02",
        "--out",
        str(tmp_path / "run"),
        "--csv",
    ]
    assert run(*words) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["step"] for row in rows] == ["0", "2", "4"]
    assert 0 <= float(rows[-1]["tail_miss_rare_law"]) <= 1
    kept = SimConfig.from_json(json.loads((tmp_path / "run" / "config.json").read_text()))
    assert kept.optimizer == "adamw"
    assert kept.betas == (0.8, 0.9)
    assert kept.centre_rewards is False
    assert [group.size for group in kept.classes] == [1, 20, 50]
    assert run(*words) == 2
    assert "is already finished" in capsys.readouterr().err


def test_engines_print_the_same_columns(capsys):
    printed = []
    for engine in ("sparse", "dense"):
        assert run("run", "--preset", "smoke", "--steps", "2", "--engine", engine, "--json") == 0
        printed.append([list(row) for row in json.loads(capsys.readouterr().out)])
    assert printed[0] == printed[1]


def test_sweep_prints_the_last_rows(capsys, tmp_path):
    words = [
        "sweep",
        "--preset",
        "smoke",
        "--group-sizes",
        "4",
        "8",
        "4",
        "--gammas",
        "0.5",
        "--seeds",
        "5",
        "--steps",
        "10",
        "--workers",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    assert run(*words, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["group_size"], row["gamma"], row["seed"], row["step"]) for row in rows] == [
        (4, 0.5, 5, 10),
        (8, 0.5, 5, 10),
    ]
    assert run(*words) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:6] == [
        "surrogate",
        "group_size",
        "gamma",
        "seed",
        "step",
        "Q_pos",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--group-size", "0"), "group_size must be a whole number of at least 1, got group_size=0"),
        (("run", "--gamma", "nan"), "gamma must not be NaN"),
        (("run", "--classes", "3:10"), "must be LOGIT:SIZE:correct or LOGIT:SIZE:wrong, got '3:10'"),
        (("run", "--classes", "3:10:maybe"), "must be LOGIT:SIZE:correct"),
        (("run", "--classes", "3:0:wrong"), "must be LOGIT:SIZE:correct"),
        (("run", "--subsets", "leaf"), "must be NAME:CLASS:SIZE, got 'leaf'"),
        (("run", "--subsets", "leaf:2:1"), "a subset must lie in a class of correct actions"),
        (
            ("sweep", "--preset", "smoke", "--workers", "0", "--out", "{tmp}"),
            "workers must be a whole number of at least 1",
        ),
        (("sweep", "--preset", "smoke", "--gammas", "-1", "--out", "{tmp}"), "gamma must be finite and at least 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message, capsys, tmp_path):
    try:
        code = run(*(word.replace("{tmp}", str(tmp_path / "out")) for word in words))
    except SystemExit as error:
        code = error.code
    assert code == 2
    errors = [
        line
        for line in capsys.readouterr().err.replace("\r", "\n").splitlines()
        if line.strip() and "run/s" not in line
    ]
    assert len(errors) == 1
    assert message in errors[0]


def test_help_describes_every_field():
    described = field_help(SimConfig)
    assert set(described) == set(SMOKE.__dataclass_fields__)
    assert all(described.values())


def test_presets_are_offered(capsys):
    for command, names in (("run", SIMULATIONS), ("sweep", SWEEPS)):
        with pytest.raises(SystemExit) as stop:
            run(command, "--help")
        assert stop.value.code == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in names)
