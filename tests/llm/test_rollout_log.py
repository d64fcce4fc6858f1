"""The table of rollouts that a training keeps: one row a rollout, equal to what the metrics count, whole after a stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from llm_runs import FirstDigit, rows, without_sft

from fgrpo_theory.foundation.files import read_table
from llm.distributed import World
from llm.metrics import Means
from llm.rollout_batch import Batch
from llm.trainer import Trainer
from llm.training_run import make_policy, run_phases, train_run

CONFIG = without_sft(steps=3, checkpoint_every=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(CONFIG, tmp_path_factory.mktemp("runs") / "kept", log_rollouts=True)


def test_a_step_holds_its_rollouts_in_groups(run: Path) -> None:
    files = sorted((run / "rollouts").iterdir())
    assert [path.name for path in files] == [f"step-{step:08d}.parquet" for step in (1, 2, 3)]
    for step, path in enumerate(files, 1):
        table = read_table(path)
        assert list(table) == ["step", "prompt", "completion", "success"]
        assert table["step"].tolist() == [step] * 24
        prompts = table["prompt"].tolist()
        assert all(len(set(prompts[i : i + 6])) == 1 for i in range(0, 24, 6))


def test_the_verdicts_are_those_of_the_metrics(run: Path) -> None:
    for metrics, path in zip(rows(run), sorted((run / "rollouts").iterdir()), strict=True):
        assert metrics["success"] == pytest.approx(read_table(path)["success"].mean(), abs=1e-12)


def test_a_sum_is_right_if_its_row_says_so(run: Path) -> None:
    for path in (run / "rollouts").iterdir():
        table = read_table(path)
        for prompt, text, success in zip(table["prompt"], table["completion"], table["success"], strict=True):
            numbers = text.split("+")
            adds_up = len(numbers) == 2 and all(number.strip().isdigit() for number in numbers)
            assert not success or (adds_up and sum(map(int, numbers)) == int(prompt.removeprefix("sums-")))


def test_unscorable_rollouts_are_null(tmp_path: Path) -> None:
    world = World()
    policy = make_policy(CONFIG.model, CONFIG.seed, world.device)
    run = run_phases(policy, FirstDigit(), replace(CONFIG, steps=1), tmp_path / "run", world, log_rollouts=True)
    table = read_table(run / "rollouts" / "step-00000001.parquet")
    for text, success in zip(table["completion"], table["success"], strict=True):
        assert success is None if text.startswith("+") else success == text.startswith(("0", "1", "2"))
    assert any(value is None for value in table["success"])


def test_a_resumed_run_keeps_the_same_rollouts(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails after the second step's table is written and before its checkpoint, and goes on without being asked."""
    with monkeypatch.context() as patched:
        learn = Trainer.learn

        def failing(self: Trainer, batch: Batch, means: Means) -> None:
            if len(list((tmp_path / "run.partial" / "rollouts").iterdir())) == 2:
                raise OSError("no space left")
            learn(self, batch, means)

        patched.setattr(Trainer, "learn", failing)
        with pytest.raises(OSError, match="no space left"):
            train_run(CONFIG, tmp_path / "run", log_rollouts=True)
    again = train_run(CONFIG, tmp_path / "run")
    names = [path.name for path in sorted((run / "rollouts").iterdir())]
    assert [path.name for path in sorted((again / "rollouts").iterdir())] == names
    assert all((again / "rollouts" / name).read_bytes() == (run / "rollouts" / name).read_bytes() for name in names)


def test_nothing_is_kept_unasked(tmp_path: Path) -> None:
    assert not (train_run(replace(CONFIG, steps=1), tmp_path / "run") / "rollouts").exists()
