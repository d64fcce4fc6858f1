"""Two processes (gloo), one completion a device and step, groups of four: one weight for the group on both."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("straddling")
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE.parent / "support")])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "PYTHONPATH": path}
    started = [
        subprocess.Popen(
            [sys.executable, HERE / "straddling.py", folder],
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_a_group_across_processes_has_one_weight(results):
    for result in results:
        assert result["focal"]["processes"] == 2
        for record in ("seen", "logged"):
            expected = [value / 4 for value in result["plain"][record]]
            assert result["focal"][record] == pytest.approx(expected, rel=1e-6)
    # Rewards 1, 1, 1, 0: 0.5 and -1.5 with ddof 1 (TRL's eps of 1e-4 moves the fourth digit).
    both = results[0]["plain"]["seen"] + results[1]["plain"]["seen"]
    assert sorted(both) == pytest.approx([-1.5, 0.5, 0.5, 0.5], abs=1e-3)
    assert results[0]["focal"]["logged"] == results[1]["focal"]["logged"]


def test_a_plain_interpreter_needs_nothing_else_of_ours(results):
    assert results[0]["modules"] == ["llm", "llm.adapters", "llm.adapters.success", "llm.adapters.trl"]
