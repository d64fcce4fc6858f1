"""The numbers of docs/scale.md are what the commands beside them print, and its words agree with them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import fgrpo
from fgrpo_theory import covering_group_size, tail_miss_probability
from fgrpo_theory.sizing import GPUS, MODELS, Workload, fewest_gpus, tensor_parallel

TEXT = (Path(__file__).parents[2] / "docs/scale.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"    (fgrpo theory size --model [^\n]+)\n\n```text\n(.*?)```", TEXT, re.DOTALL)


def test_the_page_has_its_tables() -> None:
    assert len(BLOCKS) == 7
    assert TEXT.count("```text") == len(BLOCKS)


@pytest.mark.parametrize(("command", "printed"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_table_is_what_its_command_prints(command: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == printed


def test_the_words_agree_with_the_numbers() -> None:
    assert f"N = 8 misses in {100 * tail_miss_probability(8, 0.3, 0.03):.0f} % of groups" in TEXT
    assert f"N = {covering_group_size(0.3, 0.03, 0.05)} is the least" in TEXT
    work = Workload(response=1024, micro_tokens=4096)
    first = {
        kind: next(name for name, shape in MODELS.items() if fewest_gpus(shape, work, GPUS[kind]) > 1)
        for kind in ("rtx4090", "h100")
    }
    assert first == {"rtx4090": "qwen3-1.7b", "h100": "qwen2.5-7b"}
    assert "from Qwen3-1.7B on with 24 GB, from Qwen2.5-7B on with 80 GB" in " ".join(TEXT.split())


def test_the_commands_for_verl_fit_the_sizes() -> None:
    for name, path in (("qwen2.5-7b", "Qwen/Qwen2.5-7B"), ("qwen3-32b", "Qwen/Qwen3-32B")):
        (block,) = [block for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL) if path in block]
        settings = dict(word.split("=", 1) for word in shlex.split(block.replace("\\\n", " ")) if "=" in word)
        work = Workload(response=int(settings["data.max_response_length"]))
        copies = int(settings["actor_rollout_ref.rollout.tensor_model_parallel_size"])
        assert copies == tensor_parallel(MODELS[name], work, GPUS["h100"])
        gpus = int(settings["trainer.nnodes"]) * int(settings["trainer.n_gpus_per_node"])
        assert gpus >= fewest_gpus(MODELS[name], work, GPUS["h100"])
