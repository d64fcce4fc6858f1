"""Sampling: the law, masks, stop strings, independence of batching, and what is computed."""

import numpy as np
import pytest
import torch

import llm.generation
from llm.generation import group_generators, sample
from tests.llm.tiny import EVERY_KIND, SHARING, build_model

EOS = [2, 3, 4, 5, 6, 7]


def drawn(model, tokenizer, prompts, group_size=6, *, seed=0, max_new_tokens=10, **options):
    generators = group_generators(seed, "rollouts", groups=range(len(prompts)))
    fixed = {"eos_ids": EOS, "pad_id": 2, **options}
    return sample(
        model, tokenizer, prompts, group_size, generators=generators, max_new_tokens=max_new_tokens, **fixed
    )  # fmt: skip


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_masks_end_with_the_first_eos_of_any_kind(kind, prompts, tokenizer):
    rollouts = drawn(build_model(kind), tokenizer, prompts, 12)
    lengths = rollouts.lengths
    assert len({int(n) for n in lengths.flatten()}) > 2
    enders = set()
    for g in range(3):
        for r in range(12):
            length = int(lengths[g, r])
            ids = rollouts.completions[g, r].tolist()
            ended = ids[length - 1] in EOS
            assert not any(token in EOS for token in ids[: length - 1])
            assert ended or length == 10
            assert bool(rollouts.truncated[g, r]) == (not ended)
            assert ids[length:] == [2] * (len(ids) - length)
            assert (rollouts.old_logprobs[g, r, length:] == 0).all()
            assert rollouts.texts[g][r] == tokenizer.decode(ids[:length], skip_special_tokens=True)
            enders.add(ids[length - 1])
    assert len(enders & set(EOS)) >= 2


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_old_logprobs_are_those_of_single_sequences(kind, prompts, tokenizer):
    model = build_model(kind, dtype=torch.float64).eval()
    rollouts = drawn(model, tokenizer, prompts, temperature=0.8, top_p=0.9, top_k=20, min_p=0.01)
    for g, prompt in enumerate(prompts):
        for r in range(rollouts.group_size):
            count = int(rollouts.lengths[g, r])
            ids = torch.cat([prompt, rollouts.completions[g, r, :count]])
            law = (model(ids[None]).logits[0, len(prompt) - 1 : -1] / 0.8).log_softmax(-1)
            expected = law.gather(-1, ids[len(prompt) :, None])[:, 0]
            torch.testing.assert_close(rollouts.old_logprobs[g, r, :count].double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("batch_size", [1, 4, 7, 13])
def test_the_result_does_not_depend_on_batching(kind, batch_size, prompts, tokenizer):
    model = build_model(kind, dtype=torch.float64)
    whole, parts = (drawn(model, tokenizer, prompts, batch_size=size) for size in (None, batch_size))
    assert torch.equal(whole.completions, parts.completions)
    assert torch.equal(whole.mask, parts.mask)
    torch.testing.assert_close(whole.old_logprobs, parts.old_logprobs, atol=1e-6, rtol=0)


def test_a_group_alone_or_a_larger_group_draws_the_same(prompts, tokenizer):
    model = build_model("llama", dtype=torch.float64)
    whole = drawn(model, tokenizer, prompts, 5)
    alone = sample(
        model, tokenizer, prompts[1:2], 9, generators=group_generators(0, "rollouts", groups=[1]), eos_ids=EOS, pad_id=2,
        max_new_tokens=10,
    )  # fmt: skip
    assert alone.texts[0][:5] == whole.texts[1]


def test_same_seed_same_rollouts_and_another_seed_others(prompts, tokenizer):
    model = build_model("qwen3")
    first, again, other = (drawn(model, tokenizer, prompts, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.completions, again.completions)
    assert torch.equal(first.old_logprobs, again.old_logprobs)
    assert first.texts != other.texts


def test_shared_and_cached_decoding_draw_the_same(prompts, tokenizer, monkeypatch):
    for kind in SHARING:
        model = build_model(kind, dtype=torch.float64)
        shared = drawn(model, tokenizer, prompts)
        monkeypatch.setattr(llm.generation, "shares_prompts", lambda model: False)
        cached = drawn(model, tokenizer, prompts)
        monkeypatch.undo()
        assert torch.equal(shared.completions, cached.completions)


def test_prompts_are_read_once_and_finished_rollouts_leave(prompts, tokenizer, monkeypatch):
    read = []
    real = llm.generation.run
    monkeypatch.setattr(
        llm.generation, "run", lambda backbone, ids, state: read.append(ids.numel()) or real(backbone, ids, state)
    )
    rollouts = drawn(build_model("llama"), tokenizer, prompts)
    lengths = rollouts.lengths
    assert read[0] == sum(map(len, prompts))
    # What is read in a step: the distinct beginnings of the rollouts that go on.
    beginnings = [
        {(group, *ids[:step]) for group, rows in enumerate(rollouts.completions.tolist())
         for slot, ids in enumerate(rows) if lengths[group, slot] > step}
        for step in range(1, int(lengths.max()))
    ]  # fmt: skip
    assert read[1:] == [len(distinct) for distinct in beginnings]
    assert read[1] < int((lengths > 1).sum())
    assert read[-1] < lengths.numel()


def test_a_long_completion_grows_the_buffers(tokenizer):
    model = build_model("llama", dtype=torch.float64)
    rollouts = drawn(model, tokenizer, [torch.tensor([5, 6])], 3, max_new_tokens=70, eos_ids=[63], batch_size=2)
    assert rollouts.completions.shape[-1] > 40
    row = rollouts.completions[0, int(rollouts.lengths[0].argmax())]
    law = model(torch.cat([torch.tensor([5, 6]), row])[None]).logits[0, 1:-1].log_softmax(-1)
    expected = law.gather(-1, row[:, None])[:, 0]
    found = rollouts.old_logprobs[0, int(rollouts.lengths[0].argmax())].double()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def joined(expected, *, least):
    """Neighbours joined into bins that expect at least `least`: (bin of each element, expectation of each bin)."""
    bins, totals = [], [0.0]
    for value in expected.tolist():
        if totals[-1] >= least:
            totals.append(0.0)
        totals[-1] += value
        bins.append(len(totals) - 1)
    if totals[-1] < least:
        totals[-2] += totals.pop()
    return torch.tensor(bins).clamp(max=len(totals) - 1), torch.tensor(totals, dtype=torch.float64)


def test_sampled_tokens_follow_the_models_law(tokenizer):
    """Two-token completions of one prompt against the exact product law: chi-square at 1e-6, bins of at least 50."""
    from scipy.stats import chi2, ncx2

    model = build_model("qwen2", dtype=torch.float64, seed=3).eval()
    prompt, draws = torch.tensor([9, 10, 11]), 40_000
    rollouts = drawn(model, tokenizer, [prompt], draws, max_new_tokens=2, eos_ids=[63], temperature=0.9)
    first = (model(prompt[None]).logits[0, -1] / 0.9).softmax(-1)
    pairs = torch.cat([prompt.expand(64, -1), torch.arange(64)[:, None]], dim=1)
    joint = first[:, None] * (model(pairs).logits[:, -1] / 0.9).softmax(-1)
    joint[63, 1:], joint[63, 0] = 0.0, first[63]  # an EOS ends the completion; its pad is id 2, counted at 0 here
    ids = rollouts.completions[0].clone()
    ids[ids[:, 0] == 63, 1] = 0
    order = joint.detach().flatten().argsort(descending=True)
    expected = draws * joint.detach().flatten()[order]
    bins, wanted = joined(expected, least=60)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    counts = torch.bincount(bins[rank[ids[:, 0] * 64 + ids[:, 1]]], minlength=len(wanted)).double()
    statistic = float(((counts - wanted) ** 2 / wanted).sum())
    critical = chi2.isf(1e-6, len(wanted) - 1)
    assert statistic < critical
    # Power: the law at temperature 1 instead of 0.9 would be seen.
    hot = (first.log() * 0.9).softmax(-1)[:, None] * (joint / first[:, None]).clamp_min(0)
    other = torch.bincount(bins, weights=(draws * hot.detach().flatten()[order]))
    assert ncx2.cdf(critical, len(wanted) - 1, float(((other - wanted) ** 2 / wanted).sum())) < 1e-3


def test_a_stop_string_ends_a_rollout_and_stays(prompts, tokenizer):
    model = build_model("llama")
    # No letter of <unk> or </s>: special tokens are spelled out where stop strings are looked for.
    free = drawn(model, tokenizer, prompts, 12, eos_ids=[63])
    letter = max("abcdefghijlmopqrtvwxyz", key=lambda one: sum(one in text for row in free.texts for text in row))
    stopped = drawn(model, tokenizer, prompts, 12, eos_ids=[63], stop_strings=[letter, "zq"])
    hits = 0
    for g in range(3):
        for r in range(12):
            whole, text = free.texts[g][r], stopped.texts[g][r]
            place = whole.find(letter)
            if place >= 0:
                hits += 1
                assert text == whole[: place + 1]
                assert not stopped.truncated[g, r]
            else:
                assert text == whole
                assert stopped.lengths[g, r] == free.lengths[g, r]
                assert stopped.truncated[g, r] == free.truncated[g, r]
    assert hits > 3


def test_a_stop_string_may_span_tokens(tokenizer):
    class Fixed:
        """Spells "ab=." over and over."""

        def __init__(self):
            self.ids = tokenizer("ab=.", add_special_tokens=False)["input_ids"]
            self.calls = 0

        def start(self):
            return self.step(None)

        def step(self, tokens):
            self.calls += 1
            return torch.full((1, 64), -1e9).index_fill(1, torch.tensor([self.ids[(self.calls - 1) % 4]]), 0.0)

        def keep(self, rows):
            raise AssertionError("both rollouts are one row to the end")

    written = llm.generation._Written.empty(1, 2, 9, 2, torch.device("cpu"))
    writer = llm.generation._Writer(tokenizer, llm.generation.Warping(), [63], ["=.ab"])
    writer.write(Fixed(), torch.full((1, 2, 9), 0.5, dtype=torch.float64), written)
    assert written.lengths.tolist() == [[6, 6]]
    assert written.ended.all()


def test_greedy_is_top_k_one(prompts, tokenizer):
    model = build_model("gpt2").eval()
    rollouts = drawn(model, tokenizer, prompts, 2, top_k=1, eos_ids=[63])
    for g, prompt in enumerate(prompts):
        ids = prompt
        for token in rollouts.completions[g, 0, : int(rollouts.lengths[g, 0])]:
            best = model(ids[None]).logits[0, -1].argmax()
            assert token == best
            ids = torch.cat([ids, best[None]])
        assert torch.equal(rollouts.completions[g, 0], rollouts.completions[g, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0, got temperature=0"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got top_p=0"),
        ({"top_k": -1}, "top_k must be at least 0, got top_k=-1"),
        ({"min_p": 1.5}, r"min_p must lie in \[0, 1\], got min_p=1.5"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"max_new_tokens": 92}, "must fit the model's 96 positions, got tokens=97"),
        ({"group_size": 0}, "group_size must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"stop_strings": [""]}, "stop_strings must not be empty text"),
    ],
)
def test_settings_are_checked(options, message, prompts, tokenizer):
    with pytest.raises(ValueError, match=message):
        drawn(build_model("llama"), tokenizer, prompts, **options)


def test_generators_are_one_a_prompt(prompts, tokenizer):
    with pytest.raises(ValueError, match="generators must be one a prompt, got generators=1"):
        sample(
            build_model("llama"), tokenizer, prompts, 2, generators=[np.random.default_rng(0)], eos_ids=EOS, pad_id=2,
            max_new_tokens=2,
        )  # fmt: skip
