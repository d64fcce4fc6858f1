"""The page (escaped, self-contained, the same rows as the terminal) and the command (forms, exit codes, one line)."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from diagnosis_logs import FOUR, at, found, trl, verl, write_parquet

import fgrpo
from figures.diagnosis.page import render_page, write_page
from figures.diagnosis.tables import SECTIONS, advice_lines

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 prompts in two windows, mu from 0 to 1."""
    rng = np.random.default_rng(8)
    mu = np.tile(np.linspace(0, 0.9, 120), 2).repeat(8)
    right = rng.random(mu.size) < mu
    columns = {
        "step": np.repeat([1, 2], 960),
        "prompt": [f"p{i}" for i in np.tile(np.arange(120), 2).repeat(8)],
        "completion": [f"answer {i % 5}" for i in range(mu.size)],
        "reward": right.astype(float),
    }
    return write_parquet(tmp_path_factory.mktemp("log") / "t.parquet", columns)


def test_the_verdict_stands_first_and_the_rows_are_the_terminals(log: Path) -> None:
    diagnosis = found(log)
    page = render_page(diagnosis)
    head, *reasons = advice_lines(diagnosis)
    assert f"<h1>{html.escape(head)}</h1>" in page
    places = [page.index(html.escape(text.removeprefix("- "), quote=False)) for text in (head, *reasons)]
    assert places == sorted(places)
    assert places[-1] < page.index("<figure>") < page.index("<table>")
    assert page.count('<img src="data:image/png;base64,') == 5
    for title, rows in SECTIONS:
        assert html.escape(title) in page
        for row in rows(diagnosis):
            for value in row.values():
                if isinstance(value, str) and value:
                    assert html.escape(value) in html.unescape(page).replace("&", "&amp;") or value in html.unescape(
                        page
                    )


def test_nothing_is_fetched_and_nothing_runs(log: Path) -> None:
    page = render_page(found(log))
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", page)
    assert "default-src 'none'" in page


def test_the_same_diagnosis_gives_the_same_bytes(log: Path) -> None:
    diagnosis = found(log)
    assert render_page(diagnosis) == render_page(diagnosis)


def test_texts_of_the_log_are_escaped(tmp_path: Path) -> None:
    """A file name and a column name as an attacker would choose them."""
    rows = "".join(f'{{"q": "{i}", "{EVIL}": {i % 2}}}\n' for i in range(4)) + "no json\n"
    path = tmp_path / f"{EVIL}.jsonl"
    path.write_text(rows)
    diagnosis = found(path, columns={"prompt": "q", "reward": EVIL})
    page = render_page(diagnosis)
    assert "<img src=x" not in page
    assert html.escape(EVIL) in page


def test_a_small_log_has_a_page(tmp_path: Path) -> None:
    """Nothing to plot is no failure."""
    page = render_page(found(verl(tmp_path, FOUR[:8])))
    assert "<h1>Recommendation: not enough data.</h1>" in page


def test_the_page_is_written_whole(log: Path, tmp_path: Path) -> None:
    out = write_page(found(log), tmp_path / "page.html")
    assert out.read_text(encoding="utf-8").endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_command_prints_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(["diagnose", str(log), "--json"]) in (0, None)
    printed = json.loads(capsys.readouterr().out)
    own = found(log)
    for name in ("groups", "present", "tail_miss", "pass_at_k", "unsampled", "focal", "population", "advice"):
        assert printed[name] == json.loads(json.dumps(own[name])), name


def test_the_command_prints_text_csv_and_a_page(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "d.html"
    assert fgrpo.main(["diagnose", str(log), "--html", str(out)]) in (0, None)
    printed = capsys.readouterr()
    assert printed.out.startswith("Recommendation:")
    assert "page:" in printed.err
    assert out.exists()
    assert fgrpo.main(["diagnose", str(log), "--csv"]) in (0, None)
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "name,value"
    assert f"present.active.value,{at(found(log), 'present.active.value')}" in rows


@pytest.mark.parametrize(("words", "message"), [
    (["--success-threshold", "nan"], "success_threshold"),
    (["--column", "colour=red"], "column must be ROLE=NAME"),
    (["--column", "reward=absent"], "columns must be in the file, got reward=absent"),
    (["--rare", "2"], "rare must lie in (0, 1), got rare=2"),
    (["--html", "/nowhere/page.html"], "html must be a file in a folder that can be written"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    folder = trl(tmp_path, FOUR)
    try:
        code = fgrpo.main(["diagnose", str(folder / "completions_00001.parquet"), *words])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert not printed.out
