"""Graders that misbehave on purpose, for the tests of the verifier pool. gold names the misbehaviour."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time


def grade(gold: str, text: str) -> object:
    """Do what gold says; otherwise answer whether gold equals text."""
    actions = {
        "hang": _hang,
        "hang in C": lambda: "a" * 10_000_000 < "b" and pow(7, 10**9),
        "segfault": lambda: ctypes.string_at(0),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "exit": lambda: sys.exit(0),
        "memory": lambda: bytearray(2**34),
        "raise": lambda: 1 // 0,
        "recursion": _recurse,
        "none": lambda: None,
        "number": lambda: 0.5,
        "nan": lambda: (True, float("nan")),
        "shaped": lambda: (True, 0.25, "half"),
        "print": lambda: print("noise on stdout") or True,
        "alarm": _alarm,
        "thread": lambda: threading.current_thread() is threading.main_thread(),
        "child": _child,
    }
    return actions[gold]() if gold in actions else gold == text


def factory(accepted: str) -> object:
    """A grader that accepts one text, whatever the gold."""
    return lambda gold, text: text == accepted


def broken_factory() -> object:
    """Fails to load."""
    raise RuntimeError("no such model")


def process_id(gold: str, text: str) -> object:
    """True, with the worker's process id as the reason."""
    return True, 1.0, str(os.getpid())


def _hang() -> None:
    while True:
        time.sleep(10)


def _recurse() -> object:
    return _recurse()


def _alarm() -> bool:
    fired = []
    signal.signal(signal.SIGALRM, lambda *_: fired.append(True))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    time.sleep(0.3)
    return bool(fired)


def _child() -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)  # left-over child"])
    _hang()
