"""One grader in a process of its own: `python -m llm.verifiers.worker READ WRITE`, started by `pool.VerifierPool`.

The grader runs in this process's main thread, so graders that use SIGALRM work. The parent enforces the wall time by a
kill; this side enforces memory (RLIMIT_AS above what the process holds once the grader is loaded) and, as a kernel-side
backstop for a parent that has died, processor time. What the grader prints goes to stderr, never into the protocol.
Requests are pickles from the parent, which already holds the objects; replies are JSON, so that nothing a grader
returns is ever unpickled. Left out on purpose: a sandbox for code. Graders read model text, they do not run it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import pickle
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

_LENGTH = struct.Struct("!Q")


def load_function(name: str) -> Callable[..., Any]:
    """The callable called `module:function`. Raises ValueError if there is none."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"function must be written module:function, got function={name!r}")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"function must name something importable, got function={name!r} ({error})") from error
    if not callable(found):
        raise ValueError(f"function must be callable, got function={name!r}")
    return found


def send(file: BinaryIO, payload: bytes) -> None:
    """Write one length-prefixed message."""
    file.write(_LENGTH.pack(len(payload)) + payload)
    file.flush()


def receive(file: BinaryIO) -> bytes:
    """Read one message; raises EOFError when the other side is gone, also in the middle of a message."""
    header = file.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    size = _LENGTH.unpack(header)[0]
    payload = file.read(size)
    if len(payload) < size:
        raise EOFError
    return payload


def verdict_fields(value: object) -> dict[str, object]:
    """What a grader returned, as {"success", "reward", "reason"}.

    A grader returns True, False or None (unscorable), alone, or with a finite reward and a reason as a tuple
    `(success, reward)` or `(success, reward, reason)`. Anything else is unscorable: a bare number is no verdict.
    """
    success, reward, reason = value, None, ""
    if isinstance(value, tuple) and len(value) in (2, 3):
        success, reward, reason = (*value, "")[:3]
    success = getattr(success, "item", lambda: success)()
    if success is None:
        return {"success": None, "reward": None, "reason": str(reason) or "none: the grader returned None"}
    if not isinstance(success, bool):
        return {"success": None, "reward": None, "reason": f"no verdict: the grader returned {value!r:.80}"}
    reward = float(success) if reward is None else float(reward)
    if not math.isfinite(reward):
        return {"success": None, "reward": None, "reason": f"no verdict: reward {reward}"}
    return {"success": success, "reward": reward, "reason": str(reason)}


def grade_one(function: Callable[..., Any], gold: object, text: str) -> dict[str, object]:
    """Call function(gold, text); whatever it raises becomes an unscorable verdict, not an answer."""
    try:
        return verdict_fields(function(gold, text))
    except MemoryError:
        return {"success": None, "reward": None, "reason": "memory: over the limit"}
    except BaseException as error:
        return {"success": None, "reward": None, "reason": f"exception: {type(error).__name__}: {error}"[:200]}


def held_memory() -> int:
    """The address space that this process holds, in bytes (Linux; elsewhere its peak resident size)."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[0]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _load(setup: dict[str, Any]) -> Callable[..., Any]:
    function = load_function(setup["function"])
    return function(**setup["options"]) if setup["options"] is not None else function


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Load the grader, say so, and grade until the parent closes the pipe."""
    setup = pickle.loads(receive(requests))
    threading.Thread(target=_end_with_parent, args=(setup["parent"],), daemon=True).start()
    try:
        function = _load(setup)
    except BaseException as error:
        send(replies, json.dumps({"ready": False, "reason": f"{type(error).__name__}: {error}"}).encode())
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_AS, held_memory() + setup["memory_bytes"])
    send(replies, json.dumps({"ready": True}).encode())
    while True:
        gold, text = pickle.loads(receive(requests))
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + 2 * setup["timeout_s"]) + 2)
        send(replies, json.dumps(grade_one(function, gold, text)).encode())


def main() -> None:
    """Take the pipe ends from the command line."""
    # A grader's prints must not reach the parent's stdout, where results are.
    sys.stdout = sys.stderr
    requests, replies = os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb")
    # Either error means that the parent has gone.
    with contextlib.suppress(EOFError, BrokenPipeError), requests, replies:
        serve(requests, replies)


if __name__ == "__main__":
    main()
