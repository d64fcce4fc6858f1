"""pass@k against integers, its variance against mpmath, and wrong formulas that the same grids refuse."""

from collections.abc import Callable
from functools import cache
from itertools import product
from math import comb, prod

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from fgrpo_theory.foundation.seeds import generator
from fgrpo_theory.pass_at_k import mean_pass_at_k, pass_at_k, pass_at_k_variance

TOLERANCE = 1e-12


def exact(samples: int, correct: int, k: int) -> float:
    """The correctly rounded quotient of integers; Python divides those without error."""
    fewer, more = sorted((correct, k))
    if fewer > 3000 or samples <= 3000:
        whole = comb(samples, k)
        return (whole - comb(samples - correct, k)) / whole
    whole = prod(samples - i for i in range(fewer))
    return (whole - prod(max(0, samples - more - i) for i in range(fewer))) / whole


@cache
def grid() -> tuple[np.ndarray, np.ndarray]:
    """(cases, exact values): 3,000 log-spread cases of up to 2,500 samples, and 2,400 of up to 1e15 with few of one."""
    rng = generator(0, "test pass@k grid")
    cases = []
    for _ in range(3000):
        samples = int(10 ** rng.uniform(0, 3.4))
        correct, k = (min(samples, int(10 ** rng.uniform(0, 3.4))) for _ in range(2))
        cases.append((samples, correct, k))
    for _ in range(2400):
        samples = int(10 ** rng.uniform(3.5, 15))
        few, many = int(10 ** rng.uniform(0, 1.7)), int(10 ** rng.uniform(0, np.log10(samples)))
        cases.append((samples, few, many) if rng.random() < 0.5 else (samples, many, few))
    return np.array(cases, dtype=float), np.array([exact(*case) for case in cases])


def test_agrees_with_integers_on_the_grid() -> None:
    cases, truth = grid()
    assert len(truth) >= 5000
    assert np.max(np.abs(pass_at_k(*cases.T) / truth - 1)) < TOLERANCE


@pytest.mark.parametrize(
    ("case", "value"),
    [
        ((10, 3, 5), 11 / 12),
        ((2048, 1, 1024), 0.5),
        ((1, 0, 1), 0.0),
        ((1, 1, 1), 1.0),
        ((7, 0, 7), 0.0),
        ((5, 3, 3), 1.0),
        ((10**6, 10, 10**5), exact(10**6, 10, 10**5)),
        ((10**6, 10**5, 10), exact(10**6, 10, 10**5)),
        ((2**53, 1, 1), 2.0**-53),
    ],
)
def test_known_values(case: tuple[int, int, int], value: float) -> None:
    assert pass_at_k(*case) == pytest.approx(value, rel=TOLERANCE, abs=0)


def test_certain_cases_are_one_to_the_last_bit() -> None:
    for samples, correct, k in ((1000, 200, 201), (1000, 999, 2), (10**6, 10**4, 10**4)):
        assert exact(samples, correct, k) == float(pass_at_k(samples, correct, k)) == 1.0


def wrong_power(n: float, c: float, k: float) -> float:
    return 1 - (1 - c / n) ** k


def wrong_order(n: float, c: float, k: float) -> float:
    return 1 - exact(int(n), int(n - c), int(k))


def wrong_one_factor_short(n: float, c: float, k: float) -> float:
    return exact(int(n), int(c), int(k - 1)) if k > 1 else 0.0


def wrong_off_by_one(n: float, c: float, k: float) -> float:
    return exact(int(n + 1), int(c), int(k))


@pytest.mark.parametrize("wrong", [wrong_power, wrong_order, wrong_one_factor_short, wrong_off_by_one])
def test_the_grid_refuses(wrong: Callable[[float, float, float], float]) -> None:
    cases, truth = grid()
    errors = [abs(wrong(*case) / value - 1) for case, value in zip(cases[:300], truth[:300], strict=True)]
    assert max(errors) > 0.01


def test_the_grid_refuses_log_gamma_differences() -> None:
    """Right on paper, but its digits cancel."""
    (n, c, k), truth = grid()[0].T, grid()[1]
    possible = c + k <= n
    n, c, k, truth = (array[possible] for array in (n, c, k, truth))
    value = -np.expm1(gammaln(n - c + 1) + gammaln(n - k + 1) - gammaln(n - c - k + 1) - gammaln(n + 1))
    assert np.max(np.abs(value / truth - 1)) > 0.01


@given(st.integers(1, 400), st.data())
def test_properties(samples: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, samples))
    k = data.draw(st.integers(1, samples))
    value = float(pass_at_k(samples, correct, k))
    assert 0 <= value <= 1
    assert (value == 0) == (correct == 0)
    if correct:
        assert value == float(pass_at_k(samples, k, correct))
        assert float(pass_at_k(samples, correct, 1)) == pytest.approx(correct / samples, rel=1e-14)
    if k < samples:
        assert float(pass_at_k(samples, correct, k + 1)) >= value * (1 - 1e-14)


def test_broadcasts_and_means() -> None:
    correct = np.array([[0, 3, 8], [8, 1, 2]])
    values = mean_pass_at_k(8, correct, [1, 4, 8])
    assert np.shape(values) == (3, 2)
    for (i, k), row in product(enumerate([1, 4, 8]), range(2)):
        assert values[i, row] == pytest.approx(np.mean([exact(8, int(c), k) for c in correct[row]]), rel=1e-14)
    assert mean_pass_at_k([10, 2048], [3, 1], [5]) == pytest.approx((11 / 12 + exact(2048, 1, 5)) / 2, rel=1e-14)
    rows = pass_at_k(2048, np.arange(2049)[:, None], 2 ** np.arange(9))
    assert np.shape(rows) == (2049, 9)
    assert rows[1, 8] == pytest.approx(256 / 2048, rel=1e-14)


