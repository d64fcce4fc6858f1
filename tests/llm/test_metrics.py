"""Metrics: weighted over unequal parts, defined once, and the live tail miss against its law."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from llm_runs import defined_metrics

from fgrpo_theory import active_probability, tail_miss_probability
from llm.distributed import World
from llm.metrics import Loggers, Means, expected_tail_miss, group_metrics, loggers
from llm.objectives import ObjectiveConfig

ALONE = World()


def test_unequal_parts_are_weighted():
    means = Means()
    means.add({"x": (1.0, 1.0)})
    means.add({"x": (0.0, 3.0), "y": (5.0, 2.0)})
    assert means.result(ALONE) == {"x": 0.25, "y": 2.5}


def test_a_mean_over_nothing_is_left_out():
    means = Means()
    means.add({"x": (0.0, 0.0)})
    assert means.result(ALONE) == {}


def test_group_metrics_by_hand():
    # Groups: one of two right and one unscorable; all right; all unscorable; all wrong.
    success = torch.tensor([[True, False, False], [True, True, True], [False] * 3, [False] * 3])
    scorable = torch.tensor([[True, True, False], [True, True, True], [False] * 3, [True] * 3])
    rewards = torch.where(scorable, success.double(), float("nan"))
    means = Means()
    means.add(group_metrics(ObjectiveConfig(gamma=2.0), rewards, success, scorable, rare_fraction=0.5))
    assert means.result(ALONE) == pytest.approx({
        "reward": 4 / 8, "success": 4 / 8, "unscorable": 4 / 12, "skipped": 1 / 4, "active": 1 / 3,
        "all_correct": 1 / 3, "all_wrong": 1 / 3, "focal_weight": 0.25, "tail_miss": 0.5 / 3,
    })  # fmt: skip


@pytest.mark.parametrize(("group_size", "mu", "rho"), [(2, 0.3, 0.1), (5, 0.7, 0.25), (8, 0.05, 0.5), (6, 0.5, 1.0)])
def test_live_tail_miss_has_lemma_3_1_as_its_mean(group_size, mu, rho):
    """Summed over all 2^N groups: exact, no sampling."""
    groups = torch.tensor(list(product([False, True], repeat=group_size)))
    right = groups.sum(-1).double()
    probability = mu**right * (1 - mu) ** (group_size - right)
    mean = float((probability * expected_tail_miss(groups, torch.ones_like(groups), rho)).sum())
    if rho == 1.0:
        assert mean == 0
    else:
        assert mean == pytest.approx(float(tail_miss_probability(group_size, mu, rho * mu)), rel=1e-12)
    assert mean < float(active_probability(group_size, mu))


def test_tensorboard_gets_every_number(tmp_path):
    from tensorboard.backend.event_processing import event_accumulator as tensorboard

    with loggers(("tensorboard",), tmp_path, {}) as opened:
        opened.log("rl", 1, {"success": 0.25})
        opened.log("rl", 2, {"success": 0.5})
    events = tensorboard.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("rl/success")] == [(1, 0.25), (2, 0.5)]


def test_no_logger_writes_nothing(tmp_path):
    Loggers((), tmp_path, {}).log("rl", 1, {"success": np.float64(0.5)})
    assert list(tmp_path.iterdir()) == []


def test_each_metric_is_defined_once():
    names = defined_metrics()
    assert len(names) == len(set(names)) > 20
