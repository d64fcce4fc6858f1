"""`sums`: write a number T as a sum of two whole numbers. Every correct completion of a prompt can be listed.

The correct texts of T are exactly "a + b" with a from 0 to T and b = T - a: plain ASCII digits, no leading zero, one
space on each side of the plus, nothing before or after. So a prompt has T + 1 correct answers, `llm.exact` gives the
probability of each under a real model, and mu_pos, the unsampled-correct mass and M_ret (F-GRPO, arXiv 2602.06717,
eqs. 2, 9, 26) carry no sampling error. Two solved examples stand before the question as chat turns; with them
SmolLM2-135M-Instruct starts with a common answer and many rare ones (numbers in docs/tasks.md).
Left out on purpose: a lenient reading of near misses, which would make the correct set impossible to list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fgrpo_theory.foundation.checks import as_whole, require
from fgrpo_theory.foundation.seeds import generator

from .base import Problem, Turn, Verdict, same_length, verdict_of

ALPHABET = "0123456789+ "
# At most 9 digits: nothing longer can be right, and int() of a huge text is slow.
_FORM = re.compile(r"(0|[1-9][0-9]{0,8}) \+ (0|[1-9][0-9]{0,8})", re.ASCII)
_LARGEST = 10**6


@dataclass(frozen=True)
class SumsTask:
    """The task for the totals from lowest_total to highest_total, without those of the examples.

    Raises ValueError unless 0 <= lowest_total <= highest_total <= 1e6, heldout_every >= 2, the examples are right,
    and both splits have a total.
    """

    lowest_total: int = 9
    """Least T."""
    highest_total: int = 28
    """Largest T; the cost of the exact numbers grows as its square."""
    heldout_every: int = 3
    """Every so many totals one is held out."""
    instruction: str = "Write the number as a sum of two whole numbers."
    """The system turn."""
    examples: Sequence[str] = ("5 + 7", "10 + 4")
    """Solved examples, shown as earlier turns."""
    name: str = "sums"

    def __post_init__(self) -> None:
        # A configuration file has lists, a frozen task tuples.
        object.__setattr__(self, "examples", tuple(self.examples))
        as_whole("lowest_total", self.lowest_total, least=0)
        as_whole("heldout_every", self.heldout_every, least=2)
        require(
            self.lowest_total <= self.highest_total <= _LARGEST,
            f"highest_total must lie in [lowest_total, {_LARGEST}]",
            highest_total=self.highest_total,
            lowest_total=self.lowest_total,
        )
        for example in self.examples:
            require(_FORM.fullmatch(example) is not None, "examples must be written a + b", examples=example)
        splits = len(self.train_totals()), len(self.heldout_totals())
        require(all(splits), "the totals must fill both splits", train=splits[0], heldout=splits[1])

    def totals(self) -> list[int]:
        """All T, ascending."""
        shown = {_total(example) for example in self.examples}
        return [t for t in range(self.lowest_total, self.highest_total + 1) if t not in shown]

    def train_totals(self) -> list[int]:
        """The T of the training prompts."""
        return [t for place, t in enumerate(self.totals(), 1) if place % self.heldout_every]

    def heldout_totals(self) -> list[int]:
        """The T that are never trained on."""
        return [t for place, t in enumerate(self.totals(), 1) if place % self.heldout_every == 0]

    def problem(self, total: int) -> Problem:
        """The prompt for one T."""
        turns: list[Turn] = [{"role": "system", "content": self.instruction}]
        for example in self.examples:
            turns += [
                {"role": "user", "content": str(_total(example))},
                {"role": "assistant", "content": example},
            ]
        return Problem(f"sums-{total}", [*turns, {"role": "user", "content": str(total)}], total)

    def train_prompts(self, seed: int) -> list[Problem]:
        """The training problems, shuffled by the seed."""
        totals = self.train_totals()
        order = generator(seed, "sums train order").permutation(len(totals))
        return [self.problem(totals[place]) for place in order]

    def heldout(self) -> list[Problem]:
        """The held-out problems, by ascending T."""
        return [self.problem(total) for total in self.heldout_totals()]

    def correct_answers(self, problem: Problem) -> list[str]:
        """Every correct text of a problem, by ascending a.

        >>> SumsTask().correct_answers(SumsTask().problem(2))
        ['0 + 2', '1 + 1', '2 + 0']
        """
        total = problem.answer
        assert isinstance(total, int)
        return [f"{first} + {total - first}" for first in range(total + 1)]

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Right if the text is one of the correct answers, letter by letter. Raises ValueError for unequal lengths."""
        same_length(problems, texts)
        return [self._verdict(problem, text) for problem, text in zip(problems, texts, strict=True)]

    def close(self) -> None:
        """No processes to end."""

    @staticmethod
    def _verdict(problem: Problem, text: str) -> Verdict:
        if _FORM.fullmatch(text) is None:
            return verdict_of(False, "form")
        right = _total(text) == problem.answer
        return verdict_of(right, "" if right else "sum")


def _total(text: str) -> int:
    return sum(int(part) for part in text.split(" + "))
