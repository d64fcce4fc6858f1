"""Mazes on disk: 14 bytes each (17 x 17), and the parquet layout that the pipelines of MaxRL and TailRL read.

`write_mazes` keeps the packed walls as 64-bit words, columns `open_17x17_0`, `open_17x17_1`, ...: the size is in the names,
so that an empty file has one too. `export_parquet` writes one row a maze:

    data_source   "maze_17": MaxRL's reward function is chosen by the prefix "maze"
    prompt        [{"role": "user", "content": "<bos> GRID_START ... PATH_START"}], read without a chat template
    answer        the whole sequence, prompt to <eos>
    reward_model  {"style": "rule", "ground_truth": the whole sequence}
    extra_info    {"answer": the whole sequence, "question": the prompt, "optimal_path_length", "split", "index"}

What is known of that layout: MaxRL's SFT reads extra_info (a struct or JSON text) for `answer` and `question`, its reward
reads reward_model.ground_truth (github.com/tajwarfahim/maxrl, maze/sft.py and verl/utils/reward_score), and TailRL's
converter writes these columns but `answer` and `split`. Left out on purpose: JSON, several paths a maze, other rewards.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import atomic_file, read_table, write_table

from . import tokens
from .mazes import Mazes, checked_size, wall_count

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_A_GROUP = 4096


def write_mazes(path: Path | str, mazes: Mazes) -> None:
    """Write mazes as a parquet table, whole or not at all. Raises OSError if the folder is missing."""
    words = _word_count(mazes.size)
    padded = np.zeros((len(mazes), 8 * words), dtype=np.uint8)
    padded[:, : mazes.passages.shape[1]] = mazes.passages
    columns = padded.view("<u8").astype(np.uint64)
    write_table(path, {_column(mazes.size, word): columns[:, word] for word in range(words)})


def read_mazes(path: Path | str) -> Mazes:
    """Mazes written by `write_mazes`.

    Raises ValueError if the table is another one or holds a maze that is not perfect, OSError if the file is missing.
    """
    table = read_table(path)
    found = re.fullmatch(r"open_(\d+)x\1_0", next(iter(table), ""))
    require(bool(found), "the table must be one of write_mazes", path=str(path), columns=tuple(table)[:3])
    size = checked_size(int(found[1]) if found else 0)
    names = [_column(size, word) for word in range(_word_count(size))]
    whole = list(table) == names and all(table[name].dtype == np.uint64 for name in names)
    require(whole, "the table must be one of write_mazes", path=str(path), columns=tuple(table)[:3])
    packed = np.stack([table[name] for name in names], axis=1).astype("<u8").view(np.uint8)
    width = (wall_count(size) + 7) // 8
    require(not packed[:, width:].any(), "spare bits must be 0", path=str(path))
    return Mazes(size, np.ascontiguousarray(packed[:, :width]))


def export_parquet(mazes: Mazes, path: Path | str, split: str) -> None:
    """Write mazes in the layout of this module's docstring, in row groups of 4096, whole or not at all.

    split: the name that goes into extra_info, such as "train" or "test". About 10 kB of text a maze before compression.
    """
    import pyarrow.parquet as pq

    with atomic_file(path, "wb") as file, pq.ParquetWriter(file, _schema(), compression="zstd") as writer:
        for first in range(0, len(mazes), _ROWS_A_GROUP):
            writer.write_table(_rows(mazes[first : first + _ROWS_A_GROUP], split, first))


def import_parquet(path: Path | str) -> Mazes:
    """Mazes of a file in that layout: this module's, MaxRL's or TailRL's with perfect mazes.

    Only extra_info.answer is read. Raises ValueError that names the row for a malformed sequence, a maze that is not perfect,
    a path that is not the maze's solution, or mazes of several sizes.
    """
    import pyarrow.parquet as pq

    parts: list[Mazes] = []
    with pq.ParquetFile(path) as file:
        require("extra_info" in file.schema_arrow.names, "the table must have the column extra_info", path=str(path))
        for batch in file.iter_batches(_ROWS_A_GROUP, columns=["extra_info"]):
            parts.append(_parsed(batch.column(0).to_pylist(), sum(map(len, parts))))
            require(parts[0].size == parts[-1].size, "the mazes must be of one size", path=str(path))
    require(bool(parts), "the table must have rows", path=str(path))
    return Mazes.trusted(parts[0].size, np.concatenate([part.passages for part in parts]))


def _parsed(infos: list[Any], first: int) -> Mazes:
    """The mazes of some rows of extra_info; `first` is the number of the first row."""
    mazes = []
    for row, info in enumerate(infos, first):
        fields = json.loads(info) if isinstance(info, str) else info
        answer = fields.get("answer") if isinstance(fields, dict) else None
        require(isinstance(answer, str), "extra_info must hold the text `answer`", row=row)
        try:
            maze, actions = tokens.parse_text(str(answer))
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from error
        right = actions is not None and np.array_equal(actions, maze.solutions()[0])
        require(right, "the path of `answer` must be the maze's solution", row=row)
        mazes.append(maze)
    same = {maze.size for maze in mazes}
    require(len(same) == 1, "the mazes must be of one size", sizes=tuple(sorted(same)))
    return Mazes.trusted(mazes[0].size, np.concatenate([maze.passages for maze in mazes]))


def _rows(mazes: Mazes, split: str, first: int) -> pa.Table:
    import pyarrow as pa

    completions, lengths = tokens.solution_ids(mazes)
    prompts = [tokens.to_text(row) for row in tokens.prompt_ids(mazes, np.uint8)]
    whole = [
        f"{prompt} {tokens.to_text(ids[:length])}"
        for prompt, ids, length in zip(prompts, completions, lengths, strict=True)
    ]
    steps = lengths - 2
    columns = {
        "data_source": [f"maze_{mazes.size}"] * len(mazes),
        "prompt": [[{"role": "user", "content": prompt}] for prompt in prompts],
        "answer": whole,
        "reward_model": [{"style": "rule", "ground_truth": text} for text in whole],
        "extra_info": [
            {
                "answer": whole[row],
                "question": prompts[row],
                "optimal_path_length": int(steps[row]),
                "split": split,
                "index": first + row,
            }
            for row in range(len(mazes))
        ],
    }
    return pa.table(columns, schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    info = {"answer": text, "question": text, "optimal_path_length": whole, "split": text, "index": whole}
    return pa.schema(
        {
            "data_source": text,
            "prompt": pa.list_(pa.struct({"role": text, "content": text})),
            "answer": text,
            "reward_model": pa.struct({"style": text, "ground_truth": text}),
            "extra_info": pa.struct(info),
        }
    )


def _word_count(size: int) -> int:
    return (wall_count(size) + 63) // 64


def _column(size: int, word: int) -> str:
    return f"open_{size}x{size}_{word}"
