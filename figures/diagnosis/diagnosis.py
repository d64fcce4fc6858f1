"""One diagnosis: read, condense, measure, fit, advise. The result is plain data, which every output shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fgrpo_theory.foundation.checks import as_float, require
from fgrpo_theory.foundation.provenance import provenance

from .advice import advise
from .measures import LEVEL, RARE_FRACTIONS, measure
from .population import population
from .reading import Options, read_logs


def diagnose(
    logs: Sequence[str], options: Options, *, rare: float = 0.1, max_miss: float = 0.05, progress: Any = None
) -> dict[str, Any]:
    """Everything that `fgrpo diagnose` shows.

    logs: files and folders. rare: the share rho of the correct answers that must not be lost, in (0, 1).
    max_miss: the largest tail miss that is allowed, in (0, 1). Raises ValueError in one line.
    """
    for name, value in (("rare", rare), ("max_miss", max_miss)):
        require(
            (as_float(name, value) > 0) & (as_float(name, value) < 1), f"{name} must lie in (0, 1)", **{name: value}
        )
    if options.success_threshold is not None:
        as_float("success_threshold", options.success_threshold)
    condensed, source = read_logs(logs, options, progress)
    fractions = sorted({*RARE_FRACTIONS, rare}, reverse=True)
    measures = measure(condensed, fractions)
    law = population(condensed.present, measures["group_size"], fractions)
    windows = [asdict(window) for window in condensed.windows]
    return {
        "source": {
            **asdict(source),
            "repeated_steps": len(condensed.repeated_steps),
            "repeated_rows": condensed.repeated_rows,
            "steps": sum(window.steps for window in condensed.windows),
            "windows": windows,
        },
        "level": LEVEL,
        **measures,
        "population": law,
        "advice": advise(measures, law, rare, max_miss),
        "provenance": provenance(),
    }
