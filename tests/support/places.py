"""Places that will not do for a command's `--out`, and what a command must do there.

The special file is a socket: devices such as /dev/null are of its kind, and must not be at stake in a test.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import fgrpo


def bad_places(folder: Path) -> Path:
    """A file, a special file and a folder that holds something else, in the current folder (a socket's path is short)."""
    (folder / "file").write_text("kept")
    (folder / "folder").mkdir()
    (folder / "folder" / "notes.txt").write_text("kept")
    with socket.socket(socket.AF_UNIX) as special:
        special.bind("special")
    return folder


def content(folder: Path) -> dict[str, str]:
    """Every path and what it is."""
    kinds = {path: path.read_text() if path.is_file() else f"mode {path.stat().st_mode}" for path in folder.rglob("*")}
    return {str(path.relative_to(folder)): kind for path, kind in kinds.items()}


def refused(words: list[str], name: str, places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line that names the parameter, the rule and the value; nothing written."""
    before = content(places)
    assert fgrpo.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("seed ")]
    assert len(lines) == 1, err
    assert f" error: {name} must " in lines[0]
    assert ", got " in lines[0]
    assert words[-1] in lines[0]
    assert "Errno" not in lines[0]
    assert content(places) == before
