"""A sweep: many runs of the simulation, on local processes or a Ray cluster, that can be stopped at any moment.

    OUT/sweep.json              the grid, resolved
    OUT/runs/NAME/              one finished run each: config.json, metrics.jsonl (its trajectory), provenance.json
    OUT/trajectories.parquet    all rows of all runs, in the order of the grid
    OUT/sweep.parquet           the last row of each run
    OUT/provenance.json         written last: the sweep is complete

Workers only compute. The calling process alone writes, and a run appears by one atomic rename, so whatever stops a sweep
loses at most the runs in flight. The same command goes on from there: finished runs are skipped. The two tables are made
from the runs on disk and hold no time, machine or order of completion: same seeds, same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from fgrpo_theory.foundation.checks import require
from fgrpo_theory.foundation.files import output_folder, read_json, to_plain, write_json, write_table
from fgrpo_theory.foundation.provenance import config_hash, provenance
from fgrpo_theory.foundation.runs import RunFolder

from .config import SimConfig
from .presets import SweepConfig
from .tracking import Row

# Computes runs and yields (place in the sequence, rows) as they finish.
Backend = Callable[[Sequence[SimConfig]], Iterator[tuple[int, list[Row]]]]
# What tells the runs of a sweep apart; the first columns of both tables.
KEYS = ("group_size", "gamma", "surrogate", "seed")


def run_name(config: SimConfig) -> str:
    """Folder name of a run."""
    return f"{config.surrogate}-N{config.group_size}-gamma{config.gamma:g}-seed{config.seed}"


def sweep(grid: SweepConfig, out: Path, backend: Backend, *, quiet: bool = False) -> Path:
    """Compute what is missing of `grid` under `out`, then write the tables; returns the path of sweep.parquet.

    Raises ValueError if `out` holds runs of another configuration; OSError, with the state of the sweep in one line, if
    the disk refuses a write.
    """
    runs = list(grid.runs())
    _claim(out, grid)
    missing = [config for config in runs if not _is_finished(out, config)]
    # Longest first, so that no long run starts when everything else is done.
    missing.sort(key=lambda config: -config.group_size * config.steps)
    bar = tqdm(total=len(runs), initial=len(runs) - len(missing), unit="run", disable=quiet)
    try:
        results = backend(missing) if missing else iter(())
        with bar:
            for place, rows in results:
                save_run(out / "runs" / run_name(missing[place]), missing[place], rows)
                bar.update()
        return _write_tables(out, grid, runs)
    except OSError as error:
        done = sum(_is_finished(out, config) for config in runs)
        raise OSError(
            f"the sweep stopped: {error.strerror or error}; {done} of {len(runs)} runs are finished and kept in "
            f"{out}, and the same command goes on from there"
        ) from error


def save_run(folder: Path, config: SimConfig, rows: Sequence[Row]) -> Path:
    """Write a finished run: its folder appears whole or not at all."""
    with RunFolder(folder, config.resolved()) as run:
        for row in rows:
            run.log(row)
    return folder


def load_rows(folder: Path) -> list[Row]:
    """The trajectory of a finished run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def _plain(value: object) -> Any:
    """`value` as it comes back from a JSON file."""
    return json.loads(json.dumps(value, default=to_plain))


def _claim(out: Path, grid: SweepConfig) -> None:
    wanted = _plain({"runs": {run_name(config): config_hash(config.resolved()) for config in grid.runs()}})
    output_folder(out)
    (out / "runs").mkdir(exist_ok=True)
    if (out / "sweep.json").exists():
        require(read_json(out / "sweep.json") == wanted, "out must hold the same sweep or nothing", out=str(out))
    else:
        write_json(out / "sweep.json", wanted)


def _is_finished(out: Path, config: SimConfig) -> bool:
    folder = out / "runs" / run_name(config)
    if not folder.exists():
        return False
    require(
        read_json(folder / "config.json") == _plain(config.resolved()),
        "a finished run must have the configuration asked for; choose another --out",
        run=str(folder),
    )
    return True


def _write_tables(out: Path, grid: SweepConfig, runs: Sequence[SimConfig]) -> Path:
    rows, last = [], []
    for config in runs:
        keys = {key: getattr(config, key) for key in KEYS}
        run = [{**keys, **row} for row in load_rows(out / "runs" / run_name(config))]
        rows += run
        last.append(run[-1])
    write_table(out / "trajectories.parquet", _columns(rows))
    write_table(out / "sweep.parquet", _columns(last))
    write_json(
        out / "provenance.json", provenance(config_hash=config_hash(read_json(out / "sweep.json")), seeds=grid.seeds)
    )
    return out / "sweep.parquet"


def _columns(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Columns of equal type: a value that does not exist is NaN, and its column float64."""
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        kind = np.float64 if any(value is None or isinstance(value, float) for value in values) else None
        columns[name] = np.array([np.nan if value is None else value for value in values], dtype=kind)
    return columns
