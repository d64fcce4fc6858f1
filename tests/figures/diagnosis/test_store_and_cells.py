"""Records become cells: by loops over plain rows, whatever the chunks; memory holds a budget, the rest is on disk."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import figures.diagnosis.readers as readers
import figures.diagnosis.store as store_module
from figures.diagnosis.cells import Condensed, Window, choose_windows, condense
from figures.diagnosis.readers import Corrupt, read_batches, read_schema
from figures.diagnosis.records import Records
from figures.diagnosis.store import Store

Counted = tuple[Counter[tuple[int, ...]], dict[tuple[int, ...], float], Counter[tuple[int, ...]]]
"""Cells of the log (window, n, correct), their pairs, and cells of the present (n, correct, once)."""


def made_up(rows: int = 3000, prompts: int = 40, steps: int = 6, seed: int = 0) -> Records:
    """Rollouts in no order; a twentieth unscorable, answers of a few kinds."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, 2**63, prompts, dtype=np.uint64)[rng.integers(0, prompts, rows)] * np.uint64(2)
    scorable = rng.random(rows) < 0.95
    correct = scorable & (rng.random(rows) < 0.4)
    answer = rng.integers(1, 6, rows).astype(np.uint64)
    return Records(rng.integers(0, steps, rows), prompt, answer, scorable.astype(np.int32), correct.astype(np.int32))


def piece(records: Records, rows: slice) -> Records:
    return Records(*(getattr(records, name)[rows] for name in ("step", "prompt", "answer", "scorable", "correct")))


def as_counts(
    condensed: Condensed,
) -> Counted:
    """Cells of the log as counts, its pairs, and the cells of the present."""
    keys = list(zip(*(condensed.over_time.columns[name].tolist() for name in ("window", "n", "correct")), strict=True))
    totals = Counter(dict(zip(keys, condensed.over_time.counts.totals.tolist(), strict=True)))
    pairs = condensed.over_time.counts.pairs.toarray()
    both = {(*keys[i], *keys[j]): pairs[i, j] for i in range(len(keys)) for j in range(len(keys)) if pairs[i, j]}
    present = list(zip(*(condensed.present.columns[name].tolist() for name in ("n", "correct", "once")), strict=True))
    return totals, both, Counter(dict(zip(present, condensed.present.counts.totals.tolist(), strict=True)))


def by_loops(records: Records, windows: list[Window]) -> Counted:
    """The same from plain rows."""
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for step, prompt, answer, scorable, correct in zip(
        *(getattr(records, name).tolist() for name in ("step", "prompt", "answer", "scorable", "correct")), strict=True
    ):
        groups[prompt, step].append((answer, scorable, correct))
    totals: Counter[tuple[int, ...]] = Counter()
    present: Counter[tuple[int, ...]] = Counter()
    of_prompt = defaultdict(list)
    for (prompt, step), rows in groups.items():
        window = next(i for i, one in enumerate(windows) if one.first <= step <= one.last)
        n, x = sum(row[1] for row in rows), sum(row[2] for row in rows)
        if n == 0:
            continue
        totals[window, n, x] += 1
        of_prompt[prompt].append((window, n, x))
        if window == len(windows) - 1:
            answers = Counter(answer for answer, _, right in rows if right)
            present[n, x, sum(count == 1 for count in answers.values())] += 1
    pairs: dict[tuple[int, ...], float] = defaultdict(float)
    for cells in of_prompt.values():
        for first in cells:
            for second in cells:
                pairs[(*first, *second)] += 1
    return totals, dict(pairs), present


def test_cells_are_those_of_loops() -> None:
    records = made_up()
    with Store() as store:
        store.add(records)
        found = condense(store, most_windows=3)
    assert len(found.windows) == 3
    assert as_counts(found) == by_loops(records, found.windows)


@pytest.mark.parametrize("budget", [2**21, 256, 1])
def test_chunks_and_spilling_do_not_show(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one piece, or in 77 that go to disk at once, and sorted part by part."""
    records = made_up()
    with Store() as store:
        store.add(records)
        whole = as_counts(condense(store))
    monkeypatch.setattr(store_module, "_SORTED_ROWS", 50)
    with Store(buffered_rows=budget) as store:
        for first in range(0, 3000, 39):
            store.add(piece(records, slice(first, first + 39)))
        assert as_counts(condense(store)) == whole


def test_memory_holds_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows in memory never pass the budget after a batch; parts to sort are a fraction; no file is left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(store_module, "_SORTED_ROWS", 1)
    records = made_up(rows=20_000, prompts=2000)
    with Store(buffered_rows=1000) as store:
        for first in range(0, 20_000, 300):
            store.add(piece(records, slice(first, first + 300)))
            assert sum(array.size for part in store._parts for array in part) < 1000
        sizes = [part.size for part in store.parts()]
        assert sum(sizes) == 20_000
        assert len(sizes) == store_module.PARTS
        assert max(sizes) < 3 * 20_000 / store_module.PARTS
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_a_prompt_lies_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_SORTED_ROWS", 1)
    with Store(buffered_rows=100) as store:
        store.add(made_up())
        seen = [set(part["prompt"].tolist()) for part in store.parts()]
    assert len(seen) > 10
    assert sum(len(prompts) for prompts in seen) == len(set().union(*seen)) == 40


def test_small_parts_come_together() -> None:
    with Store() as store:
        store.add(made_up())
        assert [part.size for part in store.parts()] == [3000]


def test_a_batch_of_parquet_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "BATCH_ROWS", 100)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"prompt": ["a"] * 1000, "reward": [1.0] * 1000, "more": [0] * 1000}), path)
    tables = list(read_batches(path, read_schema(path), ["prompt", "reward"], Corrupt()))
    assert [table.num_rows for table in tables] == [100] * 10
    assert tables[0].column_names == ["prompt", "reward"]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_batch_of_text_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """Blocks of a kilobyte: whole lines, none lost between two blocks."""
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 1024)
    path = tmp_path / f"t{suffix}"
    lines = [f'{{"prompt": "p{i}", "reward": {i % 2}}}' if suffix == ".jsonl" else f"p{i},{i % 2}" for i in range(1000)]
    path.write_text("\n".join([*(["prompt,reward"] if suffix == ".csv" else []), *lines]))
    tables = list(read_batches(path, read_schema(path), ["prompt", "reward"], Corrupt()))
    assert len(tables) >= path.stat().st_size // 1024
    assert max(table.num_rows for table in tables) < 200
    assert [text for table in tables for text in table["prompt"].to_pylist()] == [f"p{i}" for i in range(1000)]


def test_windows_hold_about_equal_rows() -> None:
    assert choose_windows({3: 100, 7: 100}) == [Window(3, 7, 2)]
    assert choose_windows(dict.fromkeys(range(8), 400)) == [Window(i, i, 1) for i in range(8)]
    windows = choose_windows(dict.fromkeys(range(96), 80))
    assert [window.steps for window in windows] == [12] * 8
    # One step with most of the rows is a window of its own, and no window is empty.
    assert sum(window.steps for window in choose_windows({1: 50, 2: 5000, 3: 50})) == 3


def test_a_group_too_large_is_refused() -> None:
    with Store() as store:
        many = np.full(3, 2**20, dtype=np.int32)
        store.add(
            Records(np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.uint64), np.zeros(3, dtype=np.uint64), many, many)
        )
        with pytest.raises(ValueError, match="a group must hold fewer than 2097152 rollouts, got 3145728"):
            condense(store)
