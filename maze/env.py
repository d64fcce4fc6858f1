"""The maze as a Gymnasium environment, `fgrpo/Maze-v0`; importing this module registers it.

    import gymnasium, maze.env
    env = gymnasium.make("fgrpo/Maze-v0", size=17)

observation   uint8[size, size]: 0 open, 1 wall, 2 goal, 3 agent
actions       0 UP, 1 DOWN, 2 LEFT, 3 RIGHT, 4 DONE
reward        1 for DONE at the end of a walk that the rule accepts (`maze.verifier`), else 0
end           DONE or a step into a wall terminates; max_steps actions truncate
info          {} until the end, then "success" and the verifier's "reason"

Walks are judged by `maze.verifier`, as completions are. `make_vec` gives one environment for all copies
(`maze.vector_env`); gymnasium's own sync and async modes work too. gymnasium is needed by these two modules alone.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import UInt8

from fgrpo_theory.foundation.checks import as_choice, require

from . import render, tokens
from .generation import generate
from .mazes import STEPS, Mazes, checked_size
from .verifier import RULES, Rule, verify

OPEN, WALL, GOAL, AGENT = range(4)
DONE = 4
Observation = UInt8[np.ndarray, "row column"]


class MazeEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One maze an episode: drawn from `mazes`, or new from the generator where none are given.

    size: side of the grid; with `mazes`, theirs. rule: see `maze.verifier`. max_steps: actions until truncation, size^2
    where none is given (a solution is shorter). `reset(options={"maze": Mazes of one})` sets the maze.
    Raises ValueError for a wrong size, rule, render mode or max_steps, and for an empty `mazes`.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012, gymnasium's own declaration

    def __init__(
        self,
        size: int = 17,
        rule: Rule = "target",
        mazes: Mazes | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.source, self.size, self.rule, self.max_steps = checked_options(size, rule, mazes, max_steps)
        if render_mode is not None:
            as_choice("render_mode", render_mode, tuple(self.metadata["render_modes"]))
        self.render_mode = render_mode
        self.observation_space = spaces.Box(OPEN, AGENT, (self.size, self.size), np.uint8)
        self.action_space = spaces.Discrete(5)
        self.maze: Mazes | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode. options: {"maze": Mazes of one} or nothing."""
        super().reset(seed=seed)
        given = (options or {}).get("maze")
        self.maze = draw_mazes(self.source, self.size, 1, self.np_random) if given is None else given
        require(
            isinstance(self.maze, Mazes) and len(self.maze) == 1 and self.maze.size == self.size,
            f"options['maze'] must be one maze of size {self.size}",
            maze=repr(given),
        )
        self._grid, self._place, self._ids = self.maze.grids()[0], self.maze.start, list[int]()
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take one action. Raises ValueError for an action outside 0 ... 4, RuntimeError before the first reset."""
        if self.maze is None:
            raise RuntimeError("reset must be called before step")
        require(self.action_space.contains(np.int64(action)), "action must lie in 0 ... 4", action=action)
        action = int(action)
        self._ids.append(tokens.DONE if action == DONE else tokens.UP + action)
        ended = action == DONE
        if not ended:
            row, column = self._place[0] + STEPS[action][0], self._place[1] + STEPS[action][1]
            ended = bool(self._grid[row, column])
            self._place = self._place if ended else (row, column)
        truncated = not ended and len(self._ids) >= self.max_steps
        if not (ended or truncated):
            return self._observation(), 0.0, False, False, {}
        verdict = verify(self.maze, self._ids, self.rule)
        info = {"success": verdict.success, "reason": verdict.reason}
        return self._observation(), float(verdict.success), ended, truncated, info

    def render(self) -> np.ndarray | str | None:
        """The maze and the walk so far: an RGB image, or text ("ansi")."""
        if self.maze is None:
            raise RuntimeError("reset must be called before render")
        walked = tokens.leading_actions(self._ids)
        if self.render_mode == "rgb_array":
            return render.picture(self.maze, walked)
        return render.ascii_art(self.maze, walked) if self.render_mode == "ansi" else None

    def _observation(self) -> Observation:
        seen: Observation = self._grid.astype(np.uint8)
        seen[self.size - 2, self.size - 2] = GOAL
        seen[self._place] = AGENT
        return seen


def checked_options(
    size: int, rule: Rule, mazes: Mazes | None, max_steps: int | None
) -> tuple[Mazes | None, int, Rule, int]:
    """The checked options of both environments: (mazes, size, rule, max_steps)."""
    require(mazes is None or len(mazes) > 0, "mazes must not be empty", mazes=repr(mazes))
    size = checked_size(size if mazes is None else mazes.size)
    as_choice("rule", rule, RULES)
    steps = size * size if max_steps is None else max_steps
    require(steps >= 1, "max_steps must be at least 1", max_steps=steps)
    return mazes, size, rule, steps


def draw_mazes(source: Mazes | None, size: int, count: int, random: np.random.Generator) -> Mazes:
    """Mazes for `count` episodes: uniform on `source`, or independent new ones from the generator."""
    if source is not None:
        return source[random.integers(len(source), size=count)]
    return generate(count, size, int(random.integers(2**32)), unique=False, name="mazes/environment")


if "fgrpo/Maze-v0" not in gymnasium.registry:
    gymnasium.register(
        "fgrpo/Maze-v0", entry_point="maze.env:MazeEnv", vector_entry_point="maze.vector_env:MazeVectorEnv"
    )
