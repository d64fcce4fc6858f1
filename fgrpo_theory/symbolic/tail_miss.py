"""Proofs about the tail miss: eq. 7, Lemma 3.1, its unimodality in N (ours), and the population version (ours).

Symbols: a = 1 - mu (wrong), b = mu - tau (correct outside the rare set E), tau (in E), s = a + b = 1 - tau, all
positive. For N up to 8 the events are read off the multinomial expansion by their definition. For every N at once there
are two proofs: by exponential generating functions, in which a group is a word over the outcomes and "at least one" of
a letter of weight x is exp(x t) - 1; and by induction over the last rollout.
Unimodality: f(N+1) - f(N) = s^N h(N) with h falling from 2ab/s at N = 1 to -tau, so the difference changes sign once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy
from sympy import Expr, Symbol
from sympy.ntheory import multinomial_coefficients

from .registry import Case, Identity, powers, rational

A, B, TAU, MU, T = sympy.symbols("a b tau mu t", positive=True)
N = Symbol("N", positive=True, integer=True)
S = A + B
LARGEST_GROUP = 8

# Real N: a = exp(-(sigma + u)), b = exp(-(sigma + v)), s = exp(-sigma), with sigma, u, v > 0 since a, b < s < 1.
SIGMA, U, V, X = sympy.symbols("sigma u v x", positive=True)

ALPHA, BETA, RHO = sympy.symbols("alpha beta rho", positive=True)
LARGEST_POPULATION_GROUP = 6


def active(n: Expr | int, mu: Expr) -> Expr:
    """Eq. 7."""
    return 1 - mu**n - (1 - mu) ** n


def tail_miss(n: Expr | int, mu: Expr, tau: Expr) -> Expr:
    """Lemma 3.1."""
    return (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n


def symmetric(n: Expr | int, a: Expr, b: Expr) -> Expr:
    """Lemma 3.1 in a and b."""
    return (a + b) ** n - a**n - b**n


def slope_factor(n: Expr | int, a: Expr, b: Expr, tau: Expr) -> Expr:
    """h(N) = mu (a/s)^N + (a + tau)(b/s)^N - tau, with mu = b + tau."""
    return (b + tau) * (a / (a + b)) ** n + (a + tau) * (b / (a + b)) ** n - tau


def factor_step(n: Expr | int, a: Expr, b: Expr, tau: Expr) -> Expr:
    """h(N+1) - h(N), a sum of two negative terms."""
    s = a + b
    return -(b + tau) * (a / s) ** n * b / s - (a + tau) * (b / s) ** n * a / s


def real_tail_miss(x: Expr) -> Expr:
    """f(x) = s^x - a^x - b^x in sigma, u and v."""
    return sympy.exp(-SIGMA * x) - sympy.exp(-(SIGMA + U) * x) - sympy.exp(-(SIGMA + V) * x)


def real_slope_factor(x: Expr) -> Expr:
    """H(x) = f'(x)/s^x = ln s + (a/s)^x ln(1/a) + (b/s)^x ln(1/b)."""
    return -SIGMA + (SIGMA + U) * sympy.exp(-U * x) + (SIGMA + V) * sympy.exp(-V * x)


def generating_function(coefficient: Callable[[Expr], Expr]) -> Expr:
    """Sum over N >= 1 of coefficient(N) t^N / N!, summed in closed form term by term."""
    n = Symbol("n", positive=True, integer=True)
    terms = sympy.Add.make_args(coefficient(n))
    sums = (sympy.summation(term * T**n / sympy.factorial(n), (n, 1, sympy.oo)) for term in terms)
    return sympy.Add(*map(sympy.simplify, sums))


def _groups(keep: Callable[[int, int, int], bool], weights: tuple[Expr, Expr, Expr]) -> Iterator[tuple[int, Expr]]:
    """(N, probability of the groups kept) by expansion; counts are (rare, other correct, wrong)."""
    for size in range(1, LARGEST_GROUP + 1):
        yield (
            size,
            sympy.Add(
                *(
                    ways * sympy.prod([w**n for w, n in zip(weights, counts, strict=True)])
                    for counts, ways in multinomial_coefficients(3, size).items()
                    if keep(*counts)
                )
            ),
        )


