"""The estimator, called by verl's own code, against verl's GRPO times a weight computed here by hand."""

import asyncio
import pickle
from collections import defaultdict

import llm_verl_config as verls
import numpy as np
import pytest
import torch
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_adv_estimator_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from llm.adapters.verl import verifier_score

NAN = float("nan")
# (scores, uids): groups in a row, interleaved, uneven, of one, all right, all wrong, rewards of -1.
BATCHES = {
    "in a row": ([1, 0, 0, 0, 1, 1, 1, 0], list("aaaabbbb")),
    "interleaved": ([1, 0, 1, 0, 0, 1, 0, 0], list("abababba")),
    "uneven": ([1, 0, 0, 1, 1, 0, 0], list("aaabbbb")),
    "groups of one": ([1, 0, 1, 0], list("abcc")),
    "all right, all wrong": ([1, 1, 1, 0, 0, 0, 1, 0], list("aaabbbcc")),
    "minus one": ([1, -1, -1, 1, 1, -1], list("aaabbb")),
}


def by_hand(scores, uids, gamma):
    groups = defaultdict(list)
    for score, uid in zip(scores, uids, strict=True):
        if score == score:
            groups[uid].append(score)
    weight = {uid: (sum(score != 1 for score in group) / len(group)) ** gamma for uid, group in groups.items()}
    return np.array([weight.get(uid, 1.0) for uid in uids])


def run(config, data, through=compute_advantage):
    """The advantages that verl's trainer would compute under this configuration."""
    algorithm = config.algorithm
    arguments = {
        "adv_estimator": algorithm.adv_estimator,
        "gamma": algorithm.gamma,
        "lam": algorithm.lam,
        "num_repeat": config.actor_rollout_ref.rollout.n,
        "norm_adv_by_std_in_grpo": algorithm.norm_adv_by_std_in_grpo,
        "config": algorithm,
    }
    if through is compute_advantage_for_multi_trajectories:
        arguments["batch_keys"] = [f"{uid}_{row}_0" for row, uid in enumerate(data.non_tensor_batch["uid"])]
    batch = through(data, **arguments).batch
    assert torch.equal(batch["advantages"], batch["returns"])
    return batch["advantages"]


def plain(scores, uids, *overrides):
    return run(verls.composed("algorithm.adv_estimator=grpo", *overrides), verls.batch(scores, uids))


@pytest.mark.parametrize("through", [compute_advantage, compute_advantage_for_multi_trajectories])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", BATCHES)
def test_verls_grpo_times_the_weight(name, gamma, through):
    scores, uids = BATCHES[name]
    expected = plain(scores, uids).double().numpy() * by_hand(scores, uids, gamma)[:, None]
    found = run(verls.focal(gamma), verls.batch(scores, uids), through)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("name", BATCHES)
def test_gamma_0_changes_no_bit(name, scale):
    scores, uids = BATCHES[name]
    scaled = f"algorithm.norm_adv_by_std_in_grpo={scale}"
    assert torch.equal(run(verls.focal(0, scaled), verls.batch(scores, uids)), plain(scores, uids, scaled))


def test_verls_choice_of_scaling_is_honoured():
    scores, uids = BATCHES["in a row"]
    found = run(verls.focal(1, "algorithm.norm_adv_by_std_in_grpo=False"), verls.batch(scores, uids))
    np.testing.assert_allclose(found[:4, 0], np.array([0.75, -0.25, -0.25, -0.25]) * 0.75, rtol=1e-6)


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(5)
    scores, uids = rng.integers(0, 2, 24).astype(float), np.repeat(list("abcd"), 6)
    first = run(verls.focal(1), verls.batch(list(scores), list(uids), [3] * 24))
    order = rng.permutation(24)
    shuffled = run(verls.focal(1), verls.batch(list(scores[order]), list(uids[order]), [3] * 24))
    np.testing.assert_allclose(shuffled, first[torch.tensor(order)], rtol=1e-6)


def test_unscorable_rollouts_are_out_of_the_group():
    scores, uids = [NAN, 1, 1, 0, NAN, NAN, 1, NAN, NAN], list("aaaabbbcc")
    found = run(verls.focal(2), verls.batch(scores, uids))
    rest = plain([1, 1, 0], list("aaa"))
    assert torch.isfinite(found).all()
    np.testing.assert_allclose(found[1:4, 0], rest[:, 0] / 9, rtol=1e-6)
    # Unscorable rows, a rollout whose siblings are all unscorable, a group without any: nothing to compare.
    assert not found[[0, 4, 5, 6, 7, 8]].any()
    assert not run(verls.focal(1), verls.batch([NAN, NAN], list("aa"))).any()


def test_a_threshold_decides_on_other_scores():
    scores, uids = [0.9, 0.2, 0.4, 0.0], list("aaaa")
    expected = plain(scores, uids) * 0.75
    found = run(verls.focal(1, "+algorithm.focal_success_threshold=0.9"), verls.batch(scores, uids))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"^algorithm\.focal_success_threshold must be set, .* got reward=0\.9$"):
        run(verls.focal(1), verls.batch(scores, uids))


