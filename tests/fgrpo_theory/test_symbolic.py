"""Every symbolic identity holds, and every plausible wrong version of it leaves a residual."""

import re
from functools import cache
from pathlib import Path

import pytest
import sympy
from sympy import sqrt

from fgrpo_theory.symbolic import IDENTITIES, groups, one_step, policies, prove, prove_all, ratio, tail_miss
from fgrpo_theory.symbolic.policies import ETA, R_C, R_W, G, N
from fgrpo_theory.symbolic.registry import UNSIGNED, Identity

NAMED = {identity.name: identity for identity in IDENTITIES}


@cache
def _cases(name):
    return list(NAMED[name].derive())


def _identity(name):
    """The identity over its own cases, derived once for all tests."""
    return NAMED[name]._replace(derive=lambda: _cases(name))


def _correct_step(mass):
    return mass * groups.REST**groups.CORRECT * groups.SHARE


def _value(expression):
    """The expression at distinct points: whole numbers for whole symbols, fractions below 1 for the others."""
    symbols = sorted(expression.free_symbols, key=str)
    point = {s: sympy.Integer(i + 3) if s.is_integer else sympy.Rational(2 * i + 3, 37) for i, s in enumerate(symbols)}
    return sympy.N(expression.subs(point), 30)


def _series(coefficient):
    return tail_miss.generating_function(coefficient)


def _induction(f):
    return lambda after, before, weight: f(after) - weight * f(before)


