"""Checkpoints are whole or absent; a run that was stopped, killed or out of disk ends as an undisturbed one, bit for bit."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from llm_runs import SMALL, rows, weights, without_sft

from llm.checkpoint import clear_partial, latest_checkpoint, load_checkpoint, save_checkpoint
from llm.loop import Interrupted, cut_metrics
from llm.trainer import Trainer
from llm.training_run import train_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_learner():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    _step(model, optimizer)
    return model, optimizer


def _step(model, optimizer):
    model(torch.rand(5, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def _values(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_weights_moments_and_generators_return_bit_for_bit(tmp_path, small_learner):
    model, optimizer = small_learner
    checkpoint = save_checkpoint(tmp_path, 3, model, optimizer, {"position": 24}, keep=2)
    for _ in range(2):
        _step(model, optimizer)
    expected = _values(model)
    fresh = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    other = torch.optim.AdamW(fresh.parameters(), lr=7.0)
    assert load_checkpoint(checkpoint, fresh, other) == {"step": 3, "position": 24}
    assert other.param_groups[0]["lr"] == 0.1
    for _ in range(2):
        _step(fresh, other)
    assert all(map(torch.equal, _values(fresh), expected))


def test_only_the_newest_stay_and_hidden_leftovers_go(tmp_path, small_learner):
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, *small_learner, {}, keep=2)
    (tmp_path / ".step-00000011.abcd.partial").mkdir()
    assert [path.name for path in sorted(tmp_path.glob("step-*"))] == ["step-00000002", "step-00000010"]
    assert latest_checkpoint(tmp_path).name == "step-00000010"
    clear_partial(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000010"]


def test_a_full_disk_leaves_the_previous_checkpoint_whole(tmp_path, small_learner):
    model, optimizer = small_learner
    first = save_checkpoint(tmp_path, 1, model, optimizer, {}, keep=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        with pytest.raises(Exception, match=r"(?i)file too large"):
            save_checkpoint(tmp_path, 2, model, optimizer, {}, keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert load_checkpoint(first, model, optimizer)["step"] == 1


def test_a_checkpoint_of_another_model_is_refused(tmp_path, small_learner):
    checkpoint = save_checkpoint(tmp_path, 1, *small_learner, {}, keep=1)
    other = torch.nn.Sequential(torch.nn.Linear(3, 4))
    with pytest.raises(ValueError, match="the checkpoint must hold the model's parameters"):
        load_checkpoint(checkpoint, other, torch.optim.AdamW(other.parameters()))


def test_rows_past_the_checkpoint_are_cut(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [("sft", 1), ("sft", 2), ("probe", 0), ("rl", 1), ("probe", 1), ("rl", 2)]
    text = [json.dumps({"phase": phase, "step": step}) + "\n" for phase, step in lines]
    path.write_text("".join(text) + '{"phase": "rl", "st')
    cut_metrics(path, "rl", 1)
    assert path.read_text() == "".join(text[:5])
    cut_metrics(path, "rl", 0)
    assert path.read_text() == "".join(text[:2])
    cut_metrics(path, "sft", 1)
    assert path.read_text() == text[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = train_run(replace(SMALL, probe_every=4), tmp_path_factory.mktemp("runs") / "undisturbed")
    # Equality with a run that never moves would say nothing.
    assert sum(row.get("grad_norm", 0) > 0.01 for row in rows(run) if row["phase"] == "rl") >= 4
    return run


@pytest.mark.parametrize("stop_at", [3, 5])
def test_stop_and_resume_equals_the_undisturbed_run(tmp_path, undisturbed, monkeypatch, stop_at):
    """Stopped at step 3 (a checkpoint is due) or 5 of 8: same prompts, draws, rates and weights."""
    config, step = replace(SMALL, probe_every=4), Trainer.step

    def interrupted(self, index):
        if index + 1 == stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, index)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(Interrupted, match=f"stopped after step {stop_at} of phase rl"):
        train_run(config, tmp_path / "run")
    monkeypatch.setattr(Trainer, "step", step)
    assert len([row for row in rows(tmp_path / "run.partial") if row["phase"] == "rl"]) == stop_at
    run = train_run(config, tmp_path / "run")
    assert weights(run) == weights(undisturbed)
    assert rows(run) == rows(undisturbed)
    assert not (run / "checkpoints").exists()


def test_a_failure_between_checkpoints_loses_only_the_steps_since(tmp_path, undisturbed, monkeypatch):
    config, step, taken = replace(SMALL, probe_every=4), Trainer.step, []

    def failing(self, index):
        if index == 4:
            raise OSError("no space left on device")
        return step(self, index)

    def counted(self, index):
        taken.append(index)
        return step(self, index)

    monkeypatch.setattr(Trainer, "step", failing)
    with pytest.raises(OSError, match="no space left"):
        train_run(config, tmp_path / "run")
    monkeypatch.setattr(Trainer, "step", counted)
    run = train_run(config, tmp_path / "run")
    assert taken == [3, 4, 5, 6, 7]
    assert weights(run) == weights(undisturbed)
    assert rows(run) == rows(undisturbed)


def test_another_configuration_is_refused(tmp_path, monkeypatch):
    config = without_sft(steps=4, checkpoint_every=1)

    def failing(self, index):
        raise OSError("gone")

    monkeypatch.setattr(Trainer, "step", failing)
    with pytest.raises(OSError, match="gone"):
        train_run(config, tmp_path / "run")
    with pytest.raises(ValueError, match="config must equal that of the partial run"):
        train_run(replace(config, seed=1), tmp_path / "run")


def _kill(tmp_path, kills, seed):
    """Three files a checkpoint, one a step: as many moments in the middle of a save as a run can offer."""
    config = replace(SMALL, checkpoint_every=1, steps=16, sft=replace(SMALL.sft, steps=12))
    (tmp_path / "config.json").write_text(json.dumps(config.resolved()))
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "llm_kills.py"), str(tmp_path / "config.json"),
         str(tmp_path / "killed"), str(kills), str(seed)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    hits = json.loads(done.stdout.splitlines()[-1])
    assert sum(hits.values()) == kills
    assert weights(tmp_path / "killed") == weights(tmp_path / "undisturbed")
    assert rows(tmp_path / "killed") == rows(tmp_path / "undisturbed")
    return hits


def test_three_kills_at_random_moments_change_nothing(tmp_path):
    _kill(tmp_path, 3, seed=1)


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing(tmp_path):
    hits = _kill(tmp_path, 20, seed=2)
    assert hits.get("after a checkpoint", 0) + hits.get("in a save", 0) >= 10