@cache
def variance_grid() -> tuple[np.ndarray, np.ndarray]:
    """(cases, variances): 5,000 cases whose variance is a normal double, by the definition, with 100 digits."""
    rng = generator(0, "test pass@k variance grid")
    cases, values = [], []
    with mpmath.workdps(100):
        while len(cases) < 5000:
            samples = int(10 ** (rng.uniform(0, 1) if len(cases) % 100 else rng.uniform(2, 2.5)))
            k = min(samples, int(10 ** rng.uniform(0, 2)))
            mu = 10 ** rng.uniform(-15, 0)
            mu = 1 - mu if rng.random() < 0.3 else mu
            value = variance_by_definition(samples, mu, k)
            if value > 1e-300:
                cases.append((samples, mu, k))
                values.append(value)
    return np.array(cases), np.array(values)


def variance_by_definition(samples: int, mu: float, k: int) -> float:
    right, wrong = mpmath.mpf(mu), 1 - mpmath.mpf(mu)
    weights = [comb(samples, x) * right**x * wrong ** (samples - x) for x in range(samples + 1)]
    missed = [mpmath.mpf(comb(samples - x, k)) / comb(samples, k) for x in range(samples + 1)]
    mean = mpmath.fdot(weights, missed)
    return float(mpmath.fsum(w * (m - mean) ** 2 for w, m in zip(weights, missed, strict=True)))


def test_variance_agrees_with_its_definition() -> None:
    cases, truth = variance_grid()
    assert truth.min() < 1e-200
    assert np.max(np.abs(pass_at_k_variance(*cases.T) / truth - 1)) < TOLERANCE


def test_variance_corners() -> None:
    assert np.all(np.asarray(pass_at_k_variance(9, [0.0, 1.0], 3)) == 0)
    assert pass_at_k_variance(10**9, 1e-9, 1) == pytest.approx(1e-18 * (1 - 1e-9), rel=TOLERANCE, abs=0)
    # k = samples: the estimate is the indicator of X > 0.
    miss = -np.expm1(-1000 * np.log(2.0))
    assert pass_at_k_variance(1000, 0.5, 1000) == pytest.approx(2.0**-1000 * miss, rel=TOLERANCE, abs=0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, mu, k: (1 - mu) ** k * (1 - (1 - mu) ** k) / n,
        lambda n, mu, k: k**2 * (1 - mu) ** (2 * k - 1) * mu / n,
        lambda n, mu, k: (1 - mu) ** k * (1 - (1 - mu) ** k) / (n // k),
        lambda n, mu, k: (1 - mu) ** n - (1 - mu) ** (2 * k),
    ],
    ids=["as if n groups of k", "delta method", "n // k disjoint groups", "k = n form"],
)
def test_variance_grid_refuses(wrong: Callable[[float, float, float], float]) -> None:
    cases, truth = variance_grid()
    errors = [abs(wrong(*case) / value - 1) for case, value in zip(cases[:300], truth[:300], strict=True)]
    assert max(errors) > 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 2, 5), "k must be at most samples, got k=5, samples=4"),
        ((4, 5, 2), "correct must be at most samples, got correct=5, samples=4"),
        (([8, 4], [2, 2], 5), "k must be at most samples, got k=5, samples=4"),
        ((4, 2, 0), "k must be a whole number of at least 1, got k=0"),
        ((0, 0, 1), "samples must be a whole number of at least 1, got samples=0"),
        ((4, -1, 1), "correct must be a whole number of at least 0, got correct=-1"),
        ((4, 1.5, 1), "correct must be a whole number of at least 0, got correct=1.5"),
        ((4.5, 1, 1), "samples must be a whole number of at least 1, got samples=4.5"),
        ((4, 1, float("nan")), "k must not be NaN, got k=nan"),
        ((float("inf"), 1, 1), "samples must be a whole number of at least 1, got samples=inf"),
        ((1e300, 1, 1), r"samples must be at most 2\*\*53, got samples=1e\+300"),
        ((4, "two", 1), "correct must be a real number or an array of them, got correct='two'"),
        ((4, None, 1), "correct must not be NaN, got correct=nan"),
        (([4, 4], [1, 1, 1], 1), "samples and correct and k must broadcast together"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        pass_at_k(*arguments)
    assert "\n" not in str(caught.value)


def test_bad_input_of_the_others() -> None:
    with pytest.raises(ValueError, match=r"^correct must hold one count a problem along its last axis, got"):
        mean_pass_at_k(4, [], 1)
    with pytest.raises(ValueError, match=r"^correct must hold one count a problem along its last axis, got"):
        mean_pass_at_k(4, 2, 1)
    with pytest.raises(ValueError, match=r"^k must be at most samples, got k=5, samples=4$"):
        mean_pass_at_k(4, [2], [1, 5])
    with pytest.raises(ValueError, match=r"^k must be at most samples, got k=5, samples=4$"):
        pass_at_k_variance(4, 0.5, 5)
    for mu in (-0.1, 1.1, float("inf")):
        with pytest.raises(ValueError, match=r"^mu must lie in \[0, 1\], got mu="):
            pass_at_k_variance(4, mu, 2)
    with pytest.raises(ValueError, match=r"^mu must not be NaN"):
        pass_at_k_variance(4, [0.5, float("nan")], 2)
    with pytest.raises(ValueError, match="must broadcast together"):
        pass_at_k_variance([4, 4], [0.1, 0.2, 0.3], 2)
