"""Worst, bad and safe group sizes: exact integers, judged by Lemma 3.1 in fractions and at 150 digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from fgrpo_theory import concentration_zone, covering_group_size, peak_group_size, tail_miss_probability
from tests.fgrpo_theory.oracles import log_spread, spread_probability

# (mu, tau) whose largest tail miss is taken at two sizes exactly: found by trying all 64ths.
TIES = [(7 / 16, 5 / 32, (3, 4)), (23 / 32, 5 / 32, (3, 4))]
# Ends of the domain, up to group sizes near 1e15; wrong and common correct mass alike; one of them next to nothing.
EXTREMES = [
    (0.5, 1e-15), (1 - 1e-15, 1e-15), (1 - 1e-15, 0.5), (0.75, 0.5), (0.5, np.nextafter(0.5, 0)), (1e-6, 1e-15),
    (0.999, 0.998), (1e-15, 1e-15 * (1 - 1e-9)), (1 - 1e-9, 1e-9), (0.5 + 5e-16, 1e-15), (2**-40, 2**-41),
]  # fmt: skip


def miss(n: int, mu: float, tau: float) -> Fraction:
    """Lemma 3.1 in fractions."""
    m, t = Fraction(mu), Fraction(tau)
    return (1 - t) ** n - (m - t) ** n - (1 - m) ** n


def miss_mp(n: int, mu: float, tau: float) -> mpf:
    """Lemma 3.1 with the working precision of mpmath."""
    m, t = mpf(float(mu)), mpf(float(tau))
    return (1 - t) ** int(n) - (m - t) ** int(n) - (1 - m) ** int(n)


def small_cases() -> list[tuple[float, float]]:
    """Some 45 policies whose group sizes of interest lie below 60."""
    rng = np.random.default_rng(3)
    pairs = [(mu := float(rng.uniform(0.15, 0.99)), mu * float(rng.uniform(0.3, 0.99))) for _ in range(20)]
    return [*pairs, *((i / 16, j / 16) for i in range(6, 16, 2) for j in range(3, i, 2))]


@pytest.mark.parametrize(("mu", "tau"), small_cases())
def test_brute_force_in_fractions(mu: float, tau: float) -> None:
    values = {n: miss(n, mu, tau) for n in range(2, 80)}
    best = max(values.values())
    peak = next(n for n, v in values.items() if v == best)
    assert peak_group_size(mu, tau) == peak
    for level in (0.5, 0.9, 1.0, 0.125):
        inside = [n for n, v in values.items() if v >= Fraction(level) * best]
        assert concentration_zone(mu, tau, level) == (inside[0], inside[-1])
        assert inside[-1] < 79
    for limit in (0.25, 0.05, 0.01):
        covered = next(n for n, v in values.items() if n >= peak and v <= Fraction(limit))
        assert covering_group_size(mu, tau, limit) == covered


@pytest.mark.parametrize(("mu", "tau", "tied"), TIES)
def test_of_two_equal_peaks_the_smaller(mu: float, tau: float, tied: tuple[int, int]) -> None:
    assert miss(tied[0], mu, tau) == miss(tied[1], mu, tau)
    assert peak_group_size(mu, tau) == tied[0]
    assert concentration_zone(mu, tau, 1.0) == tied


def test_bounds_that_are_hit_exactly_are_inside() -> None:
    """mu = 3/4, tau = 1/2: f(2) = 1/8, f(3) = 3/32."""
    assert (miss(2, 0.75, 0.5), miss(3, 0.75, 0.5)) == (Fraction(1, 8), Fraction(3, 32))
    assert concentration_zone(0.75, 0.5, 0.75) == (2, 3)
    assert concentration_zone(0.75, 0.5, np.nextafter(0.75, 1)) == (2, 2)
    assert covering_group_size(0.75, 0.5, 3 / 32) == 3
    assert covering_group_size(0.75, 0.5, np.nextafter(3 / 32, 0)) == 4
    assert covering_group_size(0.75, 0.5, 1 / 8) == 2


def check(mu: float, tau: float, level: float, limit: float) -> None:
    """Every answer satisfies its condition, and its neighbour does not."""
    peak = int(peak_group_size(mu, tau))
    low, high = map(int, concentration_zone(mu, tau, level))
    safe = int(covering_group_size(mu, tau, limit))
    with mpmath.workdps(150 + 2 * int(-np.log10(tau))):
        top = miss_mp(peak, mu, tau)
        assert miss_mp(peak - 1, mu, tau) < top >= miss_mp(peak + 1, mu, tau)
        bar = mpf(level) * top
        assert 2 <= low <= peak <= high
        assert miss_mp(low, mu, tau) >= bar
        assert miss_mp(low - 1, mu, tau) < bar
        assert miss_mp(high, mu, tau) >= bar > miss_mp(high + 1, mu, tau)
        assert miss_mp(safe, mu, tau) <= limit
        assert safe == peak or miss_mp(safe - 1, mu, tau) > limit


@pytest.mark.parametrize(("mu", "tau"), EXTREMES)
def test_answers_at_the_ends_of_the_domain(mu: float, tau: float) -> None:
    for level, limit in ((0.5, 0.05), (1.0, 0.5), (1 - 1e-15, 1e-12), (1e-9, 1e-300)):
        check(mu, tau, level, limit)


def test_answers_on_a_log_spread_grid() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        mu = spread_probability(rng)
        tau = mu * spread_probability(rng, 1e-9)
        if 1e-15 <= tau < mu < 1:
            check(
                mu,
                tau,
                float(rng.choice([0.5, rng.uniform(0.01, 1), 1 - log_spread(rng, 1e-12, 0.1)])),
                log_spread(rng, 1e-9, 0.9),
            )


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-6, 0.999), st.floats(1e-6, 0.999), st.integers(2, 10**6))
def test_the_tail_miss_rises_to_the_peak_and_falls_after_it(mu: float, rho: float, n: int) -> None:
    tau = rho * mu
    peak = peak_group_size(mu, tau)
    with mpmath.workdps(60):
        step = miss_mp(n + 1, mu, tau) - miss_mp(n, mu, tau)
    assert step > 0 if n < peak else step <= 0


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 0.99), st.floats(1e-3, 0.99), st.floats(1e-6, 0.9), st.floats(1e-6, 0.9))
def test_stricter_bounds_need_larger_groups_and_lower_levels_wider_zones(
    mu: float, rho: float, one: float, two: float
) -> None:
    low, high = sorted((one, two))
    tau = rho * mu
    assert covering_group_size(mu, tau, low) >= covering_group_size(mu, tau, high)
    wide, narrow = concentration_zone(mu, tau, low), concentration_zone(mu, tau, high)
    assert wide[0] <= narrow[0]
    assert narrow[1] <= wide[1]


def test_arrays_broadcast_and_equal_scalars() -> None:
    mu, rho = np.array([[0.05], [0.3], [0.9]]), np.array([1e-6, 0.01, 0.5, 0.9])
    tau = mu * rho
    peak, (low, high) = peak_group_size(mu, tau), concentration_zone(mu, tau, [[0.5], [0.9], [0.1]])
    safe = covering_group_size(mu, tau, 0.05)
    for i, level in enumerate((0.5, 0.9, 0.1)):
        for j in range(4):
            assert peak[i, j] == peak_group_size(mu[i, 0], tau[i, j])
            assert (low[i, j], high[i, j]) == concentration_zone(mu[i, 0], tau[i, j], level)
            assert safe[i, j] == covering_group_size(mu[i, 0], tau[i, j], 0.05)
    assert {x.dtype for x in (peak, low, high, safe)} == {np.dtype(np.int64)}


def test_sizes_past_64_bits_are_refused_and_sizes_near_them_are_not() -> None:
    with pytest.raises(ValueError, match=r"group sizes below 2\*\*62, got group_size=6.9"):
        concentration_zone(1e-15, 1e-24)
    assert 10**16 < peak_group_size(1e-15, 1e-24) < 10**17


def test_where_nothing_is_ever_missed_one_rollout_covers() -> None:
    assert covering_group_size([0.3, 1.0, 0.3], [0.3, 0.2, 0.03], 0.05).tolist() == [1, 1, 99]


def test_the_planners_example() -> None:
    """mu 0.3, rare fraction 0.1: the worst N is 8, and 99 rollouts keep the tail miss under 5 %."""
    assert peak_group_size(0.3, 0.03) == 8
    assert tail_miss_probability(99, 0.3, 0.03) <= 0.05 < tail_miss_probability(98, 0.3, 0.03)
