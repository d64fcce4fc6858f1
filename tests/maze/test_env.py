"""The Gymnasium environment: gymnasium's own checks, and rewards that are the verifier's verdicts."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from jaxtyping import TypeCheckError

from maze import tokens
from maze.env import AGENT, DONE, GOAL, MazeEnv
from maze.generation import generate
from maze.render import ascii_art
from maze.vector_env import MazeVectorEnv
from maze.verifier import RULES, Rule, verify


@pytest.mark.parametrize("render_mode", [None, "rgb_array", "ansi"])
def test_gymnasium_finds_nothing_wrong(render_mode: str | None) -> None:
    check_env(gymnasium.make("fgrpo/Maze-v0", size=9, render_mode=render_mode).unwrapped)


def test_it_is_registered() -> None:
    env = gymnasium.make("fgrpo/Maze-v0")
    assert isinstance(env.unwrapped, MazeEnv)
    assert env.observation_space.shape == (17, 17)
    envs = gymnasium.make_vec("fgrpo/Maze-v0", num_envs=3, size=9)
    assert isinstance(envs, MazeVectorEnv)
    for mode in ("sync", "async"):
        envs = gymnasium.make_vec("fgrpo/Maze-v0", num_envs=2, vectorization_mode=mode, size=9)
        assert envs.reset(seed=0)[0].shape == (2, 9, 9)
        envs.close()


@pytest.mark.parametrize("rule", RULES)
def test_solutions_earn_one_and_wrong_walks_nothing(rule: Rule) -> None:
    mazes = generate(20, 9, 0)
    env = MazeEnv(9, rule)
    for maze, path in zip(mazes, mazes.solutions(), strict=True):
        start, _ = env.reset(options={"maze": maze})
        assert start[1, 1] == AGENT
        assert start[7, 7] == GOAL
        for action in path[:-1]:
            assert env.step(int(action))[1:] == (0.0, False, False, {})
        seen, reward, *_ = env.step(int(path[-1]))
        assert (seen[7, 7], reward) == (AGENT, 0.0)
        ended = env.step(np.int64(DONE))
        assert ended[1:] == (1.0, True, False, {"success": True, "reason": "solved"})
        assert [type(value) for value in ended[1:4]] == [float, bool, bool]
        env.reset(options={"maze": maze})
        assert env.step(0)[1:] == (0.0, True, False, {"success": False, "reason": "wall"})
        env.reset(options={"maze": maze})
        assert env.step(DONE)[1:] == (0.0, True, False, {"success": False, "reason": "not at goal"})


@pytest.mark.parametrize("rule", RULES)
def test_rewards_are_the_verifiers(rule: Rule) -> None:
    env, random = MazeEnv(5, rule, max_steps=30), np.random.default_rng(0)
    successes = 0
    for _ in range(400):
        env.reset(seed=int(random.integers(2**31)))
        assert env.maze is not None
        ids: list[int] = []
        path = env.maze.solutions()[0].tolist()
        if random.random() < 0.5:
            path = [path[0], path[0] ^ 1, *path]
        plan = [*path, DONE] if random.random() < 0.5 else random.integers(5, size=40).tolist()
        for action in plan:
            ids.append(tokens.DONE if action == DONE else tokens.UP + action)
            _, reward, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        verdict = verify(env.maze, ids, rule)
        assert (bool(reward), info) == (verdict.success, {"success": verdict.success, "reason": verdict.reason})
        assert truncated == (len(ids) == 30 and not terminated)
        successes += verdict.success
    assert successes > 50


def test_the_same_seed_gives_the_same_mazes() -> None:
    one, other = MazeEnv(9), MazeEnv(9)
    first = [env.reset(seed=5)[0] for env in (one, other)]
    second = [env.reset()[0] for env in (one, other)]
    assert (first[0] == first[1]).all()
    assert (second[0] == second[1]).all()
    assert (first[0] != second[0]).any()


def test_given_mazes_are_the_ones_played() -> None:
    mazes = generate(3, 9, 0)
    env = MazeEnv(mazes=mazes)
    seen = {env.reset(seed=seed)[0].tobytes() for seed in range(40)}
    assert len(seen) == 3


def test_the_vector_form_plays_the_same_game() -> None:
    mazes, random = generate(16, 7, 0), np.random.default_rng(1)
    envs = MazeVectorEnv(16, 7, "reach_goal", max_steps=25)
    singles = [MazeEnv(7, "reach_goal", max_steps=25) for _ in range(16)]
    seen, _ = envs.reset(seed=0, options={"mazes": mazes})
    assert (seen == [env.reset(options={"maze": maze})[0] for env, maze in zip(singles, mazes, strict=True)]).all()
    plans = [[*path.tolist(), DONE] if number % 2 else None for number, path in enumerate(mazes.solutions())]
    ended, successes = np.zeros(16, dtype=bool), 0
    for step in range(26):
        actions = random.integers(4, size=16)
        for number, plan in enumerate(plans):
            if plan is not None and step < len(plan):
                actions[number] = plan[step]
        seen, rewards, terminated, truncated, infos = envs.step(actions)
        for number in np.flatnonzero(~ended):
            expected = singles[number].step(int(actions[number]))
            assert (seen[number] == expected[0]).all()
            assert (rewards[number], terminated[number], truncated[number]) == expected[1:4]
            if terminated[number] or truncated[number]:
                assert infos["reason"][number] == expected[4]["reason"]
                assert infos["success"][number] == expected[4]["success"]
                assert infos["_reason"][number]
                assert infos["_success"][number]
                successes += expected[4]["success"]
        ended |= terminated | truncated
    assert ended.all()
    assert successes == 8


def test_ended_copies_begin_anew() -> None:
    envs = MazeVectorEnv(2, 7)
    before, _ = envs.reset(seed=0)
    _, _, terminated, _, infos = envs.step(np.array([DONE, 4]))
    assert terminated.all()
    assert infos["reason"].tolist() == ["not at goal", "not at goal"]
    after, rewards, terminated, truncated, infos = envs.step(np.array([0, 0]))
    assert not np.concatenate([rewards, terminated, truncated]).any()
    assert not infos
    assert (after[:, 1, 1] == AGENT).all()
    assert (after != before).any()
    again, _ = envs.reset(seed=0)
    assert (again == before).all()


def test_rendering() -> None:
    maze = generate(1, 7, 0)
    for mode in ("ansi", "rgb_array"):
        env = MazeEnv(7, render_mode=mode)
        env.reset(options={"maze": maze})
        first = int(maze.solutions()[0][0])
        env.step(first)
        drawn = env.render()
        if mode == "ansi":
            assert drawn == ascii_art(maze, [first])
        else:
            assert isinstance(drawn, np.ndarray)
            assert drawn.shape == (56, 56, 3)
    assert MazeEnv(7).reset(seed=0)[0].shape == (7, 7)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="size must be an odd"):
        MazeEnv(8)
    with pytest.raises((ValueError, TypeCheckError)):
        MazeEnv(7, "both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mazes must not be empty"):
        MazeEnv(mazes=generate(0, 7, 0))
    with pytest.raises(ValueError, match="max_steps must be at least 1"):
        MazeEnv(7, max_steps=0)
    with pytest.raises(ValueError, match="render_mode must be one of"):
        MazeEnv(7, render_mode="human")
    env, envs = MazeEnv(7), MazeVectorEnv(2, 7)
    for call in (lambda: env.step(0), env.render, lambda: envs.step(np.zeros(2, int))):
        with pytest.raises(RuntimeError, match="reset must be called"):
            call()
    env.reset(seed=0)
    envs.reset(seed=0)
    for action in (5, -1):
        with pytest.raises(ValueError, match=r"action must lie in 0 \.\.\. 4"):
            env.step(action)
        with pytest.raises(ValueError, match=r"actions must lie in 0 \.\.\. 4"):
            envs.step(np.array([0, action]))
    with pytest.raises(ValueError, match="actions must be 2 whole numbers"):
        envs.step(np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="must be one maze of size 7"):
        env.reset(options={"maze": generate(1, 9, 0)})
    with pytest.raises(ValueError, match="must be 2 mazes of size 7"):
        envs.reset(options={"mazes": generate(1, 7, 0)})
