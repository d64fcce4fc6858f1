"""Claims about the studies: decided by the tables, whatever these say, and undecided where they do not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import study_tables as made

from fgrpo_theory.foundation.files import read_table, write_table
from figures import study_claims
from figures.claims import FAILS, HOLDS, MISSING, UNDECIDED, Verdict, all_claims, verdict
from figures.inputs import Results


def judged(root: Path) -> dict[str, Verdict]:
    results = Results(root)
    return {claim.name: verdict(claim, results) for claim in study_claims.claims(results)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made.write_studies(tmp_path)
    return tmp_path


def change_counts(root: Path, arm: str, seeds: tuple[int, ...], correct: int, study: str = "sums") -> None:
    """Every problem of these runs has this many correct answers."""
    for seed in seeds:
        run = arm if seed < 0 else f"{arm}-s{seed}"
        path = root / "llm" / study / run / "evaluation_heldout/counts.parquet"
        table = read_table(path)
        write_table(path, {**table, "correct": np.full_like(table["correct"], correct)})


def change(root: Path, table: str, column: str, add: float, arm: str, seeds: tuple[int, ...]) -> None:
    """Add to a column of the `sums` study in the rows of these runs."""
    path = root / f"llm/sums/{table}.parquet"
    columns = read_table(path)
    keep = (columns["arm"] == arm) & np.isin(columns["seed"], seeds)
    write_table(path, {**columns, column: columns[column] + add * keep})


def test_made_up_studies_show_everything(made_up: Path) -> None:
    found = judged(made_up)
    assert {item.verdict for item in found.values()} == {HOLDS}
    assert len(found) == len(set(found)) == (2 + 2 * 3) + (2 + 2 * 4)
    assert found["sums_rl_raises_pass_1"].ours.startswith("pass@1 0.125 to 0.327; difference +0.202 [")
    assert "sums_focal_keeps_mass_focal-0.5" in found
    assert "letters_focal_keeps_mass_focal-0.5" not in found


@pytest.mark.parametrize(
    ("arm", "seeds", "correct", "name", "expected", "why"),
    [
        ("grpo", (0, 1, 2), 0, "sums_rl_raises_pass_1", FAILS, ""),
        ("grpo", (1,), 0, "sums_rl_raises_pass_1", UNDECIDED, "seeds disagree in sign"),
        ("start", (-1,), 0, "sums_grpo_loses_pass_k", FAILS, ""),
        ("grpo", (0, 1, 2), 9, "sums_grpo_loses_pass_k", UNDECIDED, "no difference in any seed"),
        ("focal-1", (0, 1, 2), 0, "sums_focal_keeps_pass_k_focal-1", FAILS, ""),
        ("focal-1", (2,), 0, "sums_focal_keeps_pass_k_focal-1", UNDECIDED, "seeds disagree in sign"),
        ("low-lr", (0, 1, 2), 9, "sums_low_lr_does_not_explain_focal-0.5", FAILS, ""),
        ("focal-1", (0, 1, 2), 0, "sums_low_lr_does_not_explain_focal-1", UNDECIDED, "nothing to explain"),
    ],
)
def test_counts_decide(
    arm: str, seeds: tuple[int, ...], correct: int, name: str, expected: str, why: str, root: Path
) -> None:
    change_counts(root, arm, seeds, correct)
    found = judged(root)[name]
    assert found.verdict == expected
    assert why in found.why
    assert bool(found.why) == (expected == UNDECIDED)


def test_rare_drift_decides_over_seeds(root: Path) -> None:
    name = "sums_focal_keeps_rare_focal-1"
    change(root, "summary", "rare_rise", 9.0, "focal-1", (0,))
    assert (judged(root)[name].verdict, judged(root)[name].why) == (UNDECIDED, "seeds disagree in sign")
    change(root, "summary", "rare_rise", 9.0, "focal-1", (1, 2))
    assert judged(root)[name].verdict == FAILS


def test_mass_at_equal_mu_needs_both_splits(root: Path) -> None:
    name = "sums_focal_keeps_mass_focal-0.5"
    change(root, "probes", "retained_train", -0.5, "focal-0.5", (0, 1, 2))
    assert judged(root)[name].verdict == UNDECIDED
    change(root, "probes", "retained_heldout", -0.5, "focal-0.5", (0, 1, 2))
    assert judged(root)[name].verdict == FAILS


def test_a_jump_between_probes_compares_nothing(root: Path) -> None:
    # Far above every level at once: the level is passed between two probes that are too far apart.
    path = root / "llm/sums/probes.parquet"
    columns = read_table(path)
    jumped = {f"mu_{split}": np.where(columns["step"] > 0, 0.99, 0.03) for split in ("train", "heldout")}
    write_table(path, {**columns, **jumped})
    found = judged(root)["sums_focal_keeps_mass_focal-1"]
    assert found.verdict == UNDECIDED
    assert found.ours.count("no µ that all arms of a seed reach") == 2


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    made.write_studies(tmp_path, seeds=(0,))
    found = judged(tmp_path)
    assert {item.verdict for item in found.values()} == {UNDECIDED}
    assert found["sums_rl_raises_pass_1"].why == "one seed decides nothing"


def test_without_a_study_the_kinds_are_listed_with_the_command(tmp_path: Path) -> None:
    listed = [claim for claim in all_claims() if claim.group == study_claims.GROUP]
    assert len(listed) == 6
    found = [verdict(claim, Results(tmp_path)) for claim in listed]
    assert {item.verdict for item in found} == {MISSING}
    assert all("fgrpo llm study" in item.why for item in found)


def test_a_study_without_grpo_or_control_has_the_claims_that_it_allows(tmp_path: Path) -> None:
    made.write_studies(tmp_path / "a", seeds=(0, 1), arms=("grpo", "focal-1"))
    assert not [name for name in judged(tmp_path / "a") if "low_lr" in name]
    assert len(judged(tmp_path / "a")) == (2 + 2) + (2 + 3)
