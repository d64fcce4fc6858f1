"""The maze figures' numbers and claims, recomputed from the made-up study by fractions, loops and enumeration."""

from __future__ import annotations

import json
from fractions import Fraction
from math import comb
from pathlib import Path
from statistics import fmean, stdev

import maze_tables as made
import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

import fgrpo
from fgrpo_theory.foundation.files import read_table, write_table
from figures import maze_claims, maze_coverage, maze_gallery, maze_groups, maze_order, maze_study, maze_table
from figures.claims import FAILS, HOLDS, MISSING, UNDECIDED, Verdict, all_claims, verdict
from figures.inputs import Results, published
from figures.registry import entry

NORMAL = 1.959963984540054


@pytest.fixture(scope="module")
def results(made_up: Path) -> Results:
    return Results(made_up)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made.write_maze_study(tmp_path)
    return tmp_path


def exact(step: int, gamma: float, size: int, seed: int, k: int, samples: int = made.SAMPLES) -> list[float]:
    """pass@k a maze by binomial coefficients."""
    counts = made.correct(step, gamma, size, seed, samples).tolist()
    return [float(1 - Fraction(comb(samples - c, k), comb(samples, k))) for c in counts]


def half(values: list[float]) -> float:
    return NORMAL * stdev(values) / len(values) ** 0.5


def change(root: Path, table: str, column: str, value: int, **equal: object) -> None:
    """Set a column in the rows with these values."""
    path = root / f"maze/laptop/{table}.parquet"
    columns = dict(read_table(path))
    keep = np.ones(len(columns["run"]), dtype=bool)
    for name, wanted in equal.items():
        keep &= columns[name] == wanted
    assert keep.any()
    write_table(path, {**columns, column: np.where(keep, value, columns[column])})


def judged(root: Path) -> dict[str, Verdict]:
    results = Results(root)
    return {claim.name: verdict(claim, results) for claim in maze_claims.claims(results)}


def test_dynamics_are_pass_at_k_of_every_evaluation(results: Results) -> None:
    numbers = entry("maze_dynamics").numbers(results)
    assert numbers["ks"] == [1, 16]
    assert numbers["scale"] == "5 × 5 mazes, 0.99 M parameters, 10 updates of 12 prompts"
    assert len(numbers["curves"]) == 2 * len(list(made.runs()))
    for curve in numbers["curves"]:
        assert curve["step"] == list(made.EVALUATED)
        for place, step in enumerate(curve["step"]):
            values = exact(step, curve["gamma"], curve["N"], curve["seed"], curve["k"])
            assert curve["mean"][place] == pytest.approx(fmean(values), abs=1e-12)
            assert curve["high"][place] - curve["mean"][place] == pytest.approx(half(values), abs=1e-12)


def test_the_end_stands_beside_the_published_table(results: Results) -> None:
    numbers = entry("maze_final").numbers(results)
    for item in numbers["ours"]:
        values = exact(10, item["gamma"], item["N"], item["seed"], item["k"], made.FINAL)
        assert item["mean"] == pytest.approx(fmean(values), abs=1e-12)
    table = published("table4_maze")
    assert len(numbers["published"]) == 2 * len(table["gamma"])
    best = max(numbers["published"], key=lambda item: item["mean"])
    assert best == {"N": 128, "gamma": 0.5, "k": 256, "mean": pytest.approx(0.965)}


def test_curves_reach_the_final_samples_and_start_at_the_start(results: Results) -> None:
    numbers = entry("maze_pass_at_k").numbers(results)
    assert numbers["start"]["k"] == [1, 2, 4, 8, 16]
    assert numbers["start"]["mean"] == pytest.approx(
        [fmean(exact(0, 0.0, 4, 0, k)) for k in (1, 2, 4, 8, 16)], abs=1e-12
    )
    for item in numbers["series"]:
        assert item["k"] == [1, 2, 4, 8, 16, 32, 64]
        means = [fmean(exact(10, item["gamma"], item["N"], item["seed"], k, made.FINAL)) for k in item["k"]]
        assert item["mean"] == pytest.approx(means, abs=1e-12)


