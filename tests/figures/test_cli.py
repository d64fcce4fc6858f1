"""`fgrpo figures`: exit codes, where things are written, and errors of one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fgrpo
from figures import catalogue


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = fgrpo.main(["figures", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_names_every_figure_and_what_is_to_be_done_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run(capsys, "list", "--json", "--results", str(tmp_path))
    rows = {row["figure"]: row for row in json.loads(out)}
    assert code == 0
    assert tuple(rows) == catalogue.ORDER
    assert rows["figure4"]["to do first"] == "-"
    assert rows["figure2"]["to do first"] == "fgrpo sims sweep --preset paper"


def test_draw_by_name_writes_beside_the_results(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "draw", "figure4", "--formats", "svg", "--results", str(tmp_path))
    assert code == 0
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["figure4.json", "figure4.svg"]
    assert out == f"1 of 1 figures are in {tmp_path / 'figures'}\n"


def test_draw_all_leaves_out_what_cannot_be_drawn_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(catalogue, "ORDER", ("figure4", "figure2", "crosscheck"))
    words = ("draw", "all", "--formats", "svg", "--results", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    code, out, err = run(capsys, *words)
    assert (code, out) == (0, f"1 of 3 figures are in {tmp_path / 'out'}\n")
    left_out = [line for line in err.splitlines() if line.startswith("not drawn: ")]
    assert ["figure2 needs" in left_out[0], "crosscheck needs" in left_out[1]] == [True, True]
    assert "`fgrpo sims crosscheck` makes it" in left_out[1]
    assert run(capsys, *words, "--strict")[0] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["draw", "figure9"], "figure must be one of"),
        (["draw", "figure4", "--formats", "gif"], "format must be one of png, svg, pdf, got format='gif'"),
        (["draw", "figure2"], "figure2 needs"),
        (["draw", "figure4", "--out", "/proc/none"], "/proc/none"),
        (["report", "--out", "/proc/none/report.html"], "/proc/none"),
        (["report", "--out", "/proc"], "out must be a file, got out='/proc', which is a folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, *words, "--results", str(tmp_path))
    assert (code, out) == (2, "")
    assert err.startswith("fgrpo figures: error: ")
    assert message in err
    assert err.count("\n") == 1
