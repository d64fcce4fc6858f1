"""Objectives against values and gradients worked out by hand, and equivalences between them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fgrpo_theory.focal import group_advantage
from llm.objectives import (
    OBJECTIVES,
    ObjectiveConfig,
    advantages,
    dr_grpo,
    grpo,
    index_by_identity,
    is_active,
    length_penalty,
    loss_mask,
    maxrl,
    policy_loss,
    rloo,
    step_total,
)
from llm.objectives.kl import k3

GRPO = OBJECTIVES["grpo"]
EXACT = replace(GRPO, eps=0.0)
NONE = float("nan")


def _groups(rewards, unscorable=()):
    """Rewards, success (a positive reward) and scorable as one-group tensors."""
    rewards = torch.tensor([rewards], dtype=torch.float64)
    scorable = ~torch.isnan(rewards)
    return rewards, torch.nan_to_num(rewards) > 0, scorable


def _loss(config, logprobs, old, advantage, mask, **extra):
    total = extra.pop("token_total", None)
    total = (
        step_total(config.aggregation, mask, extra.pop("max_new_tokens", mask.shape[-1])) if total is None else total
    )
    return policy_loss(config, logprobs, old, advantage, mask, token_total=total, **extra)


def _random_batch(seed=0, groups=3, rollouts=4, tokens=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    lp = -torch.rand(groups, rollouts, tokens, generator=generator, dtype=dtype) * 3
    old = lp + 0.4 * torch.randn(lp.shape, generator=generator, dtype=dtype)
    lengths = torch.randint(1, tokens + 1, (groups, rollouts), generator=generator)
    mask = torch.arange(tokens) < lengths[..., None]
    advantage = torch.randn(groups, rollouts, generator=generator, dtype=dtype)
    return lp, old, advantage, mask


# Groups and advantages


@pytest.mark.parametrize(
    ("rewards", "ddof", "expected"),
    [
        ([1, 0], 1, [0.7071, -0.7071]),
        ([1, 0], 0, [1, -1]),
        ([1, 1, 1, 0], 1, [0.5, 0.5, 0.5, -1.5]),
        ([1, 1, 1, 0], 0, [0.577, 0.577, 0.577, -1.732]),
    ],
)
def test_grpo_advantages_by_hand(rewards, ddof, expected):
    result = advantages(replace(EXACT, ddof=ddof), *_groups(rewards))
    assert result[0].tolist() == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "maxrl"])
def test_a_group_of_one_rollout_is_refused(name):
    with pytest.raises(ValueError, match=r"at least 2 rollouts"):
        advantages(OBJECTIVES[name], *_groups([1.0]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dr_grpo", [2 / 3, -1 / 3, -1 / 3]),
        ("rloo", [1, -0.5, -0.5]),
        ("maxrl", [2, -1, -1]),
    ],
)
def test_related_advantages_by_hand(name, expected):
    config = replace(OBJECTIVES[name], eps=0.0)
    assert advantages(config, *_groups([1, 0, 0]))[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "maxrl"])
def test_an_unscorable_rollout_is_out_of_the_group(name):
    config = replace(OBJECTIVES[name], gamma=1.0)
    with_one = advantages(config, *_groups([NONE, 0, 0, 1]))[0]
    assert with_one[0] == 0
    assert with_one[1:].tolist() == pytest.approx(advantages(config, *_groups([0, 0, 1]))[0].tolist(), abs=1e-12)
    assert advantages(config, *_groups([NONE, NONE, NONE, NONE])).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("rewards", "weight"), [([NONE, 1, 1, 0], 1 / 9), ([1, 1, 1, 0], 1 / 16), ([NONE, 0, 0, 1], 4 / 9)]
)
def test_focal_weight_counts_the_scorable_rollouts(rewards, weight):
    groups = _groups(rewards)
    plain, focal = advantages(EXACT, *groups), advantages(replace(EXACT, gamma=2.0), *groups)
    torch.testing.assert_close(focal, plain * weight)
    assert plain.abs().max() > 0.5


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "maxrl"])
def test_gamma_zero_is_the_plain_method_bit_for_bit(name):
    plain = {"grpo": grpo, "dr_grpo": dr_grpo, "rloo": rloo, "maxrl": maxrl}[name].advantage
    rewards = torch.rand(64, 8, generator=torch.Generator().manual_seed(1))
    scorable = rewards < 0.95
    config = replace(OBJECTIVES[name], gamma=0.0)
    expected = plain(config, rewards, scorable)
    assert expected.abs().max() > 0.1
    assert torch.equal(advantages(config, rewards, rewards > 0.5, scorable), expected)
    # Without gamma, success has no part in the advantage.
    assert torch.equal(advantages(config, rewards, rewards < 0.1, scorable), expected)


def test_grpo_is_the_theorys_group_advantage():
    rewards = (torch.rand(16, 8, generator=torch.Generator().manual_seed(1)) > 0.6).float()
    result = advantages(GRPO, rewards, rewards > 0, torch.ones_like(rewards, dtype=torch.bool))
    assert torch.equal(result, group_advantage(rewards, ddof=1, eps=1e-6))


def test_focal_weight_follows_the_verdict_not_the_shaped_reward():
    rewards = torch.tensor([[0.9, 0.4, -0.1, -0.1]], dtype=torch.float64)
    success = torch.tensor([[True, False, False, False]])
    scorable = torch.ones_like(success)
    focal = advantages(replace(EXACT, gamma=1.0), rewards, success, scorable)
    torch.testing.assert_close(focal, 0.75 * advantages(EXACT, rewards, success, scorable))


def test_groups_go_by_identity():
    rewards = torch.tensor([1.0, 0.0, 1.0, 0.0])
    index, present = index_by_identity(["p1", "p2", "p1", "p2"])
    assert advantages(EXACT, rewards[index], rewards[index] > 0, present).tolist() == [[0, 0], [0, 0]]


def test_uneven_groups_are_never_pooled():
    rewards = torch.tensor([1.0, 3.0, 5.0])
    index, present = index_by_identity(["a", "a", "b"])
    assert present.tolist() == [[True, True], [True, False]]
    result = advantages(EXACT, rewards[index], rewards[index] > 2, present)
    assert result[0].tolist() == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)])
    assert result[1].tolist() == [0, 0]


def test_activity():
    success = torch.tensor([[True, False], [True, True], [False, False], [True, False]])
    scorable = torch.tensor([[True, True], [True, True], [True, True], [True, False]])
    assert is_active(success, scorable).tolist() == [True, False, False, False]


# Token surrogates: gradients by hand


def _gradient(config, log_ratio, advantage):
    """d loss / d logprob of a single token whose ratio is exp(log_ratio)."""
    old = torch.tensor([[[-1.0]]], dtype=torch.float64)
    lp = (old + log_ratio).requires_grad_()
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    loss, _ = _loss(config, lp, old, torch.tensor([[advantage]], dtype=torch.float64), mask)
    return float(torch.autograd.grad(loss, lp)[0])


@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "gradient"),
    [
        ("grpo", 1.0, 2.0, -2.0),
        ("grpo", 1.1, 2.0, -2.2),
        ("grpo", 1.25, 2.0, 0.0),  # above 1.2 with A > 0: clipped
        ("grpo", 1.25, -2.0, 2.5),  # above 1.2 with A < 0: pulled back
        ("grpo", 0.7, -2.0, 0.0),  # below 0.8 with A < 0: clipped
        ("grpo", 0.7, 2.0, -1.4),
        ("dapo", 1.25, 2.0, -2.5),  # below 1.28
        ("dapo", 1.3, 2.0, 0.0),
        ("cispo", 1.0, 2.0, -2.0),
        ("cispo", 4.0, 2.0, -8.0),
        ("cispo", 7.0, 2.0, -12.0),  # the weight is capped at 6, the gradient stays
        ("cispo", 7.0, -2.0, 12.0),
        ("cispo", 0.01, 2.0, -0.02),
    ],
)
def test_token_gradients_by_hand(name, ratio, advantage, gradient):
    assert _gradient(OBJECTIVES[name], math.log(ratio), advantage) == pytest.approx(gradient, abs=1e-12)


def test_cispo_value_is_weight_times_advantage_times_logprob():
    lp, old = torch.tensor([[[-0.5]]], dtype=torch.float64), torch.tensor([[[-3.0]]], dtype=torch.float64)
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    loss, metrics = _loss(OBJECTIVES["cispo"], lp, old, torch.tensor([[2.0]], dtype=torch.float64), mask)
    assert loss.item() == pytest.approx(6 * 2 * 0.5)  # exp(2.5) = 12.2 is capped at 6
    assert metrics["clip_high"] == (1.0, 1.0)


def test_kl_has_a_gradient_without_advantage_and_its_sign_lowers_divergence():
    # Logits [a, 0] against a uniform reference: KL falls as a goes to 0, so descent must lower a.
    config = ObjectiveConfig(kl=0.5)
    logits = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    lp = torch.log_softmax(logits, -1)
    expected = torch.zeros(())
    for token, probability in enumerate(lp.detach().exp()):
        chosen = lp[token].reshape(1, 1, 1)
        loss, metrics = _loss(
            config, chosen, chosen.detach(), torch.zeros(1, 1, dtype=torch.float64),
            torch.ones(1, 1, 1, dtype=torch.bool), reference_logprobs=torch.full((1, 1, 1), math.log(0.5), dtype=torch.float64),
        )  # fmt: skip
        expected = expected + probability * loss
        assert metrics["kl"][0] > 0
    exact = 0.5 * float((lp.exp() * (lp - math.log(0.5))).sum().detach())
    assert float(expected.detach()) == pytest.approx(exact, abs=1e-12)  # k3 is unbiased
    assert float(torch.autograd.grad(expected, logits)[0][0]) > 0


def test_k3_is_zero_with_zero_gradient_at_the_reference():
    lp = torch.tensor([-0.3, -2.0], dtype=torch.float64, requires_grad=True)
    value = k3(lp, lp.detach())
    assert value.tolist() == [0, 0]
    assert torch.autograd.grad(value.sum(), lp)[0].tolist() == [0, 0]


def test_entropy_bonus_raises_entropy():
    logits = torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    lp = torch.log_softmax(logits, -1)
    entropy = -(lp.exp() * lp).sum().reshape(1, 1, 1)
    old, zero = torch.zeros(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    loss, metrics = _loss(ObjectiveConfig(entropy_bonus=0.1), old, old, zero, mask, entropy=entropy)
    assert metrics["entropy"] == (pytest.approx(float(entropy.detach())), 1.0)
    descent = -torch.autograd.grad(loss, logits)[0]
    assert descent[0] < 0 < descent[1]


def test_ds_grpo_by_hand():
    config = replace(EXACT, smoothing=0.1, ddof=0)
    rewards, success, scorable = _groups([1, 0, NONE])
    old = torch.tensor([[[-1.0, -3.0], [-4.0, 9.0], [-1.0, -1.0]]], dtype=torch.float64)
    mask = torch.tensor([[[True, True], [True, False], [True, True]]])
    result = advantages(config, rewards, success, scorable, old_logprobs=old, mask=mask)
    # mean log-probs -2 and -4: 1 + 0.2, -1 - 0.4, and nothing for the unscorable one
    assert result[0].tolist() == pytest.approx([1.2, -1.4, 0.0])
    with pytest.raises(ValueError, match="old_logprobs and mask must be given"):
        advantages(config, rewards, success, scorable)


def test_maxrl_refuses_negative_rewards_and_keeps_all_wrong_groups_at_zero():
    assert advantages(replace(OBJECTIVES["maxrl"], eps=0.0), *_groups([0, 0])).tolist() == [[0, 0]]
    with pytest.raises(ValueError, match=r"rewards must be at least 0 .* got reward=-1"):
        advantages(OBJECTIVES["maxrl"], *_groups([1, -1]))


def test_overlong_penalty_by_hand():
    config = ObjectiveConfig(overlong_buffer=4, overlong_penalty=0.5)
    lengths = torch.tensor([[1, 6, 7, 8, 10]])
    assert length_penalty(config, lengths, 10).tolist() == [[0, 0, 0.125, 0.25, 0.5]]
    assert length_penalty(ObjectiveConfig(), lengths, 10).tolist() == [[0, 0, 0, 0, 0]]
    with pytest.raises(ValueError, match="overlong_buffer must be at most max_new_tokens"):
        length_penalty(config, lengths, 3)


# Aggregation


def test_token_mean_by_hand():
    # Token losses [4] and [0, 0, 0]: -A r = 4 with A = -4 at ratio 1.
    lp = torch.zeros(2, 1, 3, dtype=torch.float64)
    advantage = torch.tensor([[-4.0], [0.0]], dtype=torch.float64)
    mask = torch.tensor([[[True, False, False]], [[True, True, True]]])
    total = step_total("token", mask, 3)
    parts = [policy_loss(GRPO, lp[i : i + 1], lp[i : i + 1], advantage[i : i + 1], mask[i : i + 1], token_total=total)
             for i in range(2)]  # fmt: skip
    assert sum(loss.item() for loss, _ in parts) == 1.0
    assert _loss(GRPO, lp, lp, advantage, mask)[0].item() == 1.0
    sequence = replace(GRPO, aggregation="sequence")
    assert _loss(sequence, lp, lp, advantage, mask)[0].item() == 2.0  # mean of the rollouts' means 4 and 0
    constant = replace(GRPO, aggregation="constant")
    assert _loss(constant, lp, lp, advantage, mask, max_new_tokens=8)[0].item() == pytest.approx(4 / 16)


@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
@pytest.mark.parametrize("name", ["grpo", "cispo"])
def test_any_split_gives_the_same_gradient(aggregation, name):
    config = replace(OBJECTIVES[name], aggregation=aggregation)
    lp, old, advantage, mask = _random_batch(groups=4)
    total = step_total(aggregation, mask, 7)
    gradients, metrics = [], []
    for parts in (1, 2, 4):
        x, size = lp.clone().requires_grad_(), 4 // parts
        sums = {"ratio": 0.0, "weight": 0.0}
        for i in range(0, 4, size):
            part = slice(i, i + size)
            loss, logged = policy_loss(config, x[part], old[part], advantage[part], mask[part], token_total=total)
            loss.backward()
            sums["ratio"] += logged["ratio"][0]
            sums["weight"] += logged["ratio"][1]
        gradients.append(x.grad)
        metrics.append(sums["ratio"] / sums["weight"])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-14, atol=0)
    torch.testing.assert_close(gradients[2], gradients[0], rtol=1e-14, atol=0)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-13)
    assert metrics[2] == pytest.approx(metrics[0], rel=1e-13)


@pytest.mark.parametrize("name", ["grpo", "dapo", "cispo", "dr_grpo", "rloo", "maxrl", "grpo_kl", "grpo_h"])
def test_nothing_in_the_mask_gives_zero_and_no_nan(name):
    config = replace(OBJECTIVES[name], aggregation="sequence")
    lp = torch.full((2, 2, 3), float("-inf"), requires_grad=True)
    mask = torch.zeros(2, 2, 3, dtype=torch.bool)
    extra = {"reference_logprobs": lp.detach(), "entropy": lp.detach()}
    loss, metrics = _loss(config, lp, lp.detach(), torch.zeros(2, 2), mask, **extra)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(lp.grad, torch.zeros_like(lp))
    assert metrics["ratio"] == (0.0, 0.0)


@pytest.mark.parametrize("name", ["grpo", "cispo", "grpo_kl"])
def test_padding_is_never_read(name):
    config = OBJECTIVES[name]
    lp, old, advantage, mask = _random_batch()
    clean = lp.clone().requires_grad_()
    dirty = torch.where(mask, lp, float("nan")).requires_grad_()
    for x in (clean, dirty):
        _loss(config, x, torch.where(mask, old, 1e9), advantage, mask, reference_logprobs=old)[0].backward()
    assert torch.equal(clean.grad, dirty.grad)


def test_a_zero_variance_group_has_exactly_no_gradient_even_at_an_absurd_ratio():
    lp = torch.tensor([[[0.0], [-1.0]]], requires_grad=True)
    old = torch.tensor([[[-900.0], [-0.5]]])
    mask = torch.ones(1, 2, 1, dtype=torch.bool)
    for config in OBJECTIVES.values():
        if not (config.kl or config.entropy_bonus or config.smoothing):
            advantage = advantages(
                config, *[t.to(torch.float32) if t.is_floating_point() else t for t in _groups([1, 1])]
            )
            gradient = torch.autograd.grad(_loss(config, lp, old, advantage, mask)[0], lp)[0]
            assert torch.equal(gradient, torch.zeros_like(lp))


def test_loss_mask_leaves_unscorable_rollouts_out_of_loss_and_denominator():
    mask = torch.ones(1, 2, 3, dtype=torch.bool)
    kept = loss_mask(mask, torch.tensor([[True, False]]))
    assert kept.sum(-1).tolist() == [[3, 0]]
    assert [step_total(a, kept, 10) for a in ("token", "sequence", "constant")] == [3, 1, 10]


def test_bf16_logprobs_are_lifted_before_the_ratio():
    lp = torch.tensor([[[-1.0078125]]], dtype=torch.bfloat16)
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    loss, _ = _loss(GRPO, lp, torch.tensor([[[-1.01]]]), torch.tensor([[1.0]]), mask)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(-math.exp(0.0021875), rel=1e-6)


def test_objective_names_state_the_papers_bounds():
    assert (OBJECTIVES["dapo"].eps_low, OBJECTIVES["dapo"].eps_high) == (0.2, 0.28)
    assert (OBJECTIVES["cispo"].eps_low, OBJECTIVES["cispo"].eps_high) == (1.0, 5.0)
    assert {config.ddof for config in OBJECTIVES.values()} == {1}
    assert np.all([config.gamma == 0 for config in OBJECTIVES.values()])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("advantage", "ppo", "advantage must be one of grpo, dr_grpo, rloo, maxrl, got advantage='ppo'"),
        ("gamma", -1.0, "gamma must be finite and at least 0, got gamma=-1"),
        ("eps_low", 1.5, r"eps_low must lie in \[0, 1\], got eps_low=1.5"),
        ("ddof", 2, "ddof must be 0 or 1, got ddof=2"),
        ("kl", -0.1, "kl must be finite and at least 0, got kl=-0.1"),
    ],
)
def test_bad_settings_are_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        ObjectiveConfig(**{field: value})


def test_missing_inputs_are_named():
    lp = torch.zeros(1, 2, 1)
    mask = torch.ones(1, 2, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"reference_logprobs must be given for kl, got kl=0.001"):
        _loss(OBJECTIVES["grpo_kl"], lp, lp, torch.zeros(1, 2), mask)
    with pytest.raises(ValueError, match=r"entropy must be given for entropy_bonus"):
        _loss(OBJECTIVES["grpo_h"], lp, lp, torch.zeros(1, 2), mask)
