"""Irregular logs: what is counted out is named with its number, nothing is guessed, and no order of rows matters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from diagnosis_logs import FOUR, FOUR_NUMBERS, at, found, group, trl, verl, write_lines, write_parquet

import figures.diagnosis.readers as readers
from figures.diagnosis.tables import as_text


def line(step: int, prompt: str, score: object, output: object = "t") -> dict[str, object]:
    return {"input": prompt, "output": output, "gts": "?", "score": score, "step": step}


def test_corrupt_lines_are_counted_with_their_places(tmp_path: Path) -> None:
    """A line cut off, one that is no object, one whose score is an object; a blank line is no line."""
    verl(tmp_path, FOUR)
    rows = (tmp_path / "1.jsonl").read_text().splitlines()
    rows = [
        *rows[:3],
        '{"input": "a", "out',
        *rows[3:],
        "[1, 2]",
        "",
        '{"input": "a", "output": "t", "score": {}, "step": 1}',
    ]
    (tmp_path / "1.jsonl").write_text("\n".join(rows) + "\n")
    diagnosis = found(tmp_path)
    assert at(diagnosis, "source.corrupt_lines") == 3
    assert at(diagnosis, "source.corrupt_places") == ["1.jsonl:4", "1.jsonl:10", "1.jsonl:12"]
    assert at(diagnosis, "present.success_rate")["value"] == FOUR_NUMBERS["present.success_rate"]
    assert "3: 1.jsonl:4, 1.jsonl:10, 1.jsonl:12" in as_text(diagnosis)


def test_a_corrupt_line_in_a_later_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are counted through blocks, and the lines around stay."""
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 256)
    rows: list[dict[str, object] | str] = [line(1, "a", float(i % 2), f"text {i}") for i in range(40)]
    rows.insert(29, "}{")
    diagnosis = found(write_lines(tmp_path / "1.jsonl", rows))
    assert at(diagnosis, "source.corrupt_places") == ["1.jsonl:30"]
    assert (at(diagnosis, "source.rows"), at(diagnosis, "group_size")) == (40, 40)


def test_rewards_that_cannot_be_scored_leave_the_group(tmp_path: Path) -> None:
    """Null, NaN and infinity: N is what is left, 4 of 6; a group without any is counted apart."""
    rows = [line(1, "a", score) for score in (1.0, 0.0, 0.0, 1.0, None, float("nan"))]
    rows += [line(1, "b", score) for score in (None, None)]
    rows += [line(1, "c", score) for score in (1.0, 0.0, 0.0, 0.0, float("inf"))]
    diagnosis = found(write_lines(tmp_path / "1.jsonl", rows))
    assert at(diagnosis, "source.left_out") == {"rewards that are null or NaN": 4, "rewards that are infinite": 1}
    assert at(diagnosis, "group_size") == 4
    assert at(diagnosis, "groups.without_a_scorable_rollout") == 1
    assert at(diagnosis, "present.success_rate")["value"] == pytest.approx((2 / 4 + 1 / 4) / 2)


def test_words_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("prompt,reward\na,1\na,0\na,timeout\na,True\na,false\n,1\n")
    diagnosis = found(path)
    assert at(diagnosis, "source.left_out") == {"rewards that are no number": 1, "rows without a prompt": 1}
    assert at(diagnosis, "present.success_rate")["value"] == 2 / 4


def test_rows_without_a_step_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("step,prompt,reward\n1,a,1\n1,a,0\n,a,1\n1.5,a,1\n")
    diagnosis = found(path)
    assert at(diagnosis, "source.left_out") == {"rows without a whole-number step": 2}
    assert at(diagnosis, "group_size") == 2


def test_mixed_group_sizes_are_named(tmp_path: Path) -> None:
    """Three groups of 4, one of 2, one of 6: pass@4 is over the four that hold 4, active over all."""
    rows = [*group(1, "a", ["x"], 3), *group(1, "b", ["x"], 3), *group(1, "c", [], 4), *group(1, "d", ["x"], 1),
            *group(1, "e", ["x", "y", "z"], 3)]  # fmt: skip
    diagnosis = found(verl(tmp_path, rows))
    assert at(diagnosis, "group_size") == 4
    assert at(diagnosis, "groups.log.of_other_sizes") == 2
    assert at(diagnosis, "present.active")["value"] == 4 / 5
    # x of n: 1 of 4 twice, 0 of 4, 3 of 6; of 6 choose 4 only those with all three wrong would miss, and need one right.
    assert at(diagnosis, "pass_at_k.2")["value"] == pytest.approx((1 + 1 + 0 + 1) / 4)
    # pass@2: 1/2 twice, 0, 1 (d, one of two), 1 - 3/15.
    assert at(diagnosis, "pass_at_k.1")["value"] == pytest.approx((1 / 2 + 1 / 2 + 0 + 1 + 4 / 5) / 5)
    assert "not of N = 4" in as_text(diagnosis)


