"""The runs of a study computed on a local Ray equal those of this process. Needs the extra "cluster" (`make test-ray`)."""

from __future__ import annotations

import pytest

from fgrpo_theory.foundation import workers
from llm.config import changed
from llm.presets import PRESETS
from llm.study import Measurement, Study, collect, compute, jobs_of, keep, measure_start
from llm.training_run import train_run

OPTIONS = {"lowest_total": 1, "highest_total": 7, "heldout_every": 2, "examples": []}
SMALL = {"steps": 1, "sft.steps": 100, "prompts_per_step": 2, "probe_every": 0, "task.options": OPTIONS,
         "model.scratch.hidden": 32, "model.scratch.feed_forward": 64}  # fmt: skip


@pytest.mark.ray
def test_a_local_ray_trains_the_same_runs(tmp_path):
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    source = train_run(changed(PRESETS["tiny"], SMALL), tmp_path / "base") / "start"
    base = changed(PRESETS["tiny"], SMALL | {"steps": 3, "sft.steps": 0, "model.source": str(source)})
    measurement = Measurement(samples=32, problems=2, rare_samples=256, rare_problems=4)
    study = Study(base, ("grpo", "focal-1"), (3,), measurement)
    for name in ("local", "ray"):
        out = tmp_path / name
        keep(study, out)
        measure_start(study, out)
        jobs = jobs_of(study, out, threads=1)
        results = workers.local(compute, jobs, 1) if name == "local" else workers.cluster(compute, jobs, None, 2)
        assert sorted(run for _, run in results) == ["focal-1-s3", "grpo-s3"]
        assert jobs_of(study, out, threads=1) == []
        collect(study, out)
    for file in ("grpo-s3/model/model.safetensors", "focal-1-s3/model/model.safetensors", "pass_at_k.parquet",
                 "focal-1-s3/rare.json"):  # fmt: skip
        assert (tmp_path / "ray" / file).read_bytes() == (tmp_path / "local" / file).read_bytes()
