"""What a cross-check leaves behind: one table of all judged cells, and a summary of it.

Left out on purpose: the figure of standardised differences, which `fgrpo figures` draws from the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fgrpo_theory.foundation.files import output_folder, write_json, write_table
from fgrpo_theory.foundation.provenance import provenance

from .cells import FALSE_ALARM_RATE, POWER, Outcome, Suite
from .runner import failures, survivors
from .scenarios import described
from .wrong_laws import WRONG_LAWS


def columns(outcomes: Sequence[Outcome]) -> dict[str, np.ndarray]:
    """The table crosscheck.parquet; wrong_law is null in the rows of right laws."""
    names = [field.name for field in dataclasses.fields(Outcome)]
    values = {name: [getattr(outcome, name) for outcome in outcomes] for name in names}
    return {name: np.array(column, dtype=object if name == "wrong_law" else None) for name, column in values.items()}


def relative(outcome: Outcome) -> float:
    """The discrepancy that the cell detects, as a share of the expected value."""
    return outcome.detectable / abs(outcome.expected)


def by_law(right: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row a law: cells, the smallest and the median relative discrepancy they detect, the largest |z| over threshold."""
    rows = []
    for law in dict.fromkeys(outcome.law for outcome in right):
        mine = [outcome for outcome in right if outcome.law == law]
        shares = [relative(outcome) for outcome in mine]
        rows.append(
            {
                "law": law,
                "cells": len(mine),
                "smallest detectable": min(shares),
                "median detectable": float(np.median(shares)),
                "largest |z| / threshold": max(abs(outcome.z) / outcome.threshold for outcome in mine),
                "failed": len(failures(mine)),
            }
        )
    return rows


def by_wrong_law(wrong: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row a wrong law: where it was refused, and by how much."""
    rows = []
    for name in dict.fromkeys(outcome.wrong_law for outcome in wrong):
        mine = [outcome for outcome in wrong if outcome.wrong_law == name]
        killed = [outcome for outcome in mine if outcome.verdict == "killed"]
        strongest = max(mine, key=lambda outcome: abs(outcome.z) / outcome.threshold)
        rows.append(
            {
                "wrong law": name,
                "in place of": WRONG_LAWS[str(name)].replaces,
                "cells": len(mine),
                "killed in": len(killed),
                "largest |z|": abs(strongest.z),
                "in cell": strongest.cell,
            }
        )
    return rows


def write_results(folder: Path, suite: Suite, right: Sequence[Outcome], wrong: Sequence[Outcome], **about: Any) -> None:
    """Write crosscheck.parquet, summary.json and provenance.json; a file of an earlier check is replaced."""
    output_folder(folder)
    write_table(folder / "crosscheck.parquet", columns([*right, *wrong]))
    write_json(
        folder / "summary.json",
        {
            **about,
            "cells": len(right),
            "false_alarm_rate": FALSE_ALARM_RATE,
            "false_alarm_rate_of_a_cell": suite.alpha,
            "power": POWER,
            "failed": [f"{outcome.law}: {outcome.cell}" for outcome in failures(right)],
            "survivors": survivors(wrong),
            "laws": by_law(right),
            "wrong_laws": by_wrong_law(wrong),
            "scenarios": {scenario.name: described(scenario) for scenario in suite.scenarios},
        },
    )
    write_json(folder / "provenance.json", provenance(**about))
