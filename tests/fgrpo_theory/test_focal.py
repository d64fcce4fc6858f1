"""The focal weight and the group advantages: small inputs that broke trainers, numpy beside torch, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_theory import focal_advantage, focal_weight, group_advantage, success_from_rewards, success_rate
from fgrpo_theory.focal import focal_weight_of_counts

NAN = math.nan
BACKENDS = {
    "numpy64": lambda x: np.array(x, dtype=np.float64),
    "numpy32": lambda x: np.array(x, dtype=np.float32),
    "torch64": lambda x: torch.tensor(x, dtype=torch.float64),
    "torch32": lambda x: torch.tensor(x, dtype=torch.float32),
}


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def booleans(backend: str, values: object) -> object:
    return np.array(values, dtype=bool) if backend.startswith("numpy") else torch.tensor(values, dtype=torch.bool)


def as_list(value: object) -> list:
    return np.asarray(value).astype(float).tolist()


def close(value: object, expected: object, backend: str) -> None:
    tolerance = 1e-12 if backend.endswith("64") else 1e-6
    np.testing.assert_allclose(np.asarray(value).astype(float), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("rewards", "ddof", "expected"), [
    ([1.0, 0.0], 1, [0.5**0.5, -(0.5**0.5)]),
    ([1.0, 0.0], 0, [1.0, -1.0]),
    ([1.0, 1.0, 1.0, 0.0], 1, [0.5, 0.5, 0.5, -1.5]),
    ([1.0, 1.0, 1.0, 0.0], 0, [3**-0.5] * 3 + [-(3**0.5)]),
    ([1.0, -1.0], 0, [1.0, -1.0]),
    ([2.0, 4.0, 9.0], 1, [-3 / 13**0.5, -1 / 13**0.5, 4 / 13**0.5]),
])  # fmt: skip
def test_known_advantages(rewards: list[float], ddof: int, expected: list[float], backend: str) -> None:
    close(group_advantage(BACKENDS[backend](rewards), ddof=ddof, eps=0.0), expected, backend)


def test_results_keep_type_and_precision(backend: str) -> None:
    rewards = BACKENDS[backend]([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    success = booleans(backend, [[True, False, False], [True, True, False]])
    for result in (
        group_advantage(rewards, ddof=1, eps=1e-6),
        focal_weight(rewards, 2.0),
        focal_advantage(rewards, success, 1.0, ddof=0, eps=0.0),
    ):
        assert type(result) is type(rewards)
        assert result.dtype == rewards.dtype
        assert result.shape == rewards.shape


@pytest.mark.parametrize("reward", [0.1, 1 / 3, -1e8, 1e-30, 0.0, 1.0])
@pytest.mark.parametrize("size", [2, 3, 7, 8, 100])
def test_equal_rewards_give_exactly_zero(reward: float, size: int, backend: str) -> None:
    """0.1 thrice has a mean that is not 0.1 in float64, and a std that is not 0."""
    for ddof in (0, 1):
        for eps in (0.0, 1e-6):
            assert not np.asarray(group_advantage(BACKENDS[backend]([reward] * size), ddof=ddof, eps=eps)).any()


def test_an_unscorable_rollout_counts_nowhere(backend: str) -> None:
    """Rewards [none, 0, 0, 1]: N is 3, the success rate 1/3, and the unscorable rollout has advantage 0."""
    rewards = BACKENDS[backend]([NAN, 0.0, 0.0, 1.0])
    scorable = booleans(backend, [False, True, True, True])
    alone = group_advantage(BACKENDS[backend]([0.0, 0.0, 1.0]), ddof=1, eps=0.0)
    for mask in (None, scorable):
        advantage = as_list(group_advantage(rewards, ddof=1, eps=0.0, scorable=mask))
        assert advantage == [0.0, *as_list(alone)]
    rate = success_rate(booleans(backend, [False, False, False, True]), scorable)
    close(rate, 1 / 3, "numpy64" if backend.startswith("numpy") else "torch32")


@pytest.mark.parametrize("hidden", [0.0, 1.0, -1e6, NAN])
def test_the_reward_of_an_unscorable_rollout_does_not_matter(hidden: float, backend: str) -> None:
    scorable = booleans(backend, [False, True, True, True])
    found = group_advantage(BACKENDS[backend]([hidden, 0.0, 0.0, 1.0]), ddof=0, eps=1e-4, scorable=scorable)
    plain = group_advantage(BACKENDS[backend]([NAN, 0.0, 0.0, 1.0]), ddof=0, eps=1e-4)
    assert as_list(found) == as_list(plain)


@pytest.mark.parametrize("rewards", [[NAN, NAN, NAN], [NAN, NAN, 1.0], [NAN, 1.0, 1.0]])
def test_too_few_or_equal_scorable_rollouts_give_exactly_zero(rewards: list[float], backend: str) -> None:
    for ddof in (0, 1):
        assert as_list(group_advantage(BACKENDS[backend](rewards), ddof=ddof, eps=0.0)) == [0.0] * 3
    assert float(success_rate(booleans(backend, [True] * 3), booleans(backend, [False] * 3))) == 0


@pytest.mark.parametrize(("success", "scorable", "weight"), [
    ([False, True, True, False], [False, True, True, True], 1 / 9), ([True, True, True, False], [True] * 4, 1 / 16),
])  # fmt: skip
def test_known_focal_weights(success: list[bool], scorable: list[bool], weight: float, backend: str) -> None:
    """gamma = 2: rewards [none, 1, 1, 0] give 1/9 and [1, 1, 1, 0] give 1/16."""
    rewards = BACKENDS[backend]([float(s) for s in success])
    flags = booleans(backend, success), booleans(backend, scorable)
    plain = group_advantage(rewards, ddof=1, eps=0.0, scorable=flags[1])
    focal = focal_advantage(rewards, flags[0], 2.0, ddof=1, eps=0.0, scorable=flags[1])
    close(focal, np.asarray(plain).astype(float) * weight, backend)


def test_groups_do_not_see_each_other(backend: str) -> None:
    """p1 = [1, 1] and p2 = [0, 0] give 0 everywhere; a batch is its groups, one by one."""
    assert not np.asarray(group_advantage(BACKENDS[backend]([[1.0, 1.0], [0.0, 0.0]]), ddof=1, eps=0.0)).any()
    batch = [[[1.0, 0.0, NAN], [0.5, 0.5, 0.5]], [[3.0, 2.0, 1.0], [0.0, 0.0, 1.0]]]
    whole = as_list(group_advantage(BACKENDS[backend](batch), ddof=0, eps=1e-6))
    assert whole == [
        [as_list(group_advantage(BACKENDS[backend](row), ddof=0, eps=1e-6)) for row in rows] for rows in batch
    ]


def test_success_is_the_verdict_not_the_reward(backend: str) -> None:
    """A length-shaped reward changes the advantage, never the weight."""
    success = booleans(backend, [True, True, False, False])
    shaped = BACKENDS[backend]([0.9, 0.2, 0.0, 0.4])
    focal = focal_advantage(shaped, success, 1.0, ddof=0, eps=0.0)
    close(focal, np.asarray(group_advantage(shaped, ddof=0, eps=0.0)).astype(float) / 2, backend)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 0.25, NAN]), min_size=2, max_size=12),
    st.integers(0, 1),
    st.sampled_from([0.0, 1e-4]),
)
def test_numpy_and_torch_agree(rewards: list[float], ddof: int, eps: float) -> None:
    success = [reward == 1.0 for reward in rewards]
    for bits, tolerance in (("64", 1e-14), ("32", 2e-6)):
        one, two = (
            np.asarray(focal_advantage(
                BACKENDS[kind + bits](rewards), booleans(kind, success), 0.7, ddof=ddof, eps=eps,
                scorable=booleans(kind, [r == r for r in rewards])))
            for kind in ("numpy", "torch")
        )  # fmt: skip
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=12), st.floats(-5, 5), st.floats(0.5, 8))
def test_shift_and_scale_of_rewards_do_not_matter(rewards: list[float], shift: float, scale: float) -> None:
    plain = group_advantage(np.array(rewards), ddof=1, eps=0.0)
    np.testing.assert_allclose(group_advantage(scale * np.array(rewards) + shift, ddof=1, eps=0.0), plain, atol=1e-12)
    assert abs(plain.sum()) < 1e-13
    if plain.any():
        assert plain.std(ddof=1) == pytest.approx(1.0, rel=1e-12)


def test_gamma_zero_is_plain_to_the_bit(backend: str) -> None:
    rewards = BACKENDS[backend]([[1.0, 0.0, NAN, 1.0], [1.0, 1.0, 1.0, 1.0]])
    success = booleans(backend, [[True, False, False, True], [True] * 4])
    plain = group_advantage(rewards, ddof=1, eps=1e-6)
    assert as_list(focal_advantage(rewards, success, 0.0, ddof=1, eps=1e-6)) == as_list(plain)


def test_an_all_correct_group_has_weight_zero_and_an_all_wrong_one_has_weight_one() -> None:
    for gamma in (0.5, 1.0, 2.0):
        assert focal_weight([0.0, 1.0], gamma).tolist() == [1.0, 0.0]
    assert focal_weight([0.0, 1.0], 0.0).tolist() == [1.0, 1.0]


def test_weight_of_counts_keeps_its_digits_where_the_rate_has_lost_them() -> None:
    n = 2.0**40
    assert focal_weight_of_counts(np.array(n), np.array(n - 3), 2.0) == (3 / n) ** 2
    k = np.arange(9.0)
    np.testing.assert_allclose(focal_weight_of_counts(np.array(8.0), k, 0.7), focal_weight(k / 8, 0.7), rtol=1e-15)


def test_success_from_binary_rewards(backend: str) -> None:
    rewards = BACKENDS[backend]([[1.0, -1.0, -1.0, -1.0], [1.0, 1.0, 1.0, 1.0]])
    assert as_list(success_from_rewards(rewards, 1.0, -1.0)) == [0.25, 1.0]
    with pytest.raises(ValueError, match="rewards must be binary"):
        success_from_rewards(BACKENDS[backend]([1.0, 0.5]), 1.0, 0.0)


@pytest.mark.parametrize(
    "rewards", [[1.0, 0.0, 0.0], [0.1, 0.1, 0.1], [NAN, 1.0, 0.0], [NAN, NAN, NAN], [NAN, NAN, 1.0]]
)
@pytest.mark.parametrize("ddof", [0, 1])
def test_no_gradient_is_nan(rewards: list[float], ddof: int) -> None:
    """sqrt at 0 has an infinite slope; where the std is 0 nothing may flow through it."""
    tensor = torch.tensor(rewards, dtype=torch.float64, requires_grad=True)
    success = torch.tensor([r == 1.0 for r in rewards])
    weights = torch.arange(1.0, 4.0, dtype=torch.float64)
    (focal_advantage(tensor, success, 0.5, ddof=ddof, eps=0.0) * weights).sum().backward()
    assert tensor.grad is not None
    assert torch.isfinite(tensor.grad).all()


def test_gradient_of_the_advantage_by_differences() -> None:
    tensor = torch.tensor([0.3, 1.0, -0.5, 0.8], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: group_advantage(r, ddof=1, eps=1e-4), (tensor,))


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (0,), (3, 0)])
def test_groups_of_fewer_than_two_are_refused(shape: tuple[int, ...], backend: str) -> None:
    rewards = BACKENDS[backend](np.ones(shape).tolist())
    with pytest.raises(ValueError, match=r"groups of at least 2 rollouts, got rewards.shape"):
        group_advantage(rewards, ddof=1, eps=0.0)


def test_bad_input_of_tensors_is_named() -> None:
    with pytest.raises(ValueError, match=r"success_rate must lie in \[0, 1\], got values from 0.0 to 1.5"):
        focal_weight(torch.tensor([0.0, 1.5]), 1.0)
    with pytest.raises(ValueError, match=r"success must be booleans, got success.dtype=torch.int64"):
        success_rate(torch.tensor([0, 1]))


def test_booleans_are_no_success_rates_of_a_tensor_either() -> None:
    for verdicts in (np.array([True, False]), torch.tensor([True, False])):
        with pytest.raises(ValueError, match=r"success_rate must be numbers, not booleans, got success_rate.dtype="):
            focal_weight(verdicts, 1.0)
