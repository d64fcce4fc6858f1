"""What is proved is what is computed: the symbolic claims at rational points, against the public functions.

The one-step laws and the expectations compute in fractions, so those comparisons are exact.
"""

from fractions import Fraction

import numpy as np
import pytest
import sympy

import fgrpo_theory
from fgrpo_theory.symbolic import groups, one_step, policies, ratio, tail_miss
from fgrpo_theory.symbolic.policies import ETA, R_C, R_W, G, N

P = [Fraction(1, 3), Fraction(1, 5), Fraction(2, 7), Fraction(19, 105)]
IS_CORRECT = [True, True, False, False]
COUNTS = [3, 0, 1, 0]
REWARDS = {"reward_correct": 3.0, "reward_wrong": -2.0}
VALUES = {ETA: 1, G: sympy.Rational(1, 16), R_C: 3, R_W: -2, N: 4}  # g at gamma = 2, X = 3 of N = 4


def _exact(expression):
    value = sympy.Rational(expression.subs(VALUES))
    return Fraction(int(value.p), int(value.q))


def _moments_at_p():
    p = [sympy.Rational(x.numerator, x.denominator) for x in P]
    actions = list(zip("AUBW", p, COUNTS, strict=True))
    return policies.Policy(lambda classes, f: sympy.Add(*(f(*a) for a in actions if a[0] in classes))).moments()


def test_one_step_code_computes_the_proved_laws():
    raw = {**REWARDS, "surrogate": "probability"}
    assert fgrpo_theory.total_mass_change(P, IS_CORRECT, COUNTS, **raw) == _exact(one_step.total_mass(_moments_at_p()))
    change = fgrpo_theory.unsampled_mass_change(P, IS_CORRECT, COUNTS, **raw)
    assert change.total == _exact(one_step.unsampled_mass(_moments_at_p()))


def test_ratio_code_computes_the_proved_laws():
    centred = {**REWARDS, "surrogate": "ratio", "gamma": 2.0}
    assert fgrpo_theory.total_mass_change(P, IS_CORRECT, COUNTS, **centred) == _exact(ratio.total_mass(_moments_at_p()))
    change = fgrpo_theory.unsampled_mass_change(P, IS_CORRECT, COUNTS, **centred)
    assert change.total == _exact(ratio.unsampled_mass(_moments_at_p()))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_expectation_code_computes_the_proved_laws(size):
    found = fgrpo_theory.expected_mass_changes(P, [1] * 4, IS_CORRECT, size, gamma=2.0, surrogate="ratio", **REWARDS)
    mass = sympy.Rational(8, 15)
    point = {ratio.MU: mass, ratio.FIRST: sympy.Rational(5, 8), ratio.SECOND: sympy.Rational(2, 7) / (1 - mass)}
    point |= {ratio.weight(k): sympy.Rational(size - k, size) ** 2 for k in range(size + 1)}
    proved = [_exact(law(size).subs(point)) for law in (ratio.expected_total, ratio.expected_unsampled)]
    assert list(found) == proved


def test_scalar_code_computes_the_proved_laws():
    mu, tau, third = sympy.Rational(3, 10), sympy.Rational(1, 100), sympy.Rational(1, 3)
    a, b, rho = tail_miss.ALPHA, tail_miss.BETA, tail_miss.RHO
    population = tail_miss.population(6).subs({a: 2, b: 5, rho: third})
    pairs = [
        (fgrpo_theory.active_probability(8, 0.3), tail_miss.active(8, mu)),
        (fgrpo_theory.tail_miss_probability(8, 0.3, 0.01), tail_miss.tail_miss(8, mu, tau)),
        (fgrpo_theory.population_tail_miss_probability(6, 2.0, 5.0, 1 / 3), population),
        (fgrpo_theory.learning_rate_multiplier(0.5), groups.multiplier(sympy.Rational(1, 2))),
        (fgrpo_theory.advantage_magnitudes(0.3, 0.0)[0], groups.limit_advantage(mu, True)),
    ]
    np.testing.assert_allclose([float(code) for code, _ in pairs], [float(law) for _, law in pairs], rtol=1e-14)
