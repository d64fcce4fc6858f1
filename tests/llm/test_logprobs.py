"""Shared-prompt log-probabilities against plain sequences: values, entropies, gradients, padding, dropout, precision."""

import math

import pytest
import torch

import llm.logprobs
from llm.generation import group_generators, sample
from llm.logprobs import completion_logprobs, token_logprobs
from llm.models import LoraSettings, _add_lora, recompute_activations, shares_prompts, unwrap
from llm.packing import PackedPrompts
from llm.rollouts import Rollouts
from tests.llm.tiny import EVERY_KIND, SHARING, build_model


def batch(prompts, lengths, *, seed=0, vocabulary=64):
    """Random completions of the given lengths, [prompt][rollout]."""
    torch.manual_seed(seed)
    lengths = torch.tensor(lengths)
    shape = (*lengths.shape, int(lengths.max()))
    mask = torch.arange(shape[-1]) < lengths[..., None]
    completions = torch.randint(3, vocabulary, shape).masked_fill(~mask, 2)
    texts = [[""] * shape[1]] * shape[0]
    return Rollouts(prompts, completions, mask, torch.zeros(shape), torch.zeros(shape[:2], dtype=torch.bool), texts)


def one_by_one(model, rollouts, temperature):
    """The oracle: every rollout alone, the whole sequence, no padding, no mask."""
    values = torch.zeros(rollouts.mask.shape, dtype=model.dtype)
    entropies = torch.zeros_like(values)
    for g, prompt in enumerate(rollouts.prompts):
        for r in range(rollouts.group_size):
            count = int(rollouts.mask[g, r].sum())
            if count == 0:
                continue
            ids = torch.cat([prompt, rollouts.completions[g, r, :count]])
            logits = model(ids[None]).logits[0, len(prompt) - 1 : -1] / temperature
            law = logits.softmax(-1)
            values[g, r, :count] = law.gather(-1, ids[len(prompt) :, None])[:, 0].log()
            entropies[g, r, :count] = -(law * law.log()).sum(-1)
    return values, entropies


def gradients(model, value):
    model.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def distance(left, right):
    """Largest difference of any gradient, relative to that parameter's largest gradient."""
    assert left.keys() == right.keys()
    return max(float((left[n] - right[n]).abs().max() / right[n].abs().max().clamp_min(1e-12)) for n in left)


