"""The numbers of the study figures and of their table, recomputed from the made-up tables by plain loops and fractions."""

from __future__ import annotations

import json
from fractions import Fraction
from math import comb
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import study_tables as made

import fgrpo
from fgrpo_theory.foundation.files import read_table, write_table
from figures import catalogue, style
from figures.inputs import SOURCES, MissingResult, Results
from figures.registry import entry
from figures.studies import arm_label, arm_look, decide, interval, spread, studies
from figures.study_dynamics import BLOCK
from figures.study_masses import LEVELS, WIDEST, at_equal_mu, first_reached, mean_at_equal_mu
from figures.study_table import EQUAL_MU, RARE, report_rows, settings_rows, table_rows

assert catalogue.ORDER


@pytest.fixture(scope="module")
def results(made_up: Path) -> Results:
    return Results(made_up)


def exact_pass_at_k(arm: str, seed: int, k: int) -> list[Fraction]:
    correct = made.counts(arm, seed)["correct"]
    n = made.SAMPLES
    return [1 - Fraction(comb(n - int(count), k), comb(n, k)) for count in correct]


def test_pass_at_k_curves_and_differences_are_those_of_the_counts(results: Results) -> None:
    numbers = entry("llm_pass_at_k").numbers(results)
    assert [study["study"] for study in numbers["studies"]] == ["letters (letter_counting)", "sums"]
    for study in numbers["studies"]:
        assert study["k"] == [1, 2, 4, 8, 16]
        assert [series["arm"] for series in study["series"]] == ["start", *made.ARMS]
        assert [series["arm"] for series in study["differences"]] == ["start", *made.ARMS[1:]]
        for series in study["series"]:
            seeds = [-1] if series["arm"] == "start" else list(made.SEEDS)
            for place, k in enumerate(study["k"]):
                means = [float(sum(exact_pass_at_k(series["arm"], seed, k)) / made.PROBLEMS) for seed in seeds]
                assert [of_seed[place] for of_seed in series["seeds"]] == pytest.approx(means, abs=1e-12)
                assert series["mean"][place] == pytest.approx(fmean(means), abs=1e-12)
                assert series["low"][place] - 1e-12 <= series["mean"][place] <= series["high"][place] + 1e-12
        plain = study["series"][1]
        for series in study["differences"]:
            (own,) = (item for item in study["series"] if item["arm"] == series["arm"])
            gaps = np.array(own["seeds"]) - np.array(plain["seeds"])
            assert np.array(series["seeds"]) == pytest.approx(gaps, abs=1e-12)


def test_a_difference_is_paired_so_what_arms_share_drops_out() -> None:
    shared = np.random.default_rng(3).random((4, 40))
    found = spread((shared + 0.25) - shared)
    assert (found["low"], found["high"]) == pytest.approx((0.25, 0.25), abs=1e-12)
    alone = spread(shared)
    assert alone["high"] - alone["low"] > 0.05


def test_the_bootstrap_has_the_width_of_its_law() -> None:
    # Seeds and problems crossed: Var = var(seed means) / S + var(problem means) / P, with population variances.
    values = np.random.default_rng(5).normal(size=(30, 1)) + 2 * np.random.default_rng(6).normal(size=(1, 50))
    low, high = interval(values)
    width = 2 * 1.96 * np.sqrt(values.mean(1).var() / 30 + values.mean(0).var() / 50)
    assert high - low == pytest.approx(width, rel=0.08)
    assert low < values.mean() < high


def test_numbers_without_problems_have_students_interval() -> None:
    found = spread([1.0, 2.0, 4.0])
    # t(0.975, 2) = 4.302653
    half = 4.302653 * np.std([1, 2, 4], ddof=1) / np.sqrt(3)
    assert (found["low"], found["high"]) == pytest.approx((7 / 3 - half, 7 / 3 + half), rel=1e-6)
    assert spread([1.0])["low"] is None


@pytest.mark.parametrize(
    ("seeds", "verdict"),
    [
        ([[0.2] * 9, [0.3] * 9], True),
        ([[-0.2] * 9, [-0.3] * 9], False),
        ([[0.2] * 9, [-0.3] * 9], None),
        ([[0.2] * 9, [0.0] * 9], None),
        ([[0.2] * 9], None),
        # The second seed's problems disagree among themselves.
        ([[0.2] * 9, [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0]], None),
    ],
)
def test_every_seed_must_show_it_by_itself(seeds: list[list[float]], verdict: bool | None) -> None:
    assert decide(np.array(seeds)) is verdict


