"""From paths to condensed groups: choose the layout, read every file, group, and say what was found on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cells import Condensed, condense
from .layouts import Layout, choose_layout
from .readers import Corrupt, find_files, read_batches, read_schema
from .records import Recorder, Success
from .store import Store


@dataclass(frozen=True)
class Options:
    """What the user says about the logs."""

    form: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    success_threshold: float | None = None
    filter: str | None = None


@dataclass
class Source:
    """What was read, and what was left out."""

    format: str
    columns: dict[str, str]
    files: int = 0
    rows: int = 0
    corrupt_lines: int = 0
    corrupt_places: list[str] = field(default_factory=list)
    skipped_files: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """Kinds of rows and values that are not used, with their numbers (only those that occur)."""
    success: str = ""


def read_logs(logs: Sequence[str], options: Options, progress: Any = None) -> tuple[Condensed, Source]:
    """Read every file and condense it. progress: called with (file number, files, rows so far).

    Raises ValueError in one line where it cannot go on.
    """
    files = find_files(logs)
    plan, skipped = _plan(files, options)
    recorder, corrupt = Recorder(Success(options.success_threshold), options.filter), Corrupt()
    source = Source(plan[0][1].format, dict(plan[0][1].columns), skipped_files=skipped)
    with Store() as store:
        for number, (path, layout, schema) in enumerate(plan, 1):
            for table in read_batches(path, schema, layout.needed, corrupt):
                store.add(recorder.records(table, layout, path))
                if progress is not None:
                    progress(number, len(plan), store.rows)
        _check_filter(recorder)
        condensed = condense(store)
    source.files, source.rows = len(plan), recorder.counts.pop("rows")
    source.corrupt_lines, source.corrupt_places = corrupt.lines, corrupt.places
    source.left_out = {name: count for name, count in recorder.counts.items() if count}
    source.success = _rule(recorder.success, source)
    return condensed, source


def _plan(files: list[tuple[Path, bool]], options: Options) -> tuple[list[tuple[Path, Layout, Any]], list[str]]:
    """The files with a layout, all of one format; in folders, others are skipped."""
    plan: list[tuple[Path, Layout, Any]] = []
    skipped, reasons = [], []
    for path, in_folder in files:
        try:
            schema = read_schema(path)
            layout = choose_layout(schema, options.form, options.columns)
        except ValueError as error:
            # In a folder, a broken file or one without the columns that the user named is one of many.
            if in_folder and not str(error).startswith("reward must be"):
                skipped.append(path.name)
                reasons.append(str(error))
                continue
            raise ValueError(f"{error} ({path.name})") from error
        if layout is None:
            if not in_folder:
                raise ValueError(
                    f"format must be told for {path.name}, got the columns {', '.join(schema.names)}; "
                    "name them with --column prompt=NAME --column reward=NAME (also step, completion)"
                )
            skipped.append(path.name)
            continue
        plan.append((path, layout, schema))
    if not plan:
        why = reasons[0] if reasons else "no file has the columns of a known format; name them with --column ROLE=NAME"
        raise ValueError(f"logs must hold rollouts, got {len(files)} files of which none could be used: {why}")
    if len({(layout.format, tuple(layout.columns.items())) for _, layout, _ in plan}) > 1:
        kinds = {layout.format: path.name for path, layout, _ in plan}
        raise ValueError(
            f"logs must be of one format and layout, got {', '.join(f'{k} ({v})' for k, v in kinds.items())}"
        )
    return plan, skipped


def _check_filter(recorder: Recorder) -> None:
    wanted = recorder.wanted_filter
    if wanted is not None and wanted not in recorder.filters:
        known = ", ".join(sorted(recorder.filters)) or "none"
        raise ValueError(f"filter must be one of the log's, {known}, got filter={wanted!r}")


def _rule(success: Success, source: Source) -> str:
    if "reward" not in source.columns:
        return f"counts in column {source.columns['correct']}"
    column = source.columns["reward"]
    return f"{column} = 1" if success.threshold is None else f"{column} >= {success.threshold:g}"
