"""The start of the tests' studies, trained once."""

from __future__ import annotations

import maze_runs
import pytest

from maze.training import train_mazes


@pytest.fixture(scope="session")
def sft_run(tmp_path_factory):
    """A finished supervised run; its policy is in start/."""
    with pytest.MonkeyPatch.context() as patch:
        maze_runs.with_tiny_shape(patch)
        return train_mazes(maze_runs.tiny_preset().sft, tmp_path_factory.mktemp("sft") / "run")
