"""`fgrpo maze`: every command end to end at the size of a test, one line for bad input, Ctrl-C and on."""

import json
import os
import signal
from dataclasses import replace

import maze_runs
import pytest
from llm_runs import weights

import fgrpo
from fgrpo_theory.foundation.files import read_table
from llm.config import ModelConfig
from llm.trainer import Trainer
from maze import presets
from maze.storage import read_mazes


@pytest.fixture(autouse=True)
def smoke(sft_run, monkeypatch):
    """The preset `smoke` is the tests' tiny one."""
    maze_runs.with_tiny_shape(monkeypatch)
    tiny = maze_runs.tiny_preset(sft_steps=3, steps=3)
    monkeypatch.setitem(
        presets.PRESETS, "smoke", replace(tiny, rl=replace(tiny.rl, model=ModelConfig(source=str(sft_run / "start"))))
    )


def test_generate_writes_what_it_says(tmp_path, capsys):
    out = tmp_path / "new" / "mazes.parquet"
    assert fgrpo.main(["maze", "generate", "--size", "7", "--count", "50", "--seed", "4", "--out", str(out)]) == 0
    assert "50 mazes of 7 x 7, mean path" in capsys.readouterr().out
    assert len(read_mazes(out)) == 50
    assert fgrpo.main(["maze", "generate", "--size", "7", "--count", "5", "--maxrl", "--out", str(out)]) == 0
    assert {"prompt", "extra_info"} <= set(read_table(out))


def test_show_draws_a_maze_and_a_policys_paths(tmp_path, capsys):
    assert fgrpo.main(["maze", "show", "--size", "7", "--number", "2", "--png", str(tmp_path / "maze.png")]) == 0
    art = capsys.readouterr().out.splitlines()
    assert [len(line) for line in art] == [7] * 7
    assert "".join(art).count("S") == "".join(art).count("G") == 1
    assert (tmp_path / "maze.png").read_bytes()[:4] == b"\x89PNG"
    run = tmp_path / "run"
    assert fgrpo.main(["maze", "train", "--preset", "smoke", "--group-size", "2", "--out", str(run)]) == 0
    capsys.readouterr()
    assert fgrpo.main(["maze", "show", str(run), "--number", "1", "--samples", "3"]) == 0
    assert capsys.readouterr().out.count("S") >= 3


def test_sft_then_train_then_evaluate(tmp_path, capsys):
    assert fgrpo.main(["maze", "sft", "--preset", "smoke", "--out", str(tmp_path / "sft")]) == 0
    start = str(tmp_path / "sft" / "start")
    words = ["maze", "train", "--preset", "smoke", "--start", start, "--gamma", "1", "--group-size", "4", "--seed", "2",
             "--set", "steps=1", "--out", str(tmp_path / "rl")]  # fmt: skip
    assert fgrpo.main(words) == 0
    kept = json.loads((tmp_path / "rl" / "config.json").read_text())
    assert (kept["objective"]["gamma"], kept["sampling"]["group_size"], kept["seed"], kept["steps"]) == (1.0, 4, 2, 1)
    assert kept["model"]["source"] == start
    capsys.readouterr()
    assert fgrpo.main(["maze", "evaluate", str(tmp_path / "rl"), "--samples", "8", "--mazes", "5", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [row["k"] for row in table] == [1, 2, 4, 8]
    assert {row["run"] for row in table} == {"rl"}


def test_study_prints_a_row_a_run_and_goes_on(tmp_path, capsys):
    words = [
        "maze",
        "study",
        "--preset",
        "smoke",
        "--group-sizes",
        "2",
        "--workers",
        "1",
        "--out",
        str(tmp_path / "study"),
    ]
    assert fgrpo.main([*words, "--gammas", "0"]) == 0
    assert fgrpo.main([*words, "--json"]) == 0
    out = capsys.readouterr().out
    assert "grpo-N2-g1-s0" in out
    assert len(read_table(tmp_path / "study" / "runs.parquet")["run"]) == 2


def test_an_interrupted_study_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    step = Trainer.step

    def interrupted(self, index):
        if index == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, index)

    words = ["maze", "study", "--preset", "smoke", "--group-sizes", "2", "--gammas", "1", "--workers", "1", "--out"]
    monkeypatch.setattr(Trainer, "step", interrupted)
    assert fgrpo.main([*words, str(tmp_path / "a")]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(Trainer, "step", step)
    assert fgrpo.main([*words, str(tmp_path / "a")]) == 0
    assert fgrpo.main([*words, str(tmp_path / "b")]) == 0
    name = "runs/grpo-N2-g1-s0"
    assert weights(tmp_path / "a" / name) == weights(tmp_path / "b" / name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", "--size", "8", "--out", "x.parquet"], "size must be"),
        (["generate", "--count", "0", "--out", "x.parquet"], "count must be"),
        (["show", "--number", "-1"], "number must be a whole number of at least 0, got number=-1"),
        (["show", "nowhere"], "run must be a finished run folder, got run=nowhere"),
        (["evaluate", "nowhere"], "run must be a finished run folder, got run=nowhere"),
        (["train", "--preset", "paper"], "start must be given for this preset"),
        (["train", "--preset", "smoke", "--gamma", "-1"], "gamma must be finite and at least 0"),
        (["train", "--preset", "smoke", "--objective", "ppo"], "objective must be one of"),
        (["train", "--preset", "smoke", "--start", "nowhere"], "a model must be a folder with config.json"),
        (["train", "--preset", "smoke", "--set", "steps"], "set must be written FIELD=VALUE, got set=steps"),
        (["study", "--preset", "smoke", "--seeds", "0", "0"], "seeds must be distinct"),
        (["study", "--preset", "smoke", "--workers", "0"], "workers must be"),
        (["sft", "--preset", "smoke", "--steps", "-1"], "steps must be"),
    ],
)
def test_bad_input_is_one_line(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fgrpo.main(["maze", *words]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert message in error[-1]
    assert error[-1].startswith("fgrpo maze: error: ")
    assert not [line for line in error if "Traceback" in line]