def test_differences_are_paired_by_maze_and_seed(results: Results) -> None:
    numbers = entry("maze_differences").numbers(results)
    assert numbers["moments"] == ["pass@16 after 5 updates", "pass@16 at the end", "pass@1 at the end"]
    settings = dict(
        zip(numbers["moments"], ((5, 16, made.SAMPLES), (10, 16, made.FINAL), (10, 1, made.FINAL)), strict=True)
    )
    assert len(numbers["differences"]) == 3 * 2 * (len(made.SIZES) + 1)
    for item in numbers["differences"]:
        step, k, samples = settings[item["moment"]]
        focal, plain = (exact(step, g, item["N"], item["seed"], k, samples) for g in (item["gamma"], 0.0))
        gaps = [a - b for a, b in zip(focal, plain, strict=True)]
        assert item["mean"] == pytest.approx(fmean(gaps), abs=1e-12)
        assert item["high"] - item["mean"] == pytest.approx(half(gaps), abs=1e-12)


@pytest.mark.parametrize(
    ("lengths", "bins", "expected"),
    [
        ([4, 6, 6, 6, 8, 10], 2, [(4, 6), (8, 10)]),
        ([16] * 119 + [20] * 9, 4, [(16, 16), (20, 20)]),
        ([3, 1, 2], 4, [(1, 1), (2, 2), (3, 3)]),
        ([5], 4, [(5, 5)]),
    ],
)
def test_bins_are_whole_and_cover_all(lengths: list[int], bins: int, expected: list[tuple[int, int]]) -> None:
    found = maze_coverage.bins_of(np.array(lengths), bins)
    assert found == expected
    assert all(sum(low <= length <= high for low, high in found) == 1 for length in lengths)


def test_coverage_counts_mazes_without_a_right_sample(results: Results) -> None:
    numbers = entry("maze_coverage").numbers(results)
    assert numbers["bins"] == [(4, 4), (6, 6), (8, 8), (12, 12)]
    assert numbers["mazes"] == [6, 6, 6, 6]
    assert [item["mean"] for item in numbers["start"]] == pytest.approx([0, 0, 0, 2 / 6])
    for item in numbers["arms"]:
        none = made.correct(10, item["gamma"], item["N"], item["seed"]) == 0
        assert [b["mean"] for b in item["lost"]] == pytest.approx(
            [none[n == made.LENGTHS].mean() for n in (4, 6, 8, 12)]
        )


def test_losses_by_the_start_cut_the_mazes_by_its_counts(results: Results) -> None:
    numbers = entry("maze_coverage_by_start").numbers(results)
    counts = made.correct(0, 0.0, 4, 0)
    assert numbers["bins"] == [(0, 0), (4, 4)] == [(value, value) for value in sorted(set(counts.tolist()))]
    assert numbers["mazes"] == [2, 22]
    assert [item["mean"] for item in numbers["start"]] == [1, 0]
    for item in numbers["arms"]:
        none = made.correct(10, item["gamma"], item["N"], item["seed"]) == 0
        assert [b["mean"] for b in item["lost"]] == pytest.approx([none[counts == c].mean() for c in (0, 4)])


@pytest.mark.parametrize(("lost", "mazes"), [(0, 30), (7, 30), (30, 30), (1, 2)])
def test_shares_have_wilsons_interval(lost: int, mazes: int) -> None:
    found = maze_coverage.lost_share(np.arange(mazes) < lost)
    t = float(stdtrit(mazes - 1, 0.975))
    for limit in (found["low"], found["high"]):
        # The limits solve (share - p)^2 = t^2 p (1 - p) / n.
        assert (lost / mazes - limit) ** 2 == pytest.approx(t**2 * limit * (1 - limit) / mazes, abs=1e-12)
    assert found["low"] <= lost / mazes <= found["high"]
    assert found["low"] < found["high"]


