"""The numbers of the simulation figures, recomputed from random tables with plain loops over rows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from fgrpo_theory.foundation.files import read_table, write_table
from figures import catalogue, policy
from figures.inputs import SOURCES, Results
from figures.registry import entry

assert catalogue.ORDER


@pytest.fixture(scope="module")
def shuffled(made_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up results with random masses and the rows in random order."""
    root, generator = tmp_path_factory.mktemp("shuffled"), np.random.default_rng(7)
    for name in ("paper", "trajectories", "surrogates", "gammas", "crosscheck"):
        table = dict(read_table(made_up / SOURCES[name].path))
        order = generator.permutation(len(next(iter(table.values()))))
        table = {column: values[order] for column, values in table.items()}
        for column in ("Q_pos", "M_ret"):
            if column in table:
                table[column] = generator.random(order.size)
        path = root / SOURCES[name].path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, table)
    return root


def rows(root: Path, name: str) -> list[dict]:
    table = read_table(root / SOURCES[name].path)
    return [
        dict(zip(table, values, strict=True))
        for values in zip(*(column.tolist() for column in table.values()), strict=True)
    ]


def grouped(items: list[dict], column: str, *keys: str) -> dict[tuple, list[float]]:
    result = defaultdict(list)
    for row in items:
        result[tuple(row[key] for key in keys)].append(row[column])
    return result


def check_over_seeds(drawn: dict, expected: dict[int, list[float]]) -> None:
    assert drawn["group_size"] == sorted(expected)
    for size, seeds, mean, low, high in zip(
        *(drawn[key] for key in ("group_size", "seeds", "mean", "low", "high")), strict=True
    ):
        assert sorted(seeds) == sorted(expected[size])
        assert mean == pytest.approx(fmean(expected[size]))
        assert (low, high) == (min(expected[size]), max(expected[size]))


def test_figure2_final_values_and_zone(shuffled: Path) -> None:
    drawn = entry("figure2").numbers(Results(shuffled))
    final = [row for row in rows(shuffled, "paper") if row["step"] == 1000]
    for gamma in (0.0, 1.0):
        for column in ("Q_pos", "M_ret"):
            values = grouped([row for row in final if row["gamma"] == gamma], column, "group_size")
            check_over_seeds(drawn["final"][f"{gamma:g}"][column], {key[0]: value for key, value in values.items()})
    means = {
        size: fmean(value)
        for (size, gamma), value in grouped(final, "M_ret", "group_size", "gamma").items()
        if gamma == 0
    }
    inside = [size for size, mean in means.items() if mean < 0.5]
    assert drawn["zone"] == [min(inside), max(inside)]
    assert drawn["start"] == policy.CORRECT_MASS


def test_figure2_trajectories(shuffled: Path) -> None:
    drawn = entry("figure2").numbers(Results(shuffled))
    values = {
        column: grouped(rows(shuffled, "trajectories"), column, "group_size", "gamma", "step")
        for column in ("Q_pos", "M_ret")
    }
    assert [path["group_size"] for path in drawn["paths"]] == [2, 64, 256, 8192, 131072]
    for path in drawn["paths"]:
        for column in ("Q_pos", "M_ret"):
            assert path[column]["step"] == [0, 500, 1000]
            for step, mean, low, high in zip(
                *(path[column][key] for key in ("step", "mean", "low", "high")), strict=True
            ):
                seeds = values[column][path["group_size"], 0.0, step]
                assert len(seeds) == 4
                assert mean == pytest.approx(fmean(seeds))
                assert (low, high) == (min(seeds), max(seeds))


def test_trajectories_show_every_seed(shuffled: Path) -> None:
    drawn = entry("trajectories").numbers(Results(shuffled))["cells"]
    table = {
        (row["group_size"], row["gamma"], row["seed"], row["step"]): row["M_ret"]
        for row in rows(shuffled, "trajectories")
    }
    shown = {
        (cell["group_size"], cell["gamma"], seed, step): value
        for cell in drawn
        for seed, path in enumerate(cell["seeds"])
        for step, value in zip(cell["step"], path, strict=True)
    }
    assert shown == table


def test_zone_measured_side(shuffled: Path) -> None:
    drawn = entry("zone").numbers(Results(shuffled))
    plain = [row for row in rows(shuffled, "paper") if row["gamma"] == 0]
    check_over_seeds(drawn["measured"], {key[0]: value for key, value in grouped(plain, "M_ret", "group_size").items()})


def test_surrogates(shuffled: Path) -> None:
    drawn = entry("surrogates").numbers(Results(shuffled))["series"]
    assert {(series["surrogate"], series["gamma"]) for series in drawn} == {("ratio", 0.0), ("probability", 0.0)}
    for series in drawn:
        chosen = [row for row in rows(shuffled, "surrogates") if row["surrogate"] == series["surrogate"]]
        for column in ("Q_pos", "M_ret"):
            values = grouped(chosen, column, "group_size")
            check_over_seeds(series[column], {key[0]: value for key, value in values.items()})


def test_gammas(shuffled: Path) -> None:
    drawn = entry("gammas").numbers(Results(shuffled))["series"]
    for column in ("Q_pos", "M_ret"):
        values = grouped(rows(shuffled, "gammas"), column, "group_size", "gamma")
        shown = {
            (series["group_size"], gamma): (sorted(seeds), mean)
            for series in drawn
            for gamma, seeds, mean in zip(series["gamma"], series[column]["seeds"], series[column]["mean"], strict=True)
        }
        assert set(shown) == set(values)
        for key, (seeds, mean) in shown.items():
            assert seeds == sorted(values[key])
            assert mean == pytest.approx(fmean(values[key]))


def test_crosscheck(shuffled: Path) -> None:
    drawn = entry("crosscheck").numbers(Results(shuffled))
    table = rows(shuffled, "crosscheck")
    assert [law["law"] for law in drawn["laws"]] == sorted({row["law"] for row in table})
    for law in drawn["laws"]:
        shares: dict[str | None, list[float]] = defaultdict(list)
        for row in table:
            if row["law"] == law["law"]:
                shares[row["wrong_law"]].append(row["z"] / row["threshold"])
        assert sorted(law["cells"]) == sorted(shares.pop(None))
        assert law["wrong_laws"] == {name: max(map(abs, values)) for name, values in shares.items()}
    right = [row for row in table if row["wrong_law"] is None]
    assert (drawn["cells"], drawn["failed"]) == (len(right), sum(row["verdict"] == "fail" for row in right))
