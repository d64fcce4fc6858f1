"""A sweep on two hosts, one of which is cut off while it computes: nothing is lost, and the tables are a local run's.

Needs the extra "cluster" (`make test-ray`). The hosts are network namespaces where the system lets us make them; the same
test also runs with two Ray nodes on loopback, one of them killed.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import ray_hosts

# Runs long enough to be caught computing, few enough for a slow machine.
GRID = ["--preset", "smoke", "--group-sizes", "64", "128", "--gammas", "0", "1", "--seeds", "0", "1", "--steps", "3000"]
RUNS = 8
TABLES = ("sweep.parquet", "trajectories.parquet")
FGRPO = [sys.executable, "-m", "fgrpo", "sims", "sweep", *GRID]


@pytest.fixture(autouse=True)
def one_token(monkeypatch):
    """The processes of the sweep know the cluster's token too."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, ray_hosts.ENVIRONMENT[name])


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The tables of the sweep computed in one process, without Ray; also leaves the kernels compiled."""
    out = tmp_path_factory.mktemp("local")
    subprocess.run([*FGRPO, "--workers", "1", "--out", str(out)], check=True, capture_output=True)
    return {name: (out / name).read_bytes() for name in TABLES}


@pytest.mark.ray
@pytest.mark.parametrize("kind", ["namespaces", "loopback"])
def test_a_host_lost_in_mid_sweep_loses_nothing(kind, local, tmp_path, capsys):
    reason = ray_hosts.why_no_namespaces() if kind == "namespaces" else None
    if reason:
        pytest.skip(f"{reason}; the loopback case stands in")
    out, log = tmp_path / "out", tmp_path / "log"
    with ray_hosts.two_hosts(kind) as cluster, log.open("wb") as errors:
        command = [*cluster.head.enter, *FGRPO, "--ray", cluster.address, "--out", str(out)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors) as caller:

            def finished() -> int:
                return len(list((out / "runs").glob("*/provenance.json")))

            def caught() -> bool:
                assert caller.poll() is None, log.read_text()
                return 0 < finished() < RUNS - 2 and cluster.second.computing() > 0

            ray_hosts.wait_until(caught, 300)
            kept, start = finished(), time.monotonic()
            cluster.lose()
            # Out of reach, not stopped: what it still computes can no longer arrive.
            assert kind == "loopback" or cluster.second.computing() == 1
            assert caller.wait(timeout=400) == 0, log.read_text()
            seconds = time.monotonic() - start
    assert {name: (out / name).read_bytes() for name in TABLES} == local
    assert finished() == RUNS
    with capsys.disabled():
        print(f"\n{kind}: host lost with {kept} of {RUNS} runs finished; the sweep ended {seconds:.0f} s later")
