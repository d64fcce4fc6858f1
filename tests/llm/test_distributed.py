"""Two gloo ranks have one process's gradient, sums and rollouts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from llm_runs import FirstDigit, without_sft
from safetensors.torch import load_file

from llm.checkpoint import trained_parameters
from llm.config import changed
from llm.distributed import World, pick_device, start_world
from llm.metrics import Means
from llm.trainer import Trainer
from llm.training_run import make_policy

ROOT = Path(__file__).parents[2]


def test_alone_everything_is_the_identity():
    with start_world(torch.device("cpu")) as world:
        assert (world.rank, world.size, world.is_first) == (0, 1, True)
        assert world.share(3) == [0, 1, 2]
        assert world.add_numbers([1, 2.5]) == [1.0, 2.5]
        assert world.union({"b": 1, "a": 2}) == ["a", "b"]
        assert world.any(False) is False


def test_whole_groups_go_to_one_rank():
    shares = [World(rank, 3).share(8) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_cuda_without_a_device_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto").type == "cpu"
    with pytest.raises(ValueError, match="device must be available, got device='cuda'"):
        pick_device("cuda")


class ThreadWorld(World):
    """Two ranks as two threads: the sharing of groups without the cost of two interpreters."""

    def __init__(self, rank, board):
        super().__init__(rank, 2)
        object.__setattr__(self, "board", board)

    def _exchange(self, value):
        values, barrier = self.board
        values[self.rank] = value
        barrier.wait()
        both = list(values)
        barrier.wait()
        return both

    def _reduced(self, numbers, operation):
        both = torch.tensor(self._exchange(list(map(float, numbers))), dtype=torch.float64)
        return (both.sum(0) if operation == torch.distributed.ReduceOp.SUM else both.amax(0)).tolist()

    def union(self, names):
        return sorted({name for part in self._exchange(list(names)) for name in part})

    def add_gradients(self, parameters):
        parameters = list(parameters)
        both = self._exchange([parameter.grad.clone() for parameter in parameters])
        for parameter, *gradients in zip(parameters, *both, strict=True):
            parameter.grad.copy_(sum(gradients))


def _trainer(config, world):
    return Trainer(make_policy(config.model, 0, torch.device("cpu")), FirstDigit(), config, world)


def _first_gradient(trainer):
    gradients = {}

    def keep():
        for name, parameter in trained_parameters(trainer.model).items():
            gradients.setdefault(name, parameter.grad.clone())

    trainer.optimizer.step = keep
    means = Means()
    batch = trainer.collector.collect(0, means)
    trainer.learn(batch, means)
    return gradients, means.result(trainer.world)


@pytest.mark.parametrize(
    "settings",
    [
        {"prompts_per_step": 5},
        {"objective.aggregation": "sequence", "mini_batch_prompts": 1, "epochs": 2},
        {"objective.dynamic_sampling": True, "sampling.group_size": 2, "max_draws": 20},
    ],
)
def test_groups_shared_by_two_ranks_give_the_same_gradient(settings):
    config = changed(without_sft(), settings)
    alone, numbers = _first_gradient(_trainer(config, World()))
    board = [None, None], threading.Barrier(2, timeout=60)
    trainers = [_trainer(config, ThreadWorld(rank, board)) for rank in range(2)]
    with ThreadPoolExecutor(2) as pool:
        ranks = list(pool.map(_first_gradient, trainers))
    assert max(float(g.abs().max()) for g in alone.values()) > 1e-3
    for gradients, means in ranks:
        for name, gradient in alone.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=0, atol=1e-6)
        stable = {name: value for name, value in numbers.items() if not name.endswith("seconds")}
        assert {name: means[name] for name in stable} == pytest.approx(stable, rel=1e-5, abs=1e-6)


def test_fewer_prompts_than_ranks_are_refused():
    config = without_sft(prompts_per_step=1)
    with pytest.raises(ValueError, match="prompts_per_step must be at least the number of processes"):
        _trainer(config, World(0, 2))


def _launch(size, out):
    """The worker on `size` ranks, as torchrun would start it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = os.environ | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}", "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    command = [sys.executable, str(ROOT / "tests" / "support" / "llm_ranks.py"), str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [subprocess.Popen(command, env=common | {"RANK": str(rank)}, **pipes) for rank in range(size)]
    for process in ranks:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-2000:]


@pytest.mark.slow
def test_two_ranks_have_one_processs_gradient(tmp_path):
    """Slow for its start-up: three interpreters that import torch and transformers."""
    for size in (1, 2):
        _launch(size, tmp_path / str(size))
    one, two = (json.loads((tmp_path / str(size) / "report.json").read_text()) for size in (1, 2))
    assert one["texts"] == two["texts"]
    for case in ("grpo", "sequence", "dynamic", "kl"):
        alone, together = (load_file(tmp_path / str(size) / f"{case}.safetensors") for size in (1, 2))
        assert max(float(g.abs().max()) for g in alone.values()) > 1e-3
        for name, gradient in alone.items():
            torch.testing.assert_close(together[name], gradient, rtol=0, atol=1e-6)
        for name, value in one["metrics"][case].items():
            if not name.endswith(("seconds", "per_second", "mib")):
                assert two["metrics"][case][name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
    assert two["trained"] == pytest.approx(one["trained"], abs=1e-4)