@pytest.mark.parametrize("rewards", [[0.0, 0.5, 1.0], [-1.0, 0.0, 1.0], [0.2, 0.2, 0.2], [2.0, 0.0, 0.0]])
def test_a_threshold_is_asked_for(tmp_path: Path, rewards: list[float]) -> None:
    path = write_lines(tmp_path / "1.jsonl", [line(1, "a", reward) for reward in rewards])
    with pytest.raises(ValueError, match=r"rewards must be 0 and 1, or -1 and 1, got .* in column score of 1.jsonl"):
        found(path)
    assert found(path, success_threshold=0.5)["group_size"] == 3


def test_the_rule_of_success_holds_over_files(tmp_path: Path) -> None:
    """0 and 1 in one file, -1 and 1 in the next: no rule fits both."""
    write_lines(tmp_path / "1.jsonl", [line(1, "a", 0.0), line(1, "a", 1.0)])
    write_lines(tmp_path / "2.jsonl", [line(2, "a", -1.0), line(2, "a", 1.0)])
    with pytest.raises(ValueError, match="rewards must be 0 and 1, or -1 and 1, got -1, 0, 1"):
        found(tmp_path)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", {"question": ["a"], "score": [1.0]})
    with pytest.raises(ValueError, match=r"columns must be in the file, got prompt=\?; it has question, score"):
        found(path, columns={"reward": "score"})
    with pytest.raises(ValueError, match=r"got prompt=text; it has question, score \(t.parquet\)"):
        found(path, columns={"reward": "score", "prompt": "text"})
    with pytest.raises(ValueError, match=r"format must be told for t.parquet, got the columns question, score"):
        found(path)


def test_empty_files_are_refused_in_one_line(tmp_path: Path) -> None:
    for name, message in (("e.jsonl", "must hold JSON objects"), ("e.csv", "must be a readable csv file"),
                          ("e.parquet", "must be a readable parquet file")):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(b"")
        with pytest.raises(ValueError, match=message) as raised:
            found(path)
        assert "\n" not in str(raised.value)


def test_no_rows_are_no_log(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", {"prompt": ["a"][:0], "reward": [1.0][:0]})
    with pytest.raises(ValueError, match="logs must hold a row with a prompt and a reward, got none"):
        found(path)


def test_a_folder_without_logs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"logs must hold a file named \*.parquet"):
        found(tmp_path)
    with pytest.raises(ValueError, match=r"logs must be files or folders that exist, got"):
        found(tmp_path / "absent")


def test_other_files_of_a_folder_are_named_and_skipped(tmp_path: Path) -> None:
    """A run folder also holds metrics; a broken file among many is skipped and named."""
    trl(tmp_path / "completions", FOUR)
    write_lines(tmp_path / "metrics.jsonl", [{"loss": 0.1, "step": 1}])
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    diagnosis = found(tmp_path)
    assert at(diagnosis, "source.skipped_files") == ["broken.parquet", "metrics.jsonl"]
    assert at(diagnosis, "groups.all") == 4


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    trl(tmp_path / "one", FOUR)
    verl(tmp_path / "two", FOUR)
    with pytest.raises(ValueError, match="logs must be of one format and layout, got"):
        found(tmp_path)


def test_a_group_may_straddle_files(tmp_path: Path) -> None:
    """Ranks that each write some rollouts of a group: two and two of every four."""
    for rank in (0, 1):
        trl(tmp_path / f"rank{rank}", [row for i, row in enumerate(FOUR) if i % 2 == rank])
    diagnosis = found([tmp_path / "rank0", tmp_path / "rank1"])
    for path, value in FOUR_NUMBERS.items():
        assert at(diagnosis, path)["value"] == pytest.approx(value, rel=1e-12), path


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    """Steps and prompts mixed in one file; every number is the same."""
    rng = random.Random(3)
    rows = [*FOUR, *(row for i in range(60) for row in group(i % 5, f"p{i}", ["x"] * (i % 4), 4 - i % 4))]
    ordered = write_lines(tmp_path / "ordered.jsonl", [line(*row[:2], row.reward, row.completion) for row in rows])
    rng.shuffle(rows)
    mixed = write_lines(tmp_path / "mixed.jsonl", [line(*row[:2], row.reward, row.completion) for row in rows])
    first, second = found(ordered), found(mixed)
    for part in ("groups", "present", "tail_miss", "pass_at_k", "over_time", "trend", "unsampled", "focal"):
        assert _rounded(first[part]) == _rounded(second[part]), part


def _rounded(entry: object) -> object:
    if isinstance(entry, dict):
        return {name: _rounded(value) for name, value in entry.items()}
    if isinstance(entry, list):
        return [_rounded(value) for value in entry]
    return round(entry, 10) if isinstance(entry, float) else entry
