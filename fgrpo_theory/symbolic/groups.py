"""Proofs about groups and weights: Lemma H.1, Corollary H.2, BroRL's Lemma 2, eq. 12, advantages, appendix N.

Lemma H.1 is enumerated for up to 4 correct draws over three correct actions of symbolic probability, and its
monotonicity in the number k of correct rollouts is certified for every k from the difference of one step. Corollary H.2
needs R_c >= 0 >= R_w, as both terms must have their sign; with R_c < 0 it is false (docs/proofs.md has an example).
Limits of the advantages are those of k = mu N, N -> oo. Left out: eps in the group's std, which is 0 here.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy
from sympy import Expr, Rational, Symbol
from sympy.ntheory import multinomial_coefficients

from .registry import Case, Identity, powers, rational

N, K = sympy.symbols("N k", positive=True, integer=True)
MU, P, W, T = sympy.symbols("mu p w t", positive=True)
GAMMA = Symbol("gamma", nonnegative=True)
R_C, R_W = sympy.symbols("R_c R_w", real=True)
# Wrong rollouts of the group after the step from k to k + 1 correct ones, so that N - k = LEFT + 1.
LEFT, CORRECT = sympy.symbols("m k", nonnegative=True, integer=True)
# For sign certificates: q = share of one action in its class, r = 1 - q; both may be 0.
SHARE, REST, OTHER, OTHER_REST = sympy.symbols("q r u v", nonnegative=True)
LARGEST_DRAWS = 4


def sampled_mass(draws: Expr | int, masses: list[Expr], total: Expr) -> Expr:
    """Lemma H.1: expected distinct mass of `draws` i.i.d. draws from masses/total."""
    return sympy.Add(*(mass * (1 - (1 - mass / total) ** draws) for mass in masses))


def _sampled_mass_cases() -> Iterator[Case]:
    mu, q, r = sympy.symbols("mu q r", positive=True)
    shares = [q, r, 1 - q - r]
    masses = [mu * share for share in shares]
    for draws in range(LARGEST_DRAWS + 1):
        mean = sympy.Integer(0)
        for counts, ways in multinomial_coefficients(len(shares), draws).items():
            chance = ways * sympy.prod([share**n for share, n in zip(shares, counts, strict=True)])
            mean += chance * sympy.Add(*(mass for mass, n in zip(masses, counts, strict=True) if n))
        yield mean, (draws, masses, mu)


def _step(mass: Expr, rest: Expr, before: Expr, after: Expr) -> Expr:
    """Change of one action's term of Lemma H.1 from `before` to `after` draws of its class; rest = 1 - q."""
    return mass * (1 - rest**after) - mass * (1 - rest**before)


def _with_shares(difference: Expr) -> Expr:
    """Reduction modulo q + r = 1 and u + v = 1."""
    return sympy.expand(sympy.expand(difference, power_exp=True).subs({SHARE: 1 - REST, OTHER: 1 - OTHER_REST}))


def _baseline_step() -> Iterator[Case]:
    # S_R is linear in the actions' terms: one correct and one wrong action stand for all. R_c = c >= 0, R_w = -d <= 0.
    c, d, mass, wrong_mass = sympy.symbols("c d pi_c pi_w", nonnegative=True)
    change = c * _step(mass, REST, CORRECT, CORRECT + 1) - d * _step(wrong_mass, OTHER_REST, LEFT + 1, LEFT)
    yield change, (c, d, mass, wrong_mass)


def _second_moment_cases() -> Iterator[Case]:
    # The multiplicity of one action is Binomial(N, p); its pgf at 0 is the chance that it stays unsampled.
    yield P**2 * ((1 - P + P * T) ** N).subs(T, 0), (P, N)
    p = [*sympy.symbols("p1 p2", positive=True)]
    p.append(1 - sum(p))
    for size in range(1, LARGEST_DRAWS + 1):
        mean = sum(
            ways * sympy.prod([q**n for q, n in zip(p, counts, strict=True)]) * p[0] ** 2
            for counts, ways in multinomial_coefficients(3, size).items()
            if counts[0] == 0
        )
        yield mean, (p[0], size)


