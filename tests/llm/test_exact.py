"""Exact answer masses against the enumeration of every sequence, the full-sequence pass, and sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from fgrpo_theory.foundation.files import write_table
from llm.exact import AnswerLaw, Speller, answer_masses, exact_laws, law_columns, read_laws, retained_mass
from llm.generation import sample
from llm.tasks import SumsTask

PIECES = ["<eos>", "0", "1", "2", "+", " ", "Ġ+", "+Ġ"]
EOS, OTHER_EOS = 0, 8
TASK = SumsTask(lowest_total=0, highest_total=2, examples=(), instruction="sum", heldout_every=2)


class TinyTokenizer:
    """The little of a tokenizer's interface that exact masses need; several ways to spell " + "."""

    chat_template = None
    bos_token_id = None
    all_special_ids = (EOS, OTHER_EOS)

    def get_vocab(self) -> dict[str, int]:
        return {piece: index for index, piece in enumerate([*PIECES, "<end>"])}

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(PIECES[index].replace("Ġ", " ") for index in ids if index not in self.all_special_ids)

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [PIECES.index(letter) for letter in text]}


def tiny_model(kind: str) -> torch.nn.Module:
    torch.manual_seed(5)
    size = {"vocab_size": 9, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    rest = {"intermediate_size": 32, "num_key_value_heads": 1, "max_position_embeddings": 64, "bos_token_id": 0}
    if kind == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=16, n_layer=2, n_head=2, n_positions=64))
    elif kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**size, **rest))
    else:
        model = Qwen2ForCausalLM(Qwen2Config(**size, **rest))
    # Weights well away from 0, so that the law is far from uniform and a wrong mask or position shows.
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3) if weight.ndim > 1 else None
    return model.double().eval()


def full_logprobs(model, rows, temperature):
    with torch.no_grad():
        return torch.log_softmax(model(rows).logits / temperature, dim=-1)


def every_sequence(model, prompt, temperature, eos_ids, longest=5):
    """{pieces before the EOS: probability with an EOS} over ALL sequences of up to `longest` pieces without EOS."""
    pieces, law = range(1, 8), {}
    for size in range(1, longest + 1):
        rows = torch.tensor(list(itertools.product(pieces, repeat=size)))
        logprobs = full_logprobs(model, torch.cat([prompt.expand(len(rows), -1), rows], dim=1), temperature)
        inside = logprobs[:, len(prompt) - 1 : -1].gather(2, rows[..., None])[..., 0].sum(1)
        end = logprobs[:, -1, list(eos_ids)].logsumexp(-1)
        law |= dict(zip(map(tuple, rows.tolist()), (inside + end).exp().tolist(), strict=True))
    return law


@pytest.mark.parametrize(
    ("kind", "temperature", "eos_ids"),
    [("llama", 0.7, (EOS, OTHER_EOS)), ("qwen2", 1.0, (EOS,)), ("gpt2", 1.3, (EOS,))],
)
def test_equals_the_enumeration_of_all_sequences(kind, temperature, eos_ids):
    model, tokenizer, prompt = tiny_model(kind), TinyTokenizer(), torch.tensor([1, 4, 3])
    problem = TASK.problem(2)
    law = every_sequence(model, prompt, temperature, eos_ids)
    texts = [tokenizer.decode(list(ids)) for ids in law]
    verdicts = TASK.verify([problem] * len(texts), texts)
    expected = dict.fromkeys(TASK.correct_answers(problem), 0.0)
    for text, verdict, mass in zip(texts, verdicts, law.values(), strict=True):
        if verdict.success:
            expected[text] += mass
    speller = Speller.of(tokenizer, "0123456789+ ")
    spelled = [speller.spellings(text) for text in expected]
    assert [len(ways) for ways in spelled] == [3, 3, 3]
    mass = answer_masses(model, prompt, spelled, eos_ids, temperature=temperature)
    np.testing.assert_allclose(mass, list(expected.values()), rtol=1e-10)
    for most_nodes in (1, 7):
        parts = answer_masses(model, prompt, spelled, eos_ids, temperature=temperature, most_nodes=most_nodes)
        np.testing.assert_allclose(parts, mass, rtol=1e-10)


def taught(model, prompt, spelled):
    """A few steps towards the spellings of the correct answers, so that sampling meets them often."""
    rows = torch.tensor([[*prompt.tolist(), *way, *[EOS] * (6 - len(way))] for ways in spelled for way in ways])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(12):
        logprobs = torch.log_softmax(model(rows).logits[:, :-1], dim=-1)
        optimizer.zero_grad()
        (-logprobs.gather(2, rows[:, 1:, None]).mean()).backward()
        optimizer.step()
    return model


