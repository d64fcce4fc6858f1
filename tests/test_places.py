"""Where commands write: a place that will not do is refused in one line before any work, and nothing there is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fgrpo_theory.foundation import files
from fgrpo_theory.foundation.runs import RunFolder
from tests.support.places import bad_places, content, refused

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ["sims sweep --steps 1", "sims crosscheck --profile quick", "figures draw zone"]
RUNS = ["sims run --steps 1"]
FILES = ["theory prove", "figures report", "figures explore"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return bad_places(tmp_path)


@pytest.mark.parametrize("out", ["file", "special", "file/inside", "special/inside/further"])
@pytest.mark.parametrize("command", [*FOLDERS, *RUNS])
def test_a_place_for_a_folder_is_refused(
    command: str, out: str, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([*command.split(), "--out", str(places / out)], "out", places, capsys)


@pytest.mark.parametrize("command", RUNS)
def test_a_folder_that_holds_something_else_is_no_run(
    command: str, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([*command.split(), "--out", str(places / "folder")], "out", places, capsys)


@pytest.mark.parametrize("out", ["folder", "special", "file/inside", "special/inside"])
@pytest.mark.parametrize("command", FILES)
def test_a_place_for_a_file_is_refused(
    command: str, out: str, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([*command.split(), "--out", str(places / out)], "out", places, capsys)


def test_a_file_is_never_written_over_what_is_none(places: Path) -> None:
    """Renaming would put a plain file in the place of a device."""
    before = content(places)
    for name in ("special", "folder"):
        with pytest.raises(ValueError, match=f"^path must be a file, got path='{places / name}', which is "):
            files.write_text(places / name, "new")
    assert content(places) == before


@pytest.mark.parametrize("make", [files.output_folder, files.output_file])
def test_a_folder_without_permission_is_refused(make, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so the system's answer is replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(
        ValueError, match=r"^out must be a (folder|file) that can be written, got out=.*: no permission"
    ):
        make(places / "folder" / "new")


TERMINATED = {
    "a run": "with RunFolder('place/run', {}) as run:\n        run.log({'step': 1})\n        wait()",
    "a file": "with files.atomic_file('place/table.csv') as file:\n        file.write('half')\n        wait()",
    "a run to be resumed": "with RunFolder('place/run', {}, resume=True) as run:\n        run.log({'step': 1})\n        wait()",
}


@pytest.mark.parametrize("kind", TERMINATED)
def test_sigterm_leaves_nothing_but_what_can_be_resumed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    code = f"""
import time
from fgrpo_theory.foundation import files
from fgrpo_theory.foundation.runs import RunFolder
from fgrpo_theory.foundation.signals import tidy_on_sigterm

def wait():
    print("ready", flush=True)
    time.sleep(60)

@tidy_on_sigterm()
def work():
    {TERMINATED[kind]}

work()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert err == ""
    left = sorted(path.name for path in (tmp_path / "place").iterdir())
    assert left == (["run.partial"] if "resumed" in kind else [])


def test_a_sweep_that_is_terminated_keeps_finished_runs_alone(tmp_path: Path) -> None:
    words = ["sims", "sweep", "--group-sizes", *map(str, (2, 4, 8, 16, 32, 64)), "--workers", "1", "--out"]
    with subprocess.Popen(
        [sys.executable, "fgrpo.py", *words, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        for _ in range(600):
            if any((tmp_path / "runs").glob("*/provenance.json")):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    names = [path.name for path in tmp_path.rglob("*")]
    assert "provenance.json" in names
    assert not [name for name in names if "partial" in name]


def test_a_failed_run_that_cannot_be_resumed_is_taken_away(tmp_path: Path) -> None:
    def fail() -> None:
        with RunFolder(tmp_path / "run", {}) as run:
            run.log({"step": 1})
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert list(tmp_path.iterdir()) == []
