"""A sweep gives the same bytes however it is run, and survives being stopped anywhere."""

from __future__ import annotations

import dataclasses
import functools
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fgrpo_theory.foundation.files import read_json, read_table
from sims.presets import SMOKE, SWEEPS, SweepConfig
from sims.sparse import SparseEngine
from sims.sweep import load_rows, run_name, sweep
from sims.tracking import trajectory
from sims.workers import local

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("sweep.parquet", "trajectories.parquet")
# The smoke grid with longer runs, so that a kill meets runs in flight.
LONGER = ["sims", "sweep", "--preset", "smoke", "--steps", "1500", "--workers", "2"]
in_process = functools.partial(local, workers=1)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("smoke") / "out"
    sweep(SWEEPS["smoke"], out, in_process, quiet=True)
    return out


def tables(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in TABLES]


def finished(out: Path) -> set[str]:
    return (
        {folder.name for folder in (out / "runs").glob("*") if folder.suffix != ".partial"} if out.exists() else set()
    )


def test_tables_hold_every_run_in_the_order_of_the_grid(smoke):
    final, rows = (read_table(smoke / name) for name in TABLES)
    runs = list(SWEEPS["smoke"].runs())
    assert len(final["step"]) == len(runs) == 12
    assert (final["step"] == 60).all()
    for place, config in enumerate(runs):
        assert (final["group_size"][place], final["gamma"][place], final["seed"][place]) == (
            config.group_size,
            config.gamma,
            config.seed,
        )
        expected = list(trajectory(SparseEngine(config)))
        mine = slice(4 * place, 4 * place + 4)
        assert rows["Q_pos"][mine].tolist() == [row["Q_pos"] for row in expected]
        assert load_rows(smoke / "runs" / run_name(config)) == expected
    assert np.isnan(rows["active_share"][0])
    assert rows["active"].dtype == np.bool_


def test_two_workers_write_the_same_bytes_as_one(smoke, tmp_path):
    sweep(SWEEPS["smoke"], tmp_path / "two", functools.partial(local, workers=2), quiet=True)
    assert tables(tmp_path / "two") == tables(smoke)


def test_a_finished_sweep_computes_nothing_and_a_lost_run_alone_is_redone(smoke, tmp_path):
    def none(configs):
        raise AssertionError(configs)

    before = tables(smoke)
    sweep(SWEEPS["smoke"], smoke, none, quiet=True)
    assert tables(smoke) == before
    lost = smoke / "runs" / run_name(next(SWEEPS["smoke"].runs()))
    lost.rename(lost.with_name(lost.name + ".partial"))
    asked = []

    def noted(configs):
        asked.extend(configs)
        return in_process(configs)

    sweep(SWEEPS["smoke"], smoke, noted, quiet=True)
    assert [run_name(config) for config in asked] == [lost.name]
    assert tables(smoke) == before


def test_another_configuration_in_the_same_folder_is_refused(smoke):
    other = dataclasses.replace(SWEEPS["smoke"], base=dataclasses.replace(SMOKE, learning_rate=0.5))
    with pytest.raises(ValueError, match="out must hold the same sweep or nothing"):
        sweep(other, smoke, in_process, quiet=True)


def test_longest_runs_start_first(tmp_path):
    seen = []

    def noted(configs):
        seen.extend(config.group_size for config in configs)
        return in_process(configs)

    sweep(SweepConfig(SMOKE, group_sizes=(2, 16, 4), seeds=(0,)), tmp_path / "out", noted, quiet=True)
    assert seen == [16, 16, 4, 4, 2, 2]


def start(words: list[str], out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "fgrpo.py", *words, "--out", str(out)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def children(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    return [int(child) for child, parent in map(str.split, listing.splitlines()) if int(parent) == pid]


def is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def wait_until(holds, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def kill_once(out: Path, delay: float, how: signal.Signals) -> int:
    """Start the sweep, wait until a further run is finished and then `delay`, kill; returns the exit code."""
    before = len(finished(out))
    process = start(LONGER, out)
    wait_until(lambda: len(finished(out)) > before or process.poll() is not None, 120)
    time.sleep(delay)
    workers = children(process.pid)
    process.send_signal(how)
    process.communicate(timeout=60)
    wait_until(lambda: not any(map(is_running, workers)), 20)
    return process.returncode


def resume_and_compare(out: Path, tmp_path: Path) -> None:
    process = start(LONGER, out)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    whole = tmp_path / "whole"
    grid = SWEEPS["smoke"]
    sweep(dataclasses.replace(grid, base=dataclasses.replace(grid.base, steps=1500)), whole, in_process, quiet=True)
    assert tables(out) == tables(whole)


def test_killed_once_and_resumed(tmp_path):
    out = tmp_path / "killed"
    kill_once(out, 0.05, signal.SIGKILL)
    assert not (out / "sweep.parquet").exists()
    resume_and_compare(out, tmp_path)


@pytest.mark.slow
def test_killed_five_times_at_random_moments_and_resumed(tmp_path):
    out, moments = tmp_path / "killed", random.Random(7)
    for _ in range(5):
        kill_once(out, moments.uniform(0.0, 0.6), signal.SIGKILL)
    resume_and_compare(out, tmp_path)


def test_interrupt_ends_the_workers_and_keeps_what_is_finished(tmp_path):
    out = tmp_path / "interrupted"
    assert kill_once(out, 0.0, signal.SIGINT) == 130
    assert finished(out)


def test_a_full_disk_is_one_line_and_loses_nothing(smoke, tmp_path):
    """A file-size limit makes writes fail as a full disk does: an OSError in the middle of a file."""
    out = tmp_path / "full"
    words = ["sims", "sweep", "--preset", "smoke", "--workers", "1", "--out", str(out)]
    code = f"import resource, sys, fgrpo; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, -1)); sys.exit(fgrpo.main({words!r}))"
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 2
    lines = [
        line for line in process.stderr.replace("\r", "\n").splitlines() if "run/s" not in line and "s/run" not in line
    ]
    assert len([line for line in lines if line.strip()]) == 1
    assert "the sweep stopped: File too large; 0 of 12 runs are finished and kept" in process.stderr
    assert subprocess.run([sys.executable, "fgrpo.py", *words], cwd=ROOT, capture_output=True).returncode == 0
    assert tables(out) == tables(smoke)
    assert read_json(out / "provenance.json")["seeds"] == [0, 1]