def _active_expansion() -> Iterator[Case]:
    for size, chance in _groups(lambda rare, other, wrong: rare + other > 0 and wrong > 0, (TAU, MU - TAU, 1 - MU)):
        yield chance, (size, MU)


def _tail_miss_expansion() -> Iterator[Case]:
    kept = _groups(lambda rare, other, wrong: rare + other > 0 and wrong > 0 and rare == 0, (TAU, MU - TAU, 1 - MU))
    for size, chance in kept:
        yield chance, (size, MU, TAU)


def _induction() -> Iterator[Case]:
    # f(1) = 0; and a group of N + 1 misses iff its first N do and the last is not rare, or they are all wrong and the
    # last is correct outside E, or the other way round: f(N+1) - s f(N) = a^N b + b^N a.
    yield sympy.Integer(0), (1, 1, sympy.Integer(0))
    yield A**N * B + B**N * A, (N + 1, N, S)


def _slope(f: Callable[[Expr | int, Expr, Expr], Expr]) -> Expr:
    return f(N + 1, A, B) - f(N, A, B)


def _factor_limit() -> Expr:
    # a/s = 1/(1 + b/a) and b/s = 1/(1 + a/b): the powers of 1/(1 + r), r > 0, vanish.
    vanishing = sympy.limit((1 / (1 + X)) ** N, N, sympy.oo)
    return slope_factor(N, A, B, TAU).xreplace({(A / S) ** N: vanishing, (B / S) ** N: vanishing})


def _normalised(difference: Expr) -> Expr:
    """Reduction modulo a + b + tau = 1."""
    return powers(difference.subs(TAU, 1 - A - B))


def _population_cases() -> Iterator[Case]:
    mu = Symbol("mu")
    for size in range(2, LARGEST_POPULATION_GROUP + 1):
        miss = sympy.Poly(sympy.expand(tail_miss(size, mu, RHO * mu)), mu)
        yield sympy.Add(*(factor * beta_moment(power, 0) for (power,), factor in miss.terms())), (size,)


def beta_moment(right: int, wrong: int) -> Expr:
    """E[mu^right (1-mu)^wrong], mu ~ Beta(alpha, beta): B(alpha + right, beta + wrong)/B(alpha, beta)."""

    def beta_function(x: Expr, y: Expr) -> Expr:
        return sympy.gamma(x) * sympy.gamma(y) / sympy.gamma(x + y)

    return sympy.gammasimp(beta_function(ALPHA + right, BETA + wrong) / beta_function(ALPHA, BETA))


def population(size: int) -> Expr:
    """Sum over j = 1..N-1 of Pr(j correct; beta-binomial) (1 - rho)^j."""
    return sympy.Add(*(sympy.binomial(size, j) * beta_moment(j, size - j) * (1 - RHO) ** j for j in range(1, size)))