# Plausible slips, by identity: a sign, an exponent, a swapped class, a forgotten factor, one baseline for another.
MUTANTS = {
    "active": [
        lambda n, mu: 1 - mu**n,
        lambda n, mu: 1 - mu**n - (1 - mu) ** (n - 1),
        lambda n, mu: (1 - mu) ** n - mu**n,
    ],
    "active-every-size": [
        lambda mu: _series(lambda n: 1 - mu**n),
        lambda mu: _series(lambda n: 1 - mu**n + (1 - mu) ** n),
    ],
    "tail-miss": [
        lambda n, mu, tau: (1 - tau) ** n * (1 - mu**n - (1 - mu) ** n),  # as if the two were independent
        lambda n, mu, tau: (1 - tau) ** n - (1 - mu) ** n,
        lambda n, mu, tau: (1 - tau) ** n - mu**n - (1 - mu) ** n,
    ],
    "tail-miss-every-size": [
        lambda a, b: _series(lambda n: (a + b) ** n - a**n),
        lambda a, b: _series(lambda n: (a + b) ** n - a**n - b ** (n + 1)),
    ],
    "tail-miss-induction": [
        _induction(lambda n: tail_miss.S**n - tail_miss.A**n),
        # The recursion holds of this one, and only the base case fails.
        _induction(lambda n: tail_miss.symmetric(n, tail_miss.A, tail_miss.B) + tail_miss.S**n),
        _induction(lambda n: n * tail_miss.symmetric(n, tail_miss.A, tail_miss.B)),
    ],
    "tail-miss-thinned": [
        lambda n, a, b: (a + b) ** n * tail_miss.active(n, b),
        lambda n, a, b: (a + b) ** (n - 1) * tail_miss.active(n, b / (a + b)),
    ],
    "tail-miss-slope": [
        lambda n, a, b, tau: (a + b) ** n * (b * (a / (a + b)) ** n + a * (b / (a + b)) ** n - tau),
        lambda n, a, b, tau: (a + b) ** (n + 1) * tail_miss.slope_factor(n, a, b, tau),
    ],
    "tail-miss-rises-first": [lambda a, b: a * b, lambda a, b: 2 * a * b - 1],
    "tail-miss-factor-falls": [
        lambda n, a, b, tau: -(b + tau) * (a / (a + b)) ** n - (a + tau) * (b / (a + b)) ** n,
        lambda n, a, b, tau: -tail_miss.factor_step(n, a, b, tau),
    ],
    "tail-miss-factor-limit": [lambda tau: 0, lambda tau: -2 * tau],
    "tail-miss-real-slope": [
        tail_miss.real_slope_factor,
        lambda x: sympy.exp(-tail_miss.SIGMA * x) * (tail_miss.real_slope_factor(x) + 2 * tail_miss.SIGMA),
    ],
    "tail-miss-real-factor-falls": [
        lambda x: -(tail_miss.U**2) * sympy.exp(-tail_miss.U * x) - tail_miss.V**2 * sympy.exp(-tail_miss.V * x)
    ],
    "tail-miss-real-factor-limit": [lambda sigma: 0, lambda sigma: sigma],
    "population-tail-miss": [
        lambda n: (
            tail_miss.population(n) + tail_miss.beta_moment(n, 0) * (1 - tail_miss.RHO) ** n
        ),  # inactive groups too
        lambda n: tail_miss.population(n).subs(1 - tail_miss.RHO, tail_miss.RHO),
        lambda n: tail_miss.population(n).subs(tail_miss.BETA, tail_miss.BETA + 1),
    ],
    "sampled-mass": [
        lambda k, masses, total: sum(m * (1 - (1 - m) ** k) for m in masses),  # pi in place of q = pi/mu
        lambda k, masses, total: sum(m * (1 - m / total) ** k for m in masses),
        lambda k, masses, total: groups.sampled_mass(k + 1, masses, total),
    ],
    "sampled-correct-mass-rises": [
        lambda mass, k: mass * groups.REST ** (k + 1) * groups.SHARE,
        lambda mass, k: -mass * groups.REST**k * groups.SHARE,
    ],
    "sampled-wrong-mass-falls": [
        lambda mass, m: mass * groups.REST**m * groups.SHARE,
        lambda mass, m: -mass * groups.REST ** (m + 1) * groups.SHARE,
    ],
    "baseline-rises": [
        lambda c, d, x, y: _correct_step(c * x) - d * y * groups.OTHER_REST**groups.LEFT * groups.OTHER,
        lambda c, d, x, y: _correct_step(c * x) + d * y * groups.OTHER_REST ** (groups.LEFT + 1) * groups.OTHER,
    ],
    "unsampled-second-moment": [
        lambda p, n: p**2 * (1 - p**n),
        lambda p, n: p * (1 - p) ** n,
        lambda p, n: p**2 * (1 - n * p),
    ],
    "unsampled-mass-mean": [
        lambda p, n: sum(p) * (1 - sum(p)) ** n,
        lambda p, n: sum(q * (1 - q) ** (n - 1) for q in p),
    ],
    "success-rate": [lambda m, c, w: m, lambda m, c, w: (m - w) / (c + w), lambda m, c, w: (c - m) / (c - w)],
    "group-advantage": [
        lambda k, m, f, right: groups.finite_advantage(k, m, f, not right),
        lambda k, m, f, right: groups.finite_advantage(k, m, k + m, right),  # ddof 1 taken for 0
        lambda k, m, f, right: groups.finite_advantage(k, m, f, right) * (k + m) / f,
    ],
    "group-advantage-mean": [lambda k, m: sqrt(k * m) / (k + m), lambda k, m: 2 * k * m / (k + m) ** 2],
    "group-advantage-limit": [
        lambda mu, right: groups.limit_advantage(mu, not right),
        lambda mu, right: abs(groups.limit_advantage(mu, right)),
    ],
    "learning-rate-multiplier": [
        lambda g: 4 / sqrt(sympy.pi) * sympy.gamma(g + sympy.Rational(3, 2)) / sympy.gamma(g + 2),
        lambda g: 2 * groups.multiplier(g),
        lambda g: groups.multiplier(g / 2),
    ],
    "softmax-first-order": [lambda i, p, d: p[i] * d[i], lambda i, p, d: p[i] * (d[i] - sum(d) / len(d))],
    "subset-mass": [lambda inner, mass, mean: inner, lambda inner, mass, mean: inner - mean],
    "subset-mass-any-size": [lambda inner, mass, mean: inner + mass * mean, lambda inner, mass, mean: inner - mass],
    "probability-gradient": [lambda p, r, s: p * r / N, lambda p, r, s: p * (r - p * s) / N],
    "total-mass": [
        lambda m: one_step.total_mass(m._replace(U_neg2=m.U_pos2, U_pos2=m.U_neg2)),
        lambda m: one_step.total_mass(m._replace(U_pos2=m.A2 + m.U_pos2)),
        lambda m: N * one_step.total_mass(m),
    ],
    "total-mass-any-size": [
        lambda m: one_step.total_mass(m._replace(A2=m.B2, B2=m.A2)),
        lambda m: one_step.total_mass(m._replace(S_R=R_C * m.Q_pos + R_W * m.Q_neg)),  # the mean reward as baseline
    ],
    "total-mass-reduced": [
        lambda m: one_step.total_mass_reduced(m) + 2 * ETA / N * R_W * m.Q_pos * m.B2,
        lambda m: one_step.total_mass_reduced(m._replace(U_neg2=sympy.Integer(0))),
    ],
    "unsampled-mass": [
        lambda m: one_step.unsampled_mass(m) + 2 * ETA / N * m.S_R * m.U_pos2,  # the drift's sign
        lambda m: -ETA / N * m.S_R * m.U_pos2,  # no coupling
        lambda m: one_step.unsampled_mass(m._replace(Q_u=m.Q_pos)),
    ],
    "unsampled-mass-any-size": [
        lambda m: one_step.unsampled_mass(m._replace(U_neg2=sympy.Integer(0))),
        lambda m: one_step.unsampled_mass(m).subs(R_W, -R_W),
    ],
    "unsampled-mass-reduced": [
        lambda m: one_step.unsampled_mass_reduced(m) - ETA / N * m.S_R * m.A2,
        lambda m: one_step.unsampled_mass_reduced(m._replace(B2=sympy.Integer(0))),
    ],
    "ratio-gradient": [lambda w: w, lambda w: -w / N],
    "ratio-centred": [
        lambda k, right, wrong: (right - wrong) * ratio.advantages(k, N)[0],
        lambda k, right, wrong: right * R_C + wrong * R_W,
    ],
    "ratio-total-mass": [
        lambda m: ratio.total_mass(m._replace(V_neg=-m.V_neg)),
        lambda m: ratio.total_mass(m) / G,
        lambda m: ratio.total_mass(m._replace(V_pos=m.A2, V_neg=m.B2)),  # each action once
    ],
    "ratio-unsampled-mass": [
        lambda m: -ratio.unsampled_mass(m),
        lambda m: sympy.Integer(0),
        lambda m: ratio.unsampled_mass(m._replace(V_neg=-m.V_neg)),
    ],
    "ratio-expected-total-mass": [
        lambda n: ratio.expected_total(n) / n,
        lambda n: (
            ETA
            * ratio.SPREAD
            * ratio.activity_mean(n, lambda _: 1)
            * (ratio.second_moment(ratio.CORRECT_P) + ratio.second_moment(ratio.WRONG_P))
        ),
    ],
    "ratio-expected-total-mass-any-group": [
        lambda k, mu, t_pos, t_neg: ratio.conditional_total(k, mu, t_neg, t_pos),
        lambda k, mu, t_pos, t_neg: ratio.conditional_total(N - k, 1 - mu, t_pos, t_neg),
        lambda k, mu, t_pos, t_neg: N * ratio.conditional_total(k, mu, t_pos, t_neg),
    ],
    "ratio-expected-unsampled-mass": [
        lambda n: -ratio.expected_unsampled(n),
        lambda n: ratio.expected_unsampled(n).subs(ratio.SECOND, 1),
    ],
    "ratio-expected-unsampled-mass-any-group": [
        lambda k, r, *rest: ratio.conditional_unsampled(k, 1 - r, *rest),
        lambda k, r, p, mu, t_pos, t_neg: ratio.conditional_unsampled(k, r, p, mu, t_pos + p**2, t_neg),
    ],
    "activity-mean": [lambda mu: mu * (1 - mu), lambda mu: mu * (1 - mu) * (1 + 1 / N), lambda mu: mu * (1 - mu) / N],
}
SIGNED = [identity.name for identity in IDENTITIES if identity.sign]
OPPOSITE = {"positive": "negative", "negative": "positive", "nonnegative": "negative", "nonpositive": "positive"}


