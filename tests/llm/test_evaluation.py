"""Sampling evaluation, intervals, rare solutions, and comparisons of runs, on a tiny random model."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from fgrpo_theory import pass_at_k, subsampling_test
from fgrpo_theory.foundation.files import read_table, write_json, write_table
from llm.comparison import compare, retained_at_mu, terminal_rows, write_comparison
from llm.evaluation import EvaluationSettings, bootstrap_interval, columns_of, evaluate, pass_at_k_rows, sample_outcomes
from llm.models import LanguageModel
from llm.rare import RareSet, drift, nll_of, rare_set
from llm.tasks.base import Problem, Verdict, verdict_of

PIECES = ["<eos>", "0", "1", "2"]


class Letters:
    """One piece a letter."""

    chat_template = None
    bos_token_id = None
    all_special_ids = (0,)

    def get_vocab(self):
        return {piece: index for index, piece in enumerate(PIECES)}

    def decode(self, ids, skip_special_tokens=True):
        return "".join(PIECES[int(index)] for index in ids if index != 0)

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [PIECES.index(letter) for letter in text]}


@dataclass
class Copies:
    """Right: the prompt's letter, once or twice. "22" cannot be scored."""

    name: str = "copies"

    def train_prompts(self, seed):
        return self.heldout()

    def heldout(self):
        return [Problem(letter, letter, letter) for letter in "012"]

    def correct_answers(self, problem):
        return [problem.answer] if problem.answer == "2" else [problem.answer, problem.answer * 2]

    def verify(self, problems, texts):
        return [
            Verdict(None, float("nan"), "timeout: over 1 s") if text == "22"
            else verdict_of(text in self.correct_answers(problem), "different")
            for problem, text in zip(problems, texts, strict=True)
        ]  # fmt: skip

    def close(self):
        pass


def policy(seed: int = 0, scale: float = 0.0) -> LanguageModel:
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=4, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                         num_key_value_heads=1, max_position_embeddings=32, initializer_range=0.2)  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += scale * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    return LanguageModel(model, Letters(), (0,), 0)


SETTINGS = EvaluationSettings(samples=64, max_new_tokens=3, batch_size=16, seed=4)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    task = Copies()
    for name, scale in (("start", 0.0), ("near", 0.05), ("far", 0.5)):
        evaluate(policy(1, scale), task, task.heldout(), SETTINGS, folder / name / "evaluation_heldout")
    return folder


def test_counts_are_those_of_the_verdicts(evaluated):
    table = read_table(evaluated / "start" / "evaluation_heldout" / "counts.parquet")
    assert table["problem"].tolist() == ["0", "1", "2"]
    assert (table["scorable"] + table["unscorable"] == 64).all()
    assert table["unscorable"].sum() > 0
    assert table["truncated"].sum() > 0
    assert (table["distinct_correct"] <= 2).all()
    for scorable, correct, unscorable, reasons in zip(
        *(table[name] for name in ("scorable", "correct", "unscorable", "reasons")), strict=True
    ):
        kinds = dict(part.rsplit(" ", 1) for part in reasons.split(", "))
        assert int(kinds.get("timeout", 0)) == unscorable
        assert int(kinds.get("different", 0)) == scorable - correct


def test_evaluation_depends_on_the_seed_alone():
    task = Copies()
    runs = [sample_outcomes(policy(), task, task.heldout(), EvaluationSettings(**options)) for options in (
        {"samples": 20, "max_new_tokens": 3, "batch_size": 20}, {"samples": 20, "max_new_tokens": 3, "batch_size": 3},
        {"samples": 20, "max_new_tokens": 3, "seed": 1},
    )]  # fmt: skip
    assert runs[0] == runs[1] != runs[2]


def test_sampled_success_agrees_with_the_exact_mass(evaluated):
    """5 standard errors: a wrong mass of half the size again would be over 7 away."""
    run = evaluated / "start" / "evaluation_heldout"
    exact, task = read_table(run / "exact.parquet"), Copies()
    problem = task.heldout()[0]
    outcome = sample_outcomes(policy(), task, [problem], EvaluationSettings(samples=6000, max_new_tokens=3, seed=9))[0]
    mu = exact["mass"][exact["problem"] == "0"].sum()
    error = np.sqrt(mu * (1 - mu) / 6000)
    assert abs(outcome.correct / 6000 - mu) < 5 * error
    assert 0.5 * mu > 7 * error


