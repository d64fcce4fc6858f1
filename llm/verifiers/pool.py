"""A warm pool of grading processes: each answer is graded within limits or counted as unscorable, with the reason.

A worker that hangs is killed with all it started, one that dies is replaced, and in both cases only the answer at hand
is unscorable. Reasons begin with their kind: `timeout`, `crash`, `memory`, `exception`, `no verdict`, `none`.
Source: public reports of graders that swallow their own timeouts and score everything 0; workers are fresh
interpreters, not forks, so that no lock or CUDA state of the trainer is inherited. POSIX only.
"""

from __future__ import annotations

import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO

from fgrpo_theory.foundation.checks import as_whole, require

from ..tasks.base import Verdict
from .worker import receive, send

# Kinds of damage after which a worker's memory is not to be trusted.
_RETIRE = ("memory", "exception: RecursionError", "exception: SystemExit", "exception: KeyboardInterrupt")


class _Worker:
    """One process, the index of the item it grades, and when that must be done."""

    def __init__(self, setup: Mapping[str, Any], startup_s: float) -> None:
        request_read, request_write = os.pipe()
        reply_read, reply_write = os.pipe()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llm.verifiers.worker", str(request_read), str(reply_write)],
            pass_fds=(request_read, reply_write), env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(request_read)
        os.close(reply_write)
        self.requests: BinaryIO = os.fdopen(request_write, "wb")
        self.replies: BinaryIO = os.fdopen(reply_read, "rb")
        self.ready = False
        self.item: int | None = None
        self.deadline = time.monotonic() + startup_s
        try:
            send(self.requests, pickle.dumps(dict(setup)))
        except BrokenPipeError:
            # Its death is then read from the reply pipe, as any other.
            return

    def kill(self) -> int:
        """End the process and all that it started; return its exit code."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        for file in (self.requests, self.replies):
            try:
                file.close()
            except BrokenPipeError:
                continue
        return code


class VerifierPool:
    """Grades (gold, text) pairs with `function` in worker processes.

    function: "module:function", called as function(gold, text) in the worker's main thread and answering as
    `worker.verdict_fields` says; with `options`, it is a factory and function(**options) is called so. Golds and options
    must be picklable. workers: processes; timeout_s: wall time an answer; memory_bytes: what grading may allocate on top
    of the loaded grader; startup_s: wall time to import it. Workers start with the first batch and stay warm.

    Raises ValueError for bad arguments, and from `grade` if the grader cannot be loaded.
    """

    def __init__(
        self,
        function: str,
        *,
        options: Mapping[str, Any] | None = None,
        workers: int = 2,
        timeout_s: float = 10.0,
        memory_bytes: int = 2**30,
        startup_s: float = 120.0,
    ) -> None:
        as_whole("workers", workers)
        as_whole("memory_bytes", memory_bytes)
        require(timeout_s > 0, "timeout_s must be above 0", timeout_s=timeout_s)
        require(startup_s > 0, "startup_s must be above 0", startup_s=startup_s)
        self.size, self.timeout_s, self.startup_s = workers, timeout_s, startup_s
        self._setup = {
            "function": function,
            "options": None if options is None else dict(options),
            "timeout_s": timeout_s,
            "memory_bytes": memory_bytes,
            "parent": os.getpid(),
        }
        self._workers: list[_Worker] = []

    def grade(self, pairs: Sequence[tuple[object, str]]) -> list[Verdict]:
        """One verdict for each (gold, text), in order."""
        verdicts: list[Verdict | None] = [None] * len(pairs)
        waiting = deque(range(len(pairs)))
        try:
            while any(verdict is None for verdict in verdicts):
                self._fill(min(self.size, len(waiting) + sum(w.item is not None for w in self._workers)))
                self._dispatch(pairs, waiting)
                for worker in self._readable():
                    self._read(worker, verdicts)
                self._expire(verdicts)
        except BaseException:
            self.close()
            raise
        return [verdict for verdict in verdicts if verdict is not None]

    def close(self) -> None:
        """Kill the workers; the next batch starts new ones."""
        while self._workers:
            self._workers.pop().kill()

    def __del__(self) -> None:
        # A pool that is dropped without `close` leaves no process behind; it has no workers if its arguments were bad.
        for worker in self.__dict__.get("_workers", []):
            worker.kill()

    def _fill(self, needed: int) -> None:
        while len(self._workers) < needed:
            self._workers.append(_Worker(self._setup, self.startup_s))

    def _dispatch(self, pairs: Sequence[tuple[object, str]], waiting: deque[int]) -> None:
        for worker in self._workers:
            if not waiting or not worker.ready or worker.item is not None:
                continue
            worker.item = waiting.popleft()
            worker.deadline = time.monotonic() + self.timeout_s
            try:
                send(worker.requests, pickle.dumps(pairs[worker.item]))
            except BrokenPipeError:
                # It died idle: the answer was not its doing, so it goes back to the queue.
                waiting.appendleft(worker.item)
                worker.item, worker.deadline = None, time.monotonic()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.item is not None or not worker.ready]

    def _readable(self) -> list[_Worker]:
        busy = self._busy()
        if not busy:
            return []
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.replies, selectors.EVENT_READ, worker)
            left = min(worker.deadline for worker in busy) - time.monotonic()
            return [key.data for key, _ in selector.select(max(0.0, left))]

    def _read(self, worker: _Worker, verdicts: list[Verdict | None]) -> None:
        try:
            reply = json.loads(receive(worker.replies))
        except EOFError:
            self._lost(worker, verdicts, "crash")
            return
        if not worker.ready:
            if not reply["ready"]:
                raise ValueError(f"function must load in a worker, got {self._setup['function']!r} ({reply['reason']})")
            worker.ready = True
        elif worker.item is not None:
            reward = float("nan") if reply["reward"] is None else reply["reward"]
            verdicts[worker.item] = Verdict(reply["success"], reward, reply["reason"])
            worker.item = None
            if reply["reason"].startswith(_RETIRE):
                self._retire(worker)

    def _expire(self, verdicts: list[Verdict | None]) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.process.poll() is not None and worker.item is None and worker.ready:
                self._retire(worker)
            elif worker in self._busy() and worker.deadline <= now:
                self._lost(worker, verdicts, "timeout")

    def _lost(self, worker: _Worker, verdicts: list[Verdict | None], kind: str) -> None:
        code = self._retire(worker)
        if not worker.ready:
            limit = f"startup_s={self.startup_s}"
            raise ValueError(f"function must load in a worker, got {self._setup['function']!r} ({kind}, {limit})")
        if worker.item is not None:
            told = f"over {self.timeout_s:g} s" if kind == "timeout" else f"exit code {code}"
            verdicts[worker.item] = Verdict(None, float("nan"), f"{kind}: {told}")

    def _retire(self, worker: _Worker) -> int:
        self._workers.remove(worker)
        return worker.kill()

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
