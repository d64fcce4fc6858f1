"""The quick suite, drawn once with a fixed seed; every wrong law is then judged on the same draws."""

import argparse
import json
import math

import numpy as np
import pytest

from fgrpo_theory.foundation.files import read_table
from sims.crosscheck import cli
from sims.crosscheck.registry import suite
from sims.crosscheck.runner import draw_all, failures, judge_all, judge_wrong, survivors
from sims.crosscheck.wrong_laws import WRONG_LAWS

SEED = 20260217


@pytest.fixture(scope="module")
def totals():
    return draw_all(suite("quick").scenarios, SEED, 2, progress=False)


@pytest.fixture
def drawn(totals, monkeypatch):
    """The command, on draws that are already there."""
    monkeypatch.setattr(cli, "draw_all", lambda scenarios, seed, workers: totals)


def run(*words):
    parser = argparse.ArgumentParser()
    cli.configure_crosscheck(parser.add_subparsers())
    arguments = parser.parse_args(["crosscheck", "--profile", "quick", *words])
    return arguments.run(arguments)


def test_every_law_passes(totals):
    outcomes = judge_all(suite("quick"), totals)
    assert failures(outcomes) == []
    assert len(outcomes) == len(suite("quick").cells)
    assert all(math.isfinite(outcome.z) for outcome in outcomes)


def test_standardised_differences_look_like_noise(totals):
    z = np.array([o.z for o in judge_all(suite("quick"), totals) if o.law != "Good-Turing coverage"])
    # Cells of one scenario are correlated; a suite that tested nothing would have no spread at all.
    assert 0.7 < z.std() < 1.4


@pytest.mark.parametrize("name", WRONG_LAWS)
def test_every_wrong_law_is_refused(name, totals):
    outcomes = judge_wrong(suite("quick"), totals, [WRONG_LAWS[name]])
    assert any(outcome.verdict == "killed" for outcome in outcomes)


@pytest.mark.parametrize(
    "name", ["tail-keeps-all-correct", "dq-u-pos-probability-no-direct", "pass-plug-in", "coverage-plug-in"]
)
def test_a_wrong_law_in_place_of_the_right_one_fails_its_cells_alone(name, totals):
    failed = failures(judge_all(suite("quick"), totals, WRONG_LAWS[name]))
    assert {outcome.law for outcome in failed} == {WRONG_LAWS[name].replaces}


def test_a_wrong_sampler_fails_too(totals):
    spoiled = {name: {key: value.copy() for key, value in arrays.items()} for name, arrays in totals.items()}
    spoiled["rollouts N8 mu0.3"]["miss"] = spoiled["rollouts N8 mu0.3"]["miss"] * 1.02
    assert [o.law for o in failures(judge_all(suite("quick"), spoiled))] == ["tail miss"]


def test_totals_do_not_depend_on_the_number_of_workers():
    three = [
        s for s in suite("quick").scenarios if s.name in ("steps six N8", "singletons few n30", "rollouts N64 mu0.02")
    ]
    assert sum(len(scenario.blocks()) for scenario in three) > 3
    first, second = draw_all(three, 3, 1, progress=False), draw_all(three, 3, 2, progress=False)
    other = draw_all(three, 4, 2, progress=False)
    for name, arrays in first.items():
        for key, value in arrays.items():
            np.testing.assert_array_equal(value, second[name][key])
            assert (value != other[name][key]).any()


def test_command_writes_the_table_the_summary_and_where_they_come_from(drawn, tmp_path, capsys):
    assert run("--seed", "5", "--out", str(tmp_path / "out")) == 0
    shown = capsys.readouterr()
    assert "tail miss" in shown.out
    assert shown.err.startswith("seed 5\n")
    assert f"{len(WRONG_LAWS)} of {len(WRONG_LAWS)} wrong laws are refused" in shown.err
    table = read_table(tmp_path / "out" / "crosscheck.parquet")
    right = np.array([name is None for name in table["wrong_law"]])
    assert right.sum() == len(suite("quick").cells)
    assert set(table["verdict"][right]) == {"pass"}
    assert {
        "law",
        "cell",
        "expected",
        "observed",
        "standard_error",
        "z",
        "threshold",
        "detectable",
        "sample_size",
    } <= set(table)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["seed"], summary["failed"], summary["survivors"]) == (5, [], [])
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["seed"] == 5


def test_command_with_a_wrong_law_exits_1_and_writes_nothing(drawn, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("--replace", "activity-keeps-all-wrong") == 1
    shown = capsys.readouterr()
    assert "fails: activity: N 2, mu 0.5" in shown.err
    assert "tail miss" not in shown.out
    assert list(tmp_path.iterdir()) == []


def test_command_prints_fresh_entropy(drawn, tmp_path, capsys):
    seeds = set()
    for _ in range(2):
        assert run("--out", str(tmp_path), "--json") == 0
        shown = capsys.readouterr()
        seeds.add(shown.err.splitlines()[0])
        assert len(json.loads(shown.out)) == len(suite("quick").cells)
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--replace", "nonsense"), "replace must be the name of a wrong law"),
        (("--seed", "-1"), "seed must be a whole number of at least 0"),
        (("--workers", "0"), "workers must be a whole number of at least 1"),
    ],
)
def test_command_refuses_bad_input(words, message):
    with pytest.raises(ValueError, match=message):
        run(*words)


def test_wrong_laws_are_listed(capsys):
    assert run("--list-wrong") == 0
    shown = capsys.readouterr().out
    assert [name for name in WRONG_LAWS if name not in shown] == []


def test_survivors_are_laws_without_a_kill(totals):
    outcomes = judge_wrong(suite("quick"), totals, [WRONG_LAWS["tail-poisson"]])
    assert survivors(outcomes) == []
    assert survivors([outcome for outcome in outcomes if outcome.verdict == "survives"]) == ["tail-poisson"]
