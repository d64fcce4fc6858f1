"""Many mazes in step: the vector form of `fgrpo/Maze-v0`, one set of arrays for all copies (see `maze.env`).

    envs = gymnasium.make_vec("fgrpo/Maze-v0", num_envs=256)

The rules are those of `maze.env.MazeEnv`. An ended episode begins anew at the next step, whose action is ignored
(gymnasium's NEXT_STEP mode). `infos` has the arrays "success" and "reason" (text) with gymnasium's masks "_success" and
"_reason" in steps in which an episode ends. Left out on purpose: render modes other than one text per copy.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from fgrpo_theory.foundation.checks import as_whole, require

from . import tokens
from .env import AGENT, DONE, GOAL, OPEN, checked_options, draw_mazes
from .mazes import STEPS, Mazes
from .verifier import REASONS, Rule, verify_batch

_STEPS = np.array((*STEPS, (0, 0)))


class MazeVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """`num_envs` copies of the maze environment; the other arguments are MazeEnv's, without rendering."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012, gymnasium's own declaration

    def __init__(
        self,
        num_envs: int = 1,
        size: int = 17,
        rule: Rule = "target",
        mazes: Mazes | None = None,
        max_steps: int | None = None,
    ) -> None:
        self.num_envs = int(as_whole("num_envs", num_envs))
        self.source, self.size, self.rule, self.max_steps = checked_options(size, rule, mazes, max_steps)
        self.single_observation_space = spaces.Box(OPEN, AGENT, (self.size, self.size), np.uint8)
        self.single_action_space = spaces.Discrete(5)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._each = np.arange(self.num_envs)
        self._seen = np.empty((num_envs, self.size, self.size), dtype=np.uint8)
        self._walls = np.empty(self._seen.shape, dtype=bool)
        self._place = np.empty((num_envs, 2), dtype=np.int64)
        self._ids = np.empty((num_envs, self.max_steps), dtype=np.int64)
        self._length = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.ones(num_envs, dtype=bool)
        self.mazes: Mazes | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin every episode anew. options: {"mazes": Mazes, one a copy} or nothing."""
        super().reset(seed=seed)
        given = (options or {}).get("mazes")
        mazes = draw_mazes(self.source, self.size, self.num_envs, self.np_random) if given is None else given
        require(
            isinstance(mazes, Mazes) and len(mazes) == self.num_envs and mazes.size == self.size,
            f"options['mazes'] must be {self.num_envs} mazes of size {self.size}",
            mazes=repr(given),
        )
        self.mazes = mazes
        self._begin(self._each, mazes)
        return self._seen.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One action a copy. Raises ValueError for actions outside 0 ... 4, RuntimeError before the first reset."""
        if self.mazes is None:
            raise RuntimeError("reset must be called before step")
        chosen = np.asarray(actions)
        whole = chosen.shape == (self.num_envs,) and chosen.dtype.kind in "iu"
        require(whole, f"actions must be {self.num_envs} whole numbers", shape=chosen.shape, dtype=str(chosen.dtype))
        require((chosen >= 0) & (chosen <= DONE), "actions must lie in 0 ... 4", action=chosen)
        playing = ~self._ended
        self._restart(self._each[self._ended])
        terminated = self._move(self._each[playing], chosen[playing])
        truncated = playing & ~terminated & (self._length >= self.max_steps)
        self._ended = terminated | truncated
        rewards, infos = self._judge(self._each[self._ended])
        return self._seen.copy(), rewards, terminated, truncated, infos

    def _begin(self, which: np.ndarray, mazes: Mazes) -> None:
        """Copies `which` stand at the start of `mazes`."""
        self._walls[which] = mazes.grids()
        self._seen[which] = self._walls[which]
        self._place[which] = 1
        self._seen[which, 1, 1], self._seen[which, self.size - 2, self.size - 2] = AGENT, GOAL
        self._length[which], self._ended[which] = 0, False

    def _restart(self, which: np.ndarray) -> None:
        if which.size and self.mazes is not None:
            fresh = draw_mazes(self.source, self.size, len(which), self.np_random)
            passages = self.mazes.passages.copy()
            passages[which] = fresh.passages
            self.mazes = Mazes.trusted(self.size, passages)
            self._begin(which, fresh)

    def _move(self, which: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Move copies `which`; which of all copies are at their end by DONE or a wall."""
        self._ids[which, self._length[which]] = np.where(actions == DONE, tokens.DONE, tokens.UP + actions)
        self._length[which] += 1
        before, after = self._place[which], self._place[which] + _STEPS[actions]
        blocked = self._walls[which, after[:, 0], after[:, 1]]
        after[blocked] = before[blocked]
        goal = self.size - 2
        left = np.where((before == goal).all(axis=1), GOAL, OPEN)
        self._seen[which, before[:, 0], before[:, 1]] = left
        self._seen[which, after[:, 0], after[:, 1]] = AGENT
        self._place[which] = after
        terminated = np.zeros(self.num_envs, dtype=bool)
        terminated[which] = blocked | (actions == DONE)
        return terminated

    def _judge(self, which: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """(rewards of all copies, infos) when the episodes of copies `which` have ended."""
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        if not which.size or self.mazes is None:
            return rewards, {}
        success, reasons = verify_batch(self.mazes, which, self._ids[which], self._length[which], self.rule)
        rewards[which] = success
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[which] = True
        texts = np.full(self.num_envs, None, dtype=object)
        texts[which] = np.array(REASONS, dtype=object)[reasons]
        return rewards, {"success": rewards > 0, "_success": mask, "reason": texts, "_reason": mask.copy()}
