"""The numbers of the theory figures, recomputed by other routes: rationals, brute force, enumeration, quadrature."""

from __future__ import annotations

import csv
import itertools
import math
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from figures import catalogue, policy
from figures.inputs import PUBLISHED, Results
from figures.registry import entry

assert catalogue.ORDER

NONE = Results("/nonexistent")


@cache
def numbers(name: str) -> dict:
    return entry(name).numbers(NONE)


def exact_miss(size: int, mu: float, tau: float) -> float:
    """Lemma 3.1 by rational subtraction of the three events' probabilities."""
    m, t = Fraction(mu), Fraction(tau)
    return float((1 - t) ** size - (m - t) ** size - (1 - m) ** size)


def scanned(mu: float, tau: float, highest: int) -> np.ndarray:
    """Lemma 3.1 for N = 1 ... highest in extended precision."""
    size = np.arange(1, highest + 1, dtype=np.longdouble)
    m, t = np.longdouble(mu), np.longdouble(tau)
    return (1 - t) ** size - (m - t) ** size - (1 - m) ** size


def read_published(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_figure1_curves_peak_and_zone() -> None:
    drawn = numbers("figure1")
    mu, tau = drawn["mu"], drawn["tau"]
    assert tau == pytest.approx(mu / 10)
    assert drawn["group_size"][0] == 1
    assert drawn["group_size"][-1] == 1024
    for size, miss, active in zip(drawn["group_size"], drawn["tail_miss"], drawn["active"], strict=True):
        assert miss == pytest.approx(exact_miss(size, mu, tau), rel=1e-11)
        assert active == pytest.approx(float(1 - Fraction(mu) ** size - (1 - Fraction(mu)) ** size), rel=1e-11)
    values = scanned(mu, tau, 1024)
    assert drawn["peak"] == int(values.argmax()) + 1
    above = np.flatnonzero(values >= values.max() / 2) + 1
    assert drawn["zone"] == [above[0], above[-1]]


def test_figure1_published_points() -> None:
    drawn = numbers("figure1")
    for row in read_published("table2_group_size"):
        size = int(row["group_size"])
        for column in ("math_pass_at_1", "math_pass_at_256", "ood_pass_at_1", "ood_pass_at_256", "delta_nll_rare"):
            if row["method"] == "GRPO":
                assert drawn["published"][column][drawn["published_group_size"].index(size)] == float(row[column])
            else:
                assert (drawn["focal_group_size"], drawn["focal"][column]) == (size, float(row[column]))


def test_figure3_curves_and_peaks() -> None:
    drawn = numbers("figure3")
    assert len(drawn["curves"]) == 8
    for curve in drawn["curves"]:
        mu, tau = curve["mu"], curve["mu"] * curve["rho"]
        for index in range(0, len(drawn["group_size"]), 9):
            size = drawn["group_size"][index]
            if size < 3000:
                assert curve["tail_miss"][index] == pytest.approx(exact_miss(size, mu, tau), rel=1e-11, abs=1e-300)
                if index:
                    active = float(1 - Fraction(mu) ** size - (1 - Fraction(mu)) ** size)
                    assert curve["conditional"][index - 1] == pytest.approx(
                        exact_miss(size, mu, tau) / active, rel=1e-11
                    )
        values = scanned(mu, tau, 2000)
        assert curve["peak"] == int(values.argmax()) + 1
        assert curve["peak_value"] == pytest.approx(float(values.max()), rel=1e-12)
        # The caption of panel (c) says that it only falls.
        assert (np.diff(curve["conditional"]) <= 0).all()


def test_worst_group_size_is_the_maximum_of_a_scan() -> None:
    drawn = numbers("worst_group_size")
    picks = np.random.default_rng(3).integers(0, [len(drawn["rho"]), len(drawn["mu"])], size=(60, 2))
    for row, column in picks:
        mu, rho = drawn["mu"][column], drawn["rho"][row]
        values = scanned(mu, mu * rho, 4000)
        # Neighbours of the peak may agree to the last digit; then either is the maximum.
        assert values[drawn["peak"][row][column] - 1] >= values.max() * (1 - np.longdouble(1e-15))
    assert 200 < np.max(drawn["peak"]) < 1000
    assert np.min(drawn["peak"]) == 2


def test_figure4_follows_from_the_definition_of_the_advantage() -> None:
    drawn = numbers("figure4")
    assert [curve["gamma"] for curve in drawn["curves"]] == [0.0, 0.5, 1.0, 2.0]
    for curve in drawn["curves"]:
        for mu, right, wrong in zip(drawn["mu"], curve["right"], curve["wrong"], strict=True):
            # Rewards 1 and 0 with probabilities mu and 1 - mu.
            std = math.sqrt(mu * (1 - mu) ** 2 + (1 - mu) * mu**2)
            weight = (1 - mu) ** curve["gamma"]
            assert right == pytest.approx(weight * (1 - mu) / std, rel=1e-12)
            assert wrong == pytest.approx(weight * mu / std, rel=1e-12)


def test_figure5_is_the_published_table() -> None:
    drawn = {(series["model"], series["method"]): series for series in numbers("figure5")["series"]}
    rows = read_published("table6_gamma")
    assert len(rows) == sum(len(series["gamma"]) for series in drawn.values()) == 36
    for row in rows:
        series = drawn[row["model"], row["method"]]
        index = series["gamma"].index(float(row["gamma"]))
        for metric in ("math_pass_at_1", "math_pass_at_256", "ood_pass_at_1", "ood_pass_at_256"):
            assert series[metric][index] == float(row[metric])


def test_update_scale_is_the_binomial_sum() -> None:
    drawn = numbers("update_scale")
    assert {(curve["group_size"], curve["gamma"]) for curve in drawn["curves"]} == set(
        itertools.product((8, 64), (0.0, 0.5, 1.0, 2.0))
    )
    for curve in drawn["curves"]:
        size, gamma = curve["group_size"], curve["gamma"]
        for index in range(0, len(drawn["mu"]), 6):
            mu, total = drawn["mu"][index], 0.0
            for correct in range(1, size):
                rewards = np.array([1.0] * correct + [0.0] * (size - correct))
                advantage = (rewards - rewards.mean()) / rewards.std()
                chance = math.comb(size, correct) * mu**correct * (1 - mu) ** (size - correct)
                total += chance * (1 - correct / size) ** gamma * np.abs(advantage).mean()
            assert curve["scale"][index] == pytest.approx(total, rel=1e-11)


def test_the_matched_multiplier_is_a_ratio_of_integrals() -> None:
    drawn = numbers("update_scale")

    def mean_scale(gamma: float) -> float:
        return quad(lambda mu: math.sqrt(mu * (1 - mu)) * (1 - mu) ** gamma, 0, 1, epsabs=1e-12)[0]

    for gamma, value in list(zip(drawn["gamma"], drawn["multiplier"], strict=True))[::12]:
        assert value == pytest.approx(mean_scale(gamma) / mean_scale(0), rel=1e-8)
    for gamma, value in drawn["marked"].items():
        assert value == pytest.approx(mean_scale(float(gamma)) / mean_scale(0), rel=1e-8)


def realised(counts: np.ndarray, gamma: float, surrogate: str) -> tuple[float, float]:
    """(change of Q_pos, change of the unsampled-correct mass) of one step on the full policy, straight from eqs. 5, 18."""
    p = np.repeat(policy.CLASS_PROBABILITY, policy.CLASS_SIZE)
    correct = np.repeat(policy.CLASS_IS_CORRECT, policy.CLASS_SIZE)
    size = counts.sum()
    rewards = np.where(correct, 1.0, -1.0)
    mean = (counts * rewards).sum() / size
    weight = (1 - (counts * correct).sum() / size) ** gamma
    if surrogate == "ratio":
        dz = counts * (rewards - mean) * weight / size
    else:
        seen = counts > 0
        baseline = (rewards * p)[seen].sum()
        dz = weight / size * p * (np.where(seen, rewards, 0.0) - baseline)
    dp = p * (dz - (p * dz).sum())
    return float(dp[correct].sum()), float(dp[correct & (counts == 0)].sum())


@pytest.mark.parametrize("surrogate", ["probability", "ratio"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_expected_drift_at_two_rollouts_by_enumeration(surrogate: str, gamma: float) -> None:
    drawn = numbers("expected_drift")
    (curve,) = [item for item in drawn["curves"] if (item["surrogate"], item["gamma"]) == (surrogate, gamma)]
    first = np.cumsum([0, *policy.CLASS_SIZE])[:-1]
    total = np.zeros(2)
    for one, other in itertools.product(range(3), repeat=2):
        p_one, p_other = policy.CLASS_PROBABILITY[one], policy.CLASS_PROBABILITY[other]
        n_one, n_other = policy.CLASS_SIZE[one], policy.CLASS_SIZE[other]
        same = n_one if one == other else 0
        for chance, actions in (
            (p_one * p_other * (n_one * n_other - same), (first[one], first[other] + (one == other))),
            (p_one * p_other * same, (first[one], first[one])),
        ):
            if chance:
                counts = np.zeros(sum(policy.CLASS_SIZE))
                np.add.at(counts, list(actions), 1)
                total += chance * np.array(realised(counts, gamma, surrogate))
    assert drawn["group_size"][0] == 2
    assert curve["dQ_pos"][0] == pytest.approx(total[0], rel=1e-9)
    assert curve["dQ_u_pos"][0] == pytest.approx(total[1], rel=1e-9)


@pytest.mark.parametrize(("surrogate", "gamma"), [("probability", 1.0), ("ratio", 0.0), ("ratio", 2.0)])
def test_expected_drift_at_a_large_group_by_sampling(surrogate: str, gamma: float) -> None:
    drawn = numbers("expected_drift")
    (curve,) = [item for item in drawn["curves"] if (item["surrogate"], item["gamma"]) == (surrogate, gamma)]
    size = 8192
    index = drawn["group_size"].index(size)
    p = np.repeat(policy.CLASS_PROBABILITY, policy.CLASS_SIZE)
    edges = np.cumsum(p)
    generator = np.random.default_rng(11)
    changes = np.array(
        [
            realised(
                np.bincount(np.searchsorted(edges, generator.random(size) * edges[-1], side="right"), minlength=p.size),
                gamma,
                surrogate,
            )
            for _ in range(120)
        ]
    )
    expected = np.array([curve["dQ_pos"][index], curve["dQ_u_pos"][index]])
    error = changes.std(axis=0, ddof=1) / np.sqrt(len(changes))
    assert (np.abs(changes.mean(axis=0) - expected) < 5 * error).all()
    # The sample must be able to tell the expectation from zero and from a tenth more.
    assert (error < np.abs(expected) / 50).all()


def test_expected_drift_says_what_its_description_says() -> None:
    for curve in numbers("expected_drift")["curves"]:
        assert min(curve["dQ_pos"]) > 0 > max(curve["dQ_u_pos"])


def test_zone_theory_side(made_up: Path) -> None:
    drawn = entry("zone").numbers(Results(made_up))
    logits = [5.0] + [3.0] * 9_999 + [0.0] * 118_000
    weights = np.exp(logits)
    assert drawn["mu"] == pytest.approx(weights[:10_000].sum() / weights.sum(), rel=1e-12)
    assert drawn["tau"] == pytest.approx(weights[1] / weights.sum(), rel=1e-12)
    values = scanned(drawn["mu"], drawn["tau"], 200_000)
    above = np.flatnonzero(values >= values.max() / 2) + 1
    assert drawn["theory_zone"] == [above[0], above[-1]]
    assert drawn["peak"] == int(values.argmax()) + 1
    for size, miss in list(zip(drawn["group_size"], drawn["tail_miss"], strict=True))[::10]:
        if size <= 200_000:
            assert miss == pytest.approx(float(values[size - 1]), rel=1e-9)
