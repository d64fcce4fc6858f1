"""The one result format: a run is a folder.

    config.json       the resolved configuration
    metrics.jsonl     one object a step, flushed as it comes
    *.parquet         tables
    provenance.json   versions, commit, seeds, machine, time

While it runs, the folder is called `NAME.partial`; finishing is one atomic rename to `NAME`. So a folder without the
suffix is complete, a sweep skips it, and what a kill leaves behind is never taken for a result.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from .files import read_json, to_plain, write_json, write_table
from .provenance import config_hash, provenance


class RunFolder:
    """A run in progress. As a context manager it finishes the run when the block ends without an error.

    Parameters: `path` is the final folder; `config` is what defines the result; `resume` keeps the content of a partial
    folder of the same configuration (a trainer with checkpoints), otherwise a partial folder is started afresh.
    Raises FileExistsError if the run is already finished, ValueError if a partial run to be resumed has another config.
    """

    def __init__(self, path: Path | str, config: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        if self.path.exists():
            raise FileExistsError(f"run {self.path} is already finished")
        if self.partial.exists() and not resume:
            shutil.rmtree(self.partial)
        self.partial.mkdir(parents=True, exist_ok=True)
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