def _unsampled_mass_cases() -> Iterator[Case]:
    p = [*sympy.symbols("p1 p2", positive=True)]
    p.append(1 - sum(p))
    for size in range(1, LARGEST_DRAWS + 1):
        mean = sympy.Integer(0)
        for counts, ways in multinomial_coefficients(3, size).items():
            chance = ways * sympy.prod([q**n for q, n in zip(p, counts, strict=True)])
            mean += chance * sympy.Add(*(p[i] for i in (0, 1) if counts[i] == 0))
        yield mean, (p[:2], size)


def _success_rate() -> Iterator[Case]:
    mean = (K * R_C + (N - K) * R_W) / N
    yield K / N, (mean, R_C, R_W)


def _advantage_cases() -> Iterator[Case]:
    # A group with k correct rollouts and m wrong ones, from the rewards' own mean and variance; spread D > 0.
    right, wrong = sympy.symbols("k m", positive=True)
    spread, size = Symbol("D", positive=True), right + wrong
    mean = R_W + spread * right / size
    for ddof in (0, 1):
        # N - 1 is positive in an active group, but sympy cannot know: it is written as a positive symbol.
        freedom = size if ddof == 0 else Symbol("f", positive=True)
        squares = right * (R_W + spread - mean) ** 2 + wrong * (R_W - mean) ** 2
        deviation = sympy.sqrt(sympy.factor(squares / freedom))
        yield sympy.factor(R_W + spread - mean) / deviation, (right, wrong, freedom, True)
        yield sympy.factor(R_W - mean) / deviation, (right, wrong, freedom, False)


def finite_advantage(right: Expr, wrong: Expr, freedom: Expr, is_correct: bool) -> Expr:
    """A+ or A- of k correct and m wrong rollouts; freedom = N - ddof."""
    size = right + wrong
    return sympy.sqrt(freedom / size) * (sympy.sqrt(wrong / right) if is_correct else -sympy.sqrt(right / wrong))


def _advantage_limits() -> Iterator[Case]:
    # k = mu N, written with mu = 1/(1 + x) so that signs are known; the factor of ddof 1 is sqrt((N-1)/N).
    x, size = sympy.symbols("x N", positive=True)
    mu, correction = 1 / (1 + x), sympy.sqrt(1 - 1 / size)
    for factor in (sympy.Integer(1), correction):
        limit = sympy.limit(factor, size, sympy.oo)
        for is_correct in (True, False):
            yield limit * finite_advantage(mu * size, x * mu * size, size, is_correct), (mu, is_correct)


def limit_advantage(mu: Expr, is_correct: bool) -> Expr:
    """Figure 4: A+ = sqrt((1-mu)/mu), A- = -sqrt(mu/(1-mu))."""
    return sympy.sqrt((1 - mu) / mu) if is_correct else -sympy.sqrt(mu / (1 - mu))


def _mean_size() -> Iterator[Case]:
    right, wrong = sympy.symbols("k m", positive=True)
    size = right + wrong
    plus, minus = (finite_advantage(right, wrong, size, is_correct) for is_correct in (True, False))
    yield (right * plus - wrong * minus) / size, (right, wrong)


def _multiplier_cases() -> Iterator[Case]:
    # The update's scale at success probability mu goes as sqrt(mu (1-mu)); the focal weight adds (1-mu)^gamma.
    mu = Symbol("mu", positive=True)
    root = sympy.sqrt(mu)
    weighted = sympy.integrate(root * (1 - mu) ** (GAMMA + Rational(1, 2)), (mu, 0, 1))
    plain = sympy.integrate(root * sympy.sqrt(1 - mu), (mu, 0, 1))
    yield sympy.hyperexpand(weighted) / plain, (GAMMA,)


def multiplier(gamma: Expr) -> Expr:
    """m_gamma = (4/sqrt(pi)) Gamma(gamma + 3/2)/Gamma(gamma + 3)."""
    return 4 / sympy.sqrt(sympy.pi) * sympy.gamma(gamma + Rational(3, 2)) / sympy.gamma(gamma + 3)


