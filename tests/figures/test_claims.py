"""Verdicts follow the tables: what agrees is reproduced, what contradicts differs, what is missing says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fgrpo_theory as theory
from fgrpo_theory.foundation.files import write_json
from figures import policy, report, simulation_claims
from figures.claims import DIFFERS, MISSING, NOT_RUN, REPRODUCED, Verdict, all_claims, verdict
from figures.inputs import PUBLISHED, Results

Tables = dict[str, dict[str, np.ndarray]]
CLAIMS = {claim.name: claim for claim in all_claims()}


def judged(name: str, root: Path) -> Verdict:
    return verdict(CLAIMS[name], Results(root))


def change(table: dict[str, np.ndarray], column: str, value: float | str, **equal: object) -> dict[str, np.ndarray]:
    """The table with `column` set to `value` in the rows that match."""
    keep = np.logical_and.reduce([table[name] == wanted for name, wanted in equal.items()])
    assert keep.any()
    return {**table, column: np.where(keep, value, table[column])}


def test_names_and_groups_are_those_of_the_report() -> None:
    assert len(CLAIMS) == len(all_claims())
    assert {claim.group for claim in CLAIMS.values()} == set(report.GROUPS)


@pytest.mark.parametrize(
    "name", ["correct_mass_rises", "retained_dips", "largest_keeps", "focal_keeps_more", "crosscheck", "proofs"]
)
def test_tables_that_agree_are_reproduced(name: str, made_up: Path) -> None:
    assert judged(name, made_up).verdict == REPRODUCED


@pytest.mark.parametrize(
    ("name", "column", "value", "rows", "why"),
    [
        ("correct_mass_rises", "Q_pos", 0.5, {"group_size": 256, "gamma": 1.0}, "falls at N = 256, γ = 1"),
        ("retained_dips", "M_ret", 0.8, {"gamma": 0.0}, "asked for"),
        ("retained_dips", "M_ret", 0.5, {"gamma": 0.0, "group_size": 131072, "seed": 2}, "asked for"),
        ("retained_dips", "M_ret", 0.9, {"gamma": 0.0, "group_size": 2}, "asked for"),
        ("largest_keeps", "M_ret", 0.94, {"gamma": 1.0, "group_size": 131072, "seed": 0}, "asked for"),
        ("focal_keeps_more", "M_ret", 0.01, {"gamma": 1.0, "group_size": 8192}, "not at N = 8192"),
        ("focal_keeps_more", "M_ret", 0.9, {"gamma": 0.0}, "no group size keeps under"),
    ],
)
def test_a_table_that_contradicts_differs_and_says_why(
    name: str, column: str, value: float, rows: dict, why: str, tables: Tables, make_results: Callable[..., Path]
) -> None:
    found = judged(name, make_results(paper=change(tables["paper"], column, value, **rows)))
    assert found.verdict == DIFFERS
    assert why in found.why


def test_the_largest_group_size_must_be_the_papers(tables: Tables, make_results: Callable[..., Path]) -> None:
    keep = tables["paper"]["group_size"] < 131072
    small = {name: column[keep] for name, column in tables["paper"].items()}
    kept = change(small, "M_ret", 1.0, group_size=8192)
    assert judged("largest_keeps", make_results(paper=kept)).verdict == DIFFERS


def test_the_printed_surrogate_is_judged_by_its_own_rows(
    tables: Tables, make_results: Callable[..., Path], made_up: Path
) -> None:
    found = judged("printed_surrogate", made_up)
    assert found.verdict == DIFFERS
    assert "the importance ratio does give both ends" in found.why
    both = change(tables["surrogates"], "M_ret", 0.99, group_size=131072)
    assert judged("printed_surrogate", make_results(surrogates=both)).verdict == REPRODUCED


def test_the_printed_surrogate_must_also_raise_the_correct_mass(
    tables: Tables, make_results: Callable[..., Path]
) -> None:
    both = change(tables["surrogates"], "M_ret", 0.99, group_size=131072)
    falls = change(both, "Q_pos", 0.5, group_size=2, surrogate="probability")
    assert judged("printed_surrogate", make_results(surrogates=falls)).verdict == DIFFERS


def test_if_no_surrogate_keeps_the_mass_the_reason_says_so(tables: Tables, make_results: Callable[..., Path]) -> None:
    neither = change(tables["surrogates"], "M_ret", 0.1, group_size=131072)
    assert "the importance ratio does not either" in judged("printed_surrogate", make_results(surrogates=neither)).why


def test_earlier_engines_within_and_past_the_tolerance(
    tables: Tables, make_results: Callable[..., Path], made_up: Path
) -> None:
    equal = tables["paper"]
    for (size, gamma), (mass, kept) in simulation_claims.EARLIER.items():
        equal = change(equal, "Q_pos", mass, group_size=size, gamma=gamma)
        equal = change(equal, "M_ret", kept, group_size=size, gamma=gamma)
    assert judged("earlier_engines", make_results(paper=equal)).verdict == REPRODUCED
    found = judged("earlier_engines", make_results(paper=change(equal, "M_ret", 0.093, group_size=8192, gamma=0.0)))
    assert (found.verdict, found.why) == (DIFFERS, "past the tolerance: M_ret at N = 8192, γ = 0")


def test_a_failed_cell_and_a_wrong_law_that_passes_are_both_named(
    tables: Tables, make_results: Callable[..., Path]
) -> None:
    failed = change(tables["crosscheck"], "verdict", "fail", cell="activity-1")
    found = judged("crosscheck", make_results(crosscheck=failed))
    assert (found.verdict, found.why) == (DIFFERS, "outside: activity (activity-1)")
    unseen = change(tables["crosscheck"], "verdict", "survives", wrong_law="activity without its last term")
    found = judged("crosscheck", make_results(crosscheck=unseen))
    assert (found.verdict, found.why) == (DIFFERS, "not noticed: activity without its last term")


def test_a_crosscheck_without_wrong_laws_proves_nothing(tables: Tables, make_results: Callable[..., Path]) -> None:
    keep = np.array([name is None for name in tables["crosscheck"]["wrong_law"]])
    only_right = {name: column[keep] for name, column in tables["crosscheck"].items()}
    assert judged("crosscheck", make_results(crosscheck=only_right)).verdict == DIFFERS


def test_a_proof_with_a_residual_differs(make_results: Callable[..., Path]) -> None:
    root = make_results()
    row = {"name": "eq17", "source": "eq. 17", "statement": "s", "residual": "p - 1", "seconds": 1.0}
    write_json(root / "theory/proofs.json", [row, {**row, "name": "eq10", "residual": "0"}])
    found = judged("proofs", root)
    assert (found.verdict, found.ours, found.why) == (DIFFERS, "1 of 2 identities have residual 0", "not zero: eq17")


def test_theory_claims_hold_and_would_not_with_wrong_laws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("one_peak", "usual_sizes", "start_policy", "leaf_is_covered", "shrinks_while_growing", "multiplier")
    assert [judged(name, tmp_path).verdict for name in names] == [REPRODUCED] * len(names)
    monkeypatch.setattr(theory, "tail_miss_probability", lambda size, mu, tau: 0.5 * np.asarray(size) / 4000)
    monkeypatch.setattr(theory, "conditional_tail_miss_probability", lambda size, mu, tau: np.zeros(np.shape(size)))
    monkeypatch.setattr(policy, "LEAF_PROBABILITY", 6.4e-5)
    monkeypatch.setattr(theory, "expected_mass_changes", lambda *arrays, **options: (1.0, 1.0))
    monkeypatch.setattr(theory, "learning_rate_multiplier", lambda gamma: 0.7)
    assert [judged(name, tmp_path).verdict for name in names] == [DIFFERS] * len(names)


def test_a_missing_table_names_its_command(tmp_path: Path) -> None:
    found = judged("retained_dips", tmp_path)
    assert (found.verdict, found.why) == (MISSING, "`fgrpo sims sweep --preset paper` makes the table")


def test_language_models_and_maze_are_not_run_and_show_published_values(tmp_path: Path) -> None:
    for claim in CLAIMS.values():
        if claim.group in ("language models", "maze"):
            assert verdict(claim, Results(tmp_path)).verdict == NOT_RUN
    assert "pass@256 64.1 to 70.3" in CLAIMS["focal_grpo"].published
    assert "pass@256 69.3 to 72.5" in CLAIMS["focal_dapo"].published
    assert "pass@256 73.2 to 76.8" in CLAIMS["focal_cispo"].published
    assert CLAIMS["rare_drift"].published == "largest at N = 8; at N = 8 from 0.68 to 0.46"
    assert CLAIMS["cheaper"].published == "70.3 against 70.1"
    assert CLAIMS["maze"].published.startswith(
        "pass@1 65.6 to 75.8 for γ = 0, 74.4 to 93.6 for γ = 0.5; higher at 6 of 6"
    )
    assert CLAIMS["selected_gamma"].published == "γ = 0.5 in 7, γ = 1 in 2 of 9 settings"
    assert set(report.TABLE_TITLES) == {path.stem for path in PUBLISHED.glob("*.csv")}
