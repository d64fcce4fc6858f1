"""The size of a run: parameters against published counts, FLOP against a plain count, memory and time by their inequalities."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

import fgrpo
from fgrpo_theory.sizing import (
    GPUS,
    MODELS,
    USABLE_MEMORY,
    Gpu,
    ModelShape,
    Workload,
    activation_bytes,
    fewest_gpus,
    forward_flop,
    rollout_bytes,
    sampling_flop,
    shape_of_config,
    shape_of_size,
    state_bytes,
    step_time,
    tensor_parallel,
    trainer_for,
    training_flop,
)

H100 = GPUS["h100"]
SMALL = ModelShape(3, 8, 4, 2, 5, 16, 100)
# Parameters that the models' publishers state (numel over the released weights).
PUBLISHED = {
    "smollm2-135m": 134_515_008,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "llama-3.2-3b": 3_212_749_824,
    "qwen3-4b": 4_022_468_096,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "llama-3.3-70b": 70_553_706_496,
}


def test_parameters_are_the_published_ones() -> None:
    assert {name: shape.parameters for name, shape in MODELS.items()} == PUBLISHED


def test_forward_flop_is_a_plain_count() -> None:
    """Every matrix of every layer, and for every token the scores and values of every position up to it."""
    matrices = [(8, 20), (8, 10), (8, 10), (20, 8), (8, 16), (8, 16), (16, 8)]
    count = 0
    for token in range(1, 8):
        count += sum(2 * rows * columns for rows, columns in matrices) * 3 + 2 * 8 * 100
        count += 3 * 4 * token * 5 * 2 * 2
    assert forward_flop(SMALL, 7) == count


def test_cached_tokens_are_only_attended_to() -> None:
    assert forward_flop(SMALL, 12) == forward_flop(SMALL, 5) + forward_flop(SMALL, 7, after=5)


def test_a_step_counts_each_prompt_once_in_sampling_and_every_time_in_training() -> None:
    work = Workload(prompts=2, group_size=3, prompt_tokens=5, response=7, micro_tokens=64)
    whole, prompt = forward_flop(SMALL, 12), forward_flop(SMALL, 5)
    assert sampling_flop(SMALL, work) == 2 * prompt + 6 * (whole - prompt)
    assert training_flop(SMALL, work) == 6 * 5 * whole
    assert training_flop(SMALL, Workload(2, 3, 5, 7, 64, checkpointing=False)) == 6 * 4 * whole


def test_short_contexts_follow_the_rule_of_2p_and_6p() -> None:
    shape = MODELS["qwen2.5-7b"]
    assert forward_flop(shape, 100) == pytest.approx(2 * shape.multiplied * 100, rel=2e-3)
    assert 3 * forward_flop(shape, 100) == pytest.approx(6 * shape.parameters * 100, rel=0.08)


@pytest.mark.parametrize("name", MODELS)
def test_the_fewest_gpus_hold_the_run_and_half_of_them_do_not(name: str) -> None:
    shape, work = MODELS[name], Workload()
    gpus = fewest_gpus(shape, work, H100)

    def fits(count: float) -> bool:
        trains = state_bytes(shape) / count + activation_bytes(shape, work) <= USABLE_MEMORY * H100.memory
        samples = 2 * shape.parameters <= count * USABLE_MEMORY * H100.memory / 2
        return trains and samples

    assert fits(gpus)
    assert gpus == 1 or not fits(gpus / 2)
    assert state_bytes(shape) == 16 * shape.parameters
    assert tensor_parallel(shape, work, H100) <= gpus


def test_activations_grow_with_the_tokens_and_without_checkpointing() -> None:
    shape = MODELS["qwen3-4b"]
    one, two = (activation_bytes(shape, Workload(micro_tokens=tokens)) for tokens in (16384, 32768))
    assert two == 2 * one
    assert activation_bytes(shape, Workload(checkpointing=False)) > 3 * one
    assert activation_bytes(shape, Workload(response=40_000)) > one, "a micro-batch holds at least one whole rollout"


def test_seconds_follow_the_slower_of_memory_and_arithmetic() -> None:
    shape = MODELS["qwen3-0.6b"]
    work = Workload(prompts=1, group_size=1, prompt_tokens=1, response=1000)
    alone = step_time(shape, work, H100, 1, flop_share=1.0, bandwidth_share=1.0)
    bytes_a_token = 2 * shape.parameters + shape.kv_bytes * 501
    assert alone.sampling == pytest.approx(1000 * bytes_a_token / H100.bandwidth, rel=1e-3)
    assert alone.training == pytest.approx(training_flop(shape, work) / H100.flops)
    slow = Gpu(H100.memory, 1e18, H100.flops)
    computing = step_time(shape, work, slow, 1, flop_share=0.5, bandwidth_share=1.0)
    assert computing.sampling == pytest.approx(sampling_flop(shape, work) / (0.5 * H100.flops), rel=1e-3)


def test_time_falls_with_gpus_and_grows_with_rollouts() -> None:
    shape = MODELS["qwen2.5-7b"]
    four, eight = (step_time(shape, Workload(), H100, gpus) for gpus in (4, 8))
    assert eight.training == four.training / 2
    assert four.sampling / 2 <= eight.sampling < four.sampling
    more = step_time(shape, Workload(group_size=32), H100, 4)
    assert more.training == 4 * four.training
    assert more.sampling == pytest.approx(4 * four.sampling, rel=0.05), "the cache is full at N = 8 already"


@pytest.mark.parametrize("name", MODELS)
def test_a_copy_for_sampling_leaves_room_for_the_cache(name: str) -> None:
    shape, work = MODELS[name], Workload(response=8192)
    degree = tensor_parallel(shape, work, H100)
    usable = USABLE_MEMORY * H100.memory
    assert 2 * shape.parameters <= degree * usable / 2
    assert degree == 1 or 2 * shape.parameters > degree / 2 * usable / 2
    time = step_time(shape, work, H100, 64)
    assert time.copy_gpus == degree
    assert 1 <= time.wave <= math.ceil(work.rollouts * degree / 64)
    assert time.wave * rollout_bytes(shape, work) <= degree * usable - 2 * shape.parameters
    huge = Workload(response=400_000, micro_tokens=1)
    assert rollout_bytes(shape, huge) + 2 * shape.parameters <= tensor_parallel(shape, huge, H100) * usable


def test_a_shape_from_a_size_has_about_that_size() -> None:
    for size in (1e8, 5e8, 1.5e9, 3e9, 7e9, 14e9, 32e9, 70e9, 4e11):
        assert shape_of_size(size).parameters == pytest.approx(size, rel=0.16)


def test_a_shape_from_a_config() -> None:
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 36,
        "hidden_size": 2560,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }
    assert shape_of_config(config) == MODELS["qwen3-4b"]
    old = {"model_type": "llama", **{k: v for k, v in config.items() if k not in ("model_type", "head_dim")}}
    assert shape_of_config(old).head_width == 80
    with pytest.raises(ValueError, match="model_type must be one of llama, qwen2, qwen3, got model_type='mixtral'"):
        shape_of_config({**config, "model_type": "mixtral"})
    with pytest.raises(ValueError, match="config must name the model's shape, got missing=hidden_size"):
        shape_of_config({name: value for name, value in config.items() if name != "hidden_size"})


def test_trainers_follow_the_gpus() -> None:
    cases = {(1, 1): "fgrpo llm or TRL", (1, 8): "fgrpo llm or TRL", (2, 8): "TRL", (1, 16): "verl", (16, 16): "verl"}
    assert {case: trainer_for(*case) for case in cases} == cases


def run(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Standard output of a successful command."""
    assert fgrpo.main(["theory", "size", *words.split()]) == 0
    return capsys.readouterr().out