def test_the_order_stands_beside_table_4(results: Results) -> None:
    rows = {(row["quantity"], row["N"]): row for row in maze_order.order_rows(results)}
    assert list(rows) == [(quantity, size) for quantity in ("pass@1", "pass@16") for size in made.SIZES]
    assert rows["pass@1", 4]["table 4"] == "1 > 0.5 > 0"
    assert rows["pass@16", 8]["table 4"] == "0.5 > 1 > 0"
    for (quantity, size), row in rows.items():
        k = int(quantity.removeprefix("pass@"))
        wider = float(ndtri(1 - 0.05 / (2 * 9)))
        told = {}
        for high, low in ((1.0, 0.5), (0.5, 0.0)):
            clear = []
            for seed in made.seeds(size):
                pair = [exact(10, gamma, size, seed, k, made.FINAL) for gamma in (high, low)]
                gaps = [a - b for a, b in zip(*pair, strict=True)]
                clear.append(fmean(gaps) > wider * stdev(gaps) / len(gaps) ** 0.5)
            told[high] = ">" if all(clear) else "~"
        assert row["here"] == f"1 {told[1.0]} 0.5 {told[0.5]} 0"


def test_every_seed_must_tell_exponents_apart() -> None:
    low, high = np.full(9, 0.2), np.full(9, 0.7)
    assert maze_order.signs({0.0: {0: low, 1: low}, 1.0: {0: high, 1: high}}, 1) == {(0.0, 1.0): -1}
    assert maze_order.signs({0.0: {0: low, 1: high}, 1.0: {0: high, 1: low}}, 1) == {(0.0, 1.0): 0}
    assert maze_order.signs({0.0: {0: low}, 1.0: {2: high}}, 1) == {(0.0, 1.0): 0}
    # 1 of 9 mazes differs by 0.9: z = 1 is too little, whatever the number of pairs; 0.1 +- 0.1 over 9 has z = 3.
    few = np.where(np.arange(9) == 0, 0.9, 0.0)
    assert maze_order.signs({0.0: {0: np.zeros(9)}, 1.0: {0: few}}, 1) == {(0.0, 1.0): 0}
    some = 0.1 + 0.1 * np.array([-1, -1, -1, -1, 0, 1, 1, 1, 1])
    assert maze_order.signs({0.0: {0: np.zeros(9)}, 1.0: {0: some}}, 1) == {(0.0, 1.0): -1}
    assert maze_order.signs({0.0: {0: np.zeros(9)}, 1.0: {0: some}}, 100) == {(0.0, 1.0): 0}


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        # Table 4 by pass@256: N = 4 and 16 have 1 above 0.5 above 0, N = 8 has 0.5 above 1 above 0.
        ({(4, 1.0): 3, (4, 0.5): 2, (8, 1.0): 2, (8, 0.5): 3, (16, 1.0): 3, (16, 0.5): 2}, HOLDS),
        ({(4, 1.0): 3, (4, 0.5): 2, (8, 1.0): 2, (8, 0.5): 2, (16, 1.0): 3, (16, 0.5): 2}, UNDECIDED),
        ({(4, 1.0): 3, (4, 0.5): 2, (8, 1.0): 3, (8, 0.5): 2, (16, 1.0): 3, (16, 0.5): 2}, FAILS),
    ],
)
def test_the_claim_of_the_order_follows_the_tables(
    root: Path, factors: dict[tuple[int, float], int], expected: str
) -> None:
    for size in made.SIZES:
        change(root, "final", "correct", 1, group_size=size)
        for gamma in (0.5, 1.0):
            change(root, "final", "correct", factors[size, gamma], group_size=size, gamma=gamma)
    found = judged(root)
    assert (found["maze_study_order_k"].verdict, found["maze_study_order_1"].verdict) == (expected, expected)


