"""Is a completion right, and if not, why? (section 5.2 of the paper; MaxRL, arXiv 2602.02710, appendix E.1)

Three rules. All need actions and then DONE; the first <eos> ends a completion and nothing behind it counts.

target      exactly the only simple path from start to goal, then DONE, then nothing. The paper's reward.
reach_goal  any legal walk that stands on the goal when DONE comes, then nothing.
maxrl       as MaxRL's published checker: a legal walk up to its first arrival at the goal; what follows, and what follows
            DONE, is ignored as long as only actions stand before DONE.

The reason is the first fault met when reading from the left. Left out on purpose: rewards (a reward is made of the
boolean), partial credit, and mazes with several solutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Integer, UInt8
from numpy.typing import ArrayLike, NDArray

from fgrpo_theory.foundation.checks import as_choice, require

from .mazes import Mazes
from .tokens import from_text
from .walking import judge_many

Rule = Literal["target", "reach_goal", "maxrl"]
RULES: tuple[Rule, ...] = ("target", "reach_goal", "maxrl")
REASONS = ("solved", "no DONE", "wall", "stray token", "not at goal", "not the target", "after DONE")
"""by reason code"""


@dataclass(frozen=True)
class Result:
    """The verdict on one completion."""

    success: bool
    """whether the rule is met"""
    reason: str
    """one of REASONS; "solved" exactly if success"""


def verify(maze: Mazes | Bool[np.ndarray, "row column"], completion: ArrayLike | str, rule: Rule = "target") -> Result:
    """Judge one completion (token ids, or their names in a text) of one maze (one of Mazes, or a grid, True = wall).

    Raises ValueError for more than one maze, a grid that is no perfect maze, ids that are no whole numbers, an unknown rule.
    """
    mazes = maze if isinstance(maze, Mazes) else Mazes.from_grids(maze[None])
    require(len(mazes) == 1, "verify judges one maze; verify_batch judges many", mazes=len(mazes))
    ids = from_text(completion) if isinstance(completion, str) else np.asarray(completion)
    ids = ids.astype(np.int64) if ids.size == 0 else ids
    require(ids.ndim == 1, "a completion must be one-dimensional", shape=ids.shape)
    success, reason = verify_batch(mazes, np.zeros(1, np.int64), ids[None], np.array([len(ids)]), rule)
    return Result(bool(success[0]), REASONS[reason[0]])


def verify_batch(
    mazes: Mazes,
    index: Integer[np.ndarray, " completion"],
    completion_ids: Integer[np.ndarray, "completion token"],
    lengths: Integer[np.ndarray, " completion"],
    rule: Rule = "target",
) -> tuple[Bool[np.ndarray, " completion"], UInt8[np.ndarray, " completion"]]:
    """(success, reason code) of many completions; `REASONS` names the codes.

    index: which maze each completion answers. lengths: how many of its ids belong to it; <eos> ends it earlier.
    Raises ValueError for shapes that do not fit, an index or a length out of range, ids that are no whole numbers, an
    unknown rule.
    """
    code = RULES.index(as_choice("rule", rule, RULES))
    ids = _whole("completion_ids", completion_ids, 2)
    which, ends = _whole("index", index, 1), _whole("lengths", lengths, 1)
    require(
        len(which) == len(ids) == len(ends),
        "index, completion_ids and lengths must be equally long",
        lengths=(len(which), len(ids), len(ends)),
    )
    require((which >= 0) & (which < len(mazes)), f"index must lie in 0 ... {len(mazes) - 1}", index=which)
    require((ends >= 0) & (ends <= ids.shape[1]), f"lengths must lie in 0 ... {ids.shape[1]}", length=ends)
    reasons = np.empty(len(ids), dtype=np.uint8)
    judge_many(np.ascontiguousarray(mazes.passages), which, mazes.cells, ids, ends, code, reasons)
    return reasons == 0, reasons


def _whole(name: str, values: ArrayLike, ndim: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    require(
        array.ndim == ndim and array.dtype.kind in "iu",
        f"{name} must be a {ndim}-dimensional array of whole numbers",
        dtype=str(array.dtype),
        shape=array.shape,
    )
    return np.ascontiguousarray(array, dtype=np.int64)
