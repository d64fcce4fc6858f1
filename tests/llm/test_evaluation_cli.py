"""evaluate, rare and compare from the command line, on a run of the tiny preset cut short."""

from __future__ import annotations

import argparse
import json

import pytest

from fgrpo_theory.foundation.files import read_json, read_table
from llm.config import changed
from llm.evaluation_cli import configure_evaluation
from llm.presets import PRESETS
from llm.training_run import train_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    # Few and small totals without examples: learnt in a few steps.
    options = {"lowest_total": 1, "highest_total": 7, "heldout_every": 2, "examples": []}
    short = {"steps": 1, "sft.steps": 40, "prompts_per_step": 3, "probe_every": 0, "task.options": options,
             "model.scratch.hidden": 32, "model.scratch.feed_forward": 64}  # fmt: skip
    for name, seed in (("one", 0), ("two", 1)):
        train_run(changed(PRESETS["tiny"], short | {"seed": seed}), folder / name)
    return folder


def command(*words: object) -> None:
    parser = argparse.ArgumentParser()
    configure_evaluation(parser.add_subparsers(required=True))
    arguments = parser.parse_args([str(word) for word in words])
    arguments.run(arguments)


def test_evaluate_rare_compare(runs, capsys):
    one, two = runs / "one", runs / "two"
    command("evaluate", one, two, "--samples", 64, "--problems", 3, "--json")
    printed = json.loads(capsys.readouterr().out)
    assert {row["run"] for row in printed} == {"one", "two"}
    assert [row["k"] for row in printed[:7]] == [1, 2, 4, 8, 16, 32, 64]
    counts = read_table(one / "evaluation_heldout" / "counts.parquet")
    assert counts["samples"].tolist() == [64] * 3
    assert printed[0]["pass_at_k"] == pytest.approx(counts["correct"].sum() / 192)

    command("evaluate", one, "--start", "--samples", 16, "--problems", 3)
    command("rare", one, two, "--samples", 200, "--fraction", 0.2, "--problems", 4)
    assert read_json(two / "rare.json")["solutions"] == read_json(one / "rare.json")["solutions"] > 0
    capsys.readouterr()

    start = one / "evaluation_start_heldout"
    command("compare", one, two, "--k", 1, 64, "--start", start, "--out", runs / "table.csv")
    shown = capsys.readouterr().out
    assert "pass@64" in shown
    assert "M_ret" in shown
    table = read_table(runs / "table.csv")
    assert table["run"].tolist() == ["one", "two"]
    assert table["rare_rise"].tolist() == pytest.approx([read_json(run / "rare.json")["rise"] for run in (one, two)])
    assert (table["M_ret"] < 1).all()


def test_a_finished_evaluation_is_kept_or_refused(runs, capsys):
    one = runs / "one"
    words = ("evaluate", one, "--split", "train", "--problems", 2, "--samples")
    command(*words, 8)
    before = (one / "evaluation_train" / "counts.parquet").read_bytes()
    command(*words, 8)
    assert "is finished" in capsys.readouterr().err
    assert (one / "evaluation_train" / "counts.parquet").read_bytes() == before
    with pytest.raises(ValueError, match="same settings"):
        command(*words, 9)


def test_unfinished_runs_are_refused(tmp_path):
    for name in ("evaluate", "rare"):
        with pytest.raises(ValueError, match="finished run folder"):
            command(name, tmp_path)
    with pytest.raises(ValueError, match="evaluated run"):
        command("compare", tmp_path)