def test_sampling_agrees_with_stated_power():
    """One rule for 4 cells: false alarms 1e-6 in all; the wrong laws (canonical spellings alone; mu half as large
    again) are rejected with probability above 0.999."""
    prompt, size, problem = torch.tensor([1]), 6000, TASK.problem(2)
    texts, speller = TASK.correct_answers(problem), Speller.of(TinyTokenizer(), "0123456789+ ")
    spelled = [speller.spellings(text) for text in texts]
    model = taught(tiny_model("llama"), prompt, spelled)
    mass = answer_masses(model, prompt, spelled, (EOS,))
    rollouts = sample(model, TinyTokenizer(), [prompt], size, generators=[np.random.default_rng(11)], eos_ids=(EOS,),
                      pad_id=EOS, max_new_tokens=6)  # fmt: skip
    sampled = rollouts.texts[0]
    right = sum(verdict.success for verdict in TASK.verify([problem] * size, sampled))
    for count, chance in [(right, mass.sum()), *((sampled.count(t), m) for t, m in zip(texts, mass, strict=True))]:
        assert size * chance > 50
        assert stats.binomtest(count, size, chance).pvalue > 1e-6 / 4, (count, chance)
    canonical = answer_masses(model, prompt, [ways[:1] for ways in spelled], (EOS,)).sum()
    below = stats.binom.ppf(1 - 1e-6 / 8, size, canonical)
    above = stats.binom.ppf(1e-6 / 8, size, 1.5 * mass.sum())
    assert stats.binom.sf(below, size, mass.sum()) > 0.999
    assert stats.binom.cdf(above - 1, size, mass.sum()) > 0.999


def test_laws_tables_and_group_quantities(tmp_path):
    model, problems = tiny_model("qwen2"), [TASK.problem(1), TASK.problem(2)]
    texts = [TASK.correct_answers(problem) for problem in problems]
    plain = [type(problem)(problem.id, str(problem.answer), problem.answer) for problem in problems]
    laws = exact_laws(model, TinyTokenizer(), plain, texts, (EOS,))
    write_table(tmp_path / "laws.parquet", law_columns(laws))
    again = read_laws(tmp_path / "laws.parquet")
    assert [(law.problem, law.answers, law.mass.tolist()) for law in again] == [
        (law.problem, law.answers, law.mass.tolist()) for law in laws
    ]
    fewer = exact_laws(model, TinyTokenizer(), plain, texts, (EOS,), canonical=True)
    letters = [[tuple(PIECES.index(letter) for letter in text)] for text in texts[1]]
    np.testing.assert_array_equal(fewer[1].mass, answer_masses(model, torch.tensor([3]), letters, (EOS,)))
    assert (fewer[1].mass < laws[1].mass).all()
    law = laws[1]
    assert law.unsampled_mass(["1 + 1", "1 + 1", "nonsense"]) == pytest.approx(law.mass[0] + law.mass[2], rel=1e-14)
    assert law.unsampled_mass([]) == law.mu
    # E[Q_u,pos] is sum p (1 - p)^N.
    assert law.expected_unsampled_mass(8) == pytest.approx(float(np.sum(law.mass * (1 - law.mass) ** 8)), rel=1e-12)


def test_retained_mass_by_hand():
    before = [AnswerLaw("a", ("x", "y"), np.array([0.1, 0.3])), AnswerLaw("b", ("z",), np.array([0.2]))]
    after = [AnswerLaw("a", ("x", "y"), np.array([0.9, 0.05])), AnswerLaw("b", ("z",), np.array([0.1]))]
    np.testing.assert_allclose(retained_mass(before, after), [1 - 0.25 / 0.4, 0.5], rtol=1e-14)
    assert retained_mass(before, before).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="after must list"):
        retained_mass(before, after[:1])
    with pytest.raises(ValueError, match="mu must be above 0"):
        retained_mass([AnswerLaw("a", ("x",), np.zeros(1))], [AnswerLaw("a", ("x",), np.ones(1))])


def test_bad_input():
    model, prompt = tiny_model("llama"), torch.tensor([1])
    with pytest.raises(ValueError, match="temperature"):
        answer_masses(model, prompt, [[(1,)]], (EOS,), temperature=0.0)
    with pytest.raises(ValueError, match="eos_ids"):
        answer_masses(model, prompt, [[(1,)]], ())
    with pytest.raises(ValueError, match="every spelling"):
        answer_masses(model, prompt, [[()]], (EOS,))
    with pytest.raises(ValueError, match="spell every answer"):
        Speller.of(TinyTokenizer(), "0123456789+ ").spellings("7 + 1")
