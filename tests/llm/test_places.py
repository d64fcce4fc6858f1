"""The same for `fgrpo llm`: where its commands write, and what they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import bad_places, refused

READS = ["llm resume", "llm exact", "llm evaluate", "llm rare", "llm compare", "llm train --config"]
WRITES = ["llm study --preset tiny", "llm train --preset tiny --steps 1"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return bad_places(tmp_path)


@pytest.mark.parametrize("out", ["file", "special", "file/inside", "special/inside/further"])
@pytest.mark.parametrize("command", WRITES)
def test_a_place_for_a_folder_is_refused(
    command: str,
    out: str,
    places: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused([*command.split(), "--out", str(places / out)], "out", places, capsys)


def test_a_folder_that_holds_something_else_is_no_run(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["llm", "train", "--preset", "tiny", "--out", str(places / "folder")], "out", places, capsys)


@pytest.mark.parametrize("given", ["file/inside", "special", "folder", "nothing"])
@pytest.mark.parametrize("command", READS)
def test_what_is_no_run_is_not_read(command: str, given: str, places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = {"llm resume": "folder", "llm train --config": "config"}.get(command, "run")
    refused([*command.split(), str(places / given)], name, places, capsys)