def enumerated(count: int, size: int, gamma: float) -> tuple[float, float]:
    """(activity, mean focal weight) over every choice of `size` of a maze's samples."""
    ways = [comb(count, j) * comb(made.SAMPLES - count, size - j) for j in range(size + 1)]
    total = sum(ways)
    return sum(ways[1:-1]) / total, sum(w * (1 - j / size) ** gamma for j, w in enumerate(ways)) / total


def test_groups_are_held_against_what_random_subgroups_show(results: Results) -> None:
    numbers = entry("maze_groups").numbers(results)
    assert numbers["window"] == 5
    assert {item["step"] for item in numbers["items"]} == {0, 5}
    for item in numbers["items"]:
        size, gamma, seed, step = (item[name] for name in ("N", "gamma", "seed", "step"))
        counts = made.correct(step, gamma, size, seed).tolist()
        expected = [enumerated(count, size, gamma) for count in counts]
        assert item["expected_active"] == pytest.approx(fmean(pair[0] for pair in expected), abs=1e-12)
        assert item["expected_weight"] == pytest.approx(fmean(pair[1] for pair in expected), abs=1e-12)
        labels = {"gamma": gamma, "group_size": size, "seed": seed}
        right = np.concatenate([made.groups(at, labels)["correct"] for at in range(step + 1, step + 6)])
        assert item["groups"] == len(right) == 5 * made.PROMPTS
        assert item["active"] == pytest.approx(np.mean((right > 0) & (right < size)), abs=1e-12)
        assert item["weight"] == pytest.approx(np.mean((1 - right / size) ** gamma), abs=1e-12)


def test_pooled_intervals_count_shared_mazes_and_prompts_once() -> None:
    # Ten clusters of values that are alike within: as many independent values as clusters, not as values.
    values = np.random.default_rng(1).random(10).tolist()
    sides = {"measured": {place: [value] * 7 for place, value in enumerate(values)}, "expected": {0: [0.5], 1: [0.5]}}
    found = maze_groups._difference(sides)
    assert found["difference"] == pytest.approx(fmean(values) - 0.5)
    assert found["half"] == pytest.approx(half(values))
    assert found["groups"] == 70


