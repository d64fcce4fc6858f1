"""The maze study's runs computed on a local Ray equal those of this process. Needs the extra "cluster" (`make test-ray`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fgrpo_theory.foundation import workers
from fgrpo_theory.foundation.files import read_table
from maze.presets import PRESETS, EvaluationPlan, Grid
from maze.study import arms, collect, compute, jobs_of, keep


@pytest.mark.ray
def test_a_local_ray_trains_the_same_runs(tmp_path):
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    smoke = PRESETS["smoke"]
    preset = replace(smoke, rl=replace(smoke.rl, steps=2, prompts_per_step=4),
                     plan=EvaluationPlan(every=1, mazes=4, samples=8, final_samples=16))  # fmt: skip
    runs = arms(preset, Grid(group_sizes=(4,), gammas=(0.0, 1.0)), "new:smoke")
    for name in ("local", "ray"):
        out = tmp_path / name
        out.mkdir()
        keep(out, "smoke", {}, preset.plan)
        jobs = jobs_of(runs, preset.plan, out, threads=1)
        results = workers.local(compute, jobs, 1) if name == "local" else workers.cluster(compute, jobs, None, 2)
        assert sorted(run for _, run in results) == ["grpo-N4-g0-s0", "grpo-N4-g1-s0"]
        assert jobs_of(runs, preset.plan, out, threads=1) == []
        collect(out)
    for run in runs:
        weights = f"runs/{run}/model/model.safetensors"
        assert (tmp_path / "ray" / weights).read_bytes() == (tmp_path / "local" / weights).read_bytes()
    for table in ("runs", "final", "evaluations"):
        assert (tmp_path / "ray" / f"{table}.parquet").read_bytes() == (
            tmp_path / "local" / f"{table}.parquet"
        ).read_bytes()
    assert read_table(tmp_path / "ray" / "runs.parquet")["gamma"].tolist() == [0.0, 1.0]
