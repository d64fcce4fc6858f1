"""Configurations: JSON and back, dotted settings, errors that name the field; presets build."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from llm.config import OptimizerConfig, ScratchConfig, TrainConfig, changed, matched_low_lr
from llm.fields import field_help
from llm.objectives import OBJECTIVES
from llm.presets import NOT_MEASURED, PRESETS, with_objective
from llm.scratch import character_tokenizer, scratch_model
from llm.trainer import learning_rate
from llm.training_run import make_policy


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_survives_json(name):
    config = PRESETS[name]
    assert TrainConfig.from_json(json.loads(json.dumps(config.resolved()))) == config


@pytest.mark.parametrize("name", sorted(NOT_MEASURED))
def test_paper_presets_are_appendix_l(name):
    config = PRESETS[name]
    assert (config.prompts_per_step, config.mini_batch_prompts, config.epochs) == (256, 64, 1)
    assert config.updates_per_step == 4
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.betas, optimizer.weight_decay) == (1e-6, (0.9, 0.999), 0.01)
    assert (optimizer.max_grad_norm, optimizer.warmup_steps, optimizer.schedule) == (1.0, 15, "constant")
    sampling = config.sampling
    assert (sampling.group_size, sampling.temperature, sampling.top_p, sampling.top_k) == (8, 1.0, 1.0, 0)
    assert sampling.max_new_tokens == (4096 if "qwen3" in name else 8192)
    assert (config.objective.kl, config.objective.aggregation, config.objective.ddof) == (0.0, "token", 1)
    assert config.task.options["max_prompt_tokens"] == 1024


def test_the_tiny_preset_builds_the_model_it_describes():
    policy = make_policy(PRESETS["tiny"].model, 0, torch.device("cpu"))
    assert sum(parameter.numel() for parameter in policy.model.parameters()) == 132_736
    assert policy.eos_ids == (1,)


def test_scratch_weights_follow_the_seed_alone():
    config = ScratchConfig("01+", hidden=8, layers=1, heads=2, feed_forward=8)
    before = torch.get_rng_state()
    one, two, other = (scratch_model(config, seed, torch.device("cpu")).model for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)


def test_the_character_tokenizer_goes_there_and_back():
    tokenizer = character_tokenizer("0123456789+ \n")
    ids = tokenizer("12 + 30\n")["input_ids"]
    assert len(ids) == 8
    assert tokenizer.decode(ids, skip_special_tokens=True) == "12 + 30\n"
    turns = [{"role": "system", "content": "left out"}, {"role": "user", "content": "12"}]
    assert tokenizer.apply_chat_template(turns, tokenize=False) == "12\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective.gama": 1}, "settings must name a field of the configuration, got setting=objective.gama"),
        ({"steps": True}, "steps must be of type int, got steps=True"),
        ({"steps": "x"}, "steps must be of type int, got steps='x'"),
        ({"steps": 1.5}, "steps must be of type int, got steps=1.5"),
        ({"optimizer.learning_rate": -1}, "learning_rate must be finite and above 0, got learning_rate=-1"),
        ({"model": 3}, "model must be a mapping, got value=3"),
        ({"loggers": ["x"]}, "loggers must be one of tensorboard, wandb, got loggers='x'"),
        ({"sampling.group_size": 1}, "group_size must be a whole number of at least 2, got group_size=1"),
        ({"sampling.temperature": 0}, "temperature must be finite and above 0, got temperature=0"),
        ({"mini_batch_prompts": 3}, "prompts_per_step must be a multiple of mini_batch_prompts"),
        ({"objective.overlong_buffer": 99}, "overlong_buffer must be at most max_new_tokens"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        changed(TrainConfig(), settings)


def test_settings_reach_nested_fields_and_task_options():
    config = changed(TrainConfig(), {"task.options.lowest_total": 3, "optimizer.betas": [0.9, 0.95], "steps": 7})
    assert config.task.options == {"lowest_total": 3}
    assert (config.optimizer.betas, config.steps) == ((0.9, 0.95), 7)


def test_an_unknown_field_in_a_file_is_refused():
    with pytest.raises(ValueError, match="config has no such field, got field=stepz"):
        TrainConfig.from_json({"stepz": 3})


def test_matched_low_learning_rate():
    config = matched_low_lr(changed(PRESETS["paper-qwen2.5-7b"], {"objective.gamma": 0.5}), 0.5)
    assert config.optimizer.learning_rate == pytest.approx(6.79e-7, rel=1e-3)
    assert config.objective.gamma == 0


def test_an_objective_replaces_the_presets():
    config = with_objective(PRESETS["tiny"], "cispo", 1.0)
    assert config.objective == dataclasses.replace(OBJECTIVES["cispo"], gamma=1.0)
    with pytest.raises(ValueError, match="objective must be one of"):
        with_objective(PRESETS["tiny"], "ppo", 0.0)


def test_every_field_is_documented():
    def check(kind):
        helps = field_help(kind)
        for field in dataclasses.fields(kind):
            assert helps.get(field.name), f"{kind.__name__}.{field.name}"
            if dataclasses.is_dataclass(field.default):
                check(type(field.default))

    check(TrainConfig)


def test_learning_rates_by_hand():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=2, schedule="cosine")
    rates = [learning_rate(config, step, 6) for step in range(7)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447, 0.0], abs=1e-6)
