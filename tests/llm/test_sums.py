"""The enumerable task: its correct set is exactly what its verifier accepts."""

from __future__ import annotations

import itertools

import pytest

from llm.tasks import SumsTask, Task, load_task

TASK = SumsTask()


def test_correct_answers_are_all_that_the_verifier_accepts():
    task = SumsTask(lowest_total=0, highest_total=10, examples=())
    problem = task.problem(10)
    listed = set(task.correct_answers(problem))
    alphabet = ("0", "1", "9", "+", " ")
    texts = ["".join(letters) for size in range(7) for letters in itertools.product(alphabet, repeat=size)]
    verdicts = task.verify([problem] * len(texts), texts)
    accepted = {text for text, verdict in zip(texts, verdicts, strict=True) if verdict.success}
    assert accepted == {text for text in listed if set(text) <= set(alphabet)}
    assert accepted == {"0 + 10", "1 + 9", "9 + 1", "10 + 0"}
    assert len(listed) == 11
    assert all(verdict.success for verdict in task.verify([problem] * 11, sorted(listed)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("8 + 9 ", "form"), (" 8 + 9", "form"), ("8 + 9\n", "form"), ("08 + 9", "form"), ("8+9", "form"), ("-1 + 18", "form"),
        ("8 + 9 = 17", "form"), ("٨ + 9", "form"), ("", "form"), ("9" * 10**6 + " + 1", "form"), ("8 + 8", "sum"),
    ],
)  # fmt: skip
def test_wrong_texts(text, reason):
    verdict = TASK.verify([TASK.problem(17)], [text])[0]
    assert (verdict.success, verdict.reward, verdict.reason) == (False, 0.0, reason)


def test_splits_are_disjoint_and_the_seed_orders():
    train, heldout = TASK.train_totals(), TASK.heldout_totals()
    assert not set(train) & set(heldout)
    assert sorted([*train, *heldout, 12, 14]) == list(range(9, 29))
    orders = [[problem.answer for problem in TASK.train_prompts(seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == train


def test_the_prompt_is_two_solved_examples_and_the_question():
    turns = TASK.problem(17).prompt
    assert [turn["role"] for turn in turns] == ["system", *["user", "assistant"] * 2, "user"]
    assert [turn["content"] for turn in turns[1:]] == ["12", "5 + 7", "14", "10 + 4", "17"]


@pytest.mark.parametrize(
    "bad", [{"lowest_total": -1}, {"highest_total": 3}, {"heldout_every": 1}, {"examples": ["5+7"]}, {"colour": 1}]
)
def test_bad_options(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        load_task("sums", bad)


def test_it_is_a_task_and_lengths_are_checked():
    assert isinstance(load_task("sums", {"examples": ["1 + 1"]}), Task)
    with pytest.raises(ValueError, match="texts must match problems"):
        TASK.verify([TASK.problem(17)], [])