IDENTITIES = (
    Identity(
        "sampled-mass",
        "Lemma H.1",
        f"E[P_pos | X=k] = sum pi(o) (1 - (1-q(o))^k), all draws of 3 correct actions, k = 0..{LARGEST_DRAWS}; "
        "P_neg is the same with N - k draws",
        _sampled_mass_cases,
        sampled_mass,
    ),
    Identity(
        "sampled-correct-mass-rises",
        "Lemma H.1",
        "one action, k to k+1: pi (1-q)^k q >= 0; every k",
        lambda: [(_step(P, REST, CORRECT, CORRECT + 1), (P, CORRECT))],
        lambda mass, k: mass * REST**k * SHARE,
        _with_shares,
        "nonnegative",
    ),
    Identity(
        "sampled-wrong-mass-falls",
        "Lemma H.1",
        "one action, N-k = m+1 to m: -pi (1-q)^m q <= 0; every m",
        lambda: [(_step(P, REST, LEFT + 1, LEFT), (P, LEFT))],
        lambda mass, m: -mass * REST**m * SHARE,
        _with_shares,
        "nonpositive",
    ),
    Identity(
        "baseline-rises",
        "Corollary H.2",
        "R_c = c >= 0 >= R_w = -d: the step of E[S_R | X=k] sums c pi_c (1-q)^k q + d pi_w (1-u)^m u >= 0, "
        "N-k = m+1; every k, m",
        _baseline_step,
        lambda c, d, right, wrong: c * right * REST**CORRECT * SHARE + d * wrong * OTHER_REST**LEFT * OTHER,
        _with_shares,
        "nonnegative",
    ),
    Identity(
        "unsampled-second-moment",
        "BroRL, Lemma 2",
        f"E[p^2; unsampled] = p^2 (1-p)^N; every N from the pgf, and enumerated for N = 1..{LARGEST_DRAWS}",
        _second_moment_cases,
        lambda p, n: p**2 * (1 - p) ** n,
    ),
    Identity(
        "unsampled-mass-mean",
        "eq. 9",
        f"E[Q_u] = sum_correct p (1-p)^N, enumerated for N = 1..{LARGEST_DRAWS}",
        _unsampled_mass_cases,
        lambda p, n: sum(q * (1 - q) ** n for q in p),
    ),
    Identity(
        "success-rate",
        "eq. 12",
        "X/N = (mean R - R_w)/(R_c - R_w) for any two rewards",
        _success_rate,
        lambda mean, right, wrong: (mean - wrong) / (right - wrong),
        rational,
    ),
    Identity(
        "group-advantage",
        "eq. 3",
        "A+ = sqrt((N-ddof)/N) sqrt((N-k)/k), A- = -sqrt((N-ddof)/N) sqrt(k/(N-k)), ddof 0 and 1",
        _advantage_cases,
        finite_advantage,
        powers,
    ),
    Identity(
        "group-advantage-mean",
        "ours",
        "mean |A| of a group = 2 sqrt(k (N-k))/N, ddof 0",
        _mean_size,
        lambda right, wrong: 2 * sympy.sqrt(right * wrong) / (right + wrong),
        powers,
    ),
    Identity(
        "group-advantage-limit",
        "figure 4",
        "k = mu N, N -> oo: A+ = sqrt((1-mu)/mu), A- = -sqrt(mu/(1-mu)), ddof 0 and 1",
        _advantage_limits,
        limit_advantage,
        powers,
    ),
    Identity(
        "learning-rate-multiplier",
        "appendix N",
        "int mu^(1/2) (1-mu)^(gamma+1/2) / int mu^(1/2) (1-mu)^(1/2) = "
        "(4/sqrt(pi)) Gamma(gamma+3/2)/Gamma(gamma+3), symbolic gamma",
        _multiplier_cases,
        multiplier,
        sympy.gammasimp,
    ),
)
