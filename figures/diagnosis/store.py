"""Records on their way to groups: split by prompt into parts that are each small enough to sort.

Every row of a prompt lands in the same part, whatever the order of rows, steps and files, so groups are exact. Parts
beyond a budget of memory go to a temporary folder (28 bytes a row), which is removed at the end. Memory is the budget
plus the sorting of one part, a 64th of the rows if prompts are many.

Beside the parts, each step keeps its number of rows and the sum of its rows' fingerprints: TRL writes its buffer of
rollouts at every log, so a generation that serves several steps is written several times under new step numbers. A step
whose rows all equal those of the step before is left out and counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from .hashing import mix
from .records import Records

PARTS = 64
_BUFFERED_ROWS = 2**21
_SORTED_ROWS = 2**17
_ROW = np.dtype(
    [("step", "<i8"), ("prompt", "<u8"), ("answer", "<u8"), ("scorable", "<i4"), ("correct", "<i4")], align=False
)


class Store:
    """A context manager that takes records and gives them back by part."""

    def __init__(self, buffered_rows: int = _BUFFERED_ROWS) -> None:
        self.rows = 0
        self.identified = True
        """Whether every row has a completion, so that repeated steps can be told."""
        self.steps: dict[int, list[int]] = {}
        """step: [rows, sum of fingerprints modulo 2**64]."""
        self._budget, self._held = buffered_rows, 0
        self._parts: list[list[NDArray[np.void]]] = [[] for _ in range(PARTS)]
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, records: Records) -> None:
        """Take some records."""
        if not records.step.size:
            return
        self._count_steps(records)
        rows = np.empty(records.step.size, dtype=_ROW)
        for name in rows.dtype.names or ():
            rows[name] = getattr(records, name)
        part = (records.prompt >> np.uint64(58)).astype(np.uint8)
        order = np.argsort(part, kind="stable")
        rows, ends = rows[order], np.cumsum(np.bincount(part, minlength=PARTS))
        for index, piece in enumerate(np.split(rows, ends[:-1])):
            if piece.size:
                # A copy, or each piece would keep the whole batch alive.
                self._parts[index].append(piece.copy())
        self.rows += rows.size
        self._held += rows.size
        if self._held >= self._budget:
            self._spill()

    def parts(self) -> Iterator[NDArray[np.void]]:
        """All records, every prompt's in one array; small parts come together, as each array has a fixed cost."""
        together: list[NDArray[np.void]] = []
        for index, pieces in enumerate(self._parts):
            path = self._path(index)
            together += [np.fromfile(path, dtype=_ROW)] if path is not None and path.exists() else []
            together += pieces
            if sum(piece.size for piece in together) >= _SORTED_ROWS:
                yield np.concatenate(together)
                together = []
        if together:
            yield np.concatenate(together)

    def repeated_steps(self) -> list[int]:
        """Steps that repeat the rows of the step before, in order."""
        if not self.identified:
            return []
        steps = sorted(self.steps)
        return [now for before, now in pairwise(steps) if self.steps[now] == self.steps[before]]

    def _count_steps(self, records: Records) -> None:
        self.identified &= bool((records.answer != 0).all())
        prints = mix(records.prompt, records.answer, records.scorable, records.correct)
        steps, inverse = np.unique(records.step, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        counts = np.bincount(inverse, minlength=steps.size)
        sums = np.add.reduceat(prints[order], np.cumsum(counts) - counts)
        for step, count, total in zip(steps.tolist(), counts.tolist(), sums.tolist(), strict=True):
            entry = self.steps.setdefault(step, [0, 0])
            entry[0] += count
            entry[1] = (entry[1] + total) % 2**64

    def _path(self, index: int) -> Path | None:
        return Path(self._folder.name) / f"{index}.rows" if self._folder is not None else None

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="fgrpo-diagnose-")
        for index, pieces in enumerate(self._parts):
            path = self._path(index)
            if pieces and path is not None:
                with path.open("ab") as file:
                    np.concatenate(pieces).tofile(file)
                pieces.clear()
        self._held = 0
