"""The one result format: a run is a folder.

    config.json       the resolved configuration
    metrics.jsonl     one object a step, flushed as it comes
    *.parquet         tables
    provenance.json   versions, commit, seeds, machine, time

While it runs, the folder is called `NAME.partial`; finishing is one atomic rename to `NAME`. So a folder without the
suffix is complete, a sweep skips it, and what a kill leaves behind is never taken for a result. A run that cannot be
resumed takes its partial folder away when it ends with an error.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from .files import make_folder, output_folder, read_json, to_plain, write_json, write_table
from .provenance import config_hash, provenance


class RunFolder:
    """A run in progress. As a context manager it finishes the run when the block ends without an error.

    Parameters: `path` is the final folder; `config` is what defines the result; `resume` keeps the content of a partial
    folder of the same configuration (a trainer with checkpoints), otherwise a partial folder is started afresh.
    Raises FileExistsError if the run is already finished; ValueError if something else is there, if the folder cannot be
    written, or if a partial run to be resumed has another config.
    """

    def __init__(self, path: Path | str, config: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = new_run(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self._resume = resume
        if self.partial.is_dir() and not resume:
            shutil.rmtree(self.partial)
        output_folder(self.partial)
        self._check_config(config)
        write_json(self.partial / "config.json", config)
        self._config_hash = config_hash(config)
        self._metrics: IO[str] | None = None

    def log(self, step: Mapping[str, Any]) -> None:
        """Append one object to metrics.jsonl and flush it."""
        if self._metrics is None:
            self._metrics = (self.partial / "metrics.jsonl").open("a", encoding="utf-8")
        self._metrics.write(json.dumps(step, default=to_plain, allow_nan=False) + "\n")
        self._metrics.flush()

    def table(self, name: str, columns: Mapping[str, Any]) -> None:
        """Write `NAME.parquet` into the run."""
        write_table(self.partial / f"{name}.parquet", columns)

    def finish(self, **extra: object) -> Path:
        """Write the provenance and rename the folder; return its final path."""
        self.close()
        write_json(self.partial / "provenance.json", provenance(config_hash=self._config_hash, **extra))
        self.partial.rename(self.path)
        return self.path

    def close(self) -> None:
        """Close the metrics file; the run stays partial."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

    def _check_config(self, config: Mapping[str, Any]) -> None:
        kept = self.partial / "config.json"
        if kept.exists() and config_hash(read_json(kept)) != config_hash(
            json.loads(json.dumps(config, default=to_plain))
        ):
            raise ValueError(f"config must equal that of the partial run, got another one in {kept}")

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.partial.exists():
            self.finish()
        self.close()
        if kind is not None and not self._resume:
            shutil.rmtree(self.partial, ignore_errors=True)


def new_run(path: Path | str, name: str = "out") -> Path:
    """A path where a run can be made: nothing is there, and a folder can be. Nothing is made but its parents.

    Raises FileExistsError if a finished run is there, ValueError in one line for anything else that is.
    """
    path = Path(path)
    if (path / "config.json").is_file():
        raise FileExistsError(f"run {path} is already finished")
    if path.exists():
        kind = "a folder that holds no run" if path.is_dir() else "no folder"
        raise ValueError(f"{name} must be a folder that does not exist yet, got {name}={str(path)!r}, which is {kind}")
    make_folder(path.parent, f"{name} must be a folder that can be made, got {name}={str(path)!r}")
    return path
