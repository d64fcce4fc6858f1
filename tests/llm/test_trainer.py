"""The trainer as equivalences: splits, old log-probs, skipped groups, truncation, references, dynamic sampling."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from llm_runs import SMALL, FirstDigit, defined_metrics, without_sft
from safetensors.torch import load_file

import llm.rollout_batch
from fgrpo_theory.focal import group_advantage
from llm.checkpoint import save_checkpoint, trained_parameters
from llm.config import changed
from llm.distributed import World
from llm.metrics import Means
from llm.models import save_model
from llm.objectives import OBJECTIVES
from llm.rollout_batch import PromptOrder
from llm.sft import SupervisedTrainer, demonstration
from llm.tasks import SumsTask, Verdict, load_task
from llm.trainer import Trainer
from llm.training_run import make_policy, train_run

WORLD = World()


def make(config=SMALL, task=None, world=WORLD):
    policy = make_policy(config.model, config.seed, torch.device("cpu"))
    return Trainer(policy, task or FirstDigit(), config, world)


def gradient(config, batch=None):
    """The gradient of the first update on the first batch (or on a given one), by parameter name."""
    trainer = make(config)
    batch = trainer.collector.collect(0, Means()) if batch is None else batch
    captured = {}
    trainer.optimizer.step = lambda: captured.update(
        {name: p.grad.clone() for name, p in trained_parameters(trainer.model).items()}
    )
    trainer.learn(batch, Means())
    return captured, batch


def distance(one, other):
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_any_micro_batch_split_gives_the_same_gradient():
    whole, batch = gradient(without_sft())
    assert max(float(g.abs().max()) for g in whole.values()) > 1e-3
    for most in (8, 20, 60):
        parts, _ = gradient(without_sft(micro_batch_tokens=most), batch)
        assert distance(whole, parts) < 1e-7


def test_skipping_groups_without_advantage_changes_no_gradient():
    trainer = make(without_sft())
    batch = trainer.collector.collect(0, Means())
    batch = replace(batch, advantages=batch.advantages * torch.tensor([[1.0], [0.0], [1.0], [0.0]]))
    computed, _ = gradient(without_sft(), batch)
    # An entropy bonus of nearly nothing makes the trainer compute every group.
    config = changed(without_sft(), {"objective.entropy_bonus": 1e-30})
    everything, _ = gradient(config, batch)
    assert distance(computed, everything) < 1e-7


def test_the_ratio_is_one_before_the_first_update_and_only_then():
    config = without_sft(epochs=3, optimizer=replace(SMALL.optimizer, warmup_steps=0))
    trainer, ratios = make(config), []
    batch = trainer.collector.collect(0, Means())
    accumulate = trainer.accumulate

    def watched(*arguments):
        means = Means()
        result = accumulate(*arguments[:-1], means)
        ratios.append(means.result(WORLD)["ratio"])
        return result

    trainer.accumulate = watched
    trainer.learn(batch, Means())
    assert ratios[0] == pytest.approx(1.0, abs=1e-6)
    assert min(abs(ratio - 1) for ratio in ratios[1:]) > 1e-4


def test_frozen_and_sampled_old_logprobs_agree_before_the_first_update():
    trainer = make(without_sft(epochs=2))
    batch = trainer.collector.collect(0, Means())
    frozen = trainer._evaluate(batch.rollouts)
    torch.testing.assert_close(frozen, batch.rollouts.old_logprobs, atol=1e-5, rtol=0)
    one, _ = gradient(without_sft(), batch)
    other, _ = gradient(without_sft(old_logprobs="sampling"), batch)
    assert distance(one, other) < 1e-5


def test_mini_batches_are_updates_of_their_own():
    trainer = make(without_sft(mini_batch_prompts=1, epochs=2))
    batch, steps, means = trainer.collector.collect(0, Means()), [], Means()
    trainer.optimizer.step = lambda: steps.append(1)
    trainer.learn(batch, means)
    assert len(steps) == 8 == trainer.config.updates_per_step


def test_gamma_zero_is_plain_grpo_bit_for_bit(monkeypatch):
    def after(config):
        trainer = make(config)
        for index in range(3):
            trainer.step(index)
        return [parameter.detach().clone() for parameter in trainer.model.parameters()]

    zero, one = after(without_sft()), after(changed(without_sft(), {"objective.gamma": 1.0}))
    # GRPO as the theory types it, with no focal weight anywhere.
    monkeypatch.setattr(
        llm.rollout_batch, "advantages",
        lambda config, rewards, success, scorable, **more: group_advantage(rewards, ddof=1, eps=1e-6, scorable=scorable),
    )  # fmt: skip
    plain = after(without_sft())
    assert all(map(torch.equal, zero, plain))
    assert not all(map(torch.equal, one, plain))


def test_all_truncated_and_masked_moves_nothing_and_says_so():
    config = changed(without_sft(), {"objective.truncated": "masked", "sampling.max_new_tokens": 1})
    trainer = make(config)
    trainer.policy = trainer.collector._policy = replace(trainer.policy, eos_ids=(99,))
    before = {name: p.clone() for name, p in trained_parameters(trainer.model).items()}
    values = trainer.step(0)
    assert values["truncated"] == 1.0
    assert "loss" not in values
    assert "grad_norm" not in values
    assert all(torch.equal(before[name], p) for name, p in trained_parameters(trainer.model).items())


def test_unscorable_rollouts_are_counted_and_have_no_part():
    trainer = make(without_sft())
    means = Means()
    batch = trainer.collector.collect(0, means)
    plus = torch.tensor([[text[:1] == "+" for text in row] for row in batch.rollouts.texts])
    assert means.result(WORLD)["unscorable"] == pytest.approx(plus.double().mean().item())
    assert plus.any()
    assert not batch.loss_mask[plus].any()
    assert torch.equal(batch.advantages[plus], torch.zeros(int(plus.sum()), dtype=torch.float64))


def test_the_kl_reference_is_the_start_and_has_a_gradient_without_advantages():
    config = changed(without_sft(), {"objective.kl": 0.5})
    trainer = make(config)
    start = {name: p.detach().clone() for name, p in trained_parameters(trainer.model).items()}
    batch = trainer.collector.collect(0, Means())
    batch = replace(batch, advantages=torch.zeros_like(batch.advantages))
    with torch.no_grad():
        for parameter in trained_parameters(trainer.model).values():
            parameter.add_(0.05)
    moved = {name: p.detach().clone() for name, p in trained_parameters(trainer.model).items()}
    captured, means = {}, Means()
    trainer.optimizer.step = lambda: captured.update(
        {name: p.grad.clone() for name, p in trained_parameters(trainer.model).items()}
    )
    trainer.learn(batch, means)
    assert means.result(WORLD)["kl"] > 1e-4
    assert all(torch.equal(moved[name], p) for name, p in trained_parameters(trainer.model).items())
    # Descent leads back towards the start.
    assert sum(float((captured[name] * (moved[name] - start[name])).sum()) for name in start) > 0


def test_with_an_adapter_the_reference_is_the_starting_adapter(tmp_path):
    folder = save_model(tmp_path / "base", make_policy(SMALL.model, 0, torch.device("cpu")))
    config = changed(without_sft(), {"model.source": str(folder), "model.lora_rank": 2, "objective.kl": 0.5})
    policy = make_policy(config.model, 0, torch.device("cpu"))
    adapter = trained_parameters(policy.model)
    assert all("lora" in name for name in adapter)
    with torch.no_grad():
        for parameter in adapter.values():
            parameter.add_(0.3)
    # The run starts from an adapter that is not the bare model.
    trainer = Trainer(policy, FirstDigit(), config, WORLD)
    values = trainer.step(0)
    assert values["kl"] == pytest.approx(0.0, abs=1e-6)
    assert values["grad_norm"] > 1e-4
    assert trainer.step(1)["kl"] > 0
    checkpoint = save_checkpoint(tmp_path, 2, policy.model, trainer.optimizer, {}, keep=1)
    assert load_file(checkpoint / "weights.safetensors").keys() == adapter.keys()


def test_dynamic_sampling_fills_the_batch_with_active_groups():
    config = changed(without_sft(), {"objective.dynamic_sampling": True, "sampling.group_size": 2, "max_draws": 20})
    trainer = make(config)
    batch = trainer.collector.collect(0, Means())
    assert batch.places == [0, 1, 2, 3]
    assert bool((batch.advantages != 0).any(-1).all())
    assert trainer.collector.position > 4


def test_dynamic_sampling_without_an_active_group_is_an_error():
    task = FirstDigit()
    task.verify = lambda problems, texts: [Verdict(False, 0.0)] * len(texts)
    trainer = make(changed(without_sft(), {"objective.dynamic_sampling": True, "max_draws": 2}), task)
    with pytest.raises(ValueError, match="dynamic sampling must find an active group, got max_draws=2, step=1"):
        trainer.collector.collect(0, Means())


def test_prompts_repeat_in_shuffled_epochs():
    order = PromptOrder(SumsTask(), seed=3)
    size = len(SumsTask().train_totals())
    epochs = [[order.at(epoch * size + i).id for i in range(size)] for epoch in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert len({tuple(sorted(epoch)) for epoch in epochs}) == 1
    assert [order.at(i).id for i in range(size)] == epochs[0]


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_every_objective_trains(name):
    config = replace(without_sft(), objective=replace(OBJECTIVES[name], gamma=0.5))
    trainer = make(config)
    values = trainer.step(0)
    assert 0 < values["grad_norm"] < 1e3
    assert set(values) <= set(defined_metrics())


def test_bf16_passes_stay_close_to_fp32():
    exact, batch = gradient(without_sft())
    rough, _ = gradient(changed(without_sft(), {"model.precision": "bf16"}), batch)
    scale = max(float(g.abs().max()) for g in exact.values())
    assert 0 < distance(exact, rough) < 0.1 * scale


def test_gradient_checkpointing_changes_no_gradient():
    plain, batch = gradient(without_sft())
    saving, _ = gradient(changed(without_sft(), {"model.gradient_checkpointing": True}), batch)
    assert distance(plain, saving) < 1e-7


def test_a_gradient_that_is_not_finite_stops_the_run():
    trainer = make(without_sft())
    with torch.no_grad():
        next(iter(trained_parameters(trainer.model).values())).fill_(float("nan"))
    with pytest.raises(ValueError, match=r"finite|probabilit|NaN|nan"):
        trainer.step(0)


def test_supervised_loss_is_the_cross_entropy_of_the_demonstrations():
    task = load_task("sums", SMALL.task.options)
    policy = make_policy(SMALL.model, 0, torch.device("cpu"))
    trainer = SupervisedTrainer(policy, task, SMALL, WORLD)
    batch = trainer.demonstrations(0)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for prompt, completion, mask in zip(batch.prompts, batch.completions[:, 0], batch.mask[:, 0], strict=True):
            ids = completion[mask]
            logits = policy.model(torch.cat([prompt, ids])[None]).logits[0, len(prompt) - 1 : -1]
            total += float(torch.nn.functional.cross_entropy(logits, ids, reduction="sum"))
            tokens += len(ids)
    assert trainer.step(0)["loss"] == pytest.approx(total / tokens, rel=1e-5)


def test_demonstrations_have_common_and_rare_answers():
    import numpy as np

    task, stream = SumsTask(), np.random.default_rng(0)
    problem = task.problem(9)
    texts = [demonstration(task, problem, stream) for _ in range(2000)]
    assert set(texts) <= set(task.correct_answers(problem))
    share = texts.count("0 + 9") / 2000
    # 1 / H(10) = 0.341; six standard errors.
    assert abs(share - 0.3414) < 6 * (0.3414 * 0.6586 / 2000) ** 0.5
    with pytest.raises(ValueError, match=r"sft.steps must be 0 for a task without demonstrations"):
        demonstration(FirstDigit(), problem, stream)


def test_a_finished_run_reads_back_and_every_metric_is_defined(tmp_path):
    run = train_run(replace(SMALL, steps=2, probe_every=1), tmp_path / "run")
    written = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = {name for row in written for name in row} - {"phase", "step"}
    assert names <= set(defined_metrics())
    assert {"mu_train", "retained_heldout", "tail_miss", "entropy", "peak_memory_mib"} <= names
    assert [row["step"] for row in written if row["phase"] == "probe"] == [0, 1, 2]
    assert {path.name for path in run.iterdir()} >= {"config.json", "provenance.json", "model", "start"}
    with pytest.raises(FileExistsError, match="already finished"):
        train_run(replace(SMALL, steps=2, probe_every=1), tmp_path / "run")
    assert Path(run / "model" / "tokenizer.json").exists()
