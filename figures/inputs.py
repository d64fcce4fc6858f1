"""What figures and claims are made from: result tables on disk, and the paper's published tables.

A result table is known by a name, by its place under the results folder, by the command that makes it and by the
columns that are read. A place with `*` stands for every folder there (each study, each run): the files are read as one
table, with a column for the name of each such folder. A missing or malformed table is an error of one line that says so;
nothing is filled in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_theory.foundation.files import read_json, read_table
from fgrpo_theory.foundation.provenance import config_hash

Columns = Mapping[str, NDArray[Any]]

PUBLISHED = Path(__file__).parent / "published"


@dataclass(frozen=True)
class Source:
    """Where a result comes from."""

    path: str
    """Relative to the results folder."""
    command: str
    """What a user types to make it."""
    columns: tuple[str, ...] = ()
    """Columns that are read; none for a JSON file."""
    folders: tuple[str, ...] = ()
    """A column for each `*` of the path: the folder's name."""


_STUDY = "fgrpo llm study --preset smollm2 --out results/llm/sums"

_MAZE = "fgrpo maze study --preset laptop --out results/maze/laptop"
_ARM = ("run", "objective", "group_size", "gamma", "seed")
_HELDOUT = ("maze", "path_length", "samples", "correct")

_FINAL = ("group_size", "gamma", "seed", "step", "Q_pos", "M_ret")

SOURCES = {
    "paper": Source("sims/paper/sweep.parquet", "fgrpo sims sweep --preset paper", _FINAL),
    "trajectories": Source("sims/paper/trajectories.parquet", "fgrpo sims sweep --preset paper", _FINAL),
    "surrogates": Source(
        "sims/surrogates/sweep.parquet", "fgrpo sims sweep --preset surrogates", (*_FINAL, "surrogate")
    ),
    "gammas": Source("sims/gammas/sweep.parquet", "fgrpo sims sweep --preset gammas", _FINAL),
    "crosscheck": Source(
        "sims/crosscheck/crosscheck.parquet",
        "fgrpo sims crosscheck",
        ("law", "cell", "wrong_law", "z", "threshold", "verdict"),
    ),
    "proofs": Source("theory/proofs.json", "fgrpo theory prove --out results/theory/proofs.json"),
    "study_summary": Source(
        "llm/*/summary.parquet",
        _STUDY,
        ("task", "arm", "seed", "run", "rare_rise", "rare_low", "rare_high"),
        ("study",),
    ),
    "study_dynamics": Source("llm/*/dynamics.parquet", _STUDY, ("arm", "seed", "step", "success"), ("study",)),
    "study_probes": Source(
        "llm/*/probes.parquet",
        _STUDY,
        (
            *("arm", "seed", "step"),
            *(f"{name}_{split}" for split in ("train", "heldout") for name in ("mu", "retained", "unsampled")),
        ),
        ("study",),
    ),
    "study_counts": Source(
        "llm/*/*/evaluation_heldout/counts.parquet", _STUDY, ("problem", "scorable", "correct"), ("study", "run")
    ),
    "study_laws": Source(
        "llm/*/*/evaluation_heldout/exact.parquet", _STUDY, ("problem", "answer", "mass"), ("study", "run")
    ),
    "maze_runs": Source(
        "maze/*/runs.parquet",
        _MAZE,
        (*_ARM, "maze_size", "parameters", "steps", "prompts_per_step"),
        ("study",),
    ),
    "maze_evaluations": Source("maze/*/evaluations.parquet", _MAZE, (*_ARM, "step", *_HELDOUT), ("study",)),
    "maze_final": Source("maze/*/final.parquet", _MAZE, (*_ARM, *_HELDOUT), ("study",)),
    "maze_groups": Source(
        "maze/*/groups.parquet", _MAZE, (*_ARM, "step", "problem", "correct", "scorable"), ("study",)
    ),
    "maze_paths": Source(
        "maze/*/paths.parquet", _MAZE, (*_ARM, "step", "maze", "sample", "completion", "success"), ("study",)
    ),
    "maze_mazes": Source("maze/*/mazes.parquet", _MAZE, ("maze", "walls", "solution"), ("study",)),
}


