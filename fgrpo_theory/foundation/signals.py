"""A polite end for commands that write: SIGTERM runs what Ctrl-C runs.

By default SIGTERM ends Python on the spot, and half-written files and folders stay behind. A training has a handler of its
own, which saves a checkpoint first; it is set while the training lasts and takes precedence.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM


@contextmanager
def tidy_on_sigterm() -> Iterator[None]:
    """While it lasts, SIGTERM raises SystemExit(143), so that `finally` and `with` tidy up; also a decorator.

    Outside the main thread, where Python takes no signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(EXIT_CODE)
