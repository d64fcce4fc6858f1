"""Mazes as a task of llm's trainer: prompts, demonstrations and the verifier (section 5.2).

    fgrpo llm train --set task.name=maze.task:maze_task ...   works too, with a maze model as source

A prompt has exactly one right completion under the rule `target`. Prompts are made when they are asked for, so a million
mazes cost their packed walls alone. Verdicts come from token ids: no completion is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Integer

from fgrpo_theory.foundation.checks import as_choice, require
from fgrpo_theory.foundation.seeds import generator
from llm.tasks.base import Problem, Verdict, same_length, verdict_of

from .generation import split
from .mazes import Mazes
from .tokens import EOS, PAD, completion_ids, from_text, prompt_ids, to_text
from .verifier import REASONS, RULES, Rule, verify_batch


def maze_problem(maze: Mazes, name: str) -> Problem:
    """The prompt of one maze; its answer is the maze itself."""
    return Problem(name, to_text(prompt_ids(maze)[0]), maze)


class MazeProblems(Sequence[Problem]):
    """Problems of mazes in a given order, made one by one as they are read; ids are PREFIX-NUMBER, the number in `mazes`."""

    def __init__(self, mazes: Mazes, prefix: str, order: Integer[np.ndarray, " maze"] | None = None) -> None:
        self.mazes, self.prefix = mazes, prefix
        self.order = np.arange(len(mazes)) if order is None else order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return MazeProblems(self.mazes, self.prefix, self.order[index])
        number = int(self.order[index])
        return maze_problem(self.mazes[number], f"{self.prefix}-{number}")

    def __iter__(self) -> Iterator[Problem]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True)
class MazeTask:
    """The task of one split of mazes. Raises ValueError for an unknown rule, or splits of unequal size."""

    train: Mazes
    """mazes that are trained on"""
    heldout_mazes: Mazes
    """mazes that are never trained on"""
    rule: Rule = "target"
    """what is right (see `maze.verifier`)"""
    name: str = field(default="maze", init=False)

    def __post_init__(self) -> None:
        as_choice("rule", self.rule, RULES)
        require(self.train.size == self.heldout_mazes.size, "both splits must have mazes of one size",
                train=self.train.size, heldout=self.heldout_mazes.size)  # fmt: skip

    def train_prompts(self, seed: int) -> MazeProblems:
        """All training mazes, in an order drawn from the seed."""
        return MazeProblems(self.train, "train", generator(seed, "maze/order").permutation(len(self.train)))

    def heldout(self) -> MazeProblems:
        """The held-out mazes, in their own order."""
        return MazeProblems(self.heldout_mazes, "heldout")

    def demonstrate(self, problem: Problem, stream: np.random.Generator) -> str:
        """The right path and DONE, as text."""
        return to_text(completion_ids(_maze(problem).solutions()[0], eos=False))

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """One verdict a text; texts come without <eos>."""
        same_length(problems, texts)
        rows = [from_text(text) for text in texts]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.full((len(rows), int(lengths.max(initial=0))), PAD, dtype=np.int64)
        for row, tokens in zip(ids, rows, strict=True):
            row[: len(tokens)] = tokens
        return self.verify_ids(problems, ids, lengths)

    def verify_ids(
        self,
        problems: Sequence[Problem],
        completions: Integer[np.ndarray, "completion token"],
        lengths: Integer[np.ndarray, " completion"],
    ) -> list[Verdict]:
        """One verdict a completion; its first `lengths` ids count."""
        require(len(problems) == len(completions), "completions must match problems",
                problems=len(problems), completions=len(completions))  # fmt: skip
        if not problems:
            return []
        first: dict[str, int] = {}
        index = np.array([first.setdefault(problem.id, len(first)) for problem in problems])
        mazes = {problem.id: _maze(problem) for problem in problems}
        packed = np.concatenate([mazes[name].passages for name in first])
        _, codes = verify_batch(Mazes.trusted(self.train.size, packed), index, completions, lengths, self.rule)
        return [_VERDICTS[code] for code in codes]

    def close(self) -> None:
        """Nothing to end."""


_VERDICTS = [verdict_of(code == 0, "" if code == 0 else reason) for code, reason in enumerate(REASONS)]


def _maze(problem: Problem) -> Mazes:
    maze = problem.answer
    if not isinstance(maze, Mazes):
        raise ValueError(f"a maze problem's answer must be its maze, got {type(maze).__name__}")
    return maze


def maze_task(
    size: int = 11, train: int = 100_000, heldout: int = 256, seed: int = 0, rule: Rule = "target"
) -> MazeTask:
    """The task of freshly drawn mazes: the same arguments give the same mazes. Raises ValueError as `generation.split`."""
    return MazeTask(*split(train, heldout, size, seed), rule)


def longest_completion(mazes: Mazes) -> int:
    """Tokens of the longest right completion, with DONE and <eos>."""
    return int(mazes.solution_lengths().max(initial=0)) + len((PAD, EOS))
