"""Prompts and answers from JSON lines or parquet, graded by math-verify or by a callable of yours.

A row has a prompt (text, or a list of chat turns) and an answer; a text prompt becomes a user turn after the system
prompt. Filters, each counted and reported (F-GRPO, arXiv 2602.06717, appendix L.1): prompts over a token limit,
duplicates (one is kept), duplicates whose answers conflict (none is kept), and golds that do not verify against
themselves (dropped: no completion could be right, or wrong for a reason). Left out on purpose: downloading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fgrpo_theory.foundation.checks import as_whole, require
from fgrpo_theory.foundation.seeds import generator

from ..verifiers.pool import VerifierPool
from .base import Problem, Turn, Verdict, same_length

MATH = "llm.verifiers.math_answer:grade"
SYSTEM_PROMPT = "Reason step by step, and put the final answer in \\boxed{}."
Row = Mapping[str, Any]


@dataclass(frozen=True)
class LoadReport:
    """What the filters did to one file."""

    read: int
    """Rows of the file."""
    kept: int
    """Problems left."""
    too_long: int
    """Rows whose prompt exceeds the token limit."""
    duplicate: int
    """Rows that repeat a prompt with the same answer."""
    conflicting: int
    """Rows of prompts that come with different answers."""
    unverifiable: tuple[str, ...]
    """Ids and reasons of golds that do not verify against themselves."""

    def lines(self) -> list[str]:
        """One line a finding, for the terminal."""
        counts = {name: value for name, value in asdict(self).items() if name != "unverifiable"}
        told = [", ".join(f"{name} {value}" for name, value in counts.items())]
        return told + [f"gold does not verify against itself: {problem}" for problem in self.unverifiable]


class DatasetTask:
    """Problems from files.

    train, heldout: .jsonl or .parquet paths; without heldout, every `heldout_every`-th kept problem is held out.
    prompt_column, answer_column, id_column (None: the row number): where the fields are. system_prompt: "" for none.
    max_prompt_tokens with token_count (text or turns -> tokens): the length filter, in the model's own tokens.
    verifier: "module:function" called as function(gold, text) in a worker. check_golds: grade each gold against itself,
    as `gold_text` writes it. limits: of `VerifierPool`. reports: a LoadReport a file.

    Raises ValueError for a file or a row that does not fit, naming both; OSError for one that is not there.
    """

    name = "dataset"

    def __init__(
        self,
        train: Path | str,
        heldout: Path | str | None = None,
        *,
        heldout_every: int = 20,
        prompt_column: str = "prompt",
        answer_column: str = "answer",
        id_column: str | None = None,
        system_prompt: str = SYSTEM_PROMPT,
        max_prompt_tokens: int | None = None,
        token_count: Callable[[list[Turn] | str], int] | None = None,
        verifier: str = MATH,
        check_golds: bool = True,
        gold_text: str = "\\boxed{{{}}}",
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        as_whole("heldout_every", heldout_every, least=2)
        require(
            (max_prompt_tokens is None) == (token_count is None),
            "max_prompt_tokens and token_count must come together",
            max_prompt_tokens=str(max_prompt_tokens),
        )
        self._columns = prompt_column, answer_column, id_column
        self._system_prompt, self._gold_text = system_prompt, gold_text
        self._most_tokens, self._token_count = max_prompt_tokens, token_count
        self._pool = VerifierPool(verifier, **(limits or {}))
        self._check_golds = check_golds
        self.reports: dict[str, LoadReport] = {}
        problems = self._load(Path(train))
        if heldout is None:
            self._train = [p for place, p in enumerate(problems, 1) if place % heldout_every]
            self._heldout = problems[heldout_every - 1 :: heldout_every]
        else:
            self._train, self._heldout = problems, self._load(Path(heldout))
        require(bool(self._train) and bool(self._heldout), "both splits must have a problem", kept=len(problems))

    def train_prompts(self, seed: int) -> list[Problem]:
        """The training problems, shuffled by the seed."""
        order = generator(seed, "dataset train order").permutation(len(self._train))
        return [self._train[place] for place in order]

    def heldout(self) -> list[Problem]:
        """The held-out problems, in the file's order."""
        return list(self._heldout)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Grade in the worker processes. Raises ValueError for unequal lengths."""
        same_length(problems, texts)
        return self._pool.grade([(problem.answer, text) for problem, text in zip(problems, texts, strict=True)])

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def _load(self, path: Path) -> list[Problem]:
        rows = read_rows(path)
        problems = [self._problem(path, index, row) for index, row in enumerate(rows)]
        short = [problem for problem in problems if not self._too_long(problem)]
        kept, duplicate, conflicting = without_duplicates(short)
        failures = self._golds_that_fail(kept) if self._check_golds else {}
        kept = [problem for problem in kept if problem.id not in failures]
        told = tuple(f"{name} ({reason})" for name, reason in failures.items())
        report = LoadReport(len(rows), len(kept), len(rows) - len(short), duplicate, conflicting, told)
        self.reports[str(path)] = report
        return kept

    def _problem(self, path: Path, index: int, row: Row) -> Problem:
        prompt_column, answer_column, id_column = self._columns
        for column in (prompt_column, answer_column, *([id_column] if id_column else [])):
            if row.get(column) is None:
                raise ValueError(f"row {index} of {path} must have the column {column!r}, got {sorted(row)}")
        prompt = row[prompt_column]
        turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(turn) for turn in prompt]
        if not turns or any(set(turn) != {"role", "content"} for turn in turns):
            raise ValueError(f"row {index} of {path} must have a text or chat turns as its prompt, got {prompt!r}")
        if self._system_prompt and turns[0]["role"] != "system":
            turns.insert(0, {"role": "system", "content": self._system_prompt})
        return Problem(str(row[id_column]) if id_column else f"{path.stem}-{index}", turns, row[answer_column])

    def _too_long(self, problem: Problem) -> bool:
        if self._token_count is None or self._most_tokens is None:
            return False
        return self._token_count(problem.prompt) > self._most_tokens

    def _golds_that_fail(self, problems: Sequence[Problem]) -> dict[str, str]:
        verdicts = self._pool.grade([(p.answer, self._gold_text.format(p.answer)) for p in problems])
        return {p.id: v.reason for p, v in zip(problems, verdicts, strict=True) if v.success is not True}


def without_duplicates(problems: Sequence[Problem]) -> tuple[list[Problem], int, int]:
    """(problems with distinct prompts, rows that repeat one with the same answer, rows of prompts with several answers)."""
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(json.dumps(problem.prompt), []).append(problem)
    agreed = [group for group in groups.values() if len({str(problem.answer).strip() for problem in group}) == 1]
    kept = [group[0] for group in agreed]
    repeats = sum(len(group) - 1 for group in agreed)
    return kept, repeats, len(problems) - len(kept) - repeats


def read_rows(path: Path) -> list[Row]:
    """The rows of a .jsonl or .parquet file.

    Raises ValueError for another suffix or a line that is no JSON object (with its number), OSError for no file.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return list(pyarrow.parquet.read_table(path).to_pylist())
    require(path.suffix == ".jsonl", "a dataset must be a .jsonl or .parquet file", path=str(path))
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} of {path} must be a JSON object, got {line[:60]!r} ({error})") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} of {path} must be a JSON object, got {line[:60]!r}")
        rows.append(row)
    return rows
