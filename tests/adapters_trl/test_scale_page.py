"""The settings of docs/scale.md, built by TRL itself."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_settings_sample_and_update_in_the_sizes_that_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert script.count("GRPOConfig(\n") == 1
    names: dict = {}
    exec(compile(script.replace("GRPOConfig(\n", "GRPOConfig(use_cpu=True, bf16=False,\n"), str(PAGE), "exec"), names)
    args = names["args"]
    assert 8 * args.per_device_train_batch_size * args.steps_per_generation == 256 * args.num_generations
    assert 8 * args.per_device_train_batch_size * args.gradient_accumulation_steps == 64 * args.num_generations
    # One process here: the batch sampled at once is an eighth.
    assert args.generation_batch_size == 256