def test_dynamics_are_block_means_without_what_has_no_value(results: Results) -> None:
    (_, study) = entry("llm_dynamics").numbers(results)["studies"]
    for item in study["arms"]:
        for name, series in item["metrics"].items():
            for place, seed in enumerate(made.SEEDS):
                column = made.dynamics(item["arm"], seed)[name]
                for block, shown in enumerate(series["seeds"][place]):
                    values = [float(v) for v in column[block * BLOCK : (block + 1) * BLOCK] if not np.isnan(v)]
                    assert (shown is None) == (not values)
                    assert shown is None or shown == pytest.approx(fmean(values), rel=1e-12)
            for shown, parts in zip(series["mean"], zip(*series["seeds"], strict=True), strict=True):
                assert (shown is None) == (None in parts)
                assert shown is None or shown == pytest.approx(fmean(parts), rel=1e-12)
        assert series["step"] == [3.0, 8.0, 11.5]
        assert item["metrics"]["focal_weight"]["mean"][-1] is None
    json.dumps(study, allow_nan=False)


def test_exact_masses_are_the_probes(results: Results) -> None:
    (study,) = entry("llm_exact").numbers(results)["studies"]
    for item in study["arms"]:
        assert item["step"] == list(made.PROBES)
        for name, column in item["columns"].items():
            seeds = [made.probes(item["arm"], seed)[name] for seed in made.SEEDS]
            assert column["seeds"] == seeds
            assert column["mean"] == pytest.approx([fmean(values) for values in zip(*seeds, strict=True)], rel=1e-12)


def retained_at(arm: str, level: float) -> float:
    """The made-up M_ret is linear in the training prompts' mu."""
    return 1 - (1 - made.KEPT[arm]) * (level - 0.03)


def test_m_ret_at_equal_mu_is_that_of_the_made_up_line(results: Results) -> None:
    sums = studies(results)[1]
    found = at_equal_mu(results, sums, "train")
    for seed, levels in found.items():
        top = min(made.probes(arm, seed)["mu_train"][-1] for arm in made.ARMS)
        assert list(levels) == [level for level in LEVELS if level <= top]
        for level, kept in levels.items():
            assert kept == pytest.approx({arm: retained_at(arm, level) for arm in made.ARMS}, rel=1e-12)
    (study,) = entry("llm_equal_mu").numbers(results)["studies"]
    for item in study["splits"]["train"]["differences"]:
        for level, shown in zip(item["level"], zip(*item["seeds"], strict=True), strict=True):
            gap = retained_at(item["arm"], level) - retained_at("grpo", level)
            whole = all(level in found[seed] for seed in made.SEEDS)
            assert all(value == pytest.approx(gap, abs=1e-12) for value in shown if value is not None)
            assert (None not in shown) == whole
        assert [value is None for value in item["mean"]] == [
            None in parts for parts in zip(*item["seeds"], strict=True)
        ]


def test_the_first_crossing_counts_and_no_jump_is_bridged() -> None:
    assert first_reached([0.1, 0.2, 0.1, 0.3], [1.0, 0.5, 0.4, 0.2], 0.15) == pytest.approx(0.75)
    assert first_reached([0.1, 0.2], [1.0, 0.5], 0.25) is None
    assert first_reached([0.3, 0.4], [1.0, 0.5], 0.2) is None
    assert first_reached([0.1, 0.1 + 1.01 * WIDEST], [1.0, 0.5], 0.2) is None


def test_rare_rises_are_those_of_the_summary(results: Results) -> None:
    for study in entry("llm_rare").numbers(results)["studies"]:
        for item in study["arms"]:
            rises = [made.RISE[item["arm"]] + 0.1 * seed for seed in made.SEEDS]
            assert item["mean"] == pytest.approx(fmean(rises), rel=1e-12)
            assert item["runs"] == [pytest.approx([rise, rise - 0.5, rise + 0.7], rel=1e-12) for rise in rises]


def test_the_table_holds_every_quantity_at_equal_steps_and_at_equal_mu(results: Results) -> None:
    rows = {(row["study"], row["arm"], row["quantity"]): row for row in table_rows(results)}
    passes = [f"pass@{k}" for k in (1, 4, 16)]
    assert [key[2] for key in rows if key[:2] == ("letters", "focal-1")] == [*passes, RARE]
    assert [key[2] for key in rows if key[:2] == ("sums", "focal-1")] == [
        *passes,
        "mu",
        "M_ret",
        *EQUAL_MU.values(),
        RARE,
    ]
    row = rows["sums", "focal-1", "pass@4"]
    mine, plain = (
        [float(sum(exact_pass_at_k(arm, seed, 4)) / made.PROBLEMS) for seed in made.SEEDS]
        for arm in ("focal-1", "grpo")
    )
    assert row["mean"] == pytest.approx(fmean(mine), rel=1e-12)
    assert row["by_seed"] == " ".join(f"{value:.4f}" for value in mine)
    assert row["less_grpo"] == pytest.approx(fmean(mine) - fmean(plain), rel=1e-9)
    assert row["less_grpo_by_seed"] == " ".join(f"{a - b:+.4f}" for a, b in zip(mine, plain, strict=True))
    assert rows["sums", "start", "pass@4"]["seeds"] == ""


