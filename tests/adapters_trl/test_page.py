"""The script of docs/trl.md, run as it stands but for the model, which here is tiny and local, and the missing GPU."""

import re
from pathlib import Path

import llm_trl_tiny as tiny

PAGE = Path(__file__).parents[2] / "docs" / "trl.md"


def test_the_script_of_the_page_trains(tmp_path, monkeypatch):
    tiny.model().save_pretrained(tmp_path / "tiny")
    tiny.tokenizer().save_pretrained(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    script = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[0]
    for words, here in (
        ("HuggingFaceTB/SmolLM2-135M", str(tmp_path / "tiny")),
        ("log_completions=True", "log_completions=True, use_cpu=True, bf16=False, report_to='none', logging_steps=1"),
    ):
        assert script.count(words) == 1
        script = script.replace(words, here)
    names: dict = {}
    exec(compile(script, str(PAGE), "exec"), names)
    history = names["trainer"].state.log_history
    assert [log["focal/weight"] for log in history if "focal/weight" in log] == [1.0, 1.0]
    assert all(log["focal/success_rate"] == 0 for log in history if "focal/success_rate" in log)
