"""Tasks by name: `load_task("sums")`, `load_task("reasoning_gym", {"dataset": "leg_counting"})`.

`dataset` reads JSON lines or parquet; `module:function` calls your function with the options, which returns a `Task`.
To grade rows of your own with a callable, use `dataset` with {"verifier": "module:function"}.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .base import Problem, Task, Turn, Verdict
from .sums import SumsTask

__all__ = ["Problem", "SumsTask", "Task", "Turn", "Verdict", "load_task"]

NAMES = ("sums", "reasoning_gym", "dataset")


def load_task(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    token_count: Callable[[list[Turn] | str], int] | None = None,
) -> Task:
    """The task called `name` with `options`: "sums", "reasoning_gym", "dataset", or "module:function".

    token_count: tokens of a prompt in the model's tokenizer; `dataset` needs it where options hold max_prompt_tokens.
    Raises ValueError for an unknown name, unknown options, or a function that returns no Task.
    """
    chosen = dict(options or {})
    if name == "dataset" and "max_prompt_tokens" in chosen:
        chosen["token_count"] = token_count
    maker = _maker(name)
    try:
        inspect.signature(maker).bind(**chosen)
    except TypeError as error:
        raise ValueError(f"options must fit task {name!r}, got options={dict(options or {})!r} ({error})") from error
    task: object = maker(**chosen)
    if not isinstance(task, Task):
        raise ValueError(f"task {name!r} must be a Task, got {type(task).__name__}")
    return task


def _maker(name: str) -> Callable[..., Any]:
    if name == "sums":
        return SumsTask
    if name == "reasoning_gym":
        from .reasoning_gym import ReasoningGymTask

        return ReasoningGymTask
    if name == "dataset":
        from .dataset import DatasetTask

        return DatasetTask
    if ":" in name:
        from ..verifiers.worker import load_function

        return load_function(name)
    raise ValueError(f"task must be one of {', '.join(NAMES)} or module:function, got task={name!r}")
