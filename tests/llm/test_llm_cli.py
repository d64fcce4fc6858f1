"""`fgrpo llm`: what each command does, and one line for bad input."""

from __future__ import annotations

import argparse
import json
import os
import signal

import pytest
from llm_runs import SMALL, rows, weights

from llm.cli import config_of, configure
from llm.config import TrainConfig
from llm.presets import PRESETS
from llm.trainer import Trainer


@pytest.fixture
def run():
    """Parse words and run the command."""

    def command(*words):
        parser = argparse.ArgumentParser(prog="fgrpo llm")
        configure(parser)
        arguments = parser.parse_args([str(word) for word in words])
        return arguments.run(arguments)

    return command


def parsed(*words):
    parser = argparse.ArgumentParser()
    configure(parser)
    return config_of(parser.parse_args(["train", *words]))


def test_presets_are_listed_with_what_was_measured(run, capsys):
    run("presets", "--json")
    listed = {row["preset"]: row["measured"] for row in json.loads(capsys.readouterr().out)}
    assert listed == {name: "no" if name.startswith("paper-") else "yes" for name in PRESETS}


def test_a_presets_settings_are_shown_with_their_meaning(run, capsys):
    run("presets", "smollm2", "--json")
    shown = {row["field"]: row for row in json.loads(capsys.readouterr().out)}
    assert shown["objective.gamma"]["value"] == "0.0"
    assert "focal exponent" in shown["objective.gamma"]["meaning"]
    assert shown["model.source"]["value"] == '"smollm2-135m"'


def test_options_win_over_the_preset():
    config = parsed("--preset", "tiny", "--objective", "cispo", "--gamma", "0.5", "--seed", "7", "--steps", "3",
                    "--set", "sampling.group_size=16", "optimizer.schedule=cosine", "task.options.lowest_total=5")  # fmt: skip
    assert (config.objective.surrogate, config.objective.gamma, config.seed, config.steps) == ("cispo", 0.5, 7, 3)
    assert (config.sampling.group_size, config.optimizer.schedule) == (16, "cosine")
    assert config.task.options == {"lowest_total": 5}


def test_low_lr_is_the_matched_control():
    config = parsed("--preset", "smollm2", "--low-lr", "1")
    assert config.objective.gamma == 0
    assert config.optimizer.learning_rate == pytest.approx(5e-6)
    with pytest.raises(ValueError, match="gamma must not be given with low-lr, got gamma=1"):
        parsed("--low-lr", "1", "--gamma", "1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "foo"], "set must be written FIELD=VALUE, got set=foo"),
        (["--set", "objective.gama=1"], "settings must name a field of the configuration, got setting=objective.gama"),
        (["--gamma", "-1"], "gamma must be finite and at least 0, got gamma=-1"),
        (["--steps", "-1"], "steps must be a whole number of at least 0, got steps=-1"),
    ],
)
def test_bad_options_are_named(words, message):
    with pytest.raises(ValueError, match=message):
        parsed(*words)


def test_train_stop_resume_and_exact(run, tmp_path, capsys, monkeypatch):
    config = tmp_path / "small.json"
    config.write_text(json.dumps(SMALL.resolved()))
    out, step = tmp_path / "run", Trainer.step
    assert run("train", "--config", config, "--steps", "4", "--out", tmp_path / "calm") == 0

    def interrupted(self, index):
        if index == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, index)

    monkeypatch.setattr(Trainer, "step", interrupted)
    assert run("train", "--config", config, "--steps", "4", "--out", out) == 130
    assert f"go on with: fgrpo llm resume {out}" in capsys.readouterr().err
    monkeypatch.setattr(Trainer, "step", step)
    assert run("resume", f"{out}.partial") == 0
    assert weights(out) == weights(tmp_path / "calm")
    assert rows(out) == rows(tmp_path / "calm")
    assert TrainConfig.from_json(json.loads((out / "config.json").read_text())).steps == 4
    capsys.readouterr()
    run("exact", out, "--laws", "--json")
    train, heldout = json.loads(capsys.readouterr().out)
    assert (train["split"], heldout["split"]) == ("train", "heldout")
    assert 0 < train["mu"] < 1
    assert 0 < train["retained"] <= 1
    assert (out / "laws_train.parquet").exists()
    with pytest.raises(ValueError, match="folder must be a run that was stopped"):
        run("resume", out)


def test_exact_needs_a_finished_run(run, tmp_path):
    with pytest.raises(ValueError, match="run must be a finished run folder"):
        run("exact", tmp_path / "none")


def test_a_finished_run_is_not_repeated_and_never_taken_for_another(run, tmp_path, capsys):
    config = tmp_path / "small.json"
    config.write_text(json.dumps(SMALL.resolved()))
    words = ["train", "--config", config, "--steps", "1", "--out", tmp_path / "run"]
    assert run(*words) == 0
    before = weights(tmp_path / "run"), (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns
    capsys.readouterr()
    assert run(*words) == 0
    assert f"{tmp_path / 'run'} is finished" in capsys.readouterr().err
    assert before == (weights(tmp_path / "run"), (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns)
    with pytest.raises(ValueError, match="out must not hold a finished run of another configuration"):
        run(*words, "--gamma", "1")