@pytest.mark.parametrize("name", NAMED)
def test_identity_holds(name):
    proof = prove(_identity(name))
    assert proof.residual == 0
    assert proof.holds
    assert proof.cases >= 1
    assert (proof.name, proof.source, proof.statement) == NAMED[name][:3]


def test_every_identity_has_mutants():
    assert set(MUTANTS) == set(NAMED)
    assert len(NAMED) == len(IDENTITIES)


@pytest.mark.parametrize(("name", "which"), [(name, i) for name, wrong in MUTANTS.items() for i in range(len(wrong))])
def test_wrong_statement_leaves_a_residual(name, which):
    residual = prove(_identity(name)._replace(claim=MUTANTS[name][which])).residual
    # Not only unsimplified: its value at some point is far from 0.
    assert abs(_value(residual)) > 1e-12


@pytest.mark.parametrize("name", SIGNED)
def test_wrong_sign_is_refused(name):
    identity = _identity(name)
    assert prove(identity._replace(sign=OPPOSITE[identity.sign])).residual == UNSIGNED


def test_sign_claims_are_those_that_say_so():
    assert {name for name, identity in NAMED.items() if re.search(r"[<>]=? 0", identity.statement)} == set(SIGNED)


def test_identity_without_cases_is_an_error():
    empty = Identity("empty", "none", "nothing", lambda: [], lambda: 0)
    with pytest.raises(ValueError, match="at least one case, got identity=empty"):
        prove(empty)