def test_rows_are_the_functions(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--model qwen3-4b qwen2.5-7b --group-size 8 32 --response 4096 8192 --gpus 16 --steps 10"
    rows: list[dict[str, Any]] = json.loads(run(f"{words} --json", capsys))
    wanted = [(name, n, r) for name in ("qwen3-4b", "qwen2.5-7b") for n in (8, 32) for r in (4096, 8192)]
    assert [(row["model"], row["N"], row["response"]) for row in rows] == wanted
    for row, (name, n, response) in zip(rows, wanted, strict=True):
        shape, work = MODELS[name], Workload(group_size=n, response=response)
        seconds = step_time(shape, work, H100, 16)
        assert row["rollouts"] == 256 * n
        assert row["PFLOP_train"] == training_flop(shape, work) / 1e15
        assert row["PFLOP_sample"] == sampling_flop(shape, work) / 1e15
        assert row["state_GB"] == 16 * shape.parameters / 1e9
        assert row["least_GPUs"] == fewest_gpus(shape, work, H100)
        assert row["run_days"] == (seconds.sampling + seconds.training) * 10 / 86400
    assert len(list(csv.DictReader(io.StringIO(run(f"{words} --csv", capsys))))) == 8


def test_explain_gives_every_quantity_its_formula(capsys: pytest.CaptureFixture[str]) -> None:
    lines = json.loads(run("--model-parameters 7e9 --response 8192 --explain --json", capsys))
    assert all(line["formula"] for line in lines)
    values = {line["quantity"]: line["value"] for line in lines}
    assert values["rollouts a step"] == 2048
    assert values["GB of training state"] == 16 * shape_of_size(7e9).parameters / 1e9


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--model gpt", "model must be one of smollm2-135m"),
        ("--model qwen3-4b --gpu tpu", "gpu must be one of rtx4090"),
        ("--model qwen3-4b --gpus 1", "gpus must hold the run, got gpus=1, least=2"),
        ("--model qwen3-4b --gpus 0", "gpus must hold the run, got gpus=0, least=2"),
        ("--model qwen3-4b --response 0", "response must be a whole number of at least 1"),
        ("--model qwen3-4b --steps 0", "steps must be at least 1"),
        ("--model qwen3-4b --flop-share 0", "flop_share must lie in (0, 1]"),
        ("--model qwen3-4b --micro-tokens 200000", "micro_tokens must be fewer"),
        ("--model-parameters 7", "model_parameters must lie in [1e8, 1e12], got model_parameters=7"),
        ("--model-parameters 9e11 --micro-tokens 4296", "a copy for sampling must fit on 8 GPUs"),
        ("--model qwen3-4b qwen3-8b --explain", "explain takes one model, group size and response, got runs=2"),
    ],
)
def test_wrong_input_is_one_line(words: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(["theory", "size", *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert complaint in printed.err
    assert printed.out == ""


def test_a_config_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    shape = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 99,
    }
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **shape}), encoding="utf-8")
    (row,) = json.loads(run(f"--config {folder / 'config.json'} --json", capsys))
    assert row["model"] == "my-model"
    assert row["P_1e9"] * 1e9 == pytest.approx(ModelShape(2, 64, 4, 4, 16, 128, 99).parameters)


def test_a_config_that_is_no_object_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    assert fgrpo.main(["theory", "size", "--config", str(tmp_path / "config.json")]) == 2
    assert "config must be a JSON object" in capsys.readouterr().err
