"""The maze model: the paper's sizes and ids, a folder that plain transformers loads, refusals in one line."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm.models import save_model
from maze.generation import generate
from maze.policy import (
    CHECKPOINTS,
    SHAPES,
    ModelShape,
    load_policy,
    make_policy,
    maze_tokenizer,
    new_policy,
    parameter_count,
)
from maze.tokens import VOCABULARY, from_text, prompt_ids, solution_ids, to_text

TINY = ModelShape(hidden=16, feed_forward=32, layers=1, heads=2, kv_heads=1, positions=64)


@pytest.mark.parametrize(("shape", "count"), [("paper", 3_944_704), ("laptop", 989_312)])
def test_parameters_are_those_of_the_paper(shape, count):
    assert parameter_count(new_policy(SHAPES[shape], 0)) == count


def test_the_configuration_is_that_of_appendix_k():
    config = new_policy(SHAPES["paper"], 0).model.config
    assert config.model_type == "qwen2"
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (4, 256, 1024)
    assert (config.num_attention_heads, config.num_key_value_heads, config.vocab_size) == (4, 2, 32)
    assert (config.rms_norm_eps, config.hidden_act, config.max_position_embeddings) == (1e-6, "silu", 512)
    assert config.rope_parameters["rope_theta"] == 1e6
    assert config.tie_word_embeddings
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)


def test_the_tokenizer_has_the_ids_of_the_tokens():
    tokenizer, mazes = maze_tokenizer(), generate(5, 9, 0)
    solutions, lengths = solution_ids(mazes)
    for prompt, solution, length in zip(prompt_ids(mazes), solutions, lengths, strict=True):
        for ids in (prompt, solution[:length]):
            assert tokenizer(to_text(ids))["input_ids"] == ids.tolist()
    assert tokenizer.convert_tokens_to_ids(list(VOCABULARY[:17])) == list(range(17))
    assert tokenizer("UP SIDEWAYS")["input_ids"] == [13, 3]


def test_a_saved_folder_is_a_plain_transformers_model(tmp_path):
    policy = new_policy(TINY, 0)
    folder = save_model(tmp_path / "model", policy)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor(prompt_ids(generate(2, 5, 0, unique=False)))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, policy.model(ids).logits)
        assert torch.equal(load_policy(folder).model(ids).logits, policy.model(ids).logits)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    # AutoTokenizer takes every qwen2 folder for a byte-level tokenizer, so names may come back without spaces.
    mazes = generate(3, 7, 0)
    solutions, lengths = solution_ids(mazes)
    for row in (*prompt_ids(mazes), *(solution[:length] for solution, length in zip(solutions, lengths, strict=True))):
        assert tokenizer(to_text(row))["input_ids"] == row.tolist()
        assert from_text(tokenizer.decode(row.tolist())).tolist() == row.tolist()
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert tokenizer.padding_side == "left"


def test_weights_follow_the_seed_and_leave_torchs_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (new_policy(TINY, seed).model.state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden": 30, "heads": 4}, "hidden must be a multiple of 2 * heads, got hidden=30, heads=4"),
        ({"heads": 4, "kv_heads": 3}, "heads must be a multiple of kv_heads, got heads=4, kv_heads=3"),
        ({"layers": 0}, "layers must be a whole number of at least 1, got layers=0"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message.replace("*", r"\*")):
        ModelShape(**fields)


def test_sources_that_are_no_maze_model_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a model must be a folder with config.json, got model=nowhere"):
        make_policy("nowhere", 0)
    with pytest.raises(ValueError, match=r"shape must be one of .*, got shape='?huge'?"):
        make_policy("new:huge", 0)
    folder = save_model(tmp_path / "model", new_policy(TINY, 0))
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(40)
    model.save_pretrained(tmp_path / "larger")
    with pytest.raises(ValueError, match="a maze model must have 32 tokens, got vocabulary=40"):
        load_policy(tmp_path / "larger")


def test_the_shipped_start_loads_and_says_where_it_comes_from():
    folder = CHECKPOINTS / "laptop"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5e6
    assert not [path for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pkl")]
    assert "fgrpo maze sft --preset laptop" in json.loads((folder / "provenance.json").read_text())["command"]
    assert json.loads((folder / "training.json").read_text())["sft"]["steps"] == 700
    policy = make_policy("laptop", 0)
    assert parameter_count(policy) == 989_312
    # It has learnt the form of a path: after a prompt the first token is an action.
    with torch.no_grad():
        law = policy.model(torch.tensor(prompt_ids(generate(20, 11, 3)))).logits[:, -1].softmax(-1)
    assert float(law[:, 13:17].sum(-1).min()) > 0.99
    assert np.isfinite(law.numpy()).all()
