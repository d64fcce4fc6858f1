"""Rows of a log as five numbers each: step, prompt, answer, scorable, correct; and a tally of everything irregular.

Success needs a rule. Rewards that are all 0 or 1, or all -1 or 1, say it themselves; for any other the user gives a
threshold (success is a reward of at least that). A reward that is null, NaN, infinite or no number is unscorable: the
rollout leaves N. A row without prompt or step is left out. Each of these is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .hashing import U64, fingerprints, mix
from .layouts import Layout

_NUMBER = r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[nN][aA][nN]|[iI]nf(inity)?)\s*$"
_TASK = re.compile(r"^samples_(.+?)_\d{4}-\d\d-\d\dT")


@dataclass(frozen=True)
class Records:
    """One entry a row: a rollout, or the counts of several."""

    step: NDArray[np.int64]
    prompt: U64
    answer: U64
    """Identity of the completion or answer; 0 where there is none."""
    scorable: NDArray[np.int32]
    correct: NDArray[np.int32]


@dataclass
class Success:
    """The rule that turns rewards into right and wrong."""

    threshold: float | None = None
    seen: set[float] = field(default_factory=set)

    def correct(self, rewards: NDArray[np.float64], column: str, path: Path) -> NDArray[np.bool_]:
        """Whether each finite reward is a success. Raises ValueError if a threshold is needed."""
        if self.threshold is not None:
            return np.asarray(rewards >= self.threshold)
        self.seen |= set(np.unique(rewards)[:8].tolist())
        if not (self.seen <= {0.0, 1.0} or self.seen <= {-1.0, 1.0}):
            values = ", ".join(f"{value:g}" for value in sorted(self.seen)[:4])
            raise ValueError(
                f"rewards must be 0 and 1, or -1 and 1, got {values} in column {column} of {path.name}; "
                "say from which reward on a rollout is a success with --success-threshold"
            )
        return np.asarray(rewards == 1.0)


@dataclass
class Recorder:
    """Turns tables into records, and counts what it leaves out."""

    success: Success
    wanted_filter: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    filters: set[str] = field(default_factory=set)

    def records(self, table: pa.Table, layout: Layout, path: Path) -> Records:
        """The table's records. Raises ValueError where the success or the filter must be chosen."""
        self.counts["rows"] += table.num_rows
        table = self._filtered(table, layout)
        table = self._exploded(table, layout)
        columns = {role: table[name] for role, name in layout.columns.items()}
        prompt = fingerprints(columns["prompt"])
        if layout.format == "lm-eval":
            task = _TASK.match(path.name)
            prompt = np.where(
                prompt == 0, prompt, mix(prompt, fingerprints(pa.array([task[1] if task else path.stem])))
            )
        step, has_step = _steps(columns.get("step"), table.num_rows)
        identity = columns.get("answer", columns.get("completion"))
        answer = fingerprints(identity) if identity is not None else np.zeros(table.num_rows, dtype=np.uint64)
        if "samples" in columns:
            scorable, correct, good = self._counted(columns)
        else:
            scorable, correct = self._judged(columns["reward"], layout, path)
            good = np.ones(table.num_rows, dtype=bool)
        keep = (prompt != 0) & has_step & good
        self.counts["rows without a prompt"] += int(np.count_nonzero(prompt == 0))
        self.counts["rows without a whole-number step"] += int(np.count_nonzero((prompt != 0) & ~has_step))
        if identity is not None:
            self.counts["correct rollouts without a completion"] += int(
                np.count_nonzero(keep & (correct > 0) & (answer == 0))
            )
        return Records(step[keep], prompt[keep], answer[keep], scorable[keep], correct[keep])

    def _judged(self, column: Any, layout: Layout, path: Path) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        rewards, strange = _numbers(column)
        finite = np.isfinite(rewards)
        self.counts["rewards that are no number"] += strange
        self.counts["rewards that are infinite"] += int(np.count_nonzero(np.isinf(rewards)))
        self.counts["rewards that are null or NaN"] += int(np.count_nonzero(np.isnan(rewards))) - strange
        correct = np.zeros(rewards.size, dtype=np.int32)
        correct[finite] = self.success.correct(rewards[finite], layout.columns["reward"], path)
        return finite.astype(np.int32), correct

    def _counted(self, columns: dict[str, Any]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        (samples, _), (correct, _) = _numbers(columns["samples"]), _numbers(columns["correct"])
        whole = (samples >= 0) & (samples < 2**21) & (correct >= 0) & (correct <= samples)
        whole &= (np.floor(samples) == samples) & (np.floor(correct) == correct)
        self.counts["rows whose counts are impossible"] += int(np.count_nonzero(~whole))
        return np.where(whole, samples, 0).astype(np.int32), np.where(whole, correct, 0).astype(np.int32), whole

    def _filtered(self, table: pa.Table, layout: Layout) -> pa.Table:
        """lm-evaluation-harness writes a row for every filter: rows of one filter only."""
        if layout.filter_column is None:
            return table
        column = table[layout.filter_column]
        self.filters |= {str(value) for value in pc.unique(column).to_pylist()}
        if self.wanted_filter is not None:
            return table.filter(pc.equal(column, self.wanted_filter))
        if len(self.filters) > 1:
            raise ValueError(f"filter must be chosen, got rows of {', '.join(sorted(self.filters))}; use --filter NAME")
        return table

    def _exploded(self, table: pa.Table, layout: Layout) -> pa.Table:
        """A metric that is a list holds one value a repeat: one row each."""
        name = layout.columns.get("reward")
        if name is None or not _is_list(table[name].type):
            return table
        metric = table[name].combine_chunks()
        lengths = np.asarray(pc.list_value_length(metric).fill_null(0)).astype(np.int64)
        parents = pa.array(np.repeat(np.arange(table.num_rows), lengths))
        result = table.take(parents)
        result = result.set_column(result.column_names.index(name), name, [pc.list_flatten(metric)])
        answers = layout.columns.get("completion")
        if answers is not None and _is_list(table[answers].type):
            nested = table[answers].combine_chunks()
            flat, width = (
                pc.list_flatten(nested),
                np.asarray(pc.list_value_length(nested).fill_null(0)).astype(np.int64),
            )
            alike = bool((width == lengths).all())
            flat = flat if alike else pa.nulls(result.num_rows)
            result = result.set_column(result.column_names.index(answers), answers, [flat])
        return result


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _steps(column: Any, rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    if column is None:
        return np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool)
    values, _ = _numbers(column)
    good = np.isfinite(values) & (np.floor(values) == values) & (np.abs(values) < 2**53)
    return np.where(good, values, 0).astype(np.int64), good


def _numbers(column: Any) -> tuple[NDArray[np.float64], int]:
    """Float64 with NaN for null, and how many values were no numbers (NaN too)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    strange = 0
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan), 0
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        lower = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        text = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", lower))
        is_number = pc.match_substring_regex(text, _NUMBER)
        strange = int(pc.sum(pc.invert(is_number)).as_py() or 0)
        column = pc.if_else(is_number, text, None)
    elif not (
        pa.types.is_boolean(column.type)
        or pa.types.is_integer(column.type)
        or pa.types.is_floating(column.type)
        or pa.types.is_decimal(column.type)
    ):
        strange = len(column) - column.null_count
        return np.full(len(column), np.nan), strange
    values = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(pc.fill_null(values, np.nan)), strange
