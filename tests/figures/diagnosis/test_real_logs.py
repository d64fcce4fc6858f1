"""Logs as TRL, verl and our own trainer write them (tests/data/diagnosis): read, and counted like plain rows."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from diagnosis_logs import at, found

from figures.diagnosis.page import render_page
from figures.diagnosis.tables import as_text

DATA = Path(__file__).parents[2] / "data" / "diagnosis"


def rows_of(form: str) -> list[tuple[int, str, float]]:
    """(step, prompt, reward) of every row, by plain readers."""
    rows = []
    for path in sorted((DATA / form).iterdir()):
        if form == "verl":
            found_rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            rows += [(row["step"], row["input"], row["score"]) for row in found_rows]
        else:
            name = {"trl": "is_sum", "rollouts": "success"}[form]
            rows += [
                (row["step"], json.dumps(row["prompt"]), float(row[name])) for row in pq.read_table(path).to_pylist()
            ]
    return rows


@pytest.mark.parametrize("form", ["trl", "verl", "rollouts"])
def test_a_real_log_is_counted_like_its_rows(form: str) -> None:
    groups = defaultdict(list)
    for step, prompt, reward in rows_of(form):
        groups[step, prompt].append(reward)
    diagnosis = found(DATA / form)
    kinds = [(0 < sum(rewards) < len(rewards), sum(rewards) == len(rewards)) for rewards in groups.values()]
    log = at(diagnosis, "groups.log")
    assert (log["scored"], log["active"], log["all_right"]) == (
        len(kinds),
        sum(k[0] for k in kinds),
        sum(k[1] for k in kinds),
    )
    assert at(diagnosis, "groups.prompts") == len({prompt for _, prompt in groups})
    assert at(diagnosis, "source.format") == form
    assert at(diagnosis, "source.rows") == len(rows_of(form))
    assert at(diagnosis, "source.left_out") == {}
    assert at(diagnosis, "group_size") == 8
    rate = sum(sum(rewards) / len(rewards) for rewards in groups.values()) / len(groups)
    assert at(diagnosis, "present.success_rate")["value"] == pytest.approx(rate)
    # A few steps are too few for a verdict, and it says so.
    assert at(diagnosis, "advice.verdict") == "not enough data"
    assert as_text(diagnosis).startswith("Recommendation: not enough data.")
    assert "<h1>Recommendation: not enough data.</h1>" in render_page(diagnosis)


def test_trl_and_verl_of_the_same_rollouts_agree() -> None:
    first, second = found(DATA / "trl"), found(DATA / "verl")
    for part in ("groups", "present", "tail_miss", "pass_at_k", "focal"):
        assert first[part] == second[part], part
