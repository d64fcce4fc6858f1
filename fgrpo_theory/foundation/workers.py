"""Where many independent computations run: this process, local processes, or a Ray cluster. All give the same results.

A local worker does not outlive the process that started it, however that one ends: a thread waits for the parent's
end of the pipe to close and then ends the worker. Ctrl-C reaches the parent alone, which asks its workers to end
(SIGTERM) and waits for them, so that a training can save.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from .checks import as_whole

Item = TypeVar("Item")
Result = TypeVar("Result")


def local(compute: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[tuple[int, Result]]:
    """(place, compute(item)) as items finish, in `workers` spawned processes (1: in this one), started in order.

    compute: a function of a module (workers import it). Raises ValueError for workers below 1, and what compute raises.
    """
    as_whole("workers", workers)
    if workers == 1:
        for place, item in enumerate(items):
            yield place, compute(item)
        return
    before = multiprocessing.active_children()
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_follow_parent)
    try:
        places = {pool.submit(compute, item): place for place, item in enumerate(items)}
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


def cluster(
    compute: Callable[[Item], Result], items: Sequence[Item], address: str | None, workers: int
) -> Iterator[tuple[int, Result]]:
    """The same on the Ray cluster at `address` (None: a local Ray of `workers` cores), where fgrpo must be installed.

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
        places = {remote.remote(item): place for place, item in enumerate(items)}
        waiting = list(places)
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            yield places[ready[0]], ray.get(ready[0])
    finally:
        with contextlib.suppress(KeyboardInterrupt):
            ray.shutdown()
