"""Proofs for the importance-ratio surrogate with centred rewards: dz_i = (eta/N) n_i g A_i (all ours).

n_i is how often action i was drawn, D = R_c - R_w, and a group with k correct rollouts of N has the advantages
A+ = D (1 - k/N) and A- = -D k/N, which sum to 0 over the group. The focal weight g is any function of k: it stands as a
free symbol g_k, so the results hold of every gamma and of no weight at all, and of std scaling, which is one too.
Expectations over sampling are enumerated for N = 1..4 on two correct and two wrong actions of symbolic probability, and
proved for every N from conditional means. Left out: the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import sympy
from sympy import Expr, Rational, Symbol
from sympy.ntheory import multinomial_coefficients

from . import policies
from .one_step import softmax, surrogate_gradient
from .policies import ETA, R_C, R_W, REWARD, SAMPLED, G, Moments, N, Policy
from .registry import Case, Identity, powers, rational

LARGEST_SIZE = 3
LARGEST_GROUP = 4
SPREAD = R_C - R_W

# Two correct and two wrong actions; in these symbols the expectations are polynomials.
MU, FIRST, SECOND = sympy.symbols("mu q r", positive=True)
CORRECT_P = (MU * FIRST, MU * (1 - FIRST))
WRONG_P = ((1 - MU) * SECOND, (1 - MU) * (1 - SECOND))


def advantages(correct: Expr, group_size: Expr) -> tuple[Expr, Expr]:
    """A+ and A- of a group with `correct` correct rollouts."""
    return SPREAD * (1 - correct / group_size), -SPREAD * correct / group_size


def centred_update(policy: Policy) -> Callable[[str, Expr, Expr], Expr]:
    """dz(class, p, n) from the rewards themselves: (eta/N) n g (R - mean R)."""
    mean = policy.over(SAMPLED, lambda label, _, n: n * REWARD[label]) / N
    return lambda label, _, n: ETA / N * n * G * (REWARD[label] - mean)


def total_mass(m: Moments) -> Expr:
    """(eta/N) g [A+ V_pos Q_neg - A- V_neg Q_pos]."""
    plus, minus = advantages(m.correct, N)
    return ETA / N * G * (plus * m.V_pos * m.Q_neg - minus * m.V_neg * m.Q_pos)


def unsampled_mass(m: Moments) -> Expr:
    """-Q_u (eta/N) g [A+ V_pos + A- V_neg]: normalization alone moves an unsampled action."""
    plus, minus = advantages(m.correct, N)
    return -m.Q_u * ETA / N * G * (plus * m.V_pos + minus * m.V_neg)


def _mass_cases(subset: str) -> Iterator[Case]:
    explicit = chain.from_iterable(map(policies.sampled_policies_of_size, range(1, LARGEST_SIZE + 1)))
    for policy in chain([policies.policy_of_any_size()], explicit):
        yield policy.mass_change(subset, centred_update(policy)), (policy.moments(),)


def _centred_cases() -> Iterator[Case]:
    # The advantage of a correct and of a wrong rollout, and their sum over the group, from the rewards themselves.
    k = Symbol("k")
    mean = (k * R_C + (N - k) * R_W) / N
    yield R_C - mean, (k, 1, 0)
    yield R_W - mean, (k, 0, 1)
    yield k * (R_C - mean) + (N - k) * (R_W - mean), (k, k, N - k)
    yield sympy.Integer(0), (k, k, N - k)


def _ratio_gradient() -> Iterator[Case]:
    # n_i A_i is one symbol an action, the last being minus the sum of the others, since the advantages are centred.
    for size in range(2, LARGEST_SIZE + 1):
        free = sympy.symbols(f"nA1:{size}")
        weights = [*free, -sum(free)]
        z, p = softmax(size)
        factors = [w / q for w, q in zip(weights, p, strict=True)]
        for gradient, w in zip(surrogate_gradient(z, p, factors), weights, strict=True):
            yield gradient, (w,)


def groups(group_size: int) -> Iterator[tuple[Expr, tuple[int, ...]]]:
    """(probability, multiplicities) of every group of `group_size` rollouts over the four actions."""
    p = (*CORRECT_P, *WRONG_P)
    for counts, ways in multinomial_coefficients(len(p), group_size).items():
        yield ways * sympy.prod([q**n for q, n in zip(p, counts, strict=True)]), counts


def weight(correct: int) -> Symbol:
    """The focal weight of a group with `correct` correct rollouts, left free."""
    return Symbol(f"g_{correct}")


def _expected(subset: Callable[[tuple[int, ...]], list[int]]) -> Iterator[Case]:
    p = (*CORRECT_P, *WRONG_P)
    for size in range(1, LARGEST_GROUP + 1):
        mean = sympy.Integer(0)
        for chance, counts in groups(size):
            k = counts[0] + counts[1]
            plus, minus = advantages(sympy.Integer(k), sympy.Integer(size))
            dz = [ETA / size * n * weight(k) * (plus if i < 2 else minus) for i, n in enumerate(counts)]
            push = sum(q * d for q, d in zip(p, dz, strict=True))
            mean += chance * sympy.Add(*(p[i] * (dz[i] - push) for i in subset(counts)))  # eq. 18
        yield mean, (size,)


def activity_mean(size: int, f: Callable[[int], Expr | int]) -> Expr:
    """E[g(X) (X/N) (1 - X/N) f(X)], X ~ Binomial(N, mu)."""
    chance = [sympy.binomial(size, k) * MU**k * (1 - MU) ** (size - k) for k in range(size + 1)]
    return sympy.Add(*(chance[k] * weight(k) * Rational(k * (size - k), size**2) * f(k) for k in range(size + 1)))


def second_moment(p: tuple[Expr, ...]) -> Expr:
    """Sum of p^2."""
    return sympy.Add(*(q**2 for q in p))


def expected_total(size: int) -> Expr:
    """eta D E[g (X/N)(1 - X/N)] [Q_neg T_pos / Q_pos + Q_pos T_neg / Q_neg]."""
    return (
        ETA
        * SPREAD
        * activity_mean(size, lambda _: 1)
        * ((1 - MU) * second_moment(CORRECT_P) / MU + MU * second_moment(WRONG_P) / (1 - MU))
    )


def expected_unsampled(size: int) -> Expr:
    """-eta D sum_correct p E[g (X/N)(1-X/N) (1 - p/Q_pos)^X] [(T_pos - p^2)/(Q_pos - p) - T_neg/Q_neg]."""
    total, wrong = second_moment(CORRECT_P), second_moment(WRONG_P) / (1 - MU)

    def term(p: Expr) -> Expr:
        return p * activity_mean(size, lambda k: (1 - p / MU) ** k) * ((total - p**2) / (MU - p) - wrong)

    return -ETA * SPREAD * sum(map(term, CORRECT_P))


def _conditional_cases() -> Iterator[Case]:
    # Given X = k, n_i is Binomial(k, p_i/Q_pos) or Binomial(N - k, p_i/Q_neg): its mean is the slope of its pgf at 1.
    k, q, t, mu, t_pos, t_neg = sympy.symbols("k q t mu T_pos T_neg", positive=True)

    def mean_multiplicity(draws: Expr, mass: Expr) -> Expr:
        """Mean multiplicity over p_i."""
        return sympy.diff((1 - q + q * t) ** draws, t).subs(t, 1) / (q * mass)

    v_pos, v_neg = t_pos * mean_multiplicity(k, mu), t_neg * mean_multiplicity(N - k, 1 - mu)
    plus, minus = advantages(k, N)
    push = ETA / N * G * (plus * v_pos + minus * v_neg)
    yield ETA / N * G * plus * v_pos - mu * push, (k, mu, t_pos, t_neg)  # eq. 19


def _conditional_unsampled_cases() -> Iterator[Case]:
    # A correct action of share 1 - r among the correct: E[x^(n_j); n_i = 0 | X=k] = (r - q_j + q_j x)^k, whose slope
    # at x = 1 is E[n_j; n_i = 0]; the wrong draws are independent of it.
    k, r, share, x, mu, t_pos, t_neg = sympy.symbols("k r q_j x mu T_pos T_neg", positive=True)
    p = mu * (1 - r)
    right = sympy.diff((r - share + share * x) ** k, x).subs(x, 1) / (mu * share) * (t_pos - p**2)
    wrong = r**k * (N - k) / (1 - mu) * t_neg
    plus, minus = advantages(k, N)
    yield -p * ETA / N * G * (plus * right + minus * wrong), (k, r, p, mu, t_pos, t_neg)  # eq. 18 with dz_i = 0


def conditional_unsampled(k: Expr, r: Expr, p: Expr, mu: Expr, t_pos: Expr, t_neg: Expr) -> Expr:
    """-eta D p g (k/N)(1 - k/N) r^k [(T_pos - p^2)/(Q_pos - p) - T_neg/Q_neg], with mu = Q_pos, r = 1 - p/mu."""
    return -ETA * SPREAD * p * G * k / N * (1 - k / N) * r**k * ((t_pos - p**2) / (mu - p) - t_neg / (1 - mu))


def conditional_total(k: Expr, mu: Expr, t_pos: Expr, t_neg: Expr) -> Expr:
    """eta D g (k/N)(1 - k/N) [Q_neg T_pos / Q_pos + Q_pos T_neg / Q_neg], with mu = Q_pos."""
    return ETA * SPREAD * G * k / N * (1 - k / N) * ((1 - mu) * t_pos / mu + mu * t_neg / (1 - mu))


def _spread_cases() -> Iterator[Case]:
    t, mu = sympy.symbols("t mu", positive=True)
    pgf = (1 - mu + mu * t) ** N
    first, second = (sympy.diff(pgf, t, order).subs(t, 1) for order in (1, 2))
    yield first / N - (second + first) / N**2, (mu,)


_EXPECTED = f"all groups of N = 1..{LARGEST_GROUP}, 4 actions"
_MASS = f"any size, and every pattern of 1..{LARGEST_SIZE} actions"

IDENTITIES = (
    Identity(
        "ratio-gradient",
        "ours",
        f"d/dz_i (1/N) sum_j n_j A_j p_j/p_j(old) = n_i A_i/N at p = p(old), sum n A = 0; K = 2..{LARGEST_SIZE}",
        _ratio_gradient,
        lambda weight: weight / N,
        rational,
    ),
    Identity(
        "ratio-centred",
        "ours",
        "R - mean R is A+ = D (1 - k/N) or A- = -D k/N, and k A+ + (N - k) A- = 0",
        _centred_cases,
        lambda k, right, wrong: right * advantages(k, N)[0] + wrong * advantages(k, N)[1],
    ),
    Identity(
        "ratio-total-mass",
        "ours",
        f"dQ_pos = (eta/N) g [A+ V_pos Q_neg - A- V_neg Q_pos]; {_MASS}",
        lambda: _mass_cases("AU"),
        total_mass,
    ),
    Identity(
        "ratio-unsampled-mass",
        "ours",
        f"dQ_u = -Q_u (eta/N) g [A+ V_pos + A- V_neg]; {_MASS}",
        lambda: _mass_cases("U"),
        unsampled_mass,
    ),
    Identity(
        "ratio-expected-total-mass",
        "ours",
        f"E dQ_pos = eta D E[g (X/N)(1-X/N)] [Q_neg T_pos/Q_pos + Q_pos T_neg/Q_neg]; {_EXPECTED}",
        lambda: _expected(lambda _: [0, 1]),
        expected_total,
        rational,
    ),
    Identity(
        "ratio-expected-total-mass-any-group",
        "ours",
        "E[dQ_pos | X=k] = eta D g_k (k/N)(1-k/N) [Q_neg T_pos/Q_pos + Q_pos T_neg/Q_neg]; every N, k, policy",
        _conditional_cases,
        conditional_total,
        rational,
    ),
    Identity(
        "ratio-expected-unsampled-mass",
        "ours",
        "E dQ_u = -eta D sum_correct p E[g (X/N)(1-X/N) (1-p/Q_pos)^X] [(T_pos-p^2)/(Q_pos-p) - T_neg/Q_neg]; "
        f"{_EXPECTED}",
        lambda: _expected(lambda n: [i for i in (0, 1) if n[i] == 0]),
        expected_unsampled,
        rational,
    ),
    Identity(
        "ratio-expected-unsampled-mass-any-group",
        "ours",
        "E[dp; unsampled | X=k] = -eta D p g_k (k/N)(1-k/N) (1-p/Q_pos)^k [(T_pos-p^2)/(Q_pos-p) - T_neg/Q_neg], "
        "one correct action; every N, k, policy",
        _conditional_unsampled_cases,
        conditional_unsampled,
        powers,
    ),
    Identity(
        "activity-mean",
        "ours",
        "gamma = 0: E[(X/N)(1-X/N)] = mu (1-mu)(1-1/N); every N, from the binomial's pgf",
        _spread_cases,
        lambda mu: mu * (1 - mu) * (1 - 1 / N),
    ),
)
