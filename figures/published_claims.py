"""Claims about language models and the maze, with their published values read from the published tables.

They have no judge: their experiments took 16 H100 (language models) or 20,000 steps on 17 x 17 mazes, and no result
table of ours is at that scale. They are listed so that the report says what it does not show.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .claims import Claim
from .inputs import Columns, published, where

QWEN = "Qwen2.5-7B"


def claims() -> list[Claim]:
    """Every claim about language models and the maze."""
    return [*_methods(), *_group_sizes(), *_controls(), *_gammas(), *_maze()]


def _arrow(before: float, after: float, digits: int = 1) -> str:
    return f"{before:.{digits}f} to {after:.{digits}f}"


def _cell(table: Columns, column: str, **key: object) -> float:
    (value,) = where(table, **key)[column]
    return float(value)


def _methods() -> Iterator[Claim]:
    table = published("table1_models_methods")
    for method in ("GRPO", "DAPO", "CISPO"):
        shown = []
        for benchmark in ("Math average", "OOD average"):
            for k in (1, 256):
                before, after = (
                    _cell(table, f"pass_at_{k}", model=QWEN, method=name, benchmark=benchmark)
                    for name in (method, f"F-{method}")
                )
                shown.append(f"{benchmark} pass@{k} {_arrow(before, after)}")
        yield Claim(
            f"focal_{method.lower()}",
            "language models",
            f"The focal weight raises pass@256 of {method} at N = 8 ({QWEN})",
            "table 1",
            "; ".join(shown),
            evidence="table1_models_methods",
        )


def _group_sizes() -> Iterator[Claim]:
    table = published("table2_group_size")
    plain = where(table, method="GRPO")
    column = plain["math_pass_at_256"]
    lowest = int(plain["group_size"][np.argmin(column)])
    shown = ", ".join(f"{value:.1f} at N = {size}" for size, value in zip(plain["group_size"], column, strict=True))
    yield Claim(
        "middle_group_sizes",
        "language models",
        "Math pass@256 of GRPO is non-monotonic in the group size",
        "table 2, figure 1b",
        f"{shown}; lowest at N = {lowest}",
        evidence="fig-figure1",
    )
    nll = plain["delta_nll_rare"]
    before, after = (_cell(table, "delta_nll_rare", method=method, group_size=8) for method in ("GRPO", "F-GRPO"))
    yield Claim(
        "rare_drift",
        "language models",
        "Rare solutions drift away most at middle group sizes; the focal weight slows it",
        "table 2, appendix M.2",
        f"largest at N = {int(plain['group_size'][np.argmax(nll)])}; at N = 8 from {_arrow(before, after, 2)}",
        evidence="fig-figure1",
    )
    yield Claim(
        "cheaper",
        "language models",
        "F-GRPO at N = 8 matches GRPO at N = 32 on math pass@256 at a quarter of the rollouts",
        "table 2",
        f"{_cell(table, 'math_pass_at_256', method='F-GRPO', group_size=8):.1f} against "
        f"{_cell(table, 'math_pass_at_256', method='GRPO', group_size=32):.1f}",
        evidence="table2_group_size",
    )


def _controls() -> Iterator[Claim]:
    table = published("table3_controls")
    shown = "; ".join(
        f"{method} {one:.1f} / {many:.1f}"
        for method, one, many in zip(table["method"], table["math_pass_at_1"], table["math_pass_at_256"], strict=True)
    )
    yield Claim(
        "controls",
        "language models",
        "A smaller step, entropy, KL and differential smoothing beside the focal weight",
        "table 3",
        f"math pass@1 / pass@256: {shown}",
        evidence="table3_controls",
    )


def _gammas() -> Iterator[Claim]:
    chosen = published("table7_selected_gamma")["gamma"]
    values, counts = np.unique(chosen, return_counts=True)
    shown = ", ".join(f"γ = {value:g} in {count}" for value, count in zip(values, counts, strict=True))
    yield Claim(
        "selected_gamma",
        "language models",
        "Of γ in {0.5, 1, 2}, 0.5 or 1 is chosen in every setting",
        "table 7",
        f"{shown} of {len(chosen)} settings",
        evidence="fig-figure5",
    )


def _maze() -> Iterator[Claim]:
    table = published("table4_maze")
    plain, half = (where(table, gamma=gamma) for gamma in (0.0, 0.5))
    ranges = [f"{rows['pass_at_1'].min():.1f} to {rows['pass_at_1'].max():.1f}" for rows in (plain, half)]
    better = int((half["pass_at_1"] > plain["pass_at_1"]).sum())
    yield Claim(
        "maze",
        "maze",
        "The focal weight raises the final pass@1 at every group size",
        "table 4",
        f"pass@1 {ranges[0]} for γ = 0, {ranges[1]} for γ = 0.5; "
        f"higher at {better} of {len(plain['group_size'])} group sizes",
        evidence="table4_maze",
    )
    yield Claim(
        "maze_drop",
        "maze",
        "GRPO shows an early drop of pass@k on the single-solution maze; the focal weight shrinks it",
        "section 5.2",
        "shown as curves",
        evidence="table4_maze",
    )
