"""The group-size study: its arms, what it trains, skips, goes on with and refuses."""

import pickle
from dataclasses import replace

import maze_runs
import pytest

import maze.study
from fgrpo_theory.foundation.files import read_json, read_table
from llm.config import ModelConfig
from maze.presets import PRESETS, Grid, arm
from maze.study import arms, collect, compute, grid_of, jobs_of, keep, train_start, with_settings


@pytest.fixture(scope="module")
def preset(sft_run):
    tiny = maze_runs.tiny_preset(steps=2)
    return replace(tiny, rl=replace(tiny.rl, model=ModelConfig(source=str(sft_run / "start"))))


@pytest.fixture(scope="module")
def finished(preset, tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    keep(out, "tiny", {}, preset.plan)
    for job in jobs_of(arms(preset, preset.grid, train_start(preset, out)), preset.plan, out, 0):
        compute(job)
    return out, collect(out)


def test_every_preset_has_its_arms():
    for name, preset in PRESETS.items():
        runs = arms(preset, preset.grid, "somewhere")
        assert len(runs) == len(preset.grid.group_sizes) * len(preset.grid.gammas) * len(preset.grid.seeds), name
        assert {config.model.source for config in runs.values()} == {"somewhere"}
    laptop = PRESETS["laptop"]
    assert len(arms(laptop, laptop.grid, "x")) == 18
    assert (laptop.rl.steps, laptop.rl.prompts_per_step, laptop.plan.mazes, laptop.plan.samples, laptop.plan.every) == (
        100, 32, 128, 256, 25,
    )  # fmt: skip
    paper = PRESETS["paper"]
    assert (paper.sft.sft.steps, paper.sft.sft.batch, paper.sft.sft.optimizer.learning_rate) == (1500, 32, 5e-4)
    assert (paper.rl.steps, paper.rl.prompts_per_step, paper.rl.optimizer.learning_rate) == (20_000, 256, 1e-4)
    assert (paper.grid.group_sizes, paper.grid.gammas) == ((4, 8, 16, 32, 64, 128), (0.0, 0.5, 1.0))
    assert (paper.plan.final_samples, paper.rl.task.options["train"], paper.rl.task.options["heldout"]) == (
        2048,
        1_000_000,
        256,
    )
    assert not paper.measured


def test_arms_differ_in_what_the_grid_names_alone(preset):
    runs = arms(preset, Grid(group_sizes=(2, 4), gammas=(0.0, 0.5), objectives=("grpo", "maxrl"), seeds=(0, 7)), "s")
    assert len(runs) == 16
    plain = runs["grpo-N2-g0-s0"].resolved()
    other = runs["grpo-N4-g0.5-s7"].resolved()
    assert (other["sampling"]["group_size"], other["objective"]["gamma"], other["seed"]) == (4, 0.5, 7)
    other["sampling"]["group_size"], other["objective"]["gamma"], other["seed"] = 2, 0.0, 0
    assert other == plain
    assert runs["maxrl-N2-g0-s0"].objective != runs["grpo-N2-g0-s0"].objective


def test_a_study_is_trained_measured_and_put_in_tables(finished, preset):
    out, rows = finished
    assert [row["run"] for row in rows] == ["grpo-N2-g0-s0", "grpo-N2-g1-s0", "grpo-N4-g0-s0", "grpo-N4-g1-s0"]
    assert {row["parameters"] for row in rows} == {maze.study.collect(out)[0]["parameters"]}
    evaluations, final = read_table(out / "evaluations.parquet"), read_table(out / "final.parquet")
    assert len(evaluations["maze"]) == 4 * 2 * 6
    assert len(final["maze"]) == 4 * 6
    assert set(final["samples"]) == {16}
    groups = read_table(out / "groups.parquet")
    assert len(groups["correct"]) == 4 * 2 * 4
    # All arms of a seed see the same prompts, and begin with the same counts.
    prompts = {run: groups["problem"][groups["run"] == run].tolist() for run in set(groups["run"])}
    assert len({tuple(names) for names in prompts.values()}) == 1
    start = {
        run: evaluations["correct"][(evaluations["run"] == run) & (evaluations["step"] == 0)].tolist()
        for run in prompts
    }
    assert len({tuple(counts) for counts in start.values()}) == 1
    assert read_json(out / "provenance.json")["runs"] == 4


def test_what_is_finished_is_not_repeated_and_arms_may_be_added(finished, preset, monkeypatch):
    out, _ = finished
    runs = arms(preset, preset.grid, train_start(preset, out))
    assert jobs_of(runs, preset.plan, out, 0) == []
    more = arms(
        preset, grid_of(preset, {"gammas": [0.0, 0.5], "seeds": None, "group_sizes": None, "objectives": None}), "s"
    )
    assert [job.out.name for job in jobs_of(more, preset.plan, out, 0)] == ["grpo-N4-g0.5-s0", "grpo-N2-g0.5-s0"]
    # A run that was trained but not measured is measured alone.
    (out / "runs/grpo-N2-g1-s0/final.parquet").rename(out / "kept.parquet")
    monkeypatch.setattr(maze.study, "train_mazes", lambda *_: pytest.fail("it must not train again"))
    (job,) = jobs_of(runs, preset.plan, out, 0)
    assert compute(job) == "grpo-N2-g1-s0"
    assert (out / "runs/grpo-N2-g1-s0/final.parquet").read_bytes() == (out / "kept.parquet").read_bytes()


def test_jobs_travel_to_workers(preset, tmp_path):
    (job, *_) = jobs_of(arms(preset, preset.grid, "s"), preset.plan, tmp_path, 1)
    assert pickle.loads(pickle.dumps(job)) == job


def test_a_start_is_trained_once(tmp_path, monkeypatch):
    maze_runs.with_tiny_shape(monkeypatch)
    tiny = maze_runs.tiny_preset(sft_steps=2)
    source = train_start(replace(tiny, rl=replace(tiny.rl, model=ModelConfig(source="start"))), tmp_path)
    assert source == str(tmp_path / "start" / "start")
    monkeypatch.setattr(maze.study, "train_mazes", lambda *_: pytest.fail("it must not train again"))
    assert train_start(replace(tiny, rl=replace(tiny.rl, model=ModelConfig(source="start"))), tmp_path) == source


def test_other_settings_are_refused(finished, preset):
    out, _ = finished
    keep(out, "tiny", {}, preset.plan)
    with pytest.raises(ValueError, match="out must hold no study of other settings"):
        keep(out, "tiny", {"steps": 9}, preset.plan)
    with pytest.raises(ValueError, match="out must hold a finished run"):
        collect(out / "nowhere")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_sizes": (1, 4)}, "group_sizes must be .*, got group_sizes=1"),
        ({"gammas": (0.0, 0.0)}, "gammas must be distinct and not empty"),
        ({"gammas": (-1.0,)}, "gamma must be finite and at least 0"),
        ({"objectives": ("ppo",)}, "objectives must be one of"),
        ({"seeds": ()}, "seeds must be distinct and not empty"),
    ],
)
def test_grids_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Grid(**fields)


def test_settings_change_the_rl_run(preset):
    assert with_settings(preset, {"steps": 9, "optimizer.learning_rate": 0.5}).rl.optimizer.learning_rate == 0.5
    with pytest.raises(ValueError, match="nothing"):
        with_settings(preset, {"nothing": 1})
    with pytest.raises(ValueError, match="objective must be one of"):
        arm(preset.rl, "ppo", 4, 0.0, 0)
