"""Math answers, reasoning-gym, data files and callables, through their worker processes."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from fgrpo_theory.foundation.files import write_table
from llm.tasks import Problem, Task, load_task
from llm.tasks.dataset import DatasetTask, without_duplicates
from llm.verifiers.math_answer import gold_answer, last_box, predicted_answer
from llm.verifiers.pool import VerifierPool
from llm.verifiers.reasoning_gym_answer import extract, is_plain_expression

LIMITS = {"workers": 1, "timeout_s": 5.0}


@pytest.fixture(scope="module")
def math():
    with VerifierPool("llm.verifiers.math_answer:grade", workers=1, timeout_s=5.0) as pool:
        yield pool


def boxed(answer: str) -> str:
    return rf"so it is \boxed{{{answer}}}"


@pytest.mark.parametrize(
    ("gold", "text", "success"),
    [
        ("12", r"\boxed{840} no, \boxed{12}", True),
        ("840", r"\boxed{840} no, \boxed{12}", False),
        ("1/3", boxed(r"\frac{1}{2}"), False),
        ("1/2", boxed(r"\frac{1}{2}"), True),
        (r"\sqrt{17}", r"$\sqrt{17}$", True),
        (r"$\sqrt{17}$", boxed(r"\sqrt{17}"), True),
        (r"\boxed{17}", "the answer is 17.", True),
        ("(1, 2)", boxed("(2, 1)"), False),
        ("(1, 2)", boxed("(1, 2)"), True),
        ("(1,2,3)", boxed("(3,2,1)"), False),
        (r"\{1, 2\}", boxed(r"\{2, 1\}"), True),
        ("{1, 2}", boxed(r"\{2, 1\}"), True),
        (r"\{1, 2\}", boxed("(1, 2)"), False),
        ("(1, 2)", boxed(r"\{1, 2\}"), False),
        ("[0,1)", boxed("[0,1]"), False),
        ("Paris", boxed(r"\text{Paris}"), True),
        ("Paris", boxed("Pairs"), False),
        ("0.5", boxed(r"\frac12"), True),
        ("1000", boxed("1,000"), True),
        ("2x+1", boxed("1+2x"), True),
        ("-3", boxed("3"), False),
        # verify(gold, prediction): a prediction x < 2 may not stand for the set, a gold may.
        ("x = 5", boxed("5"), True),
        ("5", "no idea", False),
        ("5", r"a truncated \boxed{5", False),
        ("5", r"\boxed{}", False),
        ("5", boxed(r"\frac{"), False),
        ("", boxed("5"), None),
        (r"\frac{", boxed("5"), None),
    ],
)
def test_math_answers(math, gold, text, success):
    assert math.grade([(gold, text)])[0].success is success


def test_argument_order_is_gold_then_prediction(math):
    # math-verify takes a relation for a set only where the prediction is the set.
    relation, interval = "1 < x < 2", "(1, 2)"
    forward, backward = math.grade([(relation, boxed(interval)), (interval, boxed(relation))])
    assert (forward.success, backward.success) == (True, False)


def test_a_power_tower_is_unscorable_not_wrong():
    with VerifierPool("llm.verifiers.math_answer:grade", workers=1, timeout_s=2.0) as quick:
        verdict = quick.grade([("5", boxed("9^{9^{9^{9}}} + x - x"))])[0]
    assert verdict.success is None
    assert verdict.reason.startswith(("timeout", "memory", "exception"))


def test_model_text_is_not_evaluated(math, tmp_path):
    witness = tmp_path / "witness"
    attack = f"__import__('pathlib').Path('{witness}').touch()"
    assert [verdict.success for verdict in math.grade([("5", attack), ("5", boxed(attack))])] != [True, True]
    assert not witness.exists()


def test_extraction():
    assert last_box(r"\boxed{a{b}c} \boxed{\{1\}}") == r"\{1\}"
    assert last_box("no box") is None
    assert predicted_answer(r"first $3$, then $\frac{1}{2}$") == r"\frac{1}{2}"
    assert predicted_answer("between 3 and -1,234.5") == "-1,234.5"
    assert gold_answer(7) == "7"
    assert (extract("<answer>1</answer> <answer> 2 </answer>", "tags"), extract("1", "tags"), extract(" 1\n", "whole")) == (
        "2", None, "1",
    )  # fmt: skip


@pytest.fixture(scope="module")
def legs():
    options = {"min_animals": 2, "max_animals": 3}
    task = load_task(
        "reasoning_gym",
        {
            "dataset": "leg_counting",
            "options": options,
            "train_size": 40,
            "heldout_size": 5,
            "examples": 2,
            "limits": LIMITS,
        },
    )
    yield task
    task.close()


def test_reasoning_gym_grades_its_own_answers(legs):
    problems = legs.heldout()
    golds = [problem.answer["entry"]["answer"] for problem in problems]
    right = legs.verify(problems, [f"well, <answer>{gold}</answer>" for gold in golds])
    assert [verdict.success for verdict in right] == [True] * 5
    bare, wrong = legs.verify(problems[:2], [golds[0], "<answer>-1</answer>"])
    assert (bare.success, bare.reason) == (False, "no answer")
    assert (wrong.success, wrong.reward) == (False, 0.0)


def test_reasoning_gym_seeds_and_examples(legs):
    assert isinstance(legs, Task)
    first, again, other = (legs.train_prompts(seed) for seed in (3, 3, 4))
    assert first == again
    assert [p.prompt for p in first] != [p.prompt for p in other]
    asked = {problem.prompt[-1]["content"] for problem in legs.heldout()}
    assert not asked & {problem.prompt[-1]["content"] for problem in first}
    assert len({problem.id for problem in first}) == len(first) == 40 - legs.dropped
    assert [turn["role"] for turn in first[0].prompt] == ["system", *["user", "assistant"] * 2, "user"]


EVALUATING = (
    "n_queens",
    "spiral_matrix",
    "string_insertion",
    "binary_matrix",
    "countdown",
    "puzzle24",
    "simple_integration",
)


def test_scorers_that_evaluate_never_see_code(tmp_path):
    reasoning_gym = importlib.import_module("reasoning_gym")
    witness = tmp_path / "witness"
    code = f"__import__('pathlib').Path('{witness}').touch()"
    golds = [
        {"dataset": name, "options": {}, "entry": reasoning_gym.create_dataset(name, size=1, seed=1)[0]}
        for name in EVALUATING
    ]
    with VerifierPool(
        "llm.verifiers.reasoning_gym_answer:make_grader", options={"form": "whole", "threshold": 1.0}, workers=1
    ) as pool:
        own = pool.grade([(gold, str(gold["entry"]["answer"])) for gold in golds])
        attacked = pool.grade([(gold, code) for gold in golds])
    assert [verdict.success for verdict in own] == [True] * len(golds)
    assert [verdict.success for verdict in attacked] == [False] * len(golds)
    assert not witness.exists()


def test_plain_expressions():
    assert is_plain_expression("(12 - 3) * 4 / 2**2")
    for code in ("exit()", "x.y", "[1]", "lambda: 1", "'a'", "_x", "sin(x)(y)", "a if b else c", "1 +"):
        assert not is_plain_expression(code), code


def test_bad_reasoning_gym_options():
    with pytest.raises(ValueError, match="dataset must be one"):
        load_task("reasoning_gym", {"dataset": "no_such_game"})
    with pytest.raises(ValueError, match="options must fit leg_counting"):
        load_task("reasoning_gym", {"dataset": "leg_counting", "options": {"min_animals": 0}})
    with pytest.raises(ValueError, match="task must be one of"):
        load_task("arithmetic")


ROWS = [
    {"prompt": "2 + 2?", "answer": "4"},
    {"prompt": "2 + 2?", "answer": " 4"},
    {"prompt": "root of 16?", "answer": "4"},
    {"prompt": "root of 16?", "answer": "-4"},
    {"prompt": "a very " + "long " * 50 + "prompt", "answer": "1"},
    {"prompt": "unreadable gold", "answer": "\\frac{"},
    {"prompt": [{"role": "system", "content": "own"}, {"role": "user", "content": "half?"}], "answer": "\\frac{1}{2}"},
]


def make_dataset(path, **options):
    return DatasetTask(path, heldout_every=2, max_prompt_tokens=60, limits=LIMITS,
                       token_count=lambda turns: sum(len(turn["content"].split()) for turn in turns), **options)  # fmt: skip


def test_filters_are_counted_and_golds_checked(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    task = make_dataset(path)
    report = task.reports[str(path)]
    assert (report.read, report.kept, report.too_long, report.duplicate, report.conflicting) == (7, 2, 1, 1, 2)
    assert report.unverifiable == ("rows-5 (gold: cannot be read)",)
    assert len(report.lines()) == 2
    (train,), (heldout,) = task.train_prompts(0), task.heldout()
    assert [turn["role"] for turn in train.prompt] == ["system", "user"]
    assert heldout.prompt == ROWS[6]["prompt"]
    verdicts = task.verify([train, heldout, heldout], [boxed("4"), boxed("0.5"), boxed("1/3")])
    task.close()
    assert [verdict.success for verdict in verdicts] == [True, True, False]


def test_parquet_gives_the_same_problems(tmp_path):
    rows = ROWS[:1] + ROWS[5:6]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    write_table(
        tmp_path / "rows.parquet", {name: np.array([row[name] for row in rows]) for name in ("prompt", "answer")}
    )
    loaded = [make_dataset(tmp_path / f"rows.{kind}", check_golds=False) for kind in ("jsonl", "parquet")]
    assert loaded[0].train_prompts(0) == loaded[1].train_prompts(0)
    assert loaded[0].heldout() == loaded[1].heldout()


def test_duplicates():
    problems = [
        Problem(str(i), prompt, answer) for i, (prompt, answer) in enumerate([("a", 1), ("b", 1), ("a", 2), ("b", 1)])
    ]
    assert without_duplicates(problems) == ([problems[1]], 1, 2)


def test_a_callable_of_the_user_grades_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": str(i), "answer": str(i)}) for i in range(4)))
    options = {"train": str(path), "heldout_every": 2, "verifier": "graders:grade", "gold_text": "{}", "limits": LIMITS}
    task = load_task("dataset", options)
    verdicts = task.verify(task.heldout(), ["1", "4"])
    task.close()
    assert [verdict.success for verdict in verdicts] == [True, False]


def test_a_callable_of_the_user_makes_a_task():
    assert load_task("llm.tasks.sums:SumsTask", {"heldout_every": 4}).name == "sums"
    with pytest.raises(ValueError, match="must be a Task"):
        load_task("graders:factory", {"accepted": "x"})


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("rows.csv", "", ".jsonl or .parquet"),
        ("rows.jsonl", "{}", "row 0 .* column 'prompt'"),
        ("rows.jsonl", '{"prompt": "a", "answer": 1}\n{oops', "line 2 "),
        ("rows.jsonl", '{"prompt": [], "answer": 1}', "chat turns"),
    ],
)
def test_bad_files(tmp_path, name, content, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=told):
        DatasetTask(tmp_path / name)
