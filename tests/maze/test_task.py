"""Mazes as a task: demonstrations are right, verdicts are the verifier's, splits do not meet."""

import numpy as np
import pytest

from fgrpo_theory.foundation.seeds import generator
from llm.tasks import load_task
from llm.tasks.base import Problem
from maze.generation import generate
from maze.mazes import Mazes
from maze.task import MazeTask, longest_completion, maze_problem, maze_task
from maze.tokens import solution_ids, to_text
from maze.verifier import verify


@pytest.fixture(scope="module")
def task():
    return maze_task(size=7, train=60, heldout=20, seed=1)


def test_demonstrations_are_right(task):
    problems = list(task.train_prompts(0)[:30])
    stream = generator(0, "test")
    assert all(verdict.success for verdict in task.verify(problems, [task.demonstrate(p, stream) for p in problems]))


def test_verdicts_are_the_verifiers_whatever_the_order(task):
    draws = generator(1, "test")
    problems = [task.heldout()[int(place)] for place in draws.integers(20, size=200)]
    texts = []
    for problem in problems:
        words = task.demonstrate(problem, draws).split()
        if draws.random() < 0.6:
            words[draws.integers(len(words))] = str(draws.choice(["UP", "DOWN", "DONE", "WALL", "<pad>", "no-token"]))
        texts.append(" ".join(words[: draws.integers(len(words) + 1)] if draws.random() < 0.2 else words))
    verdicts = task.verify(problems, texts)
    assert 0 < sum(bool(verdict.success) for verdict in verdicts) < 200
    for problem, text, verdict in zip(problems, texts, verdicts, strict=True):
        right = to_text(solution_ids(problem.answer)[0][0])
        assert verdict.success == (text.removesuffix(" <eos>").split() == right.removesuffix(" <eos>").split())
        assert bool(verdict.reason) == (not verdict.success)


def test_ids_and_texts_are_judged_alike(task):
    problems = list(task.heldout()[:10])
    ids, lengths = solution_ids(task.heldout_mazes[:10])
    ids[3, 2] = 13 + (ids[3, 2] - 12) % 4
    texts = [to_text(row[: length - 1]) for row, length in zip(ids, lengths, strict=True)]
    by_id = task.verify_ids(problems, ids, lengths - 1)
    assert [v.success for v in by_id] == [v.success for v in task.verify(problems, texts)]
    assert [v.success for v in by_id] == [place != 3 for place in range(10)]


def test_reach_goal_takes_a_detour_that_target_does_not(task):
    maze = task.heldout_mazes[:1]
    actions = maze.solutions()[0].tolist()
    back = {0: 1, 1: 0, 2: 3, 3: 2}[actions[0]]
    text = " ".join([["UP", "DOWN", "LEFT", "RIGHT"][a] for a in [actions[0], back, *actions]] + ["DONE"])
    problem = maze_problem(maze, "one")
    assert [MazeTask(task.train, task.heldout_mazes, rule).verify([problem], [text])[0].success
            for rule in ("target", "reach_goal")] == [False, verify(maze, _ids(text), "reach_goal").success]  # fmt: skip


def _ids(text):
    from maze.tokens import from_text

    return from_text(text)


def test_splits_do_not_meet_and_follow_the_seed(task):
    train, heldout = ({row.tobytes() for row in mazes.passages} for mazes in (task.train, task.heldout_mazes))
    assert len(train) == 60
    assert len(heldout) == 20
    assert not train & heldout
    again, other = maze_task(size=7, train=60, heldout=20, seed=1), maze_task(size=7, train=60, heldout=20, seed=2)
    assert np.array_equal(again.train.passages, task.train.passages)
    assert not np.array_equal(other.train.passages, task.train.passages)


def test_the_order_of_prompts_follows_the_seed_and_visits_each_once(task):
    orders = [[problem.id for problem in task.train_prompts(seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == sorted(f"train-{place}" for place in range(60))
    assert [problem.id for problem in task.heldout()[2:4]] == ["heldout-2", "heldout-3"]


def test_the_longest_completion_holds_every_right_path(task):
    _, lengths = solution_ids(task.heldout_mazes)
    assert longest_completion(task.heldout_mazes) == lengths.max()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: load_task("maze.task:maze_task", {"size": 7, "rules": "target"}), "options must fit task"),
        (lambda: maze_task(size=8), "size must be .*, got size=8"),
        (
            lambda: MazeTask(generate(2, 7, 0), generate(2, 9, 0)),
            "both splits must have mazes of one size, got train=7, heldout=9",
        ),
        (lambda: maze_task(size=5, train=5, heldout=1), "5"),
    ],
)
def test_tasks_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_problem_without_its_maze_is_refused(task):
    with pytest.raises(ValueError, match="a maze problem's answer must be its maze, got str"):
        task.verify([Problem("x", "prompt", "UP")], ["UP DONE"])
    assert isinstance(task.heldout()[0].answer, Mazes)
    assert task.verify([], []) == []
