"""Two Ray nodes that share nothing but a wire: network namespaces, or two nodes on loopback where none can be made.

A namespace has its own network, its own shared memory and its own folder for Ray; only the files of the sweep's caller, on
the first host, matter to the sweep. Cutting the wire leaves the second host alive and out of reach. On loopback there is no
wire to cut, so the second node's processes are killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A host is given up when three health checks in a row fail; Ray's own values take about a minute to get there.
ENVIRONMENT = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
    # Patience on a busy machine: a node ends itself when its agents or workers need longer than this to start.
    "RAY_agent_register_timeout_ms": "240000",
    "RAY_raylet_start_wait_time_s": "240",
    "RAY_worker_register_timeout_seconds": "240",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Newer releases refuse a second host without one; the sweep's own process needs it as well (see the tests' fixture).
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef" * 2,
}
# Named, so that two nodes on one machine do not meet.
AGENT_PORTS = ("metrics-export", "dashboard-agent-grpc", "dashboard-agent-listen", "runtime-env-agent")
# Nothing that a sweep does not need.
LEAN = ("--include-dashboard=false", "--no-monitor")
MEMORY = "100000000"
"""bytes of each node's object store"""


def why_no_namespaces() -> str | None:
    """Why two hosts cannot be made here, in words, or None."""
    if shutil.which("ip") is None:
        return "no program `ip` (Debian's iproute2)"
    name = f"fgrpo-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespace can be made: {made.stderr.strip()}"
    wire = ["ip", "-n", name, "link", "add", "wire", "type", "veth", "peer", "name", "other"]
    wired = subprocess.run(wire, capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return f"no veth pair can be made: {wired.stderr.strip()}" if wired.returncode else None


class Host:
    """One Ray node: how to run something on it, and what it is running."""

    def __init__(self, ip: str, enter: list[str], temp: Path) -> None:
        self.ip, self.enter, self.temp = ip, enter, temp
        self.node: subprocess.Popen[bytes] | None = None

    def start(self, words: list[str]) -> None:
        """Start the node and wait until Ray says that it runs."""
        log = self.temp.with_suffix(f".{len(self.enter)}-{words[0].lstrip('-').split('=')[0]}.log")
        ports = [f"--{name}-port={_free_port()}" for name in AGENT_PORTS]
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *words, *ports, f"--node-ip-address={self.ip}"]
        shared = [
            "--num-cpus=1",
            "--include-log-monitor=false",
            f"--object-store-memory={MEMORY}",
            "--disable-usage-stats",
            "--block",
        ]
        with log.open("wb") as out:
            self.node = subprocess.Popen(
                [*self.enter, *ray, *shared], stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **ENVIRONMENT}
            )
        wait_until(
            lambda: "Ray runtime started" in log.read_text(errors="replace") or self.node.poll() is not None, 240
        )
        assert self.node.poll() is None, log.read_text(errors="replace")

    def processes(self) -> list[int]:
        """Every process of the node."""
        found = [self.node.pid] if self.node and self.node.poll() is None else []
        for pid in found:
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def computing(self) -> int:
        """How many of its workers compute a run at this moment: Ray writes it into their titles."""
        titles = []
        for pid in self.processes():
            with suppress(OSError):
                titles.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        return sum(title.startswith(b"ray::compute") for title in titles)

    def kill(self) -> None:
        """End every process of the node at once."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.node is not None:
            self.node.wait()


class Cluster:
    """A head and a second host, started; `lose` takes the second away."""

    def __init__(self, head: Host, second: Host, lose: Callable[[], None], port: int) -> None:
        self.head, self.second, self.lose = head, second, lose
        self.address = f"{head.ip}:{port}"
        head.start(["--head", f"--port={port}", f"--temp-dir={head.temp}", *LEAN])
        second.start([f"--address={self.address}"])


@contextmanager
def two_hosts(kind: str) -> Iterator[Cluster]:
    """A cluster of two hosts, `namespaces` or `loopback`, one core each; ended, and the network removed, at exit."""
    temp = Path(tempfile.mkdtemp(prefix="fgrpo-ray-", dir="/tmp"))
    hosts: list[Host] = []
    names = [f"fgrpo-{os.getpid()}-{letter}" for letter in "ab"]
    try:
        if kind == "namespaces":
            hosts += _namespaces(names, temp)
            port, lose = 6379, lambda: _ip("-n", names[1], "link", "set", "wire", "down")
        else:
            hosts += [Host("127.0.0.1", [], temp), Host("127.0.0.1", [], temp)]
            port, lose = _free_port(), hosts[1].kill
        yield Cluster(*hosts, lose=lose, port=port)
    finally:
        for host in reversed(hosts):
            host.kill()
        if kind == "namespaces":
            for name in names:
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        shutil.rmtree(temp, ignore_errors=True)
        for log in temp.parent.glob(f"{temp.name}.*.log"):
            log.unlink()


def _namespaces(names: list[str], temp: Path) -> list[Host]:
    """Two namespaces joined by a veth pair. A host's address is on its loopback, so it keeps it when the wire is cut."""
    ips = ["10.77.0.1", "10.77.0.2"]
    for name in names:
        _ip("netns", "add", name)
    _ip("link", "add", "wire", "netns", names[0], "type", "veth", "peer", "name", "wire", "netns", names[1])
    for name, ip in zip(names, ips, strict=True):
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "wire", "up")
        _ip("-n", name, "address", "add", f"{ip}/32", "dev", "lo")
        _ip("-n", name, "route", "add", "default", "dev", "wire", "src", ip)
    # `ip netns exec` gives its command mounts of its own: the second host sees neither shared memory nor sockets of the first.
    own = f'mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs {temp} && exec "$@"'
    enter = ["ip", "netns", "exec"]
    return [
        Host(ips[0], [*enter, names[0]], temp),
        Host(ips[1], [*enter, names[1], "sh", "-c", own, "sh"], temp),
    ]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    """Look every 20 ms until it holds; AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
