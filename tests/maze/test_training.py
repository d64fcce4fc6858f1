"""Runs on mazes: the trainer's own loop, held-out tables that disturb nothing, resume to the bit."""

import json
import os
import signal
from dataclasses import replace

import maze_runs
import numpy as np
import pytest
from llm_runs import rows, weights

import maze.training
from fgrpo_theory.foundation.files import read_table
from llm.config import ModelConfig
from llm.loop import Interrupted
from llm.trainer import Trainer
from maze.evaluation import heldout_counts, sampled_paths, step_table, summary
from maze.policy import load_policy
from maze.presets import EvaluationPlan, arm
from maze.tokens import completion_ids, to_text
from maze.training import task_of, train_mazes


@pytest.fixture(scope="module")
def config(sft_run):
    rl = replace(maze_runs.tiny_preset().rl, model=ModelConfig(source=str(sft_run / "start")))
    return arm(rl, "grpo", 4, 1.0, 3)


@pytest.fixture(scope="module")
def finished(config, tmp_path_factory):
    return train_mazes(config, tmp_path_factory.mktemp("rl") / "run", maze_runs.PLAN)


def test_supervision_teaches_right_paths(sft_run):
    losses = [row["loss"] for row in rows(sft_run)]
    assert losses[-1] < 0.5 * losses[0]
    task = task_of(maze_runs.tiny_preset().sft)
    table = heldout_counts(load_policy(sft_run / "start"), task, maze_runs.PLAN, samples=64,
                           max_new_tokens=maze_runs.LONGEST, seed=0)  # fmt: skip
    # Without learning, 4 actions a step and at least 8 steps: under 1e-4 a sample.
    assert table["correct"].sum() / table["samples"].sum() > 0.01


def test_a_run_holds_its_groups_and_evaluations(finished, config):
    found = [row for row in rows(finished) if row["phase"] == "rl"]
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    prompts = [name for row in found for name in row["groups"]["problem"]]
    assert len(set(prompts)) == 16
    assert set(prompts) <= {problem.id for problem in task_of(config).train_prompts(config.seed)}
    for row in found:
        right, scorable = np.array(row["groups"]["correct"]), np.array(row["groups"]["scorable"])
        assert scorable.tolist() == [4] * 4
        assert row["success"] == pytest.approx(right.sum() / 16)
        assert row["active"] == pytest.approx(np.mean((right > 0) & (right < 4)))
    steps = [row["step"] for row in rows(finished) if row["phase"] == "probe"]
    assert steps == [0, 2, 4]
    for row, step in zip([row for row in rows(finished) if row["phase"] == "probe"], steps, strict=True):
        table = read_table(step_table(finished, step))
        assert table["samples"].tolist() == [8] * 6
        assert row["pass_at_1"] == pytest.approx(table["correct"].sum() / 48)
        assert row["never_solved"] == pytest.approx(np.mean(table["correct"] == 0))


def test_evaluations_change_no_weight(finished, config, tmp_path):
    assert weights(train_mazes(config, tmp_path / "run")) == weights(finished)


def test_gamma_zero_is_plain_grpo_and_gamma_one_is_not(finished, config, tmp_path):
    plain = replace(config, objective=replace(config.objective, gamma=0.0))
    assert weights(train_mazes(plain, tmp_path / "a")) == weights(train_mazes(plain, tmp_path / "b"))
    same_groups = [json.dumps(row["groups"]) for row in rows(tmp_path / "a")[:1] if "groups" in row]
    assert same_groups == [json.dumps(row["groups"]) for row in rows(finished) if "groups" in row][: len(same_groups)]
    assert weights(tmp_path / "a") != weights(finished)


@pytest.mark.parametrize("stop_at", [0, 1, 2])
def test_a_stopped_run_goes_on_to_the_same_bits(stop_at, finished, config, tmp_path, monkeypatch):
    step = Trainer.step

    def interrupted(self, index):
        if index == stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, index)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(Interrupted):
        train_mazes(config, tmp_path / "run", maze_runs.PLAN)
    monkeypatch.undo()
    again = train_mazes(config, tmp_path / "run", maze_runs.PLAN)
    assert weights(again) == weights(finished)
    assert rows(again) == rows(finished)
    for path in sorted((finished / "evaluation").iterdir()):
        assert path.read_bytes() == (again / "evaluation" / path.name).read_bytes()


def test_evaluation_follows_its_seed_and_not_its_batches(sft_run):
    task, policy = task_of(maze_runs.tiny_preset().sft), load_policy(sft_run / "start")

    def counts(seed, batch_size):
        plan = replace(maze_runs.PLAN, batch_size=batch_size)
        return heldout_counts(policy, task, plan, samples=32, max_new_tokens=maze_runs.LONGEST, seed=seed)[
            "correct"
        ].tolist()

    assert counts(0, 32) == counts(0, 4096)
    assert counts(0, 32) != counts(1, 32)


def test_summary_is_pass_at_k_by_hand():
    table = {"samples": np.array([4, 4]), "correct": np.array([1, 0])}
    expected = {"pass_at_1": 0.125, "pass_at_2": 0.25, "pass_at_4": 0.5, "never_solved": 0.5}
    assert summary(table, (1, 2, 4, 8)) == pytest.approx(expected)


def test_sampled_paths_are_judged_by_the_verifier(sft_run):
    task = task_of(maze_runs.tiny_preset().sft)
    table = sampled_paths(
        load_policy(sft_run / "start"), task, mazes=4, samples=16, max_new_tokens=maze_runs.LONGEST, seed=0
    )
    assert table["maze"] == [maze for maze in range(4) for _ in range(16)]
    right = [to_text(completion_ids(path, eos=False)) for path in task.heldout_mazes[:4].solutions()]
    assert table["success"] == [
        text == right[maze] for maze, text in zip(table["maze"], table["completion"], strict=True)
    ]
    assert any(table["success"])
    assert [bool(reason) for reason in table["reason"]] == [not success for success in table["success"]]


@pytest.mark.parametrize(
    ("plan", "tokens", "message"),
    [
        (
            EvaluationPlan(mazes=13),
            maze_runs.LONGEST,
            "mazes must be at most the held-out ones, got mazes=13, heldout=12",
        ),
        (EvaluationPlan(mazes=6), 5, "max_new_tokens must hold the longest right path, got max_new_tokens=5"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused(plan, tokens, message, sft_run):
    task, policy = task_of(maze_runs.tiny_preset().sft), load_policy(sft_run / "start")
    with pytest.raises(ValueError, match=message):
        heldout_counts(policy, task, plan, samples=4, max_new_tokens=tokens, seed=0)


def test_another_task_is_refused(config):
    with pytest.raises(ValueError, match=r"task.name must be maze.task:maze_task"):
        maze.training.task_of(replace(config, task=replace(config.task, name="sums", options={})))
