"""A study of a tiny start: what is trained, measured, kept and skipped, and the tables that come out."""

import json

import pytest

import llm.study
from fgrpo_theory.foundation.files import read_json, read_table
from llm.config import ModelConfig, changed
from llm.memory import keep_freed_memory
from llm.presets import PRESETS
from llm.study import ARMS, Measurement, Study, collect, compute, jobs_of, keep, measure_start, study_of
from llm.training_run import train_run


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A run whose start is a model that has learnt a little."""
    options = {"lowest_total": 1, "highest_total": 7, "heldout_every": 2, "examples": []}
    short = {"steps": 1, "sft.steps": 100, "prompts_per_step": 2, "probe_every": 0, "task.options": options,
             "model.scratch.hidden": 32, "model.scratch.feed_forward": 64}  # fmt: skip
    source = train_run(changed(PRESETS["tiny"], short), tmp_path_factory.mktemp("start") / "run") / "start"
    return changed(PRESETS["tiny"], short | {"steps": 3, "probe_every": 2, "sft.steps": 0, "model.source": str(source)})


@pytest.fixture(scope="module")
def finished(base, tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    study = Study(
        base, ("grpo", "focal-1"), (3,), Measurement(samples=32, problems=2, rare_samples=256, rare_problems=4)
    )
    keep(study, out)
    measure_start(study, out)
    for job in jobs_of(study, out, 0):
        compute(job)
    collect(study, out)
    return study, out


def test_arms_change_the_method_alone(base):
    runs = Study(base, tuple(ARMS), (0, 5)).runs()
    assert list(runs)[:4] == ["grpo-s0", "focal-0.5-s0", "focal-1-s0", "low-lr-s0"]
    plain = runs["grpo-s5"].resolved()
    for name, gamma in (("focal-0.5-s5", 0.5), ("focal-1-s5", 1.0)):
        other = runs[name].resolved()
        assert other["objective"].pop("gamma") == gamma
        assert other == plain | {"objective": {k: v for k, v in plain["objective"].items() if k != "gamma"}}
    low = runs["low-lr-s5"]
    assert low.objective.gamma == 0
    assert low.optimizer.learning_rate < runs["grpo-s5"].optimizer.learning_rate


def test_tables_say_what_the_runs_say(finished):
    _, out = finished
    summary = read_table(out / "summary.parquet")
    assert summary["run"].tolist() == ["start", "grpo-s3", "focal-1-s3"]
    assert summary["seed"].tolist() == [-1, 3, 3]
    for name, value, rise in zip(summary["run"], summary["pass@1"], summary["rare_rise"], strict=True):
        counts = read_table(out / name / "evaluation_heldout" / "counts.parquet")
        assert value == pytest.approx(counts["correct"].sum() / counts["samples"].sum())
        assert name == "start" or rise == read_json(out / name / "rare.json")["rise"]
    assert summary["M_ret"][0] == 1
    probes, dynamics = read_table(out / "probes.parquet"), read_table(out / "dynamics.parquet")
    assert probes["step"].tolist() == [0, 2, 3] * 2
    assert dynamics["step"].tolist() == [1, 2, 3] * 2
    logged = [json.loads(line) for line in (out / "focal-1-s3" / "metrics.jsonl").read_text().splitlines()]
    assert dynamics["loss"][3:].tolist() == [row["loss"] for row in logged if row["phase"] == "rl"]


def test_what_is_finished_is_not_repeated(finished, monkeypatch):
    study, out = finished
    assert jobs_of(study, out, 0) == []
    # The start is measured already: nothing may be loaded.
    monkeypatch.setattr(llm.study, "_task", None)
    measure_start(study, out)
    assert study_of(out) == study


def test_more_seeds_may_join_but_no_other_base(finished):
    study, out = finished
    more = Study(study.base, study.arms, (3, 4), study.measurement)
    keep(more, out)
    assert [job.out.name for job in jobs_of(more, out, 0)] == ["grpo-s4", "focal-1-s4"]
    with pytest.raises(ValueError, match="out must hold no study of other settings"):
        keep(Study(changed(study.base, {"steps": 4}), study.arms, study.seeds, study.measurement), out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arms": ()}, "arms must not be empty"),
        ({"seeds": ()}, "seeds must not be empty"),
        ({"arms": ("ppo",)}, "arms must be one of"),
        ({"seeds": (-1,)}, "seeds must be a whole number of at least 0"),
    ],
)
def test_studies_are_checked(base, arguments, message):
    with pytest.raises(ValueError, match=message):
        Study(base, **arguments)


def test_a_study_has_one_start(base, tmp_path):
    supervised = changed(base, {"sft.steps": 2, "model.source": ModelConfig().source})
    with pytest.raises(ValueError, match=r"sft.steps must be 0 in a study"):
        measure_start(Study(supervised), tmp_path)


def test_kept_memory_changes_no_result():
    import torch

    left = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
    before = left @ left
    keep_freed_memory()
    assert torch.equal(before, left @ left)
