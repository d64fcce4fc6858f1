"""The tables of a study, collected from run folders made by hand: what each says, and that figures can read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from fgrpo_theory.foundation.files import read_json, read_table, write_json, write_table
from llm.config import TaskConfig
from maze.mazes import Mazes
from maze.presets import PRESETS, arm
from maze.study import collect, run_name
from maze.task import maze_task
from maze.verifier import verify

SIZE, HELDOUT = 7, 3
COUNTS = {0: [4, 1, 0], 3: [8, 0, 0]}
"""step -> right samples of 8, a maze each"""
FINAL = [16, 2, 0]
"""of 16"""


def heldout(counts: list[int], samples: int) -> dict[str, np.ndarray]:
    same = np.ones(HELDOUT, dtype=int)
    return {"maze": np.arange(HELDOUT), "path_length": 8 * same, "samples": samples * same, "correct": np.array(counts),
            "truncated": 0 * same}  # fmt: skip


def write_run(study: Path, size: int, gamma: float) -> None:
    folder = study / "runs" / run_name("grpo", size, gamma, 0)
    (folder / "evaluation").mkdir(parents=True)
    (folder / "model").mkdir()
    task = TaskConfig("maze.task:maze_task", {"size": SIZE, "train": 20, "heldout": HELDOUT, "seed": 0})
    config = arm(replace(PRESETS["smoke"].rl, task=task), "grpo", size, gamma, 0)
    write_json(folder / "config.json", config.resolved())
    write_json(folder / "provenance.json", {"commit": f"commit-of-{size}"})
    save_file({"a": np.zeros((3, 5), np.float32), "b": np.zeros(7, np.float32)}, folder / "model" / "model.safetensors")
    write_table(folder / "final.parquet", heldout(FINAL, 16))
    for step, counts in COUNTS.items():
        write_table(folder / "evaluation" / f"step-{step:08d}.parquet", heldout(counts, 8))
    paths = {
        "maze": [0, 0],
        "sample": [0, 1],
        "completion": ["UP DONE", ""],
        "success": [False, True],
        "reason": ["wall", ""],
    }
    write_table(folder / "evaluation" / "paths-00000003.parquet", paths)
    rows = [
        {
            "step": step,
            "loss": 0.0,
            "groups": {"problem": ["train-1", "train-5"], "correct": [step, 0], "scorable": [size] * 2},
        }
        for step in (1, 2)
    ]
    rows.append({"step": 2, "note": "a row without groups"})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for size, gamma in ((4, 0.0), (16, 0.5)):
        write_run(tmp_path, size, gamma)
    # Not finished: left out.
    (tmp_path / "runs" / "grpo-N8-g0-s0.partial").mkdir()
    write_json(tmp_path / "study.json", {"preset": "smoke"})
    return tmp_path


def test_a_row_a_run_with_its_scale_and_its_end(study: Path) -> None:
    rows = collect(study)
    # 16 of 16, 2 of 16 and 0 of 16 right: pass@1 is their mean, pass@16 the share of mazes with any.
    expected = {"maze_size": SIZE, "parameters": 3 * 5 + 7, "steps": 6, "prompts_per_step": 16, "learning_rate": 1e-4,
                "pass_at_1": (1 + 2 / 16) / 3, "pass_at_16": 2 / 3, "never_solved": 1 / 3, "k_on_the_way": 8,
                "start_pass_at_k": 2 / 3, "lowest_pass_at_k": 1 / 3, "lowest_step": 3}  # fmt: skip
    assert [row["run"] for row in rows] == ["grpo-N16-g0.5-s0", "grpo-N4-g0-s0"]
    for row in rows:
        assert {name: row[name] for name in expected} == pytest.approx(expected)
        assert "pass_at_32" not in row
    table = read_table(study / "runs.parquet")
    assert {name: table[name].tolist() for name in table} == {name: [row[name] for row in rows] for name in rows[0]}


def test_the_long_tables_keep_run_and_step(study: Path) -> None:
    collect(study)
    evaluations, groups = read_table(study / "evaluations.parquet"), read_table(study / "groups.parquet")
    assert evaluations["step"].tolist() == [0, 0, 0, 3, 3, 3] * 2
    assert evaluations["correct"].tolist() == (COUNTS[0] + COUNTS[3]) * 2
    assert groups["correct"].tolist() == [1, 0, 2, 0] * 2
    assert groups["scorable"].tolist() == groups["group_size"].tolist() == [16] * 4 + [4] * 4
    assert groups["gamma"].tolist() == [0.5] * 4 + [0.0] * 4
    assert read_table(study / "final.parquet")["correct"].tolist() == FINAL * 2
    assert read_table(study / "paths.parquet")["completion"].tolist() == ["UP DONE", ""] * 2


def test_the_table_of_mazes_holds_the_heldout_ones(study: Path) -> None:
    collect(study)
    table = read_table(study / "mazes.parquet")
    mazes = maze_task(SIZE, 20, HELDOUT, 0).heldout_mazes
    assert table["maze"].tolist() == list(range(HELDOUT))
    grids = np.array([[[mark == "#" for mark in row] for row in text.split("/")] for text in table["walls"]])
    assert Mazes.from_grids(grids) == mazes
    assert all(verify(mazes[place : place + 1], text).success for place, text in enumerate(table["solution"]))
    record = read_json(study / "provenance.json")
    assert (record["runs"], record["commits_of_runs"]) == (2, ["commit-of-16", "commit-of-4"])


def test_a_study_without_a_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out must hold a finished run"):
        collect(tmp_path)
