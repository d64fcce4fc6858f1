"""Where a result comes from: versions, commit, machine, time, and the exact command."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from .files import to_plain

_PACKAGES = ("fgrpo", "numpy", "scipy", "sympy", "numba", "torch", "pyarrow", "matplotlib", "ray")


def config_hash(config: object) -> str:
    """Twelve hexadecimal digits of the configuration's SHA-256, independent of key order."""
    text = json.dumps(config, sort_keys=True, default=to_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def commit() -> str:
    """The commit of the checkout that this code runs from ("+" appended if it has changes), or "unknown".

    Asked of git once a process: that is the code which runs, and a sweep writes hundreds of records.
    """
    here = Path(__file__).resolve().parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def provenance(**extra: object) -> dict[str, Any]:
    """A record to write beside a result. `extra` adds seeds, configuration hashes and the like."""
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit(),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        **extra,
    }


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=10
    ).stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