OVERLONG = (
    "reward.reward_manager.name=dapo",
    "+reward.reward_kwargs.overlong_buffer_cfg={enable:True,len:4,penalty_factor:1.0,log:False}",
    "+reward.reward_kwargs.max_resp_len=6",
)


@pytest.mark.parametrize("verdicts", [[1, 1, 0, 0, 1, 0], [1, 1, -1, -1, 1, -1]])
def test_the_overlong_penalty_does_not_hide_the_verdict(verdicts):
    # Lengths 6, 5, 6, 2, 3, 4 and a buffer from 2 to 6: penalties 1, 3/4, 1, 0, 1/4, 1/2. A right answer may end at 0.
    lengths, penalties = [6, 5, 6, 2, 3, 4], [1.0, 0.75, 1.0, 0.0, 0.25, 0.5]
    rewards = [verdict - penalty for verdict, penalty in zip(verdicts, penalties, strict=True)]
    uids = list("aaabbb")
    reference = run(verls.composed("algorithm.adv_estimator=grpo"), verls.batch(rewards, uids, lengths))
    # Kept by pickling, as on the way to the process that computes advantages.
    config = pickle.loads(pickle.dumps(verls.focal(1, *OVERLONG)))
    found = run(config, verls.batch(rewards, uids, lengths))
    np.testing.assert_allclose(found, reference.double() * torch.tensor([[1 / 3]] * 3 + [[2 / 3]] * 3), rtol=1e-6)
    with pytest.raises(ValueError, match="must be set"):
        run(verls.focal(1), verls.batch(rewards, uids, lengths))
    with pytest.raises(ValueError, match=r"rollout_rs must be null .* got rollout_rs=token_k1"):
        run(verls.focal(1, *OVERLONG, "algorithm.rollout_correction.rollout_rs=token_k1"), verls.batch(rewards, uids))


class Counter:
    """A tokenizer whose text is the number of tokens."""

    def decode(self, ids, skip_special_tokens):
        return str(len(ids))


async def rewards_by_verl(config, lengths):
    """What verl's DAPO reward manager makes of responses that are right if their length is odd."""
    manager = DAPORewardManager(config, Counter(), lambda solution_str, **_: {"score": float(int(solution_str) % 2)})
    rewards = []
    for length in lengths:
        attention = torch.tensor([[1] * length + [0] * (6 - length)])
        row = DataProto.from_dict(
            tensors={"responses": torch.ones(1, 6, dtype=torch.long), "attention_mask": attention},
            non_tensors={
                "data_source": np.array(["x"], dtype=object),
                "reward_model": np.array([{"ground_truth": ""}], dtype=object),
            },
        )
        rewards.append(float((await manager.run_single(row))["reward_score"]))
    return rewards


def test_the_penalty_taken_out_is_the_one_that_verls_reward_manager_puts_in():
    config, lengths = verls.focal(1, *OVERLONG), [1, 2, 3, 4, 5, 6]
    rewards = asyncio.run(rewards_by_verl(config, lengths))
    assert rewards == [1.0, 0.0, 0.75, -0.5, 0.25, -1.0]
    data = verls.batch(rewards, list("aaaaaa"), lengths).batch
    score = verifier_score(data["token_level_rewards"], data["response_mask"], config.algorithm)
    assert score.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.use_kl_in_reward=True"], "algorithm.use_kl_in_reward must be False with fgrpo"),
        (["actor_rollout_ref.rollout.n=2"], "at most actor_rollout_ref.rollout.n rows of a uid .* got 4 rows with n=2"),
        (["algorithm.focal_gamma=-1"], "gamma must be finite and at least 0, got gamma=-1"),
        (["algorithm.focal_gamma=null"], "algorithm.focal_gamma must be set"),
        (["+algorithm.focal_success_threshold=nan"], "algorithm.focal_success_threshold must not be NaN"),
    ],
)
def test_refusals(overrides, message):
    with pytest.raises(ValueError, match=message):
        run(verls.focal(1, *overrides), verls.batch(*BATCHES["in a row"]))


def test_a_direct_call_needs_a_configuration():
    rewards = torch.tensor([[1.0], [0.0]])
    arguments = {"token_level_rewards": rewards, "response_mask": torch.ones(2, 1), "index": np.array(["a", "a"])}
    estimator = get_adv_estimator_fn("fgrpo")
    with pytest.raises(ValueError, match="focal_gamma must be set"):
        estimator(**arguments, config=None)
    expected, _ = compute_grpo_outcome_advantage(**arguments)
    found, _ = estimator(**arguments, config={"focal_gamma": 1.0})
    np.testing.assert_allclose(found, expected / 2, rtol=1e-6)
