"""Prompts that begin alike are computed once for the batch: same values, gradients and draws as each alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import llm.generation
import llm.logprobs
from llm.generation import group_generators, sample
from llm.logprobs import completion_logprobs
from llm.packing import PackedPrompts, common_beginning
from llm.rollouts import Rollouts
from tests.llm.tiny import SHARING, build_model

BEGINNING = [9, 4, 33, 7, 12]
# Rests of different lengths; of one length; one prompt that is the beginning of another; equal prompts; one alone.
PROMPTS = {
    "uneven": [[*BEGINNING, 5], [*BEGINNING, 6, 7, 8], [*BEGINNING, 6, 9]],
    "even": [[*BEGINNING, 5, 8], [*BEGINNING, 6, 7]],
    "nested": [BEGINNING, [*BEGINNING, 6, 7]],
    "equal": [BEGINNING, BEGINNING],
    "alone": [BEGINNING],
    "unlike": [[5, 6], [6, 5, 7]],
}


def rollouts_of(prompts):
    torch.manual_seed(3)
    lengths = torch.tensor([[3, 1, 5, 0], [1, 2, 1, 1], [5, 4, 0, 2]])[: len(prompts)]
    mask = torch.arange(int(lengths.max())) < lengths[..., None]
    ids = torch.randint(3, 64, mask.shape).masked_fill(~mask, 2)
    tensors = [torch.tensor(prompt) for prompt in prompts]
    return Rollouts(
        tensors,
        ids,
        mask,
        torch.zeros(mask.shape),
        torch.zeros(mask.shape[:2], dtype=torch.bool),
        [[""] * 4] * len(prompts),
    )


def gradients(model, values, weights):
    model.zero_grad()
    (weights * values).sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", SHARING)
@pytest.mark.parametrize("name", PROMPTS)
def test_values_and_gradients_equal_the_plain_pass(kind, name):
    model, rollouts = build_model(kind, dtype=torch.float64), rollouts_of(PROMPTS[name])
    weights = torch.randn(rollouts.mask.shape, dtype=torch.float64)
    shared, _ = completion_logprobs(model, rollouts, temperature=0.7)
    plain, _ = completion_logprobs(model, rollouts, temperature=0.7, share_prompts=False)
    torch.testing.assert_close(shared, plain, atol=1e-6, rtol=0)
    for found, wanted in zip(gradients(model, shared, weights), gradients(model, plain, weights), strict=True):
        # Rotary models normalise in float32 even when their weights are float64.
        torch.testing.assert_close(found, wanted, atol=1e-5 * float(wanted.abs().max()), rtol=0)


@pytest.mark.parametrize("kind", SHARING)
@pytest.mark.parametrize("name", PROMPTS)
def test_the_same_completions_are_drawn(kind, name, tokenizer, monkeypatch):
    model, prompts = build_model(kind, dtype=torch.float64), [torch.tensor(prompt) for prompt in PROMPTS[name]]

    def drawn():
        streams = group_generators(0, "packing", groups=range(len(prompts)))
        return sample(model, tokenizer, prompts, 5, generators=streams, eos_ids=[2], pad_id=2, max_new_tokens=9)

    shared = drawn()
    monkeypatch.setattr(llm.generation, "shares_prompts", lambda model: False)
    single = drawn()
    assert torch.equal(shared.completions, single.completions)
    torch.testing.assert_close(shared.old_logprobs, single.old_logprobs, atol=1e-5, rtol=0)


def test_the_beginning_is_read_once(tokenizer, monkeypatch):
    read = []
    for module in (llm.generation, llm.logprobs):
        real = module.run
        monkeypatch.setattr(
            module, "run", lambda b, ids, layout, real=real: read.append(ids.numel()) or real(b, ids, layout)
        )
    model, rollouts = build_model("llama"), rollouts_of(PROMPTS["uneven"])
    streams = group_generators(0, "packing", groups=range(3))
    sample(model, tokenizer, rollouts.prompts, 2, generators=streams, eos_ids=[2], pad_id=2, max_new_tokens=1)
    completion_logprobs(model, rollouts, temperature=1.0)
    assert read == [5 + 1 + 3 + 2, 5 + 1 + 3 + 2 + int((rollouts.lengths - 1).clamp(min=0).sum())]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=4))
def test_packing_loses_and_repeats_nothing(prompts):
    packed = PackedPrompts([torch.tensor(prompt) for prompt in prompts])
    apart = packed.apart(packed.token_ids[:, None])[..., 0]
    for prompt, row, length, end in zip(prompts, apart, packed.lengths, packed.ends, strict=True):
        assert row[:length].tolist() == prompt
        assert packed.token_ids[end] == prompt[-1]
        assert packed.position_ids[end] == length - 1
    # The beginning is the longest that leaves every prompt a token of its own.
    common = common_beginning([torch.tensor(prompt) for prompt in prompts])
    longer = {tuple(prompt[: common + 1]) for prompt in prompts}
    assert len(prompts) == 1 or len(longer) > 1 or min(map(len, prompts)) == common + 1
