"""Any reasoning-gym dataset by name and options, as a task; e.g. {"dataset": "leg_counting", "options": {...}}.

Training problems are drawn from the run's seed, held-out ones from a fixed stream; training problems whose question is
also held out, or came before, are dropped and counted. Solved examples can stand before the question as chat turns,
which is how a small instruct model finds the format. The library's own scorer grades, in worker processes.
Source: reasoning-gym 0.1.25 (package `reasoning-gym`). Left out on purpose: composite datasets and curricula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fgrpo_theory.foundation.checks import as_choice, as_whole, require
from fgrpo_theory.foundation.seeds import generator

from ..verifiers.pool import VerifierPool
from .base import Problem, Turn, Verdict, same_length

TAGS_INSTRUCTION = (
    "Think about the problem step by step, then give the final answer alone between <answer> and </answer>."
)
WHOLE_INSTRUCTION = "Answer with the final answer alone."


class ReasoningGymTask:
    """A reasoning-gym dataset.

    dataset: its registered name; options: its configuration, without seed and size. train_size, heldout_size: problems
    drawn. answer_form: "tags" reads the last <answer>...</answer>, "whole" the whole completion. instruction: the system
    turn (None: one that fits the form; "" none). examples: solved problems shown as earlier turns. threshold: least
    score that is a success; shaped: the reward is the score instead of 1 or 0. limits: of `VerifierPool`.

    Raises ValueError for an unknown dataset or bad options.
    """

    def __init__(
        self,
        dataset: str,
        options: Mapping[str, Any] | None = None,
        *,
        train_size: int = 1024,
        heldout_size: int = 128,
        answer_form: str = "tags",
        instruction: str | None = None,
        examples: int = 0,
        threshold: float = 1.0,
        shaped: bool = False,
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        as_whole("train_size", train_size)
        as_whole("heldout_size", heldout_size)
        as_whole("examples", examples, least=0)
        as_choice("answer_form", answer_form, ("tags", "whole"))
        require(0 < threshold <= 1, "threshold must lie in (0, 1]", threshold=threshold)
        self.name = f"reasoning_gym/{dataset}"
        self.dataset, self.options = dataset, dict(options or {})
        self.sizes = train_size, heldout_size
        self.answer_form, self.shaped = answer_form, shaped
        default = TAGS_INSTRUCTION if answer_form == "tags" else WHOLE_INSTRUCTION
        self.instruction = default if instruction is None else instruction
        self.dropped = 0
        """Training problems of the last draw that repeated a question."""
        self._opening = self._opening_turns(examples)
        self._heldout = self._problems("heldout", self._draw("heldout", 0, heldout_size))
        self._pool = VerifierPool(
            "llm.verifiers.reasoning_gym_answer:make_grader",
            options={"form": answer_form, "threshold": threshold},
            **(limits or {}),
        )

    def train_prompts(self, seed: int) -> list[Problem]:
        """Problems drawn from the seed, without repeats and held-out questions."""
        seen = {problem.answer["entry"]["question"] for problem in self._heldout}  # type: ignore[index]
        entries = []
        for entry in self._draw("train", seed, self.sizes[0]):
            if entry["question"] not in seen:
                seen.add(entry["question"])
                entries.append(entry)
        self.dropped = self.sizes[0] - len(entries)
        require(bool(entries), "the dataset must have questions that are not held out", dataset=self.dataset)
        return self._problems(f"train-{seed}", entries)

    def heldout(self) -> list[Problem]:
        """The held-out problems, the same for every seed; repeated questions are possible in small datasets."""
        return list(self._heldout)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Grade with the library's scorer. Raises ValueError for unequal lengths."""
        same_length(problems, texts)
        verdicts = self._pool.grade([(problem.answer, text) for problem, text in zip(problems, texts, strict=True)])
        if self.shaped:
            return verdicts
        return [v if v.success is None else Verdict(v.success, float(v.success), v.reason) for v in verdicts]

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def _draw(self, stream: str, seed: int, size: int) -> list[dict[str, Any]]:
        import reasoning_gym

        known = reasoning_gym.factory.DATASETS
        require(self.dataset in known, "dataset must be one of reasoning-gym's", dataset=self.dataset)
        # The library takes 32-bit seeds and draws problem i from seed + i.
        start = int(generator(seed, f"reasoning-gym {stream}").integers(2**31))
        try:
            drawn = reasoning_gym.create_dataset(self.dataset, seed=start, size=size, **self.options)
        except (AssertionError, TypeError, ValueError) as error:
            raise ValueError(f"options must fit {self.dataset}, got options={self.options!r} ({error})") from error
        return [drawn[index] for index in range(size)]

    def _opening_turns(self, examples: int) -> list[Turn]:
        turns: list[Turn] = [{"role": "system", "content": self.instruction}] if self.instruction else []
        form = "<answer>{}</answer>" if self.answer_form == "tags" else "{}"
        for entry in self._draw("examples", 0, examples) if examples else []:
            turns.append({"role": "user", "content": entry["question"]})
            turns.append({"role": "assistant", "content": form.format(entry["answer"])})
        return turns

    def _problems(self, split: str, entries: Sequence[dict[str, Any]]) -> list[Problem]:
        return [
            Problem(
                f"{self.dataset}-{split}-{index}",
                [*self._opening, {"role": "user", "content": entry["question"]}],
                {"dataset": self.dataset, "options": self.options, "entry": entry},
            )
            for index, entry in enumerate(entries)
        ]