def test_pass_at_k_rows_by_hand():
    rows = pass_at_k_rows([10, 10, 4], [3, 0, 4], [1, 5, 16])
    assert [(row["k"], row["problems"]) for row in rows] == [(1, 3), (5, 2)]
    assert rows[0]["pass_at_k"] == pytest.approx((0.3 + 0 + 1) / 3)
    assert rows[1]["pass_at_k"] == pytest.approx(0.916667 / 2, abs=1e-6)
    for row in rows:
        assert row["bootstrap_low"] <= row["pass_at_k"] <= row["bootstrap_high"]
        assert row["sampling_low"] < row["pass_at_k"] < row["sampling_high"]
    never = pass_at_k_rows([1000], [0], [1])[0]
    assert never["bootstrap_high"] == 0.0 < never["sampling_high"] < 0.01
    with pytest.raises(ValueError, match="correct must be at most samples"):
        pass_at_k_rows([3], [4], [1])


def test_intervals_cover():
    """Of 150 experiments, between 133 and 149 intervals hold their target: true coverages below 0.8 and of 1 fail."""
    generator = np.random.default_rng(8)
    fixed, population = generator.beta(0.5, 2.0, 30), generator.beta(0.5, 2.0, 100_000)
    target = {"sampling": np.mean(1 - (1 - fixed) ** 4), "bootstrap": np.mean(1 - (1 - population) ** 4)}
    hits = {"sampling": 0, "bootstrap": 0}
    for trial in range(150):
        for kind, mu in (("sampling", fixed), ("bootstrap", generator.choice(population, 30))):
            row = pass_at_k_rows([16] * 30, generator.binomial(16, mu), [4], draws=300, seed=trial)[0]
            hits[kind] += row[f"{kind}_low"] <= target[kind] <= row[f"{kind}_high"]
    assert all(133 <= count <= 149 for count in hits.values()), hits


def test_bootstrap_is_the_bootstrap():
    values = np.array([0.0, 1.0])
    low, high = bootstrap_interval(values, level=0.4, draws=4000)
    # The mean of two draws is 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert (low, high) == (0.5, 0.5)
    assert bootstrap_interval(values, level=0.6, draws=4000) == (0.0, 1.0)


def test_compare_matches_its_sources(evaluated):
    rows = compare([evaluated / name for name in ("start", "near", "far")], ks=(1, 8, 4096))
    assert [row["run"] for row in rows] == ["start", "near", "far"]
    counts = [
        read_table(evaluated / name / "evaluation_heldout" / "counts.parquet") for name in ("start", "near", "far")
    ]
    for row, table in zip(rows, counts, strict=True):
        assert row["pass@8"] == pytest.approx(np.mean(pass_at_k(table["scorable"], table["correct"], 8)))
        assert row["pass@4096"] is None
        assert row["unscorable"] == table["unscorable"].sum()
    assert rows[0]["M_ret"] == 1.0 > rows[1]["M_ret"] > rows[2]["M_ret"] > 0.0
    assert rows[0]["p@1"] is None
    # Unscorable answers differ between the runs, so their answers cannot be paired.
    assert rows[2]["p@1"] is None
    shown = terminal_rows(rows)
    assert "[" in shown[0]["M_ret"]
    assert "pass@4096" not in shown[0]


def test_paired_test_and_files(tmp_path):
    correct = {"base": [10, 40, 0], "focal": [30, 44, 1]}
    for name, numbers in correct.items():
        (tmp_path / name).mkdir()
        columns = {
            "problem": ["a", "b", "c"],
            "samples": [64] * 3,
            "scorable": [64] * 3,
            "correct": numbers,
            "unscorable": [0] * 3,
        }
        write_table(tmp_path / name / "counts.parquet", columns)
    write_json(tmp_path / "focal" / "rare.json", {"rise": 1.5, "low": 1.0, "high": 2.0})
    rows = compare([tmp_path / name for name in correct])
    for label, k in (("p@1", 1), ("p@m", 16)):
        assert rows[1][label] == subsampling_test(correct["base"], correct["focal"], 64, 16, k).p_value
    assert (rows[1]["rare_rise"], rows[0]["rare_rise"], rows[1]["mu"]) == (1.5, None, None)
    assert terminal_rows(rows)[1]["rare_rise"] == "1.5 [1, 2]"
    for kind in ("parquet", "csv"):
        write_comparison(rows, tmp_path / f"table.{kind}")
        assert read_table(tmp_path / f"table.{kind}")["pass@1"].tolist() == pytest.approx(
            [row["pass@1"] for row in rows]
        )
    write_comparison(rows, tmp_path / "table.json")
    assert json.loads((tmp_path / "table.json").read_text())[0]["p@1"] is None
    with pytest.raises(ValueError, match="path must end"):
        write_comparison(rows, tmp_path / "table.txt")
    with pytest.raises(ValueError, match="evaluated run"):
        compare([tmp_path / "none"])