def test_a_failure_in_a_later_case_is_found():
    x = sympy.Symbol("x")
    late = Identity("late", "none", "x^n = x, n = 1, 2", lambda: [(x, (1,)), (x, (2,))], lambda n: x**n)
    assert prove(late).residual == x - x**2
    assert not prove(late).holds


def test_prove_all_is_lazy_and_in_order():
    proofs = prove_all()
    assert [next(proofs).name for _ in range(2)] == list(NAMED)[:2]


def test_policies_cover_every_pattern():
    # 4 classes for the last action times the multisets of classes of the others.
    assert [len(list(policies.policies_of_size(size))) for size in (1, 2, 3, 4)] == [4, 16, 40, 80]
    m = policies.policy_of_any_size().moments()
    assert sympy.expand(m.Q_pos + m.Q_neg) == 1


def test_corollary_h2_needs_a_correct_reward_of_at_least_zero():
    # One correct and one wrong action of mass 1/2, N = 2, rewards -1 and -2: the step from X = 0 to X = 1 lowers S_R.
    half = sympy.Rational(1, 2)

    def baseline(correct):
        return -groups.sampled_mass(correct, [half], half) - 2 * groups.sampled_mass(2 - correct, [half], half)

    assert baseline(1) - baseline(0) == -half


def test_docs_state_every_identity():
    page = (Path(__file__).parents[2] / "docs" / "proofs.md").read_text(encoding="utf-8")
    assert [name for name in NAMED if f"`{name}`" not in page] == []
    assert [name for name in re.findall(r"^\| `([a-z0-9-]+)`", page, re.MULTILINE) if name not in NAMED] == []