class MissingResult(FileNotFoundError):
    """A result that nobody has made yet; the message names the command that makes it."""


class Results:
    """The results folder, read lazily; each table is read once.

    `results[name]` gives the columns (or the JSON value) of a source; raises MissingResult if its file does not exist,
    ValueError if it lacks a column that is read.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._loaded: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return bool(self.files(name))

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def path(self, name: str) -> Path:
        """Where the result lies (with `*` for the folders, if there are several)."""
        return self.root / SOURCES[name].path

    def files(self, name: str) -> list[Path]:
        """The files of a result, in order; empty if there is none. Folders of unfinished runs are left out."""
        found = [self.path(name)] if not SOURCES[name].folders else sorted(self.root.glob(SOURCES[name].path))
        return [path for path in found if path.is_file() and ".partial" not in str(path.relative_to(self.root))]

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that do not exist."""
        return [name for name in names if name not in self]

    def digest(self, name: str) -> str:
        """The digest of the result's file: what exactly was read. Several files have one digest, of names and digests."""
        files = self.files(name)
        if not SOURCES[name].folders:
            return digest(self.path(name))
        return config_hash({str(path.relative_to(self.root)): digest(path) for path in files})

    def _load(self, name: str) -> Any:
        source, files = SOURCES[name], self.files(name)
        if not files:
            raise MissingResult(f"{self.path(name)} is missing; `{source.command}` makes it")
        if not source.columns:
            return read_json(files[0])
        tables = [self._read(path, source) for path in files]
        return tables[0] if not source.folders else stacked(tables)

    def _read(self, path: Path, source: Source) -> Columns:
        table = read_table(path)
        lacking = [column for column in source.columns if column not in table]
        if lacking:
            raise ValueError(f"{path} must have the columns {', '.join(source.columns)}, it lacks {', '.join(lacking)}")
        size = len(next(iter(table.values())))
        steps = zip(source.path.split("/"), path.relative_to(self.root).parts, strict=True)
        names = [part for pattern, part in steps if pattern == "*"]
        return {**table, **{key: np.full(size, part) for key, part in zip(source.folders, names, strict=True)}}


def stacked(tables: Sequence[Columns]) -> Columns:
    """Tables below each other; a column of numbers that one of them lacks is NaN there."""
    names = dict.fromkeys(name for table in tables for name in table)
    sizes = [len(next(iter(table.values()))) for table in tables]
    return {
        name: np.concatenate(
            [table.get(name, np.full(size, np.nan)) for table, size in zip(tables, sizes, strict=True)]
        )
        for name in names
    }


def digest(path: Path) -> str:
    """Twelve hexadecimal digits of a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


@cache
def published(name: str) -> Columns:
    """A published table as columns, by its file name without the suffix; see published/README.md for the source."""
    return read_table(PUBLISHED / f"{name}.csv")


def where(table: Columns, **equal: object) -> Columns:
    """The rows in which every named column has the given value. Raises ValueError if there is none."""
    size = len(next(iter(table.values())))
    keep = np.ones(size, dtype=bool)
    for name, value in equal.items():
        keep &= table[name] == value
    if not keep.any():
        asked = ", ".join(f"{name}={value}" for name, value in equal.items())
        raise ValueError(f"the table must have rows with {asked}, it has none; make it with its preset's full grid")
    return {name: column[keep] for name, column in table.items()}


def by_group(table: Columns, column: str) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Group sizes in rising order, and for each the values of `column` (one a seed)."""
    sizes = np.unique(table["group_size"])
    return sizes, [table[column][table["group_size"] == size] for size in sizes]