def test_runs_on_other_problems_are_refused(tmp_path, evaluated):
    write_table(
        tmp_path / "counts.parquet",
        {"problem": ["x"], "samples": [1], "scorable": [1], "correct": [1], "unscorable": [0]},
    )
    with pytest.raises(ValueError, match="same problems"):
        compare([evaluated / "start", tmp_path])


@pytest.fixture(scope="module")
def rare():
    task = Copies()
    return rare_set(policy(), task, task.heldout(), samples=400, fraction=0.5, max_new_tokens=3, seed=2)


def test_rare_set_is_the_least_likely_part(rare):
    task, base = Copies(), policy()
    assert len(rare.problems) == -(-rare.correct // 2)
    assert len(set(zip(rare.prompts, rare.completions, strict=True))) == len(rare.problems)
    for problem, ids in zip(rare.problems, rare.completions, strict=True):
        assert ids[-1] == 0
        assert base.tokenizer.decode(ids) in task.correct_answers(Problem(problem, problem, problem))
    # Against the plain full-sequence pass.
    for prompt, ids, nll in zip(rare.prompts, rare.completions, rare.base_nll, strict=True):
        row = torch.tensor([[*prompt, *ids]])
        logprobs = torch.log_softmax(base.model(row).logits[0].double(), dim=-1)
        steps = [logprobs[len(prompt) - 1 + place, token].item() for place, token in enumerate(ids)]
        assert nll == pytest.approx(-np.mean(steps), abs=1e-5)
    whole = rare_set(base, task, task.heldout(), samples=400, fraction=0.999, max_new_tokens=3, seed=2)
    assert rare.base_nll.tolist() == pytest.approx(sorted(whole.base_nll, reverse=True)[: len(rare.base_nll)], abs=1e-5)


def test_drift_is_zero_for_the_base_and_the_mean_rise_otherwise(rare, tmp_path):
    rare.save(tmp_path / "rare.parquet")
    again = RareSet.load(tmp_path / "rare.parquet")
    assert (again.problems, again.prompts, again.completions, again.correct) == (
        rare.problems, rare.prompts, rare.completions, rare.correct,
    )  # fmt: skip
    same = drift(policy(), again)
    assert (same.rise, same.low, same.high) == (0.0, 0.0, 0.0)
    other = policy(1, 0.3)
    moved = drift(other, again)
    assert moved.rise == pytest.approx(np.mean(nll_of(other, rare) - rare.base_nll), abs=1e-12)
    assert moved.low < moved.rise < moved.high
    assert moved.solutions == len(rare.problems)


def test_rare_repeats_count_only_on_request():
    task, base = Copies(), policy()
    every = rare_set(base, task, task.heldout(), samples=200, fraction=0.9, distinct=False, max_new_tokens=3, seed=2)
    once = rare_set(base, task, task.heldout(), samples=200, fraction=0.9, max_new_tokens=3, seed=2)
    assert every.correct > once.correct == len(set(every.completions) | set(once.completions))


def test_no_correct_rollout_is_an_input_error():
    silent = copy.deepcopy(Copies())
    silent.correct_answers = lambda problem: []
    with pytest.raises(ValueError, match="correct rollout"):
        rare_set(policy(), silent, silent.heldout(), samples=4, max_new_tokens=3)


def test_retention_at_equal_mu(tmp_path):
    rows: list[dict[str, float]] = [{"step": 1, "reward": 0.3}]
    for step, mu, kept in ((0, 0.1, 1.0), (2, 0.3, 0.6), (4, 0.2, 0.5)):
        rows.append({"step": step, "mu_heldout": mu, "retained_heldout": kept})
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert retained_at_mu(tmp_path, 0.2) == pytest.approx(0.8)
    assert retained_at_mu(tmp_path, 0.05) == 1.0
    assert retained_at_mu(tmp_path, 0.9) is None
    with pytest.raises(ValueError, match="mu must lie"):
        retained_at_mu(tmp_path, 1.5)
    with pytest.raises(ValueError, match="measured its exact"):
        retained_at_mu(tmp_path, 0.2, split="train")


def test_columns_of():
    assert columns_of([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]) == {"a": [1, 2], "b": ["x", "y"]}
