"""The report: one self-contained HTML file, made from whatever results exist.

No script, no network, no inline style attribute: its content policy allows data: images and the one style block, by
hash. Every figure and verdict is computed here from the tables (nothing is read from drawn pictures), so the report
cannot disagree with them. What has not been made yet is listed with the command that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fgrpo_theory.foundation.files import output_file, read_json, write_text
from fgrpo_theory.foundation.provenance import provenance

from . import catalogue, maze_claims, maze_table, pages, simulation_claims, study_claims, study_table
from .claims import DIFFERS, FAILS, HOLDS, REPRODUCED, Verdict, all_claims, verdict
from .inputs import SOURCES, Results, by_group, published, where
from .registry import entry
from .simulation_figures import last_step

GROUPS = ("theory", "simulation", "cross-check", study_claims.GROUP, maze_claims.GROUP, "maze", "language models")
"""Groups of claims, in the order of the report."""

TABLE_TITLES = {
    "table1_models_methods": "Table 1: pass@1 and pass@256 of three models and six methods at N = 8",
    "table2_group_size": "Table 2: group size",
    "table3_controls": "Table 3: controls",
    "table4_maze": "Table 4: maze",
    "table6_gamma": "Table 6: sweep of γ",
    "table7_selected_gamma": "Table 7: selected γ",
    "table10_group_size_benchmarks": "Table 10: group size, by benchmark",
    "tables12_14_pass_at_k": "Tables 12 to 14: pass@k in full",
}


def write_report(results: Path | str, out: Path | str) -> Path:
    """Write the report made from the results folder to `out`; return its path.

    Raises ValueError for a malformed table, or if `out` cannot be written.
    """
    path = output_file(out)
    write_text(path, render_report(Results(results)))
    return path


def render_report(results: Results) -> str:
    """The report as HTML."""
    no_study = results.missing(("study_summary", "study_counts"))
    verdicts = [verdict(claim, results) for claim in all_claims(results)]
    groups = {group: [item for item in verdicts if item.claim.group == group] for group in GROUPS}
    return pages.template("report.html.j2").render(
        **pages.stylesheet("report.css"),
        groups=groups,
        counts=count(verdicts),
        kinds={REPRODUCED: "reproduced", HOLDS: "reproduced", DIFFERS: "differs", FAILS: "differs"},
        theory=[shown(name, results) for name in catalogue.THEORY],
        simulation=[shown(name, results) for name in catalogue.SIMULATION],
        crosscheck=[shown(name, results) for name in catalogue.CROSSCHECK],
        studies=[shown(name, results) for name in catalogue.STUDIES],
        study_group=study_claims.GROUP,
        mazes=[shown(name, results) for name in catalogue.MAZE],
        maze_group=maze_claims.GROUP,
        maze_rows=[] if results.missing(maze_claims.NEEDS) else maze_table.report_rows(results),
        study_settings=[] if no_study else study_table.settings_rows(results),
        study_rows=[] if no_study else study_table.report_rows(results),
        proofs=None if results.missing(["proofs"]) else results["proofs"],
        sources=SOURCES,
        outcome=simulation_rows(results),
        limits=simulation_claims,
        tables=[published_table(name) for name in TABLE_TITLES],
        origin=provenance(),
        inputs=input_rows(results),
    )


def count(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many claims have each verdict."""
    return {
        kind: sum(item.verdict == kind for item in verdicts)
        for kind in dict.fromkeys(item.verdict for item in verdicts)
    }


def shown(name: str, results: Results) -> dict[str, Any]:
    """What the template needs of one figure: its picture as a data URI, or why it is not drawn."""
    figure = entry(name)
    item: dict[str, Any] = {
        "name": name,
        "title": figure.title,
        "caption": figure.caption,
        "alt": figure.alt,
        "source": figure.source,
        "uri": None,
    }
    missing = results.missing(figure.needs)
    if missing:
        item["commands"] = list(dict.fromkeys(SOURCES[need].command for need in missing))
        return item
    picture, _ = figure.make(results)
    item["uri"] = pages.data_uri(picture)
    item["config_hash"] = figure.config_hash(results)
    return item


def simulation_rows(results: Results) -> list[dict[str, Any]] | None:
    """Q_pos and M_ret at the last step for every group size, mean (lowest to highest seed), for each gamma."""
    if "paper" not in results:
        return None
    final = last_step(results["paper"])
    rows: dict[int, dict[str, Any]] = {}
    for gamma in np.unique(final["gamma"]):
        for column in ("Q_pos", "M_ret"):
            for size, values in zip(*by_group(where(final, gamma=gamma), column), strict=True):
                row = rows.setdefault(int(size), {"N": int(size)})
                row[f"{column}, γ = {gamma:g}"] = simulation_claims.span(values)
    return list(rows.values())


def published_table(name: str) -> dict[str, Any]:
    """A published table for the template; the long pass@k table has a column for each k."""
    table = published(name)
    columns = list(table)
    rows = [list(row) for row in zip(*(table[column].tolist() for column in columns), strict=True)]
    if name == "tables12_14_pass_at_k":
        columns, rows = _by_k(rows)
    return {"name": name, "title": TABLE_TITLES[name], "columns": columns, "rows": rows, "long": len(rows) > 20}


def _by_k(rows: list[list[Any]]) -> tuple[list[str], list[list[Any]]]:
    powers = sorted({row[3] for row in rows})
    cells: dict[tuple[str, ...], dict[int, float]] = {}
    for model, method, benchmark, k, value in rows:
        cells.setdefault((model, method, benchmark), {})[k] = value
    return (
        ["model", "method", "benchmark", *(f"k = {k}" for k in powers)],
        [[*key, *(values[k] for k in powers)] for key, values in cells.items()],
    )


def input_rows(results: Results) -> list[dict[str, Any]]:
    """Every source: whether it exists, what was read, and the provenance written beside it."""
    rows = []
    for name, source in SOURCES.items():
        row: dict[str, Any] = {"path": source.path, "command": source.command, "digest": None, "record": {}}
        if name in results:
            row["digest"] = results.digest(name)
            beside = results.path(name).with_name("provenance.json")
            row["record"] = read_json(beside) if beside.is_file() else {}
        rows.append(row)
    return rows
