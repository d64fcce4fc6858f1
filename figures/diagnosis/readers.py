"""Parquet, JSON lines and CSV as a stream of Arrow tables with the needed columns only, in bounded memory.

JSON lines are parsed a block at a time by Arrow. A block that Arrow refuses (a corrupt line, a number where text was)
is read again line by line, so that one bad line costs its block's speed and nothing else; it is counted with its place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".csv")

BATCH_ROWS = 2**16
_BLOCK_BYTES = 2**23
_SNIFFED_LINES = 200
_PLACES = 3


@dataclass
class Corrupt:
    """Lines that could not be read, with the first few places."""

    lines: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, path: Path, line: int) -> None:
        """One more, at a line counted from 1."""
        self.lines += 1
        if len(self.places) < _PLACES:
            self.places.append(f"{path.name}:{line}")


def kind_of(path: Path) -> str:
    """parquet, jsonl or csv, by the name. Raises ValueError."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return suffix.split(".")[1]
    raise ValueError(f"logs must be files named *{', *'.join(SUFFIXES)}, got {path}")


def find_files(logs: Sequence[str]) -> list[tuple[Path, bool]]:
    """Every file, in order, and whether it was found in a folder rather than named. Raises ValueError."""
    found: list[tuple[Path, bool]] = []
    for name in logs:
        path = Path(name)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
            found += [(p, True) for p in inside if not p.name.startswith(".")]
        elif path.is_file():
            kind_of(path)
            found.append((path, False))
        else:
            raise ValueError(f"logs must be files or folders that exist, got {name!r}")
    if not found:
        raise ValueError(f"logs must hold a file named *{', *'.join(SUFFIXES)}, got {', '.join(logs)}")
    return list(dict(found).items())


def read_schema(path: Path) -> pa.Schema:
    """Column names and types, of JSON lines from the first lines. Raises ValueError if nothing can be read."""
    kind = kind_of(path)
    try:
        if kind == "parquet":
            return pq.read_schema(path)
        if kind == "csv":
            with pyarrow.csv.open_csv(path) as reader:
                return reader.schema
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} must be a readable {kind} file, got: {_line(error)}") from error
    return _json_schema(path)


def read_batches(path: Path, schema: pa.Schema, columns: Sequence[str], corrupt: Corrupt) -> Iterator[pa.Table]:
    """The needed columns, some ten thousand rows at a time. Raises ValueError if the file breaks off."""
    kind = kind_of(path)
    try:
        if kind == "parquet":
            with pq.ParquetFile(path, pre_buffer=False, read_dictionary=_texts(schema, columns)) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=_leaves(schema, columns)):
                    yield pa.Table.from_batches([batch])
        elif kind == "csv":
            yield from _csv_batches(path, columns, corrupt)
        else:
            yield from _json_batches(path, pa.schema([_widened(schema.field(name)) for name in columns]), corrupt)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} must be readable to its end, got: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _texts(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Text columns stay dictionary-encoded as in the file: a repeated prompt is fingerprinted once."""
    return [name for name in columns if pa.types.is_string(schema.field(name).type)]


def _leaves(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    return [name for name in schema.names if name in columns]


def _csv_batches(path: Path, columns: Sequence[str], corrupt: Corrupt) -> Iterator[pa.Table]:
    def refuse(row: Any) -> str:
        corrupt.add(path, row.number or 0)
        return "skip"

    options = pyarrow.csv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse)
    # Row numbers of bad rows are known in one thread only.
    reading = pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    with pyarrow.csv.open_csv(path, reading, parse, options) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole lines), counted from 1."""
    line, rest = 1, b""
    with pa.input_stream(str(path), compression="detect") as stream:
        while piece := stream.read(_BLOCK_BYTES):
            rest += piece
            cut = rest.rfind(b"\n") + 1
            if cut:
                block, rest = rest[:cut], rest[cut:]
                yield line, block
                line += block.count(b"\n")
    if rest.strip():
        yield line, rest


def _json_schema(path: Path) -> pa.Schema:
    rows: list[dict[str, Any]] = []
    for _, block in _blocks(path):
        for text in block.splitlines()[:_SNIFFED_LINES]:
            row = _parsed(text)
            if row is not None:
                rows.append(row)
        if rows:
            break
    if not rows:
        raise ValueError(f"{path} must hold JSON objects, one a line, got none in its first lines")
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([pa.field(name, _type_of([row.get(name) for row in rows])) for name in names])


def _type_of(values: list[Any]) -> Any:
    """The Arrow type of the values, or of the first one that has a type, if they differ."""
    try:
        return pa.array(values).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if all(isinstance(value, bool | int | float | None) for value in values):
            return pa.float64()
        return next((pa.array([v]).type for v in values if v is not None and not isinstance(v, dict)), pa.string())


def _widened(entry: pa.Field) -> pa.Field:
    """Whole numbers of the first lines may become fractions later, and nothing may become anything."""
    if pa.types.is_integer(entry.type) and entry.name not in ("step", "doc_id"):
        return entry.with_type(pa.float64())
    return entry.with_type(pa.string()) if pa.types.is_null(entry.type) else entry


def _json_batches(path: Path, schema: pa.Schema, corrupt: Corrupt) -> Iterator[pa.Table]:
    parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(block_size=2 * _BLOCK_BYTES)
    for first, block in _blocks(path):
        try:
            yield pyarrow.json.read_json(io.BytesIO(block), reading, parse)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            yield _line_by_line(path, first, block, schema, corrupt)


def _line_by_line(path: Path, first: int, block: bytes, schema: pa.Schema, corrupt: Corrupt) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for number, text in enumerate(block.split(b"\n"), first):
        if not text.strip():
            continue
        row = _parsed(text)
        values = None if row is None else _fitted(row, schema)
        if values is None:
            corrupt.add(path, number)
            continue
        for name, value in values.items():
            columns[name].append(value)
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names})


def _parsed(text: bytes) -> dict[str, Any] | None:
    """The object on a line; None if the line is not one."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _fitted(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any] | None:
    """The row's values in the types of the schema; None if one has another type."""
    values = {}
    for entry in schema:
        value = row.get(entry.name)
        if isinstance(value, bool) and pa.types.is_floating(entry.type):
            value = float(value)
        try:
            values[entry.name] = pa.scalar(value, entry.type).as_py()
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return None
    return values
