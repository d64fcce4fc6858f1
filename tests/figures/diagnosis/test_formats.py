"""Every format that is read, from small files: the same four groups give the same numbers, known by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from diagnosis_logs import FOUR, FOUR_NUMBERS, Rollout, at, found, trl, verl, write_lines, write_parquet

DATA = Path(__file__).parents[2] / "data" / "diagnosis"


def check(diagnosis: dict[str, object], form: str, prompts: int = 2, rows: int = 16) -> None:
    for path, value in FOUR_NUMBERS.items():
        assert at(diagnosis, path)["value"] == pytest.approx(value, rel=1e-12), path
    assert at(diagnosis, "group_size") == 4
    assert at(diagnosis, "groups.all") == 4
    assert at(diagnosis, "groups.prompts") == prompts
    assert at(diagnosis, "groups.log") == {
        "scored": 4, "all_wrong": 1, "all_right": 1, "inactive": 2, "active": 2, "of_other_sizes": 0,
    }  # fmt: skip
    assert at(diagnosis, "population.histogram") == [1 / 4, 1 / 4, 1 / 4, 0, 1 / 4]
    source = at(diagnosis, "source")
    assert (source["format"], source["rows"], source["left_out"]) == (form, rows, {})


def test_trl_text(tmp_path: Path) -> None:
    check(found(trl(tmp_path, FOUR)), "trl")


def test_trl_chat(tmp_path: Path) -> None:
    check(found(trl(tmp_path, FOUR, chat=True)), "trl")


def test_verl(tmp_path: Path) -> None:
    check(found(verl(tmp_path, FOUR)), "verl")


def test_verl_with_rewards_of_minus_one(tmp_path: Path) -> None:
    rows = [row._replace(reward=2 * (row.reward or 0) - 1) for row in FOUR]
    check(found(verl(tmp_path, rows)), "verl")


def test_our_rollouts(tmp_path: Path) -> None:
    columns = {
        "step": [row.step for row in FOUR],
        "prompt": [row.prompt for row in FOUR],
        "completion": [row.completion for row in FOUR],
        "success": [row.reward == 1 for row in FOUR],
    }
    check(found(write_parquet(tmp_path / "run" / "rollouts" / "step-1.parquet", columns)), "rollouts")


def lm_eval_rows(metric: str = "exact_match", **extra: object) -> list[dict[str, object]]:
    """A document a group, each with the list of its repeats; filtered as `take_first_k` does."""
    rows = []
    for place in range(4):
        mine = FOUR[4 * place : 4 * place + 4]
        texts = [row.completion for row in mine]
        rows.append(
            {"doc_id": place, "target": "?", "resps": [texts], "filtered_resps": texts, "filter": "all",
             metric: [row.reward for row in mine], **extra}
        )  # fmt: skip
    return rows


def test_lm_evaluation_harness(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_gsm8k_2026-01-01T00-00-00.000.jsonl", lm_eval_rows())
    check(found(path), "lm-eval", prompts=4, rows=4)


def test_lm_evaluation_harness_one_repeat_a_row(tmp_path: Path) -> None:
    rows = [
        {"doc_id": i // 4, "resps": [[row.completion]], "filtered_resps": [row.completion], "acc": row.reward}
        for i, row in enumerate(FOUR)
    ]
    check(found(write_lines(tmp_path / "samples_x.jsonl", rows)), "lm-eval", prompts=4)


def test_documents_of_two_tasks_are_two_prompts(tmp_path: Path) -> None:
    for task in ("gsm8k", "math"):
        write_lines(tmp_path / f"samples_{task}_2026-01-01T00-00-00.jsonl", lm_eval_rows())
    diagnosis = found(tmp_path)
    assert at(diagnosis, "groups.prompts") == 8
    assert at(diagnosis, "present.success_rate")["value"] == pytest.approx(FOUR_NUMBERS["present.success_rate"])


def test_a_filter_must_be_chosen(tmp_path: Path) -> None:
    strict = [row | {"filter": "strict", "exact_match": [0.0] * 4} for row in lm_eval_rows()]
    path = write_lines(tmp_path / "samples_x.jsonl", [*lm_eval_rows(), *strict])
    with pytest.raises(ValueError, match=r"filter must be chosen, got rows of all, strict; use --filter NAME"):
        found(path)
    diagnosis = found(path, filter="all")
    assert at(diagnosis, "present.success_rate")["value"] == FOUR_NUMBERS["present.success_rate"]
    assert at(found(path, filter="strict"), "present.success_rate")["value"] == 0
    with pytest.raises(ValueError, match=r"filter must be one of the log's, all, strict, got filter='loose'"):
        found(path, filter="loose")


def test_counts_of_an_evaluation(tmp_path: Path) -> None:
    columns = {"problem": ["p", "q", "r", "s"], "samples": [4, 4, 4, 5], "scorable": [4, 4, 4, 4],
               "correct": [2, 0, 4, 1]}  # fmt: skip
    diagnosis = found(write_parquet(tmp_path / "counts.parquet", columns))
    for path, value in FOUR_NUMBERS.items():
        if not path.startswith("unsampled"):
            assert at(diagnosis, path)["value"] == pytest.approx(value, rel=1e-12), path
    # Counts have no answers, so Good-Turing has nothing to count.
    assert "completion" in at(diagnosis, "unsampled.lacking")


TABLE = {
    "iteration": [row.step for row in FOUR],
    "question": [row.prompt for row in FOUR],
    "text": [f"{row.completion} in other words {i}" for i, row in enumerate(FOUR)],
    "label": [row.completion for row in FOUR],
    "quality": [0.9 if row.reward else 0.2 for row in FOUR],
}
MAPPING = {"step": "iteration", "prompt": "question", "completion": "text", "answer": "label", "reward": "quality"}


def test_any_table_as_parquet(tmp_path: Path) -> None:
    """`answer` tells right rollouts apart, where every completion is unique."""
    path = write_parquet(tmp_path / "t.parquet", TABLE)
    check(found(path, columns=MAPPING, success_threshold=0.5), "table")


def test_any_table_as_csv(tmp_path: Path) -> None:
    rows = [",".join(TABLE), *[",".join(map(str, row)) for row in zip(*TABLE.values(), strict=True)]]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(rows) + "\n")
    check(found(path, columns=MAPPING, success_threshold=0.5), "table")


def test_any_table_as_compressed_lines(tmp_path: Path) -> None:
    plain = write_lines(tmp_path / "t.jsonl", [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values())])  # noqa: B905
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    check(found(path, columns=MAPPING, success_threshold=0.5), "table")


def test_the_threshold_is_included(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", TABLE)
    check(found(path, columns=MAPPING, success_threshold=0.9), "table")
    assert at(found(path, columns=MAPPING, success_threshold=0.91), "present.success_rate")["value"] == 0


def test_two_rewards_are_not_guessed(tmp_path: Path) -> None:
    folder = trl(tmp_path, FOUR, format_reward=[1.0] * 16)
    with pytest.raises(ValueError, match="reward must be one column, got accuracy, format_reward"):
        found(folder)
    check(found(folder, columns={"reward": "accuracy"}), "trl")


def test_verl_score_or_acc_is_not_guessed(tmp_path: Path) -> None:
    folder = verl(tmp_path, FOUR, acc=True)
    with pytest.raises(ValueError, match="reward must be chosen, got the columns score and acc"):
        found(folder)
    check(found(folder, columns={"reward": "score"}), "verl")


def test_the_format_can_be_named(tmp_path: Path) -> None:
    folder = trl(tmp_path, FOUR)
    mapping = {"reward": "accuracy", "prompt": "prompt", "step": "step", "completion": "completion"}
    check(found(folder, form="table", columns=mapping), "table")


def test_repeated_steps_are_left_out(tmp_path: Path) -> None:
    """TRL writes its buffer at every log: a generation that serves two steps is written twice."""
    again = [row._replace(step=3) for row in FOUR if row.step == 2]
    diagnosis = found(trl(tmp_path, [*FOUR, *again]))
    assert at(diagnosis, "groups.all") == 4
    assert (at(diagnosis, "source.repeated_steps"), at(diagnosis, "source.repeated_rows")) == (1, 8)
    assert at(diagnosis, "present.success_rate")["value"] == FOUR_NUMBERS["present.success_rate"]


def test_a_step_that_only_looks_alike_is_kept(tmp_path: Path) -> None:
    """One completion differs."""
    again = [row._replace(step=3) for row in FOUR if row.step == 2]
    again[-1] = Rollout(3, "b", "another wrong one", 0.0)
    assert at(found(trl(tmp_path, [*FOUR, *again])), "groups.all") == 6
