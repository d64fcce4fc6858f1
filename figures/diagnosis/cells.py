"""From records to cells: how often a group of n rollouts with x right occurs, by window of steps, with its pairs.

A group is one prompt at one step. Steps are cut into windows of about equal numbers of rows; the last one is "the
present", because success rates drift while a model trains. Cells and pairs of cells within a prompt are all that the
estimates need (`fgrpo_theory.clustered`), so memory does not grow with the log. For the present window a second table
also tells how many of a group's correct rollouts have an answer that no other one in the group gave (f1, Good-Turing).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgrpo_theory.clustered import ClusterCounts

from .store import Store

MOST_WINDOWS = 8
LEAST_WINDOW_ROWS = 400
_LARGEST_GROUP = 2**21
_MERGE_AT = 2**22

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """A range of steps."""

    first: int
    last: int
    steps: int


@dataclass(frozen=True)
class Cells:
    """Kinds of groups and their counts."""

    columns: dict[str, Ints]
    """A value a cell: n, correct, and window or once (f1; -1 where answers are not known)."""
    counts: ClusterCounts

    def where(self, chosen: NDArray[np.bool_]) -> Cells:
        """The chosen cells alone."""
        if chosen.all():
            return self
        index = np.flatnonzero(chosen)
        pairs = self.counts.pairs[index][:, index]
        columns = {name: values[index] for name, values in self.columns.items()}
        return Cells(columns, ClusterCounts(self.counts.totals[index], pairs))


@dataclass
class Condensed:
    """All that the estimates need of a log."""

    windows: list[Window]
    over_time: Cells
    """n, correct, window."""
    present: Cells
    """n, correct, once: the last window."""
    groups: int = 0
    prompts: int = 0
    unscorable_groups: int = 0
    """Groups without a scorable rollout, which are in no cell."""
    repeated_steps: list[int] = field(default_factory=list)
    repeated_rows: int = 0


def choose_windows(steps: dict[int, int], most: int = MOST_WINDOWS) -> list[Window]:
    """Consecutive ranges with about equal numbers of rows, fewer if rows are few. steps: rows of each step.

    >>> choose_windows({1: 400, 2: 400, 3: 400, 4: 400}, most=2)
    [Window(first=1, last=2, steps=2), Window(first=3, last=4, steps=2)]
    """
    order = sorted(steps)
    rows = np.array([steps[step] for step in order], dtype=np.float64)
    total = float(rows.sum())
    number = int(max(1, min(most, len(order), total // LEAST_WINDOW_ROWS)))
    middle = (np.cumsum(rows) - rows / 2) / total
    window = np.minimum((middle * number).astype(np.int64), number - 1)
    chunks = [[order[i] for i in np.flatnonzero(window == w)] for w in range(number)]
    return [Window(chunk[0], chunk[-1], len(chunk)) for chunk in chunks if chunk]


def condense(store: Store, most_windows: int = MOST_WINDOWS) -> Condensed:
    """Group the records. Raises ValueError if there is none, or a group holds more than 2**21 rollouts."""
    repeated = store.repeated_steps()
    kept = {step: entry[0] for step, entry in store.steps.items() if step not in set(repeated)}
    if not kept:
        raise ValueError("logs must hold a row with a prompt and a reward, got none")
    windows = choose_windows(kept, most_windows)
    firsts = np.array([window.first for window in windows])
    dropped = np.array(repeated, dtype=np.int64)
    over_time, present = _Collector(), _Collector()
    result = Condensed(windows, over_time.cells({}), present.cells({}), repeated_steps=repeated)
    for rows in store.parts():
        rows = rows[~np.isin(rows["step"], dropped)] if dropped.size else rows
        if rows.size:
            _condense_part(rows, firsts, over_time, present, result)
    result.repeated_rows = sum(store.steps[step][0] for step in repeated)
    result.over_time = over_time.cells({"window": 42, "n": 21, "correct": 0})
    result.present = present.cells({"n": 42, "correct": 21, "once": 0}, once_shift=1)
    return result


def _condense_part(rows: Any, firsts: Ints, over_time: _Collector, present: _Collector, result: Condensed) -> None:
    rows = rows[np.lexsort((rows["step"], rows["prompt"]))]
    new_prompt = np.concatenate([[True], rows["prompt"][1:] != rows["prompt"][:-1]])
    new_group = new_prompt.copy()
    new_group[1:] |= rows["step"][1:] != rows["step"][:-1]
    starts = np.flatnonzero(new_group)
    n = np.add.reduceat(rows["scorable"], starts, dtype=np.int64)
    x = np.add.reduceat(rows["correct"], starts, dtype=np.int64)
    if int(n.max()) >= _LARGEST_GROUP:
        raise ValueError(f"a group must hold fewer than {_LARGEST_GROUP} rollouts, got {int(n.max())} for one prompt")
    prompt = np.cumsum(new_prompt)[starts] - 1
    window = np.searchsorted(firsts, rows["step"][starts], side="right") - 1
    group_of_row = np.cumsum(new_group) - 1
    result.groups += starts.size
    result.prompts += int(new_prompt.sum())
    result.unscorable_groups += int(np.count_nonzero(n == 0))
    scored = n > 0
    over_time.add(prompt[scored], (window << 42 | n << 21 | x)[scored])
    now = scored & (window == firsts.size - 1)
    once = _seen_once(rows, group_of_row, now)
    present.add(prompt[now], (n << 42 | x << 21 | (once + 1))[now])


def _seen_once(rows: Any, group: Ints, wanted: NDArray[np.bool_]) -> Ints:
    """Per group, the answers that exactly one of its correct rollouts gave; -1 if one has no answer, or is a count."""
    once = np.zeros(wanted.size, dtype=np.int64)
    chosen = (rows["correct"] > 0) & wanted[group]
    mine, answers = group[chosen], rows["answer"][chosen]
    unknown = np.unique(mine[(answers == 0) | (rows["scorable"][chosen] > 1)])
    if mine.size:
        order = np.lexsort((answers, mine))
        mine, answers = mine[order], answers[order]
        new = np.concatenate([[True], (mine[1:] != mine[:-1]) | (answers[1:] != answers[:-1])])
        starts = np.flatnonzero(new)
        lengths = np.diff(np.append(starts, mine.size))
        once += np.bincount(mine[starts[lengths == 1]], minlength=once.size)
    once[unknown] = -1
    return once


class _Collector:
    """Sums cells and pairs of cells over parts; a cell is known by its code."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._totals: list[tuple[Ints, Ints]] = []
        self._pairs: list[Any] = []
        self._stored = 0

    def add(self, prompt: Ints, code: Ints) -> None:
        """Groups of prompts that come in no other call."""
        if not code.size:
            return
        codes, local = np.unique(code, return_inverse=True)
        cells = np.array([self._index.setdefault(value, len(self._index)) for value in codes.tolist()])
        _, row = np.unique(prompt, return_inverse=True)
        matrix = sparse.csr_array((np.ones(row.size), (row, local)), shape=(int(row.max()) + 1, codes.size))
        pairs = (matrix.T @ matrix).tocoo()
        self._totals.append((cells, np.bincount(local, minlength=codes.size)))
        self._pairs.append((cells[pairs.coords[0]], cells[pairs.coords[1]], pairs.data))
        self._stored += pairs.nnz
        if self._stored > _MERGE_AT:
            self._pairs = [self._merged()]
            self._stored = self._pairs[0][2].size

    def cells(self, shifts: dict[str, int], once_shift: int = 0) -> Cells:
        """Everything so far; shifts say where in the code each column lies."""
        codes = np.array(list(self._index), dtype=np.int64)
        columns = {name: (codes >> shift) & (_LARGEST_GROUP - 1) for name, shift in shifts.items()}
        if "once" in columns:
            columns["once"] = columns["once"] - once_shift
        totals = np.zeros(codes.size)
        for cells, counts in self._totals:
            np.add.at(totals, cells, counts)
        rows, others, values = self._merged()
        pairs = sparse.csr_array((values, (rows, others)), shape=(codes.size, codes.size))
        return Cells(columns, ClusterCounts(totals, pairs))

    def _merged(self) -> tuple[Any, Any, Any]:
        if not self._pairs:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        rows, others, values = (np.concatenate(parts) for parts in zip(*self._pairs, strict=True))
        size = len(self._index)
        merged = sparse.csr_array((values, (rows, others)), shape=(size, size)).tocoo()
        return merged.coords[0], merged.coords[1], merged.data
