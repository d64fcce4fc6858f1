"""The two engines agree: step by step on the same draws, and in distribution on their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from sims.config import ActionClass, SimConfig, Subset
from sims.dense import DenseEngine, surrogate_gradient
from sims.presets import PAPER, SIMULATIONS, SMOKE, SWEEPS
from sims.sparse import SparseEngine, lazy_applies
from sims.tracking import observe

SMALL = SimConfig(
    classes=(
        ActionClass(2.0, 1, True),
        ActionClass(1.0, 150, True),
        ActionClass(0.0, 300, False),
        ActionClass(0.5, 70, False),
    ),
    group_size=48,
    steps=120,
    record_every=40,
    subsets=(Subset("anchor", 0, 1), Subset("ten", 1, 10)),
)
VARIANTS = {
    "paper": {},
    "gamma": {"gamma": 1.0},
    "gamma half, rewards 1 and 0": {"gamma": 0.5, "reward_wrong": 0.0},
    "odd rewards": {"reward_correct": 0.3, "reward_wrong": -1.7},
    "temperature": {"temperature": 0.7, "learning_rate": 5e-3},
    "hot": {"temperature": 2.0},
    "raw rewards": {"centre_rewards": False},
    "raw rewards 1 and 0": {"centre_rewards": False, "reward_wrong": 0.0, "gamma": 2.0},
    "probability": {"surrogate": "probability"},
    "probability raw": {"surrogate": "probability", "centre_rewards": False, "gamma": 1.0},
    "probability cold": {"surrogate": "probability", "temperature": 0.5},
    "decay": {"weight_decay": 0.01},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "adamw without decay": {"optimizer": "adamw"},
    "sgd": {"optimizer": "sgd", "learning_rate": 20.0},
    "sgd decay": {"optimizer": "sgd", "learning_rate": 2.0, "weight_decay": 0.01, "surrogate": "probability"},
    "fast": {"learning_rate": 0.5},
    "betas": {"betas": (0.8, 0.99), "eps": 1e-4},
    "no momentum": {"betas": (0.0, 0.999)},
}


def variant(name: str) -> SimConfig:
    return dataclasses.replace(SMALL, **VARIANTS[name])


def injected_groups(config: SimConfig, steps: int) -> list[np.ndarray]:
    """Groups that reach every class, with duplicates; every tenth is all correct and every fifteenth all wrong."""
    random = np.random.default_rng(5)
    right = sum(group.size for group in config.classes if group.is_correct)
    groups = []
    for step in range(steps):
        low, high = (
            (0, right) if step % 10 == 9 else (right, config.actions) if step % 15 == 14 else (0, config.actions)
        )
        ids = random.integers(low, high, config.group_size)
        ids[: config.group_size // 4] = ids[0]
        groups.append(ids)
    return groups


@pytest.mark.parametrize("name", VARIANTS)
def test_same_draws_give_the_same_policy_step_by_step(name):
    config = variant(name)
    sparse, dense = SparseEngine(config), DenseEngine(config, "cpu")
    for ids in injected_groups(config, config.steps):
        sparse.inject(ids)
        dense.inject(ids)
        sparse.update()
        dense.update()
        np.testing.assert_allclose(sparse.probabilities(), dense.probabilities(), rtol=1e-11, atol=0)
    np.testing.assert_array_equal(sparse.correct_counts, dense.correct_counts)
    np.testing.assert_array_equal(sparse.missed, dense.missed)


def test_the_variants_cover_both_rules():
    lazy = {name for name in VARIANTS if lazy_applies(variant(name))}
    assert lazy == {
        "paper",
        "gamma",
        "gamma half, rewards 1 and 0",
        "odd rewards",
        "temperature",
        "hot",
        "adamw without decay",
        "betas",
    }


def test_rescaling_and_sleeping_blocks_change_nothing():
    # Past 512 steps the scaled moments are rescaled; actions drawn early only then sleep, wake and sleep again.
    config = dataclasses.replace(SMALL, steps=1400, group_size=16)
    sparse, dense = SparseEngine(config), DenseEngine(config, "cpu")
    groups = injected_groups(config, config.steps)
    asleep = 0
    for step, ids in enumerate(groups):
        chosen = np.where(ids < 151, ids % 3, 151 + ids % 3) if 20 < step != 900 else ids
        for engine in (sparse, dense):
            engine.inject(chosen)
            engine.update()
        asleep = max(asleep, int((~sparse.state.awake).sum()))
    assert asleep >= 5
    np.testing.assert_allclose(sparse.probabilities(), dense.probabilities(), rtol=1e-10, atol=0)


@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
@pytest.mark.parametrize("centred", [True, False])
def test_written_gradient_is_the_autograd_gradient_of_the_surrogate(surrogate, centred):
    config = dataclasses.replace(SMALL, surrogate=surrogate, centre_rewards=centred, gamma=1.5, temperature=0.8)
    engine = DenseEngine(config, "cpu")
    ids = torch.from_numpy(injected_groups(config, 1)[0])
    rewards = torch.where(engine.is_correct[ids], config.reward_correct, config.reward_wrong).double()
    if centred:
        rewards = rewards - rewards.mean()
    policy = torch.softmax(engine.logits / config.temperature, dim=0)
    old = policy.detach() if surrogate == "ratio" else torch.ones_like(policy)
    rate = engine.is_correct[ids].double().mean()
    ((1 - rate) ** 1.5 * (rewards * policy[ids] / old[ids]).mean()).backward()
    counts = torch.bincount(ids, minlength=config.actions)
    written = surrogate_gradient(policy.detach(), counts, engine.is_correct, config)
    torch.testing.assert_close(written, engine.logits.grad, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("group", [0, 200])
def test_inactive_groups_move_nothing_at_the_start(group):
    config = dataclasses.replace(SMALL, reward_correct=0.3)
    start = DenseEngine(config, "cpu").probabilities()
    for engine in (SparseEngine(config), DenseEngine(config, "cpu")):
        for _ in range(3):
            engine.inject(group + np.arange(config.group_size))
            engine.update()
        np.testing.assert_allclose(engine.probabilities(), start, rtol=1e-14)


@pytest.mark.parametrize("group_size", [32, 2048])
def test_own_draws_agree_in_distribution(group_size):
    """Two-sided t-test on Q_pos and entropy after 60 steps, 24 seeds each; false alarm 1e-6 over the 4 cells of this test.

    It sees a shift of 2.6 standard deviations of a run with probability 0.99 (noncentral t, the last assertion).
    """
    config = dataclasses.replace(SMALL, group_size=group_size, steps=60)
    runs, alarm = 24, 1e-6 / 4
    values = np.array(
        [
            [_final(kind(dataclasses.replace(config, seed=seed))) for seed in range(runs)]
            for kind in (SparseEngine, lambda c: DenseEngine(c, "cpu"))
        ]
    )
    assert (values.std(axis=1) > 0).all()
    for column in range(2):
        assert stats.ttest_ind(values[0, :, column], values[1, :, column]).pvalue > alarm
    freedom, shift = 2 * runs - 2, 2.6 * np.sqrt(runs / 2)
    assert stats.nct.sf(stats.t.isf(alarm / 2, freedom), freedom, shift) > 0.99


def _final(engine) -> tuple[float, float]:
    engine.advance(engine.config.steps)
    engine.draw()
    row = observe(engine.snapshot(), engine.config)
    return row["Q_pos"], row["entropy"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    def run(seed: int, pieces: tuple[int, ...]) -> bytes:
        engine = SparseEngine(dataclasses.replace(PAPER, group_size=8192, seed=seed, steps=12))
        for steps in pieces:
            engine.draw()
            engine.advance(steps)
        return engine.snapshot().probability.tobytes()

    assert run(1, (12,)) == run(1, (12,)) == run(1, (1, 4, 7))
    assert run(1, (12,)) != run(2, (12,))


def test_compiled_advance_equals_single_steps():
    # Also guards against a stale compiler cache: a change of one kernel file must reach the functions of the others.
    whole, single = (SparseEngine(dataclasses.replace(PAPER, group_size=512, steps=30)) for _ in range(2))
    whole.advance(30)
    for _ in range(30):
        single.draw()
        single.update()
    assert whole.snapshot().probability.tobytes() == single.snapshot().probability.tobytes()


@pytest.mark.parametrize("name", SIMULATIONS)
def test_every_preset_builds(name):
    assert SparseEngine(SIMULATIONS[name]).snapshot().size.sum() == SIMULATIONS[name].actions


def test_paper_preset_has_the_published_start():
    assert PAPER.actions == 128_000
    start = SparseEngine(PAPER).snapshot()
    assert start.probability[start.is_correct] @ start.size[start.is_correct] == pytest.approx(0.630, abs=5e-4)
    assert start.probability[:2] == pytest.approx([4.65e-4, 6.30e-5], rel=1e-3)


@pytest.mark.parametrize(("name", "runs"), [("paper", 136), ("smoke", 12), ("surrogates", 12), ("gammas", 36)])
def test_every_sweep_builds(name, runs):
    assert len(list(SWEEPS[name].runs())) == runs


def test_configuration_survives_json():
    import json

    config = dataclasses.replace(PAPER, gamma=0.5)
    assert SimConfig.from_json(json.loads(json.dumps(config.resolved()))) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_size": 0}, "group_size must be a whole number of at least 1"),
        ({"gamma": -1.0}, "gamma must be finite and at least 0"),
        ({"surrogate": "ratios"}, "surrogate must be one of ratio, probability"),
        ({"optimizer": "lion"}, "optimizer must be one of"),
        ({"learning_rate": float("inf")}, "learning_rate must be finite and above 0"),
        ({"temperature": 0.0}, "temperature must be finite and above 0"),
        ({"betas": (0.9, 1.0)}, r"betas must lie in \[0, 1\)"),
        ({"reward_correct": -1.0}, "reward_correct must be above reward_wrong"),
        ({"weight_decay": -0.1}, "weight_decay must be finite and at least 0"),
        ({"classes": ()}, "classes must hold at least one class"),
        ({"subsets": (Subset("w", 2, 1),)}, "a subset must lie in a class of correct actions"),
        ({"subsets": (Subset("w", 0, 2),)}, r"size must lie in 1\.\.1"),
    ],
)
def test_bad_fields_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **change)


def test_engine_refuses_what_it_cannot_do():
    engine = SparseEngine(dataclasses.replace(SMOKE, steps=1))
    with pytest.raises(ValueError, match="update needs a group"):
        engine.update()
    with pytest.raises(ValueError, match="actions must be below 1000"):
        engine.inject(np.full(8, 1000))
    with pytest.raises(ValueError, match="actions must hold one group"):
        engine.inject(np.zeros(7, dtype=int))
    engine.advance(1)
    with pytest.raises(ValueError, match="advance must not pass the last step"):
        engine.advance(1)
    with pytest.raises(ValueError, match="inject must not follow draw"):
        engine.inject(np.zeros(8, dtype=int))
