"""Small rollout logs in every format that `fgrpo diagnose` reads, and the four groups whose numbers are known by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from figures.diagnosis.diagnosis import diagnose
from figures.diagnosis.reading import Options


class Rollout(NamedTuple):
    """One row."""

    step: int
    prompt: str
    completion: str | None
    reward: float | None


def group(step: int, prompt: str, right: Sequence[str], wrong: int) -> list[Rollout]:
    """A group whose right rollouts give these answers and whose wrong ones differ from each other."""
    rows = [Rollout(step, prompt, answer, 1.0) for answer in right]
    return rows + [Rollout(step, prompt, f"wrong {i}", 0.0) for i in range(wrong)]


FOUR = [
    *group(1, "a", ["x", "x"], 2),
    *group(1, "b", [], 4),
    *group(2, "a", ["x", "y", "z", "z"], 0),
    *group(2, "b", ["w"], 3),
]
"""Groups of N = 4 with 2, 0, 4, 1 right. f1, the answers given once among the right ones: 0, 0, 2, 1."""

FOUR_NUMBERS = {
    "present.active": 2 / 4,
    "present.all_wrong": 1 / 4,
    "present.all_right": 1 / 4,
    "present.success_rate": (2 / 4 + 0 + 1 + 1 / 4) / 4,
    # 1 - C(n - x, 2) / C(4, 2): 5/6, 0, 1, 1/2.
    "pass_at_k.1": (5 / 6 + 0 + 1 + 1 / 2) / 4,
    "pass_at_k.2": 3 / 4,
    # 0.7 ** x in active groups.
    "tail_miss.0.curve.1": (0.7**2 + 0.7) / 4,
    # Of the pairs in a group, 4/6, 0, 0, 3/6 hold one right rollout.
    "tail_miss.0.curve.0": 0.7 * (4 / 6 + 3 / 6) / 4,
    "unsampled.mass": (0 + 0 + 2 / 4 + 1 / 4) / 4,
    "unsampled.share_of_correct": (3 / 4) / (7 / 4),
    # Groups weigh sqrt(p (1 - p)): 1/2 and sqrt(3)/4; gamma = 1 leaves 1/2 and 3/4 of them.
    "focal.1.update_kept": (1 / 2 * 1 / 2 + 3**0.5 / 4 * 3 / 4) / (1 / 2 + 3**0.5 / 4),
    "focal.1.from_easy_before": 0.0,
}
"""Path in the diagnosis: its value on FOUR."""


def found(logs: Path | Sequence[Path], **options: Any) -> dict[str, Any]:
    """The diagnosis of logs; options as in `Options`, with rare and max_miss."""
    paths = [logs] if isinstance(logs, Path) else logs
    own = {name: options.pop(name) for name in ("rare", "max_miss") if name in options}
    return diagnose([str(path) for path in paths], Options(**options), **own)


def at(diagnosis: dict[str, Any], path: str) -> Any:
    """The entry at a dotted path."""
    entry: Any = diagnosis
    for word in path.split("."):
        entry = entry[int(word)] if word.isdigit() else entry[word]
    return entry


def write_parquet(path: Path, columns: dict[str, Any]) -> Path:
    """A parquet file of these columns; parents are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def write_lines(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    """A JSON lines file; a text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def trl(folder: Path, rows: Sequence[Rollout], chat: bool = False, **rewards: Sequence[float]) -> Path:
    """A file a step, as TRL 1.16 writes them; rewards: more reward columns."""
    for step in sorted({row.step for row in rows}):
        mine = [i for i, row in enumerate(rows) if row.step == step]
        texts = [(rows[i].prompt, rows[i].completion) for i in mine]
        if chat:
            texts = [([{"role": "user", "content": p}], [{"role": "assistant", "content": c}]) for p, c in texts]  # type: ignore[misc]
        write_parquet(
            folder / f"completions_{step:05d}.parquet",
            {
                "step": [step] * len(mine),
                "prompt": [prompt for prompt, _ in texts],
                "completion": [completion for _, completion in texts],
                "accuracy": [rows[i].reward for i in mine],
                **{name: [values[i] for i in mine] for name, values in rewards.items()},
                "advantage": [0.1 * i for i in range(len(mine))],
            },
        )
    return folder


def verl(folder: Path, rows: Sequence[Rollout], **extra: Any) -> Path:
    """A file a step, as verl 0.9 writes them; extra: more keys of every row."""
    for step in sorted({row.step for row in rows}):
        write_lines(
            folder / f"{step}.jsonl",
            [
                {"input": row.prompt, "output": row.completion, "gts": "?", "score": row.reward, "step": step, **extra}
                for row in rows
                if row.step == step
            ],
        )
    return folder