_SHAPE = (
    Identity(
        "tail-miss-slope",
        "ours",
        "f(N+1) - f(N) = s^N h(N), h(N) = mu (a/s)^N + (a+tau)(b/s)^N - tau; every N",
        lambda: [(_slope(symmetric), (N, A, B, TAU))],
        lambda n, a, b, tau: (a + b) ** n * slope_factor(n, a, b, tau),
        _normalised,
    ),
    Identity(
        "tail-miss-rises-first",
        "ours",
        "f(2) - f(1) = 2ab > 0",
        lambda: [(symmetric(2, A, B) - symmetric(1, A, B), (A, B))],
        lambda a, b: 2 * a * b,
        sign="positive",
    ),
    Identity(
        "tail-miss-factor-falls",
        "ours",
        "h(N+1) - h(N) = -mu (a/s)^N b/s - (a+tau)(b/s)^N a/s < 0; every N",
        lambda: [(slope_factor(N + 1, A, B, TAU) - slope_factor(N, A, B, TAU), (N, A, B, TAU))],
        factor_step,
        powers,
        "negative",
    ),
    Identity(
        "tail-miss-factor-limit",
        "ours",
        "h(N) -> -tau < 0 for N -> oo, as a/s < 1 and b/s < 1",
        lambda: [(_factor_limit(), (TAU,))],
        lambda tau: -tau,
        sign="negative",
    ),
    Identity(
        "tail-miss-real-slope",
        "ours",
        "real N = x: f'(x) = s^x H(x), H(x) = ln s + (a/s)^x ln(1/a) + (b/s)^x ln(1/b)",
        lambda: [(sympy.diff(real_tail_miss(X), X), (X,))],
        lambda x: sympy.exp(-SIGMA * x) * real_slope_factor(x),
    ),
    Identity(
        "tail-miss-real-factor-falls",
        "ours",
        "H'(x) = -(a/s)^x ln(1/a) ln(s/a) - (b/s)^x ln(1/b) ln(s/b) < 0",
        lambda: [(sympy.diff(real_slope_factor(X), X), (X,))],
        lambda x: -U * (SIGMA + U) * sympy.exp(-U * x) - V * (SIGMA + V) * sympy.exp(-V * x),
        sign="negative",
    ),
    Identity(
        "tail-miss-real-factor-limit",
        "ours",
        "H(x) -> ln s = -sigma < 0 for x -> oo",
        lambda: [(sympy.limit(real_slope_factor(X), X, sympy.oo), (SIGMA,))],
        lambda sigma: -sigma,
        sign="negative",
    ),
)

IDENTITIES = (
    Identity(
        "active",
        "eq. 7",
        f"Pr(active) = 1 - mu^N - (1-mu)^N, multinomial expansion, N = 1..{LARGEST_GROUP}",
        _active_expansion,
        active,
    ),
    Identity(
        "active-every-size",
        "eq. 7",
        "every N: (exp(mu t) - 1)(exp((1-mu) t) - 1) generates 1 - mu^N - (1-mu)^N",
        lambda: [((sympy.exp(MU * T) - 1) * (sympy.exp((1 - MU) * T) - 1), (MU,))],
        lambda mu: generating_function(lambda n: active(n, mu)),
    ),
    Identity(
        "tail-miss",
        "Lemma 3.1",
        f"Pr(tail miss) = (1-tau)^N - (mu-tau)^N - (1-mu)^N, multinomial expansion, N = 1..{LARGEST_GROUP}",
        _tail_miss_expansion,
        tail_miss,
    ),
    Identity(
        "tail-miss-every-size",
        "Lemma 3.1",
        "every N: (exp(b t) - 1)(exp(a t) - 1) generates f(N) = s^N - a^N - b^N",
        lambda: [((sympy.exp(B * T) - 1) * (sympy.exp(A * T) - 1), (A, B))],
        lambda a, b: generating_function(lambda n: symmetric(n, a, b)),
    ),
    Identity(
        "tail-miss-induction",
        "Lemma 3.1",
        "every N: f(1) = 0 and f(N+1) = s f(N) + a^N b + b^N a",
        _induction,
        lambda after, before, weight: symmetric(after, A, B) - weight * symmetric(before, A, B),
    ),
    Identity(
        "tail-miss-thinned",
        "ours",
        "s^N - a^N - b^N = (1-tau)^N Pr(active at success probability b/s); every N",
        lambda: [(symmetric(N, A, B), (N, A, B))],
        lambda n, a, b: (a + b) ** n * active(n, b / (a + b)),
        powers,
    ),
    *_SHAPE,
    Identity(
        "population-tail-miss",
        "ours",
        "E[(1-rho mu)^N - ((1-rho) mu)^N - (1-mu)^N], mu ~ Beta(alpha, beta), is sum_(j=1)^(N-1) "
        f"BetaBinomial(j; N, alpha, beta) (1-rho)^j; N = 2..{LARGEST_POPULATION_GROUP}",
        _population_cases,
        population,
        rational,
    ),
)