def test_masses_of_the_table_are_eq_26_of_the_laws(results: Results) -> None:
    rows = {(row["arm"], row["quantity"]): row for row in table_rows(results) if row["study"] == "sums"}
    for arm in made.ARMS:
        kept, mass = [], []
        for seed in made.SEEDS:
            before, after = made.laws("start", -1)["mass"], made.laws(arm, seed)["mass"]
            for part in (slice(0, 3), slice(3, 6)):
                lost = sum(max(0.0, old - new) for old, new in zip(before[part], after[part], strict=True))
                kept.append(1 - lost / sum(before[part]))
                mass.append(sum(after[part]))
        assert rows[arm, "M_ret"]["mean"] == pytest.approx(fmean(kept), rel=1e-12)
        assert rows[arm, "mu"]["mean"] == pytest.approx(fmean(mass), rel=1e-12)
    seeds, means = mean_at_equal_mu(results, studies(results)[1], "train")
    assert seeds == list(made.SEEDS)
    assert rows["focal-1", EQUAL_MU["train"]]["mean"] == pytest.approx(float(means["focal-1"].mean()), rel=1e-12)


def test_only_seeds_that_every_arm_has_are_read(tmp_path: Path) -> None:
    made.write_studies(tmp_path)
    path = tmp_path / "llm/sums/summary.parquet"
    table = read_table(path)
    keep = table["run"] != "low-lr-s1"
    write_table(path, {name: column[keep] for name, column in table.items()})
    assert studies(Results(tmp_path))[1].seeds == (0, 2)
    keep &= table["seed"] != 0
    keep &= ~((table["seed"] == 2) & (table["arm"] == "grpo"))
    write_table(path, {name: column[keep] for name, column in table.items()})
    with pytest.raises(ValueError, match="a seed that every arm has finished, got study=sums"):
        studies(Results(tmp_path))


def test_runs_on_other_problems_are_refused(tmp_path: Path) -> None:
    made.write_studies(tmp_path, seeds=(0,))
    path = tmp_path / "llm/sums/grpo-s0/evaluation_heldout/counts.parquet"
    table = read_table(path)
    write_table(path, {**table, "problem": table["problem"][::-1]})
    with pytest.raises(ValueError, match="evaluated on the same problems"):
        table_rows(Results(tmp_path))


def test_several_files_are_one_table_with_one_digest(made_up: Path, tmp_path: Path) -> None:
    results = Results(made_up)
    assert set(results["study_summary"]["study"]) == {"letters", "sums"}
    # Only one of the studies has laws of its answers, and an unfinished run is not read.
    assert set(results["study_laws"]["study"]) == {"sums"}
    made.write_studies(tmp_path, seeds=(0,))
    other = Results(tmp_path)
    before = other.digest("study_counts")
    inside = tmp_path / "llm/sums/grpo-s1.partial/evaluation_heldout"
    inside.mkdir(parents=True)
    write_table(inside / "counts.parquet", made.counts("grpo", 1))
    assert other.digest("study_counts") == before
    write_table(tmp_path / "llm/sums/grpo-s0/evaluation_heldout/counts.parquet", made.counts("grpo", 1))
    assert other.digest("study_counts") != before
    with pytest.raises(MissingResult, match=r"llm_rare needs .*summary.parquet; `fgrpo llm study .*` makes it"):
        entry("llm_rare").make(Results(tmp_path / "none"))


def test_settings_and_reader_rows_show_no_machine_path(results: Results) -> None:
    rows = settings_rows(results)
    assert [row["model"] for row in rows] == ["tiny-model"] * 2
    assert rows[0]["commits"] == "feedfacefeed"
    (cell,) = (row[RARE] for row in report_rows(results) if (row["study"], row["arm"]) == ("sums", "focal-1"))
    assert cell == "2.100 [1.852, 2.348] (2.000 2.100 2.200)"


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str], made_up: Path, tmp_path: Path) -> None:
    assert fgrpo.main(["figures", "studies", "--json", "--results", str(made_up)]) == 0
    assert json.loads(capsys.readouterr().out) == table_rows(Results(made_up))
    assert fgrpo.main(["figures", "studies", "--results", str(tmp_path)]) == 2
    assert SOURCES["study_summary"].command in capsys.readouterr().err


def test_arms_keep_the_colours_of_their_gamma_and_differ_from_each_other() -> None:
    assert arm_look("grpo") == style.gamma_look(0.0)
    assert arm_look("focal-0.5") == style.gamma_look(0.5)
    assert [arm_label(arm) for arm in ("grpo", "focal-2", "dapo")] == ["GRPO (γ = 0)", "γ = 2", "dapo"]
    looks = [arm_look(arm) for arm in ("start", *made.ARMS, "focal-2", "other")]
    for name in ("color", "linestyle", "marker"):
        assert len({getattr(look, name) for look in looks}) >= len(looks) - (name == "marker")
