"""What the adapter refuses, each in one line before any training."""

import llm_trl_tiny as tiny
import pytest
import trl
from trl import GRPOTrainer, RLOOTrainer

from llm.adapters.trl import FocalMixin

OTHERS = [RLOOTrainer]
if int(trl.__version__.split(".")[0]) >= 1:
    from trl.experimental.async_grpo import AsyncGRPOTrainer

    OTHERS.append(AsyncGRPOTrainer)


@pytest.mark.parametrize("other", OTHERS)
def test_trainers_that_compute_advantages_elsewhere(other):
    kind = type("Focal", (FocalMixin, other), {})
    with pytest.raises(
        ValueError, match=rf"^FocalMixin must stand before trl\.GRPOTrainer .* FocalMixin, {other.__name__}$"
    ):
        kind(model="none", reward_funcs=tiny.early_words, gamma=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": -1.0}, "gamma must be finite and at least 0, got gamma=-1"),
        ({"gamma": float("nan")}, "gamma must not be NaN"),
        (
            {"gamma": 1.0, "success_threshold": float("inf")},
            "success_threshold must be one finite number, got success_thr",
        ),
        (
            {"gamma": 1.0, "success_reward": "accuracy"},
            "of the reward functions early_words, got success_reward='accuracy'",
        ),
    ],
)
def test_arguments(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        tiny.trainer(tmp_path, options=options)


@pytest.mark.parametrize("names", [("right", "long"), ("right", "right")])
def test_no_guess_among_several_reward_functions(tmp_path, names):
    functions = [tiny.scripted([1, 0], name) for name in names]
    for named in (None, "wrong") if names[0] != names[1] else (None, "right"):
        with pytest.raises(ValueError, match=rf"success_reward must name exactly one .* {', '.join(names)}, got"):
            tiny.trainer(tmp_path, rewards=functions, options={"gamma": 1.0, "success_reward": named})


def test_gamma_has_no_default(tmp_path):
    with pytest.raises(TypeError, match="gamma"):
        tiny.trainer(tmp_path)


def test_a_trainer_that_scores_without_the_rewards_method(tmp_path):
    class Own(GRPOTrainer):
        def _calculate_rewards(self, *args, **kwargs):
            raise AssertionError("never called")

        def _generate_and_score_completions(self, inputs):
            return {"advantages": tiny.torch.zeros(len(inputs))}

    made = tiny.trainer(tmp_path, type("Focal", (FocalMixin, Own), {}), options={"gamma": 1.0})
    with pytest.raises(ValueError, match="got Focal with 8 advantages and 0 rewards"):
        tiny.scored(made)
