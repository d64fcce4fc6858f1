"""The subsampling test against whole enumeration in integers, against Monte Carlo, and wrong laws that both refuse."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import comb, lcm

import numpy as np
import pytest
from scipy import stats

from fgrpo_theory.foundation.seeds import generator
from fgrpo_theory.lattice_law import LatticeLaw, difference_law, sum_law
from fgrpo_theory.significance import SubsamplingTest, subsampling_test, subsampling_test_monte_carlo

Law = dict[Fraction, Fraction]
FALSE_ALARM = 1e-6


def value(subsample: int, count: int, k: int) -> Fraction:
    return 1 - Fraction(comb(subsample - count, k), comb(subsample, k))


def subsample_law(samples: int, correct: int, subsample: int, k: int, problems: int) -> Law:
    """pass@k of one subsample over the number of problems, without replacement."""
    law: Counter[Fraction] = Counter()
    for count in range(max(0, subsample + correct - samples), min(correct, subsample) + 1):
        ways = comb(correct, count) * comb(samples - correct, subsample - count)
        law[value(subsample, count, k) / problems] += Fraction(ways, comb(samples, subsample))
    return law


def with_replacement_law(samples: int, correct: int, subsample: int, k: int, problems: int) -> Law:
    law: Counter[Fraction] = Counter()
    share = Fraction(correct, samples)
    for count in range(subsample + 1):
        chance = comb(subsample, count) * share**count * (1 - share) ** (subsample - count)
        law[value(subsample, count, k) / problems] += chance
    return law


def sum_of(left: Law, right: Law, sign: int = 1) -> Law:
    """Enumerates every pair; on a common denominator, in integers."""
    scale = lcm(*(v.denominator for law in (left, right) for v in law))
    total: Counter[int] = Counter()
    ways = [lcm(*(p.denominator for p in law.values())) for law in (left, right)]
    first = [(int(v * scale), int(p * ways[0])) for v, p in left.items()]
    second = [(sign * int(v * scale), int(p * ways[1])) for v, p in right.items()]
    for v, p in first:
        for w, q in second:
            total[v + w] += p * q
    return {Fraction(v, scale): Fraction(p, ways[0] * ways[1]) for v, p in total.items()}


def exact_law(
    baseline: list[int], focal: list[int], samples: int, subsample: int, k: int, one: Callable[..., Law] = subsample_law
) -> Law:
    law: Law = {Fraction(0): Fraction(1)}
    for low, high in zip(baseline, focal, strict=True):
        law = sum_of(law, one(samples, high, subsample, k, len(focal)))
        law = sum_of(law, one(samples, low, subsample, k, len(focal)), sign=-1)
    return law


def p_of(law: Law) -> float:
    sides = (sum(p for v, p in law.items() if v <= 0), sum(p for v, p in law.items() if v >= 0))
    return float(min(1, 2 * min(sides)))


def quantile_of(law: Law, level: Fraction) -> float:
    mass = Fraction(0)
    for v in sorted(law):
        mass += law[v]
        if mass >= level:
            return float(v)
    raise AssertionError("the law has no such quantile")


SMALL = [
    ([1, 2, 0], [2, 2, 1], 4, 2),
    ([0, 0, 0], [1, 1, 1], 5, 2),
    ([3, 1, 4], [1, 0, 2], 6, 4),
    ([2], [5], 7, 3),
    ([5, 0], [5, 1], 5, 4),
    ([0, 6], [6, 0], 6, 3),
    ([2, 3, 4, 5], [3, 4, 5, 6], 8, 5),
    ([3, 3], [3, 3], 6, 6),
]
CASES = [(*case, k) for case in SMALL for k in range(1, case[3] + 1)]


@pytest.mark.parametrize("case", CASES)
def test_small_cases_equal_whole_enumeration(case: tuple) -> None:
    law, test = exact_law(*case), subsampling_test(*case)
    mean = sum(v * p for v, p in law.items())
    assert test.method == "exact"
    assert test.p_value == pytest.approx(p_of(law), rel=1e-12, abs=1e-300)
    assert test.p_value_bounds == pytest.approx((p_of(law), p_of(law)), rel=1e-12, abs=1e-30)
    assert test.interval == pytest.approx((quantile_of(law, Fraction(1, 40)), quantile_of(law, Fraction(39, 40))))
    assert test.difference == pytest.approx(float(mean), rel=1e-12, abs=1e-15)
    deviation = float(sum((v - mean) ** 2 * p for v, p in law.items())) ** 0.5
    assert test.standard_deviation == pytest.approx(deviation, rel=1e-12, abs=1e-15)
    assert test.significant == (test.p_value <= 0.05)


# pass@k of 12 to 16 answers takes values on a lattice of over 256 steps, so these laws are bracketed.
BRACKETED = [
    ([3, 1], [4, 6], 20, 12, 6),
    ([2], [3], 30, 13, 4),
    ([5, 5, 1], [2, 6, 3], 18, 14, 5),
    ([0, 2], [3, 3], 24, 16, 9),
    ([4, 9], [4, 9], 20, 12, 5),
]


@pytest.mark.parametrize("case", BRACKETED)
def test_bounds_contain_the_exact_p_value(case: tuple) -> None:
    law, test = exact_law(*case), subsampling_test(*case)
    low, high = test.p_value_bounds
    assert test.method == "bounds"
    assert test.p_value == high
    assert low * (1 - 1e-12) <= p_of(law) <= high * (1 + 1e-12)
    mean = sum(v * p for v, p in law.items())
    assert test.difference == pytest.approx(float(mean), rel=1e-12, abs=1e-15)
    assert -1e-12 <= quantile_of(law, Fraction(1, 40)) - test.interval[0] <= 2 / 2**16
    assert -1e-12 <= test.interval[1] - quantile_of(law, Fraction(39, 40)) <= 2 / 2**16


def test_bounds_are_narrow_where_the_law_is_spread() -> None:
    baseline, focal = spread_problems(20)
    low, high = subsampling_test(baseline, focal, 64, 32, 8).p_value_bounds
    assert 0 < high - low < 0.01 * high


WRONG_LAWS: dict[str, Callable[..., float]] = {
    "with replacement": lambda *case: p_of(exact_law(*case, one=with_replacement_law)),
    "one-sided": lambda *case: p_of(exact_law(*case)) / 2,
    "ties left out": lambda *case: (
        2 * min(float(sum(p for v, p in exact_law(*case).items() if v * s < 0)) for s in (1, -1))
    ),
    "ties halved": lambda *case: (
        2
        * min(
            float(sum(p * (1 if v else Fraction(1, 2)) for v, p in exact_law(*case).items() if v * s <= 0))
            for s in (1, -1)
        )
    ),
    "k = 1 for every k": lambda *case: p_of(exact_law(*case[:4], 1)),
    "baseline kept whole": lambda b, f, n, m, k: p_of(
        sum_of(exact_law([0] * len(f), f, n, m, k), {sum(value(n, c, k) for c in b) / len(b): Fraction(1)}, sign=-1)
    ),
    "problems pooled": lambda b, f, n, m, k: p_of(exact_law([sum(b)], [sum(f)], n * len(b), m * len(b), k)),
}


@pytest.mark.parametrize("name", WRONG_LAWS)
def test_enumeration_refuses(name: str) -> None:
    case = ([1, 2, 4], [3, 3, 5], 8, 4, 2)
    assert abs(WRONG_LAWS[name](*case) - subsampling_test(*case).p_value) > 1e-3


def spread_problems(count: int) -> tuple[list[int], list[int]]:
    """Deterministic counts of 64 samples, all difficulties; the focal model is a little better."""
    baseline = [(7 * i + 3) % 60 for i in range(count)]
    return baseline, [min(64, c + (i % 3)) for i, c in enumerate(baseline)]


@pytest.mark.parametrize("k", [1, 8, 32])
def test_monte_carlo_agrees(k: int) -> None:
    """The Clopper-Pearson interval misses the truth once in 1e6; the next test says what it can see."""
    case = (*spread_problems(12), 64, 32, k)
    drawn = subsampling_test_monte_carlo(*case, draws=50_000, generator=generator(0, "test subsampling", k))
    exact = subsampling_test(*case)
    low, high = drawn.p_value_bounds
    assert exact.p_value_bounds[1] >= low
    assert exact.p_value_bounds[0] <= high
    assert drawn.interval == pytest.approx(exact.interval, abs=0.15 * exact.standard_deviation)
    assert (drawn.difference, drawn.standard_deviation) == (exact.difference, exact.standard_deviation)


def test_monte_carlo_would_see_subsamples_drawn_with_replacement() -> None:
    """Power: with 50,000 draws from that wrong law the interval excludes the right p-value but for 1e-6."""
    case = (*spread_problems(12), 64, 32, 1)
    right, wrong = p_of(exact_law(*case)) / 2, p_of(exact_law(*case, one=with_replacement_law)) / 2
    assert chance_unseen(right, wrong, 50_000) < FALSE_ALARM
    assert abs(right / wrong - 1) > 0.1


def chance_unseen(right: float, wrong: float, draws: int) -> float:
    """P(the interval made from draws of `wrong` contains `right`): hits that neither tail of `right` refuses."""
    law = stats.binom(draws, right)
    accepted = stats.binom(draws, wrong).cdf([law.isf(FALSE_ALARM / 2), law.ppf(FALSE_ALARM / 2) - 1])
    return float(accepted[0] - accepted[1])


def test_monte_carlo_is_reproducible() -> None:
    def run() -> SubsamplingTest:
        return subsampling_test_monte_carlo([1, 2], [3, 2], 8, 4, 2, draws=1000, generator=generator(0, "same"))

    assert run() == run()


def test_small_p_values_keep_their_digits() -> None:
    case = ([20, 22, 25], [60, 61, 62], 64, 24, 1)
    truth = p_of(exact_law(*case))
    assert 0 < truth < 1e-11
    assert subsampling_test(*case).p_value == pytest.approx(truth, rel=1e-10, abs=0)


def test_no_chance_of_a_tie_gives_zero() -> None:
    assert subsampling_test([0, 0], [8, 8], 8, 4, 1).p_value == 0
    assert subsampling_test([0] * 40, [1000] * 40, 1024, 256, 1).p_value < 1e-30


@pytest.mark.parametrize("k", [1, 5, 16])
def test_equal_models_never_differ(k: int) -> None:
    test = subsampling_test([3, 17, 30], [3, 17, 30], 40, 16, k)
    assert (test.difference, test.p_value, test.significant) == (0, 1, False)


@pytest.mark.parametrize("k", [1, 6, 12])
def test_exchange_of_the_models_mirrors_the_test(k: int) -> None:
    one, other = subsampling_test([3, 7], [9, 6], 20, 12, k), subsampling_test([9, 6], [3, 7], 20, 12, k)
    assert other.p_value_bounds == pytest.approx(one.p_value_bounds, rel=1e-9)
    assert other.difference == -one.difference
    assert other.standard_deviation == pytest.approx(one.standard_deviation, rel=1e-14)


def test_order_of_the_problems_and_samples_a_problem() -> None:
    one = subsampling_test([3, 7, 1], [9, 6, 0], [20, 30, 9], 8, 1)
    other = subsampling_test([1, 3, 7], [0, 9, 6], [9, 20, 30], 8, 1)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-13)
    law = sum_of(sum_of(exact_part(3, 9, 20), exact_part(7, 6, 30)), exact_part(1, 0, 9))
    assert one.p_value == pytest.approx(p_of(law), rel=1e-12)


def exact_part(baseline: int, focal: int, samples: int) -> Law:
    return exact_law([baseline], [focal], samples, 8, 1)


def test_the_level_moves_verdict_and_interval() -> None:
    strict = subsampling_test([3, 7], [9, 9], 20, 8, 1, level=1e-6)
    loose = subsampling_test([3, 7], [9, 9], 20, 8, 1, level=0.5)
    assert (strict.significant, loose.significant) == (False, True)
    assert strict.interval[0] < loose.interval[0] <= loose.interval[1] < strict.interval[1]
    assert replace(strict, significant=True, interval=loose.interval) == loose


def test_transform_and_direct_convolution_agree_within_the_stated_loss() -> None:
    rng = generator(0, "test lattice laws")
    laws = [LatticeLaw(int(rng.integers(-9, 9)), rng.dirichlet(np.ones(300))) for _ in range(11)]
    direct, fast = sum_law(laws, transform=False), sum_law(laws, transform=True)
    for point in range(direct.first, direct.first + direct.weights.size, 50):
        assert fast.at_most(point)[0] <= direct.at_most(point)[0] + 1e-13
        assert fast.at_most(point)[1] >= direct.at_most(point)[1] - 1e-13
    assert direct.lost < 1e-36 < fast.lost < 1e-9
    pair = difference_law(laws[0], laws[1])
    assert sum_law([laws[0], laws[1].mirrored()], transform=False).at_most(5) == pytest.approx(
        pair.at_most(5), rel=1e-12
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1, 9], 8, 4, 1), "focal_correct must be at most samples, got focal_correct=9, samples=8"),
        (([9, 2], [1, 2], 8, 4, 1), "baseline_correct must be at most samples, got baseline_correct=9, samples=8"),
        (([1, 2], [1, 2], 8, 9, 1), "subsample must be at most samples, got subsample=9, samples=8"),
        (([1, 2], [1, 2], [8, 3], 4, 1), "subsample must be at most samples, got subsample=4, samples=3"),
        (([1, 2], [1, 2], 8, 4, 5), "k must be at most subsample, got k=5, subsample=4"),
        (([1, 2], [1, 2], 8, 4, 0), "k must be a whole number of at least 1, got k=0"),
        (([1, 2], [1, 2], 8, 4.5, 1), "subsample must be a whole number of at least 1, got subsample=4.5"),
        (([1, -2], [1, 2], 8, 4, 1), "baseline_correct must be a whole number of at least 0, got baseline_correct=-2"),
        (([1, 2], [1, 1.5], 8, 4, 1), "focal_correct must be a whole number of at least 0, got focal_correct=1.5"),
        (([1, 2], [1, float("nan")], 8, 4, 1), "focal_correct must not be NaN, got focal_correct=an array with 1 NaN"),
        (([1, 2], [1, 2], float("nan"), 4, 1), "samples must not be NaN, got samples=nan"),
        (
            ([1, 2], [1, 2, 3], 8, 4, 1),
            "baseline_correct and focal_correct and samples must broadcast together, got .*",
        ),
        (
            ([], [], 8, 4, 1),
            r"baseline_correct must be one non-empty list of problems, got baseline_correct.shape=\(0,\)",
        ),
        ((3, 4, 8, 4, 1), r"baseline_correct must be one non-empty list of problems, got baseline_correct.shape=\(\)"),
        (([[1]], [[2]], 8, 4, 1), "baseline_correct must be one non-empty list of problems, got .*"),
        (([1, 2], [1, 2], 8, [4, 4], 1), r"subsample must be a single number, got subsample.shape=\(2,\)"),
        (([1, 2], [1, 2], 8, 4, [1]), r"k must be a single number, got k.shape=\(1,\)"),
        (([1], [2], 10**7, 10**6, 1), "subsample must be at most 1e5, got subsample=1000000"),
        (([1, 2], ["a", 2], 8, 4, 1), "focal_correct must be a real number or an array of them, got .*"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        subsampling_test(*arguments)
    with pytest.raises(ValueError, match=f"^{message}$"):
        subsampling_test_monte_carlo(*arguments, draws=10, generator=generator(0, "bad input"))


def test_bad_level_and_draws() -> None:
    for level in (0.0, 1.0, -1.0, 2.0):
        with pytest.raises(ValueError, match=r"^level must lie in \(0, 1\), got level="):
            subsampling_test([1], [2], 8, 4, 1, level=level)
    with pytest.raises(ValueError, match=r"^draws must be a whole number of at least 1, got draws=0$"):
        subsampling_test_monte_carlo([1], [2], 8, 4, 1, draws=0, generator=generator(0, "bad input"))
