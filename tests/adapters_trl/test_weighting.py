"""The advantages of the installed TRL, times a weight computed here by hand."""

import dataclasses
import random

import llm_trl_tiny as tiny
import numpy as np
import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from llm.adapters.trl import FocalGRPOTrainer, FocalMixin

FIELDS = {field.name for field in dataclasses.fields(GRPOConfig)}
MODES = [{"scale_rewards": True}, {"scale_rewards": False}]
if "multi_objective_aggregation" in FIELDS:
    MODES += [{"scale_rewards": "batch"}, {"multi_objective_aggregation": "normalize_then_sum"}]
# Group sizes of training, and of evaluation where TRL lets them differ.
EVALUATIONS = [
    (4, {}),
    *([(2, {"num_generations_eval": 2}), (1, {"num_generations_eval": 1})] if "num_generations_eval" in FIELDS else []),
]
SCRIPTS = {
    "mixed": [1, 0, 0, 0, 1, 1, 1, 0],
    "all right": [1, 1, 1, 1, 1, 0, 0, 0],
    "all wrong": [0, 0, 0, 0, 1, 1, 1, 0],
    "minus one": [1, -1, -1, 1, -1, -1, -1, 1],
    "unscorable": [None, 1, 1, 0, None, None, 0, 1],
    "none scorable": [None, None, None, None, 1, 0, 0, 0],
}


def advantages(folder, rewards, gamma=None, *, training=True, group_size=4, **config):
    kind, options = (GRPOTrainer, {}) if gamma is None else (FocalGRPOTrainer, {"gamma": gamma})
    made = tiny.trainer(folder, kind, rewards, options=options, **config)
    return tiny.scored(made, training=training, group_size=group_size)["advantages"].double().numpy(), made


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("script", SCRIPTS)
def test_advantages_are_trls_times_the_weight(tmp_path, script, gamma):
    rewards = SCRIPTS[script]
    plain, _ = advantages(tmp_path, tiny.scripted(rewards))
    focal, _ = advantages(tmp_path, tiny.scripted(rewards), gamma)
    np.testing.assert_allclose(focal, plain * tiny.by_hand(rewards, gamma), rtol=1e-6, atol=0)
    assert np.abs(plain).max() > 0.1


@pytest.mark.parametrize("config", MODES, ids=str)
def test_every_scaling_of_the_rewards(tmp_path, config):
    rewards = SCRIPTS["mixed"]
    plain, _ = advantages(tmp_path, tiny.scripted(rewards), **config)
    focal, _ = advantages(tmp_path, tiny.scripted(rewards), 1.0, **config)
    np.testing.assert_allclose(focal, plain * tiny.by_hand(rewards, 1.0), rtol=1e-6)
    assert np.abs(focal).min() > 0


def test_gamma_0_changes_no_bit(tmp_path):
    rewards = tiny.scripted(SCRIPTS["unscorable"])
    assert np.array_equal(advantages(tmp_path, rewards)[0], advantages(tmp_path, rewards, 0.0)[0])


@pytest.mark.parametrize(("group_size", "config"), EVALUATIONS, ids=str)
def test_groups_of_evaluation(tmp_path, group_size, config):
    rewards = [1, 0, 1, 1, 0, 0, 0, 1][: 2 * group_size]
    plain, _ = advantages(tmp_path, tiny.scripted(rewards), training=False, group_size=group_size, **config)
    focal, made = advantages(tmp_path, tiny.scripted(rewards), 2.0, training=False, group_size=group_size, **config)
    np.testing.assert_allclose(focal, plain * tiny.by_hand(rewards, 2.0, group_size), rtol=1e-6)
    assert made._metrics["eval"]["focal/weight"] == [pytest.approx(tiny.by_hand(rewards, 2.0, group_size).mean())]


def test_the_completions_table_and_the_metrics(tmp_path):
    focal, made = advantages(tmp_path, tiny.scripted(SCRIPTS["unscorable"]), 1.0)
    assert list(made._logged_advantages()) == focal.tolist()
    again = tiny.scored(made)["advantages"].tolist()
    assert list(made._logged_advantages())[-8:] == again
    metrics = made._metrics["train"]
    assert metrics["focal/success_rate"] == [pytest.approx((2 / 3 + 1 / 2) / 2)] * 2
    assert metrics["focal/weight"] == [pytest.approx((1 / 3 + 1 / 2) / 2)] * 2
    assert metrics["focal/unscorable"] == [3 / 8] * 2


def test_a_threshold_decides_on_shaped_rewards(tmp_path):
    shaped = tiny.scripted([0.9, 0.2, 0.4, 0.9, 0.1, 0.2, 0.3, 0.4])
    verdict = [1, 0, 0, 1, 0, 0, 0, 0]
    plain, _ = advantages(tmp_path, shaped)
    made = tiny.trainer(tmp_path, rewards=shaped, options={"gamma": 1.0, "success_threshold": 0.9})
    np.testing.assert_allclose(tiny.scored(made)["advantages"], plain * tiny.by_hand(verdict, 1.0), rtol=1e-6)
    with pytest.raises(ValueError, match=r"success_threshold must be set, .* got reward=0\.9"):
        advantages(tmp_path, shaped, 1.0)


