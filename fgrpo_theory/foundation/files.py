"""Files that are written whole or not at all, and the tables kept in them.

A file is written beside its place under a hidden name, flushed to disk, then renamed: a reader, a kill or a full disk
sees the old file or the new one, never a part. What is no file (a folder, a device such as /dev/null) is never replaced:
`output_file` and `output_folder` refuse it before any work, `atomic_file` in any case. pyarrow is imported only where a
parquet table is touched.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def output_file(path: Path | str, name: str = "out") -> Path:
    """The path of a file that can be written, its folder made. Raises ValueError in one line that names the parameter."""
    path = Path(path)
    _require_file(path, name)
    make_folder(path.parent, f"{name} must be a file that can be written, got {name}={str(path)!r}")
    return path


def output_folder(path: Path | str, name: str = "out") -> Path:
    """A folder that can be written, made if need be. Raises ValueError in one line that names the parameter."""
    return make_folder(Path(path), f"{name} must be a folder that can be written, got {name}={str(path)!r}")


def make_folder(folder: Path, refusal: str) -> Path:
    """The folder, made if need be. Raises ValueError(refusal, with the reason) if it cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(
            f"{refusal}: {next(x for x in [folder, *folder.parents] if x.exists())} is no folder"
        ) from error
    except OSError as error:
        raise ValueError(f"{refusal}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{refusal}: no permission to write in {folder}")
    return folder


def _require_file(path: Path, name: str) -> None:
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device or the like"
        raise ValueError(f"{name} must be a file, got {name}={str(path)!r}, which is {kind}")


@contextmanager
def atomic_file(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """A file object whose content appears at `path` when the block ends without an error.

    Raises OSError if the folder is missing or not writable, ValueError if `path` is a folder or a device; `path` is then as
    it was.
    """
    path = Path(path)
    _require_file(path, "path")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        text = "b" not in mode
        with partial.open(mode, encoding="utf-8" if text else None, newline="" if text else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Write text atomically."""
    with atomic_file(path) as file:
        file.write(text)


def write_json(path: Path | str, value: object) -> None:
    """Write indented JSON atomically; numpy scalars and arrays become numbers and lists; NaN is refused."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, default=to_plain, allow_nan=False) + "\n")


def read_json(path: Path | str) -> Any:
    """Read a JSON file. Raises OSError if it cannot be read, ValueError with its path if it holds no JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must hold JSON, got {error}") from error


def to_plain(value: object) -> object:
    """What `json.dumps(default=...)` should write for numpy values and paths."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def write_table(path: Path | str, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length as parquet, atomically. The same columns give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: pa.array(np.asarray(column)) for name, column in columns.items()})
    with atomic_file(path, "wb") as file:
        pq.write_table(table, file, compression="zstd")


def read_table(path: Path | str) -> dict[str, NDArray[Any]]:
    """Read a parquet or CSV table as numpy columns."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    path = Path(path)
    table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}
