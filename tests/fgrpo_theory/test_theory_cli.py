"""`fgrpo theory`: the tables hold the functions' values, JSON to the last digit and CSV too; proofs are plumbed through."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fgrpo
from fgrpo_theory import (
    active_probability,
    concentration_zone,
    conditional_tail_miss_probability,
    covering_group_size,
    expected_mass_changes,
    expected_unsampled_correct_mass,
    expected_update_scale,
    learning_rate_multiplier,
    peak_group_size,
    tail_miss_probability,
    total_mass_change_variance,
)
from fgrpo_theory.cli import softmax_classes

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    "tail-miss --mu 0.3 --rho 0.1",
    "tail-miss --mu 0.1 0.9 --tau 0.05 1e-9 --group-sizes 1 8 1e9",
    "peak --mu 0.1 0.3 0.5 --rho 0.1 0.01",
    "plan --mu 0.3 --rho 0.1 --max-miss 0.05 --group-size 8",
    "drift --correct 1 2.0 --correct 9 0.0 --wrong 90 0.0 --surrogate ratio",
    "drift --surrogate probability --group-sizes 2 8 --gamma 0 0.5",
]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Standard output of a successful command."""

    def command(words: str) -> str:
        assert fgrpo.main(["theory", *words.split()]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return command


def test_tail_miss_rows_are_the_laws(run: Any) -> None:
    rows = json.loads(run("tail-miss --mu 0.1 0.9 --tau 0.05 1e-9 --group-sizes 1 8 1e9 --json"))
    wanted = [(mu, tau, n) for mu in (0.1, 0.9) for tau in (0.05, 1e-9) for n in (1, 8, 10**9)]
    assert len(rows) == len(wanted)
    for row, (mu, tau, n) in zip(rows, wanted, strict=True):
        given = None if n == 1 else conditional_tail_miss_probability(n, mu, tau)
        assert row == {
            "mu": mu, "rho": tau / mu, "N": n, "active": active_probability(n, mu),
            "tail_miss": tail_miss_probability(n, mu, tau), "tail_miss_if_active": given,
        }  # fmt: skip


def test_peak_rows_are_the_planners_answers(run: Any) -> None:
    rows = json.loads(run("peak --mu 0.1 0.3 --rho 0.1 0.01 --level 0.7 --json"))
    for row, (mu, rho) in zip(rows, [(m, r) for m in (0.1, 0.3) for r in (0.1, 0.01)], strict=True):
        tau = rho * mu
        low, high = concentration_zone(mu, tau, 0.7)
        peak = peak_group_size(mu, tau)
        assert row == {
            "mu": mu, "rho": tau / mu, "worst_N": peak, "tail_miss": tail_miss_probability(peak, mu, tau),
            "zone_from": low, "zone_to": high,
        }  # fmt: skip


def test_plan_sets_yours_beside_the_worst_and_the_safe_size(run: Any) -> None:
    plan = json.loads(run("plan --mu 0.3 --tau 0.03 --max-miss 0.01 --group-size 16 --gamma 0 2 --json"))
    sizes = {"yours": 16, "worst": peak_group_size(0.3, 0.03), "safe": covering_group_size(0.3, 0.03, 0.01)}
    assert plan["zone"] == list(concentration_zone(0.3, 0.03))
    assert {row["group"]: row["N"] for row in plan["groups"]} == sizes
    for row in plan["groups"]:
        assert row["tail_miss"] == tail_miss_probability(row["N"], 0.3, 0.03)
        assert row["active"] == active_probability(row["N"], 0.3)
        assert row["rollouts_vs_yours"] == row["N"] / 16
    for row, gamma in zip(plan["focal"], (0.0, 2.0), strict=True):
        assert row["update_scale"] == expected_update_scale(16, 0.3, gamma)
        assert row["of_gamma_0"] == expected_update_scale(16, 0.3, gamma) / expected_update_scale(16, 0.3, 0.0)
        assert row["matched_learning_rate"] == learning_rate_multiplier(gamma)


def test_plan_says_whether_your_size_is_in_the_zone(run: Any) -> None:
    text = run("plan --mu 0.3 --rho 0.1")
    assert "in 72.6% of groups; that is inside the concentration zone, N = 2 to 33." in text
    assert "From N = 99 on the tail miss is at most 0.05: 12.4 times your rollouts." in text
    assert "outside the concentration zone" in run("plan --mu 0.3 --rho 0.1 --group-size 64")


@pytest.mark.parametrize("classes", ["", "--correct 1 2.0 --correct 9 0.0 --wrong 90 0.5"])
@pytest.mark.parametrize("kind", ["ratio", "probability", "ratio --std-scaled"])
def test_drift_rows_are_the_exact_expectations(run: Any, classes: str, kind: str) -> None:
    grid = "--group-sizes 2 8 --gamma 0 0.5 --learning-rate 0.1 --rewards 1 0"
    rows = json.loads(run(f"drift {classes} --surrogate {kind} {grid} --json"))
    own = softmax_classes([(1, 2.0), (9, 0.0)], [(90, 0.5)]) if classes else softmax_classes(None, None)
    p, size, correct = own
    options = {"surrogate": kind.split()[0], "std_scaled": "--std" in kind}
    options |= {"learning_rate": 0.1, "reward_correct": 1.0, "reward_wrong": 0.0}
    for row, (gamma, n) in zip(rows, [(g, n) for g in (0.0, 0.5) for n in (2, 8)], strict=True):
        total, unsampled = expected_mass_changes(*own, n, gamma=gamma, **options)
        assert (row["gamma"], row["N"], row["mean_dQ_pos"], row["mean_dQ_u_pos"]) == (gamma, n, total, unsampled)
        assert row["sd_dQ_pos"] == total_mass_change_variance(*own, n, gamma=gamma, **options) ** 0.5
        assert row["mean_Q_u_pos"] == expected_unsampled_correct_mass(p, correct, n, size=size)


def test_the_default_policy_is_the_papers() -> None:
    p, size, correct = softmax_classes(None, None)
    assert size.sum() == 128_000
    assert (p * size).sum() == pytest.approx(1.0, abs=1e-12)
    assert (p * size)[correct].sum() == pytest.approx(0.630, abs=5e-4)
    assert p[:2] == pytest.approx([4.65e-4, 6.30e-5], rel=2e-3)


@pytest.mark.parametrize("words", EXAMPLES)
def test_csv_holds_the_same_numbers_as_json(run: Any, words: str) -> None:
    data = json.loads(run(f"{words} --json"))
    tables = [data["groups"], data["focal"]] if isinstance(data, dict) else [data]
    for block, rows in zip(run(f"{words} --csv").strip().split("\n\n"), tables, strict=True):
        parsed = list(csv.DictReader(io.StringIO(block)))
        assert [list(row) for row in parsed] == [list(row) for row in rows]
        for text, row in zip(parsed, rows, strict=True):
            for name, value in row.items():
                assert text[name] == ("" if value is None else str(value))


@pytest.mark.parametrize("words", EXAMPLES)
def test_tables_have_a_line_a_row_with_their_numbers(run: Any, words: str) -> None:
    data = json.loads(run(f"{words} --json"))
    rows = data["groups"] if isinstance(data, dict) else data
    lines = run(words).splitlines()
    assert lines[0].split() == list(rows[0])
    for line, row in zip(lines[1:], rows, strict=False):
        for shown, value in zip(line.split(), row.values(), strict=True):
            if isinstance(value, str) or value is None:
                assert shown == (value or "-")
            else:
                np.testing.assert_allclose(float(shown), value, rtol=1e-5)


def test_help_of_every_command_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("tail-miss", "peak", "plan", "drift"):
        with pytest.raises(SystemExit) as stop:
            fgrpo.main(["theory", name, "--help"])
        assert stop.value.code == 0
        assert f"Example: fgrpo theory {name}" in " ".join(capsys.readouterr().out.split())


def test_the_command_runs_in_a_process_of_its_own() -> None:
    ended = subprocess.run(
        [sys.executable, "fgrpo.py", "theory", *EXAMPLES[0].split(), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == ""
    assert json.loads(ended.stdout)[2]["tail_miss"] == tail_miss_probability(8, 0.3, 0.03)


@pytest.mark.parametrize(("residual", "code"), [("0", 0), ("x", 1)])
def test_prove_reports_and_fails_if_a_residual_is_left(
    residual: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plumbing alone; the proofs have tests of their own."""
    proofs = [
        SimpleNamespace(name=n, source="eq. 0", statement="1 = 1", residual=r, seconds=0.25, holds=r == "0")
        for n, r in (("first", "0"), ("second", residual))
    ]
    monkeypatch.setattr("fgrpo_theory.symbolic.prove_all", lambda: iter(proofs))
    out = tmp_path / "new" / "proofs.json"
    assert fgrpo.main(["theory", "prove", "--json", "--out", str(out)]) == code
    captured = capsys.readouterr()
    assert [(row["name"], row["residual"]) for row in json.loads(captured.out)] == [
        ("first", "0"),
        ("second", residual),
    ]
    assert json.loads(out.read_text()) == json.loads(captured.out)
    assert ("FAILED" in captured.err) == bool(code)
    assert fgrpo.main(["theory", "prove"]) == code
    assert capsys.readouterr().out.splitlines()[0].split() == ["name", "source", "residual"]