UNEVEN = [[3, 1, 5, 0], [1, 1, 1, 1], [5, 4, 0, 2]]


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("micro_batch_tokens", [None, 4, 14])
def test_values_entropies_and_gradients_equal_single_sequences(kind, micro_batch_tokens, prompts):
    model = build_model(kind, dtype=torch.float64).eval()
    rollouts = batch(prompts, UNEVEN)
    weights = torch.randn(rollouts.mask.shape, dtype=torch.float64)
    expected, expected_entropy = one_by_one(model, rollouts, 0.7)
    wanted = gradients(model, (weights * expected + 0.3 * weights.flip(0) * expected_entropy).sum())
    values, entropy = completion_logprobs(
        model, rollouts, temperature=0.7, with_entropy=True, micro_batch_tokens=micro_batch_tokens
    )
    torch.testing.assert_close(values, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(entropy, expected_entropy, atol=1e-6, rtol=0)
    found = gradients(model, (weights * values + 0.3 * weights.flip(0) * entropy).sum())
    # Rotary models normalise in float32 even when their weights are float64.
    assert distance(found, wanted) < (1e-11 if kind == "gpt2" else 1e-5)
    assert (values[~rollouts.mask] == 0).all()


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_padding_of_prompts_changes_nothing_in_float32(kind):
    model = build_model(kind)
    long, short = torch.tensor([7, 8, 9]), torch.tensor([5])
    together, _ = completion_logprobs(model, batch([short, long], [[2, 4], [3, 1]]), temperature=1.0)
    rollouts = batch([short, long], [[2, 4], [3, 1]])
    for g in range(2):
        alone, _ = completion_logprobs(model, rollouts.groups(g, g + 1), temperature=1.0)
        torch.testing.assert_close(together[g], alone[0], atol=1e-5, rtol=0)


def test_temperature_of_the_case_list():
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        value, _ = token_logprobs(torch.tensor([[2.0, 1.0, 0.0]], dtype=dtype), torch.tensor([1]), 0.5)
        assert round(float(value), 4) == -2.1429
        assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_bf16_logits_are_upcast_before_the_softmax():
    torch.manual_seed(0)
    logits = (8 * torch.randn(50, 1000)).bfloat16()
    ids = torch.randint(1000, (50,))
    value, entropy = token_logprobs(logits, ids, 0.9)
    exact = torch.log_softmax(logits.double() / 0.9, -1)
    torch.testing.assert_close(value.double(), exact.gather(-1, ids[:, None])[:, 0], atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy.double(), -(exact.exp() * exact).sum(-1), atol=1e-5, rtol=0)
    rounded = torch.log_softmax(logits / 0.9, -1).gather(-1, ids[:, None])[:, 0]
    assert (rounded.double() - exact.gather(-1, ids[:, None])[:, 0]).abs().max() > 1e-2


def test_entropy_of_a_uniform_law():
    _, entropy = token_logprobs(torch.zeros(2, 32), torch.tensor([0, 31]), 3.0)
    assert entropy.tolist() == pytest.approx([math.log(32)] * 2)


@pytest.mark.parametrize("kind", SHARING)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
def test_ratio_before_the_first_update_is_one(kind, temperature, prompts, tokenizer):
    """In train mode, with dropout in the config: it is off in sampling and in training."""
    model = build_model(
        kind, **({"resid_pdrop": 0.5, "attn_pdrop": 0.5} if kind == "gpt2" else {"attention_dropout": 0.5})
    )
    model.train()
    generators = group_generators(1, "rollouts", groups=range(3))
    rollouts = sample(
        model, tokenizer, prompts, 6, generators=generators, eos_ids=[2, 3, 4, 5, 6], pad_id=2, max_new_tokens=12,
        temperature=temperature,
    )  # fmt: skip
    assert len(set(rollouts.lengths.flatten().tolist())) > 2
    values, _ = completion_logprobs(model, rollouts, temperature=temperature)
    torch.testing.assert_close(values, rollouts.old_logprobs, atol=1e-5, rtol=0)
    ratio = (values - rollouts.old_logprobs).exp()
    assert (ratio - 1).abs().max() < 1e-5


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_dropout_of_lora_is_off(prompts):
    """Also of an adapter that was made elsewhere, with a dropout."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(build_model("llama"), LoraConfig(r=4, lora_dropout=0.9, target_modules="all-linear"))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    model.train()
    rollouts = batch(prompts, UNEVEN)
    first, _ = completion_logprobs(model, rollouts, temperature=1.0)
    second, _ = completion_logprobs(model, rollouts, temperature=1.0)
    assert torch.equal(first, second)
    with model.disable_adapter():
        base, _ = completion_logprobs(model, rollouts, temperature=1.0)
    assert (base - first).abs().max() > 0.01


@pytest.mark.parametrize("kind", SHARING)
def test_lora_gradients_equal_single_sequences(kind, prompts):
    model = _add_lora(build_model(kind, dtype=torch.float64), LoraSettings(rank=2)).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    rollouts = batch(prompts, UNEVEN)
    wanted = gradients(model, one_by_one(unwrap(model), rollouts, 1.0)[0].sum())
    found = gradients(model, completion_logprobs(model, rollouts, temperature=1.0)[0].sum())
    assert found
    assert all("lora" in name for name in found)
    assert distance(found, wanted) < (1e-11 if kind == "gpt2" else 1e-5)


@pytest.mark.parametrize("kind", SHARING)
def test_gradient_checkpointing_gives_the_same_gradients(kind, prompts):
    model = build_model(kind)
    rollouts = batch(prompts, UNEVEN)
    wanted = gradients(model, completion_logprobs(model, rollouts, temperature=1.0)[0].sum())
    recompute_activations(model)
    found = gradients(model, completion_logprobs(model, rollouts, temperature=1.0)[0].sum())
    assert distance(found, wanted) < 1e-5


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_chunks_of_the_head_change_nothing(kind, prompts, monkeypatch):
    model = build_model(kind)
    rollouts = batch(prompts, UNEVEN)
    whole, entropy = completion_logprobs(model, rollouts, temperature=1.0, with_entropy=True)
    wanted = gradients(model, (whole + entropy).sum())
    monkeypatch.setattr(llm.logprobs, "CHUNK_LOGITS", 5 * 64)
    parts, entropy_parts = completion_logprobs(model, rollouts, temperature=1.0, with_entropy=True)
    torch.testing.assert_close(parts, whole, atol=1e-6, rtol=0)
    assert distance(gradients(model, (parts + entropy_parts).sum()), wanted) < 1e-5


def test_first_token_is_scored_from_the_prompts_last_logit_and_trained(prompts):
    model = build_model("gpt2", dtype=torch.float64)
    rollouts = batch(prompts, [[1], [1], [1]])
    values, _ = completion_logprobs(model, rollouts, temperature=1.0)
    for g, prompt in enumerate(prompts):
        law = model(prompt[None]).logits[0, -1].log_softmax(-1)
        assert values[g, 0, 0].item() == pytest.approx(law[rollouts.completions[g, 0, 0]].item(), abs=1e-12)
    assert all(grad.abs().max() > 0 for grad in gradients(model, values.sum()).values())


def test_prompts_are_read_once_a_group(prompts, monkeypatch):
    read = []
    real = llm.logprobs.run
    monkeypatch.setattr(
        llm.logprobs, "run", lambda backbone, ids, layout: read.append(ids.numel()) or real(backbone, ids, layout)
    )
    completion_logprobs(build_model("llama"), batch(prompts, UNEVEN), temperature=1.0)
    assert read == [1 + 3 + 6 + (2 + 0 + 4 + 0) + 0 + (4 + 3 + 0 + 1)]


def test_nothing_under_the_mask_gives_zeros(prompts):
    values, entropy = completion_logprobs(
        build_model("llama"), batch(prompts, [[0, 0], [0, 0], [0, 1]]).groups(0, 2), temperature=1.0, with_entropy=True
    )
    assert (values == 0).all()
    assert (entropy == 0).all()


def test_models_that_cannot_share_are_told_apart(prompts):
    assert all(shares_prompts(build_model(kind)) for kind in SHARING)
    window = build_model("mistral-window")
    assert not shares_prompts(window)
    with pytest.raises(ValueError, match="share_prompts must be off for this model, got model=MistralForCausalLM"):
        completion_logprobs(window, batch(prompts, UNEVEN), temperature=1.0, share_prompts=True)


def test_shared_attention_refuses_what_it_would_ignore(prompts):
    model = build_model("mistral-window")
    layout = llm.logprobs.PackedLayout(PackedPrompts([torch.arange(3)]), [[1]], torch.float32)
    with pytest.raises(ValueError, match="shared prompts need plain attention, got sliding_window=4"):
        llm.logprobs.run(model.base_model, torch.tensor([[5, 6, 7, 8]]), layout)


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_temperature_must_be_positive(temperature, prompts):
    with pytest.raises(ValueError, match="temperature must be above 0"):
        completion_logprobs(build_model("llama"), batch(prompts, UNEVEN), temperature=temperature)


def test_absolute_positions_restart_after_the_prompt():
    """A wrong position would show: the position table is large against the token table."""
    model = build_model("gpt2", dtype=torch.float64).eval()
    torch.nn.init.normal_(model.transformer.wpe.weight, std=2.0)
    rollouts = batch([torch.tensor([5]), torch.tensor([7, 8, 9])], [[4, 2], [3, 4]])
    expected, _ = one_by_one(model, rollouts, 1.0)
    values, _ = completion_logprobs(model, rollouts, temperature=1.0)
    torch.testing.assert_close(values, expected, atol=1e-10, rtol=0)
