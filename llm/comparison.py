"""Any number of evaluated runs side by side: pass@k, the paired test, exact mu and M_ret, rare-solution drift.

Reads what `evaluation.evaluate` and `rare.drift` wrote; a run is an evaluation folder or a run folder that has one.
The first run is the baseline: every other run's pass@k is tested against it, paired by problem (appendix Q of F-GRPO,
arXiv 2602.06717, as an exact convolution), and M_ret (eq. 26) is measured from the laws of `start`, by default the
baseline's. Left out on purpose: a correction for many comparisons; the p-values are those of single tests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_theory import subsampling_test
from fgrpo_theory.foundation.checks import as_probability, require
from fgrpo_theory.foundation.files import read_json, read_table, write_table, write_text
from fgrpo_theory.foundation.printing import Row, render

from .evaluation import bootstrap_interval, columns_of, pass_at_k_rows
from .exact import read_laws, retained_mass

KS = (1, 16, 256)
Table = dict[str, NDArray[Any]]


def evaluation_folder(run: Path | str, name: str = "evaluation_heldout") -> Path:
    """The folder with the tables of a run: itself, or its sub-folder `name`. Raises ValueError if neither has them."""
    run = Path(run)
    found = [folder for folder in (run, run / name) if (folder / "counts.parquet").exists()]
    require(bool(found), "run must be an evaluated run", run=str(run))
    return found[0]


def compare(
    runs: Sequence[Path | str],
    *,
    ks: Sequence[int] = KS,
    start: Path | str | None = None,
    name: str = "evaluation_heldout",
) -> list[Row]:
    """One row a run. ks: tries shown (those beyond a run's answers are None); start: an evaluation of the model before
    training, for M_ret.

    Columns: run, problems, answers, unscorable; for each k pass@k with its bootstrap interval; p@1 and p@m (the paired
    test against the first run with a quarter of the answers, for k = 1 and k = that quarter; None for the first run, and
    where answers could not be scored); mu, M_ret with bootstrap intervals over prompts; rare_rise with its interval.
    Raises ValueError for a run without evaluation, or runs with different problems.
    """
    require(len(runs) > 0, "runs must not be empty", runs=len(runs))
    folders = [evaluation_folder(run, name) for run in runs]
    tables = [read_table(folder / "counts.parquet") for folder in folders]
    for run, table in zip(runs, tables, strict=True):
        same = table["problem"].tolist() == tables[0]["problem"].tolist()
        require(same, "runs must be evaluated on the same problems", run=str(run))
    origin = folders[0] if start is None else evaluation_folder(start, name)
    return [
        {
            "run": Path(run).name,
            "problems": len(table["problem"]),
            "answers": int(table["samples"].sum()),
            "unscorable": int(table["unscorable"].sum()),
            **_pass_columns(table, ks),
            **_test_columns(tables[0], table if place else None),
            **_exact_columns(origin, folder),
            **_rare_columns(Path(run)),
        }
        for place, (run, folder, table) in enumerate(zip(runs, folders, tables, strict=True))
    ]


def _pass_columns(table: Table, ks: Sequence[int]) -> dict[str, float | None]:
    rows = {int(row["k"]): row for row in pass_at_k_rows(table["scorable"], table["correct"], ks)}
    columns: dict[str, float | None] = {}
    for k in ks:
        row = rows.get(k)
        # A mean over fewer problems than the other runs' is no comparison.
        whole = row is not None and row["problems"] == len(table["problem"])
        for label, key in (
            (f"pass@{k}", "pass_at_k"),
            (f"pass@{k}_low", "bootstrap_low"),
            (f"pass@{k}_high", "bootstrap_high"),
        ):
            columns[label] = row[key] if row is not None and whole else None
    return columns


def _test_columns(baseline: Table, other: Table | None) -> dict[str, float | None]:
    if other is None or not np.array_equal(baseline["scorable"], other["scorable"]):
        return {"p@1": None, "p@m": None}
    samples = baseline["scorable"]
    quarter = max(1, int(samples.min()) // 4)
    return {
        label: subsampling_test(baseline["correct"], other["correct"], samples, quarter, k).p_value
        for label, k in (("p@1", 1), ("p@m", quarter))
    }


def _exact_columns(origin: Path, folder: Path) -> dict[str, float | None]:
    columns: dict[str, float | None] = dict.fromkeys(("mu", "mu_low", "mu_high", "M_ret", "M_ret_low", "M_ret_high"))
    if (folder / "exact.parquet").exists() and (origin / "exact.parquet").exists():
        before, after = read_laws(origin / "exact.parquet"), read_laws(folder / "exact.parquet")
        for label, values in (("mu", np.array([law.mu for law in after])), ("M_ret", retained_mass(before, after))):
            low, high = bootstrap_interval(values)
            columns |= {label: float(values.mean()), f"{label}_low": low, f"{label}_high": high}
    return columns


def _rare_columns(run: Path) -> dict[str, float | None]:
    path = run / "rare.json"
    kept = read_json(path) if path.exists() else {}
    return {f"rare_{name}": kept.get(name) for name in ("rise", "low", "high")}


def write_comparison(rows: Sequence[Row], path: Path | str) -> None:
    """Write rows as .parquet, .csv or .json, by the suffix; None becomes NaN, an empty cell, null."""
    path = Path(path)
    require(path.suffix in (".parquet", ".csv", ".json"), "path must end with .parquet, .csv or .json", path=str(path))
    if path.suffix == ".parquet":
        numbers = [{name: float("nan") if value is None else value for name, value in row.items()} for row in rows]
        write_table(path, columns_of(numbers))
    else:
        write_text(path, render(rows, path.suffix[1:]) + "\n")


def terminal_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows for a terminal: intervals folded into "value [low, high]", columns without a value left out."""
    folded = []
    for row in rows:
        short: dict[str, object] = {}
        for name, value in row.items():
            base = name.removesuffix("_rise")
            if name.endswith(("_low", "_high")):
                continue
            low, high = row.get(f"{base}_low"), row.get(f"{base}_high")
            both = isinstance(low, float) and isinstance(high, float)
            short[name] = f"{value:.4g} [{low:.3g}, {high:.3g}]" if both else value
        folded.append(short)
    kept = [name for name in folded[0] if any(row[name] is not None for row in folded)]
    return [{name: "-" if row[name] is None else row[name] for name in kept} for row in folded]


def retained_at_mu(run: Path | str, mu: float, *, split: str = "heldout") -> float | None:
    """M_ret of a run when its exact mean mu first reaches `mu`, for comparisons at equal mu; None if it never does.

    Linear between the two measurements around the crossing, from the run's metrics.jsonl (mu_SPLIT, retained_SPLIT).
    Raises ValueError unless mu lies in (0, 1) and the run has such measurements.
    """
    as_probability("mu", mu, open_ends=True)
    lines = (Path(run) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [row for row in map(json.loads, lines) if f"mu_{split}" in row]
    require(bool(steps), "run must have measured its exact masses", run=str(run))
    points = [(row[f"mu_{split}"], row[f"retained_{split}"]) for row in steps]
    if points[0][0] >= mu:
        return float(points[0][1])
    for (mu_before, kept_before), (mu_after, kept_after) in pairwise(points):
        if mu_after >= mu:
            share = (mu - mu_before) / (mu_after - mu_before)
            return float(kept_before + share * (kept_after - kept_before))
    return None
