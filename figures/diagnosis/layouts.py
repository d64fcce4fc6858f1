"""Which column plays which role: the known log formats, their recognition, and the user's own mapping.

TRL 1.x (`log_completions=True`): parquet, one row a completion: step, prompt, completion, one column a reward function,
advantage, and whatever the user logged. verl 0.9 (`trainer.rollout_data_dir`): JSON lines with input, output, gts, score,
step and extra reward information. lm-evaluation-harness (`--log_samples`): JSON lines, one a document and filter, with
doc_id, resps, filtered_resps and one key a metric. Ours: `rollouts` (step, prompt, completion, success) and the counts
of an evaluation (problem, samples, scorable, correct). Anything else is a `table`, whose columns the user names.

A role is never guessed: where several columns could be the reward, the user is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

ROLES = ("prompt", "reward", "step", "completion", "answer", "samples", "correct")
"""`answer`, if given, tells correct rollouts apart instead of the completion; `samples` and `correct` are counts."""

FORMATS = ("trl", "verl", "lm-eval", "rollouts", "counts", "table")

_MARKS: dict[str, frozenset[str]] = {
    "lm-eval": frozenset({"doc_id", "resps", "filtered_resps"}),
    "verl": frozenset({"input", "output", "score", "step"}),
    "trl": frozenset({"step", "prompt", "completion", "advantage"}),
    "rollouts": frozenset({"step", "prompt", "completion", "success"}),
    "counts": frozenset({"problem", "samples", "scorable", "correct"}),
}

_FIXED: dict[str, dict[str, str]] = {
    "trl": {"step": "step", "prompt": "prompt", "completion": "completion"},
    "verl": {"step": "step", "prompt": "input", "completion": "output"},
    "lm-eval": {"prompt": "doc_id", "completion": "filtered_resps"},
    "rollouts": {"step": "step", "prompt": "prompt", "completion": "completion", "reward": "success"},
    "counts": {"prompt": "problem", "samples": "scorable", "correct": "correct"},
    "table": {},
}

# Columns that are numbers and no rewards.
_NO_REWARDS = {
    "trl": {"step", "advantage"},
    "verl": {"step"},
    "lm-eval": {"doc_id"},
}


@dataclass(frozen=True)
class Layout:
    """A format and the column of each role."""

    format: str
    columns: Mapping[str, str]
    """role: column name."""
    filter_column: str | None = None
    """lm-evaluation-harness: the column that names the answer filter of a row."""

    @property
    def needed(self) -> list[str]:
        """Columns to read, each once."""
        extra = [self.filter_column] if self.filter_column else []
        return list(dict.fromkeys([*self.columns.values(), *extra]))


def recognise(names: list[str]) -> str | None:
    """The known format with these columns, or None."""
    return next((name for name, marks in _MARKS.items() if marks <= set(names)), None)


def parse_mapping(words: list[str]) -> dict[str, str]:
    """`role=column` words as a dictionary. Raises ValueError.

    >>> parse_mapping(["reward=acc", "prompt=question"])
    {'reward': 'acc', 'prompt': 'question'}
    """
    mapping = {}
    for word in words:
        role, equals, column = word.partition("=")
        if not equals or role not in ROLES or not column:
            raise ValueError(f"column must be ROLE=NAME with ROLE one of {', '.join(ROLES)}, got column={word!r}")
        if role in mapping:
            raise ValueError(f"column must name each role once, got {role!r} twice")
        mapping[role] = column
    return mapping


def choose_layout(schema: pa.Schema, form: str | None, mapping: Mapping[str, str]) -> Layout | None:
    """The layout of a file with this schema, or None if it is of no known format and nothing is mapped.

    form: the format the user named, or None. Raises ValueError where a column is missing or a reward must be chosen.
    """
    names = list(schema.names)
    form = form or recognise(names) or ("table" if mapping or _is_plain(names) else None)
    if form is None:
        return None
    columns = {**_FIXED[form], **mapping}
    if form == "table":
        columns = {**{role: role for role in ROLES if role in names and role not in mapping}, **mapping}
        if "samples" in mapping or "correct" in mapping:
            columns.pop("reward", None)
    if "reward" not in columns and not {"samples", "correct"} <= set(columns):
        columns["reward"] = _reward(schema, form)
    if form == "verl" and "reward" not in mapping and "acc" in names:
        raise ValueError("reward must be chosen, got the columns score and acc; --column reward=acc or reward=score")
    absent = [f"{role}={column}" for role, column in columns.items() if column not in names]
    if "prompt" not in columns:
        absent.append("prompt=?")
    if absent:
        raise ValueError(f"columns must be in the file, got {', '.join(absent)}; it has {', '.join(names)}")
    has_filter = form == "lm-eval" and "filter" in names
    return Layout(form, columns, "filter" if has_filter else None)


def _is_plain(names: list[str]) -> bool:
    return {"prompt", "reward"} <= set(names) or {"prompt", "samples", "correct"} <= set(names)


def _reward(schema: pa.Schema, form: str) -> str:
    if form == "verl":
        return "score"
    candidates = [
        field.name
        for field in schema
        if form != "table" and field.name not in _NO_REWARDS.get(form, set()) and _is_number(field.type, form)
    ]
    if len(candidates) == 1:
        return str(candidates[0])
    which = ", ".join(candidates) or f"none among {', '.join(schema.names)}"
    raise ValueError(f"reward must be one column, got {which}; name it with --column reward=NAME")


def _is_number(kind: Any, form: str) -> bool:
    if form == "lm-eval" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