def test_one_of_several_reward_functions_is_the_verdict(tmp_path):
    right = [1, 0, 0, 0, 1, 1, None, 0]
    functions = [tiny.scripted([0.3, -0.7, 0.1], "length"), tiny.scripted(right, "right")]
    config = {"reward_weights": [1.0, 0.0]}
    plain, _ = advantages(tmp_path, functions, **config)
    made = tiny.trainer(tmp_path, rewards=functions, options={"gamma": 2.0, "success_reward": "right"}, **config)
    np.testing.assert_allclose(tiny.scored(made)["advantages"], plain * tiny.by_hand(right, 2.0), rtol=1e-6)


def test_the_mixin_weighs_what_a_users_trainer_makes(tmp_path):
    class Doubling(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            return batch | {"advantages": 2 * batch["advantages"]}

    class FocalDoubling(FocalMixin, Doubling):
        pass

    rewards = SCRIPTS["mixed"]
    plain, _ = advantages(tmp_path, tiny.scripted(rewards))
    made = tiny.trainer(tmp_path, FocalDoubling, tiny.scripted(rewards), options={"gamma": 1.0})
    np.testing.assert_allclose(tiny.scored(made)["advantages"], 2 * plain * tiny.by_hand(rewards, 1.0), rtol=1e-6)


def train(folder, kind, **arguments):
    made = tiny.trainer(folder, tiny.recording(kind), **arguments)
    made.train()
    return made


def test_training_with_gamma_0_is_trl_bit_for_bit(tmp_path):
    plain = train(tmp_path, GRPOTrainer, num_iterations=2, max_steps=4)
    focal = train(tmp_path, FocalGRPOTrainer, options={"gamma": 0.0}, num_iterations=2, max_steps=4)
    start = tiny.model().state_dict()
    ours, theirs = tiny.weights_of(focal), tiny.weights_of(plain)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert any(not torch.equal(theirs[name], start[name]) for name in theirs)
    for mine, other in zip(focal.state.log_history[:-1], plain.state.log_history[:-1], strict=True):
        same = {name: value for name, value in mine.items() if "time" not in name and not name.startswith("focal/")}
        assert same == {name: value for name, value in other.items() if "time" not in name}


def test_training_with_gamma_1_uses_weighted_advantages(tmp_path):
    plain = train(tmp_path, GRPOTrainer, num_iterations=2)
    focal = train(tmp_path, FocalGRPOTrainer, options={"gamma": 1.0}, num_iterations=2)
    # Until the first update both hold the same model, so the first batch is the same: two micro-batches, used in two steps.
    assert len(plain.seen) == len(focal.seen) == 4
    logs = plain._logs if hasattr(plain, "_logs") else plain._textual_logs
    rewards = list(logs["rewards"]["early_words"])
    weights = dict(zip(logs["prompt"], tiny.by_hand(rewards, 1.0), strict=True))
    assert len(set(weights.values())) > 1
    for (ours, prompts, our_ids), (theirs, _, their_ids) in zip(focal.seen[:2], plain.seen[:2], strict=True):
        assert torch.equal(our_ids, their_ids)
        # TRL shuffles the rows of a batch, so each group is found by its prompt.
        hand = [weights[text] for text in plain.processing_class.batch_decode(prompts, skip_special_tokens=True)]
        np.testing.assert_allclose(ours, theirs.double().numpy() * hand, rtol=1e-6)
    for first, second in zip(focal.seen[:2], focal.seen[2:], strict=True):
        assert torch.equal(first[0], second[0])
    assert any(not torch.equal(value, tiny.weights_of(plain)[name]) for name, value in tiny.weights_of(focal).items())


def test_evaluation_between_steps_changes_nothing(tmp_path):
    class Neutral(FocalGRPOTrainer):
        """Evaluation draws random numbers; put back, the training has to go on as if there had been none."""

        evaluations = 0

        def evaluate(self, *args, **kwargs):
            state = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
            result = super().evaluate(*args, **kwargs)
            torch.set_rng_state(state[0]), random.setstate(state[1]), np.random.set_state(state[2])  # noqa: NPY002
            self.evaluations += 1
            return result

    config = {"max_steps": 4, "num_iterations": 2, "steps_per_generation": 4, "per_device_eval_batch_size": 4}
    quiet = train(tmp_path, Neutral, options={"gamma": 1.0}, **config)
    busy = train(tmp_path, Neutral, options={"gamma": 1.0}, eval_strategy="steps", eval_steps=1, **config)
    assert (quiet.evaluations, busy.evaluations) == (0, 4)
    assert all(torch.equal(value, tiny.weights_of(busy)[name]) for name, value in tiny.weights_of(quiet).items())
    assert "eval_focal/weight" in next(log for log in busy.state.log_history if "eval_loss" in log)
