"""Mazes on disk: round trips, the columns that other pipelines read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fgrpo_theory.foundation.files import write_table
from maze.generation import generate
from maze.storage import export_parquet, import_parquet, read_mazes, write_mazes
from maze.verifier import verify


@pytest.mark.parametrize(("size", "count"), [(5, 3), (7, 192), (17, 1000), (65, 3), (17, 0)])
def test_packed_round_trip(tmp_path: Path, size: int, count: int) -> None:
    mazes = generate(count, size, 0)
    write_mazes(tmp_path / "mazes.parquet", mazes)
    assert read_mazes(tmp_path / "mazes.parquet") == mazes
    before = (tmp_path / "mazes.parquet").read_bytes()
    write_mazes(tmp_path / "mazes.parquet", mazes)
    assert (tmp_path / "mazes.parquet").read_bytes() == before


def test_a_maze_takes_a_few_bytes(tmp_path: Path) -> None:
    write_mazes(tmp_path / "mazes.parquet", generate(10_000, 17, 0))
    assert (tmp_path / "mazes.parquet").stat().st_size < 20 * 10_000


def test_other_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    word = np.zeros(2, dtype=np.uint64)
    for columns in (
        {"a": word},
        {"open_17x17_0": word},
        {"open_17x17_0": word, "open_17x17_1": word.astype(np.int64)},
        {"open_17x19_0": word, "open_17x19_1": word},
    ):
        write_table(path, columns)
        with pytest.raises(ValueError, match="the table must be one of write_mazes"):
            read_mazes(path)
    write_table(path, {"open_17x17_0": word, "open_17x17_1": word})
    with pytest.raises(ValueError, match="perfect"):
        read_mazes(path)
    write_table(path, {"open_5x5_0": np.array([1 << 40], dtype=np.uint64)})
    with pytest.raises(ValueError, match="spare bits"):
        read_mazes(path)
    write_table(path, {"open_6x6_0": word})
    with pytest.raises(ValueError, match="size must be an odd"):
        read_mazes(path)
    with pytest.raises(FileNotFoundError):
        read_mazes(tmp_path / "none.parquet")


def test_exported_rows_are_what_the_pipelines_read(tmp_path: Path) -> None:
    mazes = generate(20, 9, 0)
    export_parquet(mazes, tmp_path / "train.parquet", "train")
    rows = pq.read_table(tmp_path / "train.parquet").to_pylist()
    assert list(rows[0]) == ["data_source", "prompt", "answer", "reward_model", "extra_info"]
    for number, (row, maze) in enumerate(zip(rows, mazes, strict=True)):
        (turn,) = row["prompt"]
        assert (row["data_source"], turn["role"], row["reward_model"]["style"]) == ("maze_9", "user", "rule")
        answer, question = row["extra_info"]["answer"], row["extra_info"]["question"]
        assert answer == row["answer"] == row["reward_model"]["ground_truth"]
        assert turn["content"] == question
        assert question.startswith("<bos> GRID_START WALL")
        assert question.endswith("WALL NEWLINE GRID_END PATH_START")
        assert answer.startswith(question)
        assert verify(maze, answer.removeprefix(question)).success
        assert row["extra_info"]["optimal_path_length"] == maze.solution_lengths()[0]
        assert (row["extra_info"]["split"], row["extra_info"]["index"]) == ("train", number)
    assert import_parquet(tmp_path / "train.parquet") == mazes


def test_export_in_several_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maze.storage._ROWS_A_GROUP", 7)
    mazes = generate(20, 7, 0)
    export_parquet(mazes, tmp_path / "t.parquet", "test")
    assert import_parquet(tmp_path / "t.parquet") == mazes
    indices = [info["index"] for info in pq.read_table(tmp_path / "t.parquet")["extra_info"].to_pylist()]
    assert indices == list(range(20))
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_import_reads_json_text_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    mazes = generate(2, 7, 0)
    export_parquet(mazes, tmp_path / "t.parquet", "test")
    infos = pq.read_table(tmp_path / "t.parquet")["extra_info"].to_pylist()
    path = tmp_path / "other.parquet"

    def put(*answers: str) -> Path:
        pq.write_table(pa.table({"extra_info": [json.dumps({"answer": answer}) for answer in answers]}), path)
        return path

    good = infos[0]["answer"]
    assert import_parquet(put(good, infos[1]["answer"])) == mazes
    steps_back = good.replace("PATH_START", "PATH_START RIGHT LEFT")
    for answers, said in [
        ((good, "PATH_START"), "row 1: a prompt must have size"),
        ((good, good.replace("DONE ", "")), "row 1: a completion must have DONE"),
        ((good, steps_back), "must be the maze's solution, got row=1"),
        ((good, infos[1]["question"]), "must be the maze's solution, got row=1"),
        ((), "must have rows"),
    ]:
        with pytest.raises(ValueError, match=said):
            import_parquet(put(*answers))
    pq.write_table(pa.table({"extra_info": ['{"question": "x"}']}), path)
    with pytest.raises(ValueError, match="must hold the text `answer`"):
        import_parquet(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ValueError, match="column extra_info"):
        import_parquet(path)
