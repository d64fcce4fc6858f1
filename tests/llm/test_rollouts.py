"""Masks by EOS and by length; parts of a batch."""

import pytest
import torch

from llm.rollouts import Rollouts, completion_mask, masked_truncated, split


def rollouts_of(lengths, prompt_lengths, truncated=None):
    lengths = torch.tensor(lengths)
    shape = (*lengths.shape, max(1, int(lengths.max())))
    mask = torch.arange(shape[-1]) < lengths[..., None]
    flags = torch.zeros(lengths.shape, dtype=torch.bool) if truncated is None else torch.tensor(truncated)
    return Rollouts(
        prompts=[torch.arange(1, length + 1) for length in prompt_lengths],
        completions=torch.arange(mask.numel()).view(shape) * mask,
        mask=mask,
        old_logprobs=-mask.float(),
        truncated=flags,
        texts=[[f"{p}.{r}" for r in range(shape[1])] for p in range(shape[0])],
    )


@pytest.mark.parametrize(
    ("ids", "length", "eos", "expected"),
    [
        ([7, 2, 2, 2], 4, [2], [1, 1, 0, 0]),
        ([7, 8, 0, 0], 2, [2], [1, 1, 0, 0]),
        ([7, 3, 0, 0], 4, [2, 3], [1, 1, 0, 0]),
        ([7, 3, 2, 0], 4, [2, 3], [1, 1, 0, 0]),
        ([2, 7, 7, 7], 4, [2], [1, 0, 0, 0]),
        ([7, 8, 9, 5], 4, [2], [1, 1, 1, 1]),
        ([0, 0, 8, 0], 3, [2], [1, 1, 1, 0]),
        ([7, 8, 9, 5], 0, [2], [0, 0, 0, 0]),
    ],
    ids=["eos=pad", "no EOS", "two EOS ids", "first of two", "EOS at once", "full", "pad id inside", "empty slot"],
)
def test_mask(ids, length, eos, expected):
    mask = completion_mask(torch.tensor([ids]), torch.tensor([length]), eos)
    assert mask.int().tolist() == [expected]


def test_every_rollout_truncated_leaves_an_empty_mask():
    rollouts = rollouts_of([[2, 3], [1, 3]], [1, 2], truncated=[[True, True], [True, True]])
    assert masked_truncated(rollouts).sum() == 0
    rollouts = rollouts_of([[2, 3], [1, 3]], [1, 2], truncated=[[True, False], [False, True]])
    assert masked_truncated(rollouts).sum(-1).tolist() == [[0, 3], [1, 0]]


@pytest.mark.parametrize("most", [1, 4, 7, 10, 13, 100])
def test_split_covers_every_rollout_once_in_order(most):
    rollouts = rollouts_of([[2, 3, 1], [4, 4, 4], [1, 0, 1]], [3, 2, 5])
    seen = []
    for groups, slots, part in split(rollouts, most):
        assert torch.equal(part.completions, rollouts.completions[groups, slots])
        assert torch.equal(part.old_logprobs, rollouts.old_logprobs[groups, slots])
        assert [len(prompt) for prompt in part.prompts] == [len(prompt) for prompt in rollouts.prompts[groups]]
        cost = sum(map(len, part.prompts)) + int(part.lengths.sum())
        assert cost <= most or part.completions.shape[:2] == (1, 1) or part.lengths.count_nonzero() <= 1
        seen += [text for row in part.texts for text in row]
    assert seen == [text for row in rollouts.texts for text in row]


def test_split_keeps_whole_groups_together_where_they_fit():
    rollouts = rollouts_of([[2, 3], [4, 4], [1, 1]], [3, 2, 5])
    shapes = [(tuple(part.mask.shape[:2])) for _, _, part in split(rollouts, 18)]
    assert shapes == [(2, 2), (1, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": [torch.tensor([1])]}, "prompts must be one a group, got prompts=1, groups=2"),
        ({"mask": torch.tensor([[[True, False, True]] * 2] * 2)}, "mask must be True up to some token"),
        ({"prompts": [torch.tensor([1]), torch.tensor([], dtype=torch.long)]}, "every prompt must have a token"),
    ],
)
def test_broken_batches_are_refused(change, message):
    good = rollouts_of([[2, 3], [1, 3]], [1, 2])
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    with pytest.raises(ValueError, match=message):
        Rollouts(**{**fields, **change})


def test_a_mask_of_another_shape_is_refused():
    good = rollouts_of([[2, 3], [1, 3]], [1, 2])
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    # Where shapes are enforced by type (in these tests), the type speaks first.
    with pytest.raises((ValueError, TypeError)):
        Rollouts(**{**fields, "mask": torch.ones(2, 2, 9, dtype=torch.bool)})


def test_split_refuses_less_than_a_token():
    with pytest.raises(ValueError, match="most_tokens must be at least 1, got most_tokens=0"):
        list(split(rollouts_of([[2]], [1]), 0))
