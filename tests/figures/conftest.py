"""Small made-up result tables in the shape that the simulations write, so that figures are tested without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import maze_tables
import numpy as np
import pytest
import study_tables

from fgrpo_theory.foundation.files import read_table, write_json, write_table
from figures.inputs import SOURCES
from figures.report import write_report

SIZES = (2, 16, 64, 256, 2048, 8192, 131072)
SEEDS = (0, 1, 2, 3)
PROVENANCE = {
    "config_hash": "0123456789ab",
    "seeds": [0, 1, 2, 3],
    "commit": "feedfacefeed",
    "time": "2026-01-02T03:04:05+00:00",
}


def retained(size: int, gamma: float, surrogate: str = "ratio") -> float:
    """A retained mass with the three regimes of the paper; the printed surrogate never comes back."""
    base = {2: 0.99, 16: 0.96, 64: 0.6, 256: 0.05, 2048: 0.04, 8192: 0.04, 131072: 0.99}[size]
    if surrogate == "probability" and size == 131072:
        base = 0.03
    return min(1.0, base + 0.1 * gamma * (base < 0.5))


def sweep_columns(
    gammas: tuple[float, ...] = (0.0, 1.0),
    surrogates: tuple[str, ...] = ("ratio",),
    steps: tuple[int, ...] = (0, 500, 1000),
) -> dict[str, np.ndarray]:
    """Rows for every surrogate, group size, gamma, seed and step, with a little spread over seeds."""
    rows = [
        (size, gamma, seed, surrogate, step)
        for surrogate in surrogates
        for size in SIZES
        for gamma in gammas
        for seed in SEEDS
        for step in steps
    ]
    spread = [0.001 * (row[2] - 1.5) for row in rows]
    done = [row[4] / 1000 for row in rows]
    kept = [retained(row[0], row[1], row[3]) for row in rows]
    return {
        "group_size": np.array([row[0] for row in rows], dtype=np.int64),
        "gamma": np.array([row[1] for row in rows]),
        "seed": np.array([row[2] for row in rows], dtype=np.int64),
        "surrogate": np.array([row[3] for row in rows]),
        "step": np.array([row[4] for row in rows], dtype=np.int64),
        "Q_pos": np.array([0.63 + share * (0.3 + jump) for share, jump in zip(done, spread, strict=True)]),
        "M_ret": np.array(
            [1 - share * (1 - min(1.0, keep + jump)) for share, keep, jump in zip(done, kept, spread, strict=True)]
        ),
    }


def last_rows(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows of the last step, which is what a sweep table holds."""
    keep = columns["step"] == columns["step"].max()
    return {name: column[keep] for name, column in columns.items()}


def crosscheck_columns() -> dict[str, np.ndarray]:
    """Two laws, three cells each, and one wrong law of each, all as they should be."""
    rows = [
        (law, f"{law}-{cell}", None, z) for law in ("tail miss", "activity") for cell, z in enumerate((-1.0, 0.2, 2.5))
    ]
    rows += [(law, f"{law}-0", f"{law} without its last term", 40.0) for law in ("tail miss", "activity")]
    return {
        "law": np.array([row[0] for row in rows]),
        "cell": np.array([row[1] for row in rows]),
        "wrong_law": np.array([row[2] for row in rows], dtype=object),
        "z": np.array([row[3] for row in rows]),
        "threshold": np.linspace(5.5, 6.5, len(rows)),
        "verdict": np.array(["pass" if row[2] is None else "killed" for row in rows]),
    }


def write_results(root: Path, **replaced: dict[str, np.ndarray]) -> Path:
    """A complete results folder; `replaced` gives other columns for paper, surrogates, gammas or crosscheck."""
    full = sweep_columns()
    tables = {
        "sims/paper/trajectories": full,
        "sims/paper/sweep": replaced.get("paper", last_rows(full)),
        "sims/surrogates/sweep": replaced.get("surrogates", last_rows(sweep_columns((0.0,), ("ratio", "probability")))),
        "sims/gammas/sweep": replaced.get("gammas", last_rows(sweep_columns((0.0, 0.5, 1.0, 2.0)))),
        "sims/crosscheck/crosscheck": replaced.get("crosscheck", crosscheck_columns()),
    }
    for name, columns in tables.items():
        path = root / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, columns)
    write_json(root / "sims/paper/provenance.json", PROVENANCE)
    (root / "theory").mkdir(exist_ok=True)
    write_json(
        root / "theory/proofs.json",
        [
            {
                "name": "lemma31",
                "source": "Lemma 3.1",
                "statement": "sum <over> outcomes",
                "residual": "0",
                "seconds": 0.1,
            }
        ],
    )
    return root


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete made-up results folder, shared; tests must not write into it."""
    root = write_results(tmp_path_factory.mktemp("results"))
    study_tables.write_studies(root)
    maze_tables.write_maze_study(root)
    return root


@pytest.fixture(scope="session")
def report_path(made_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the made-up results, written once for all tests that read it."""
    return write_report(made_up, tmp_path_factory.mktemp("report") / "new/report.html")


@pytest.fixture
def make_results(tmp_path: Path) -> Callable[..., Path]:
    """Builds a results folder of its own, with some tables replaced."""

    def build(**replaced: dict[str, np.ndarray]) -> Path:
        return write_results(tmp_path / "results", **replaced)

    return build


@pytest.fixture
def tables(made_up: Path) -> dict[str, dict[str, np.ndarray]]:
    """The made-up tables as columns that a test may change."""
    return {
        name: {column: np.array(values) for column, values in read_table(made_up / source.path).items()}
        for name, source in SOURCES.items()
        if source.columns and not source.folders
    }
