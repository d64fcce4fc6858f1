"""Where a sweep's runs are computed: this process, local processes, or a Ray cluster. All give the same rows.

A local worker does not outlive the process that started it, however that one ends: a thread waits for the parent's
end of the pipe to close and then ends the worker. Ctrl-C reaches the parent alone, which stops its workers.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from fgrpo_theory.foundation.checks import as_whole

from .config import SimConfig
from .sparse import SparseEngine
from .tracking import Row, trajectory

Results = Iterator[tuple[int, list[Row]]]


def compute(config: SimConfig) -> list[Row]:
    """The trajectory of one run by the sparse engine."""
    return list(trajectory(SparseEngine(config)))


def local(configs: Sequence[SimConfig], workers: int) -> Results:
    """Compute in `workers` processes (1: in this one), in the order given; yields as runs finish."""
    as_whole("workers", workers)
    if workers == 1:
        for place, config in enumerate(configs):
            yield place, compute(config)
        return
    before = multiprocessing.active_children()
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_follow_parent)
    try:
        places = {pool.submit(compute, config): place for place, config in enumerate(configs)}
        for future in as_completed(places):
            yield places[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child not in before:
                child.terminate()


def _follow_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def cluster(configs: Sequence[SimConfig], address: str | None, workers: int) -> Results:
    """Compute on the Ray cluster at `address` (None: a local Ray of `workers` cores), where fgrpo must be installed.

    Raises ValueError if ray is missing, ConnectionError (an OSError) if there is no cluster at `address`.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ValueError("--ray needs the package ray; pip install 'fgrpo[cluster]' brings it") from error
    options: dict[str, Any] = {"address": address} if address else {"address": "local", "num_cpus": workers}
    ray.init(log_to_driver=False, include_dashboard=False, logging_level="error", **options)
    try:
        remote = ray.remote(num_cpus=1)(compute)
        places = {remote.remote(config): place for place, config in enumerate(configs)}
        waiting = list(places)
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            yield places[ready[0]], ray.get(ready[0])
    finally:
        with contextlib.suppress(KeyboardInterrupt):
            ray.shutdown()