def test_the_gallery_shows_a_maze_that_rises_and_one_that_falls(results: Results) -> None:
    numbers = entry("maze_gallery").numbers(results)
    assert [cell["maze"] for cell in numbers["mazes"]] == [0, 1]
    assert numbers["N"] == 8
    rising, falling = (cell["arms"][0]["steps"] for cell in numbers["mazes"])
    assert [sum(step["success"]) for step in rising] == [1, 2, 2]
    assert [sum(step["success"]) for step in falling] == [1, 0, 0]
    assert rising[0]["paths"][1] == [(1, 1), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("text", ["", "DONE", "<script>", "UP UP", "DOWN " * 500, "RIGHT \n LEFT __import__"])
def test_any_text_of_a_model_is_a_path(text: str) -> None:
    visited = maze_gallery.squares(made.WALLS.split("/"), text)
    assert visited[0] == (1, 1)
    assert all(made.WALLS.split("/")[row][column] == " " for row, column in visited)


def test_the_table_has_a_row_a_run(results: Results) -> None:
    rows = maze_table.table_rows(results)
    assert len(rows) == len(list(made.runs()))
    (row,) = [r for r in rows if (r["N"], r["gamma"], r["seed"]) == (8, 0.5, 1)]
    assert row["pass@16"] == pytest.approx(fmean(exact(10, 0.5, 8, 1, 16, made.FINAL)), abs=1e-12)
    assert row["start pass@16"] == pytest.approx(fmean(exact(0, 0.5, 8, 1, 16)), abs=1e-12)
    assert (row["lowest pass@16"], row["lowest after"]) == (pytest.approx(fmean(exact(5, 0.5, 8, 1, 16)), abs=1e-12), 5)
    assert row["never solved"] == pytest.approx(8 / 24)
    assert (row["table 4 pass@1"], row["table 4 pass@256"]) == (pytest.approx(0.834), pytest.approx(0.84))


def test_the_report_rows_show_the_range_of_seeds(results: Results) -> None:
    rows = maze_table.report_rows(results)
    assert len(rows) == len(made.SIZES) * len(made.GAMMAS)
    (row,) = [r for r in rows if (r["N"], r["γ"]) == ("8", "0")]
    assert row["seeds"] == "2"
    assert row["never solved"] == f"{(12 + 13) / 48:.3f} ({12 / 24:.3f} to {13 / 24:.3f})"


def test_made_up_claims_hold(results: Results, made_up: Path) -> None:
    found = judged(made_up)
    assert len(found) == 5 + 2 * 3
    agreed = {
        name: item for name, item in found.items() if not name.endswith(("activity", "weight", "order_1", "order_k"))
    }
    assert {item.verdict for item in agreed.values()} == {HOLDS}
    assert [claim.name for claim in all_claims(results) if claim.group == maze_claims.GROUP] == list(found)


@pytest.mark.parametrize(
    ("table", "equal", "value", "name", "expected"),
    [
        ("evaluations", {"step": 5, "gamma": 0.0}, 16, "maze_study_drop", UNDECIDED),
        ("evaluations", {"step": 5, "gamma": 0.0}, 16, "maze_study_drop_0.5", FAILS),
        ("evaluations", {"step": 5, "gamma": 1.0}, 0, "maze_study_drop_1", FAILS),
        ("final", {"gamma": 0.0}, 64, "maze_study_end_k_0.5", FAILS),
        ("final", {"gamma": 1.0, "group_size": 4}, 0, "maze_study_end_1_1", UNDECIDED),
        ("groups", {}, 0, "maze_study_activity", FAILS),
        ("groups", {}, 0, "maze_study_weight", FAILS),
    ],
)
def test_claims_follow_the_tables(
    root: Path, table: str, equal: dict[str, object], value: int, name: str, expected: str
) -> None:
    assert judged(root)[name].verdict != expected
    change(root, table, "correct", value, **equal)
    assert judged(root)[name].verdict == expected


def test_one_group_size_decides_nothing(root: Path) -> None:
    for table in ("runs", "evaluations", "final", "groups", "paths"):
        path = root / f"maze/laptop/{table}.parquet"
        columns = read_table(path)
        write_table(path, {key: column[columns["group_size"] == 4] for key, column in columns.items()})
    assert judged(root)["maze_study_drop"].verdict == UNDECIDED


def test_without_a_study_the_claims_name_the_command(tmp_path: Path) -> None:
    (first, *_) = maze_claims.claims(Results(tmp_path))
    found = verdict(first, Results(tmp_path))
    assert found.verdict == MISSING
    assert "fgrpo maze study --preset laptop" in found.why


def test_the_study_with_most_runs_is_shown(root: Path) -> None:
    folder = made.write_maze_study(root, "aaa-smaller")
    columns = read_table(folder / "runs.parquet")
    write_table(folder / "runs.parquet", {key: column[:4] for key, column in columns.items()})
    assert maze_study.maze_study(Results(root)).name == "laptop"


def test_a_maze_that_comes_twice_is_refused(root: Path) -> None:
    change(root, "final", "maze", 0, maze=1)
    with pytest.raises(ValueError, match="a run must have one row a maze and step, got rows=24"):
        maze_table.table_rows(Results(root))


def test_the_command_prints_the_table(made_up: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(["figures", "mazes", "--results", str(made_up), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(list(made.runs()))
    assert fgrpo.main(["figures", "mazes", "--order", "--results", str(made_up), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == maze_order.order_rows(Results(made_up))


def test_the_command_says_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fgrpo.main(["figures", "mazes", "--results", str(tmp_path)]) == 2
    assert "fgrpo maze study --preset laptop" in capsys.readouterr().err
