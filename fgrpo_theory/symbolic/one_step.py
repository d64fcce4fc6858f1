"""Proofs of the one-step laws of the raw-reward update: eqs. 5, 18, 19, 17 and 10, and our shorter forms.

Eqs. 17 and 10 are derived from eqs. 5 and 18 alone, once for every pattern of correct or wrong, sampled or unsampled
actions of policies of 1 to 4 actions, and once for policies of any size (see `policies`). In our forms the unsampled
sums are gone: with T the sum of p^2 over *all* correct or wrong actions, sampling enters eq. 17 through A_2, B_2 and
S_R only. Left out: second-order terms in eta, which the paper drops as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations

import sympy
from sympy import Expr, Symbol

from . import policies
from .policies import CLASSES, ETA, R_C, R_W, REWARD, SAMPLED, Moments, N
from .registry import Case, Identity, rational

LARGEST_SIZE = 4


def mass_change_cases(subset: str, sizes: range) -> Iterator[Case]:
    """The change of a class subset's mass under eq. 5, for all patterns of each size."""
    for policy in chain.from_iterable(map(policies.policies_of_size, sizes)):
        yield _raw_reward_case(policy.moments(), policy.mass_change, subset)


def mass_change_any_size(subset: str) -> Iterator[Case]:
    """The same for a policy of any size."""
    policy = policies.policy_of_any_size()
    yield _raw_reward_case(policy.moments(), policy.mass_change, subset)


def _raw_reward_case(m: Moments, change: Callable[..., Expr], subset: str) -> Case:
    def dz(label: str, p: Expr, _: Expr) -> Expr:
        return ETA / N * p * ((REWARD[label] if label in SAMPLED else 0) - m.S_R)  # eq. 5

    return change(subset, dz), (m,)


def total_mass(m: Moments) -> Expr:
    """Eq. 17."""
    return (
        ETA
        / N
        * (
            (R_C - m.S_R) * m.Q_neg * m.A2
            + (m.S_R - R_W) * m.Q_pos * m.B2
            + m.S_R * (m.Q_pos * m.U_neg2 - m.Q_neg * m.U_pos2)
        )
    )


def total_mass_reduced(m: Moments) -> Expr:
    """Ours: eq. 17 with the unsampled sums eliminated."""
    return ETA / N * (R_C * m.Q_neg * m.A2 - R_W * m.Q_pos * m.B2 + m.S_R * (m.Q_pos * m.T_neg - m.Q_neg * m.T_pos))


def unsampled_mass(m: Moments) -> Expr:
    """Eq. 10."""
    coupling = (R_C - m.S_R) * m.A2 + (R_W - m.S_R) * m.B2 - m.S_R * (m.U_pos2 + m.U_neg2)
    return ETA / N * (-m.S_R * m.U_pos2 - m.Q_u * coupling)


def unsampled_mass_reduced(m: Moments) -> Expr:
    """Ours: eq. 10 with the unsampled sums eliminated."""
    coupling = R_C * m.A2 + R_W * m.B2 - m.S_R * (m.T_pos + m.T_neg)
    return ETA / N * (-m.S_R * (m.T_pos - m.A2) - m.Q_u * coupling)


def _softmax_cases() -> Iterator[Case]:
    for size in range(2, LARGEST_SIZE + 1):
        (z, p), d = softmax(size), sympy.symbols(f"d1:{size + 1}")
        for i in range(size):
            yield sum(sympy.diff(p[i], z[j]) * d[j] for j in range(size)), (i, p, d)


def _subset_cases() -> Iterator[Case]:
    for size in range(2, LARGEST_SIZE + 2):
        p, d = policies.probabilities(size), sympy.symbols(f"d1:{size + 1}")
        mean = sum(p[j] * d[j] for j in range(size))
        for subset in chain.from_iterable(combinations(range(size), length) for length in range(size + 1)):
            inner, mass = sympy.Add(*(p[i] * d[i] for i in subset)), sympy.Add(*(p[i] for i in subset))
            yield sympy.Add(*(p[i] * (d[i] - mean) for i in subset)), (inner, mass, mean)


def _subset_any_size() -> Iterator[Case]:
    policy = policies.policy_of_any_size()
    d = {label: Symbol(f"d_{label}") for label in CLASSES}
    mean = policy.over(CLASSES, lambda label, p, _: p * d[label])
    for subset in ("A", "AU", "AB", "UB", "AUW", "AUBW"):
        inner = policy.over(subset, lambda label, p, _: p * d[label])
        mass = policy.over(subset, lambda _, p, __: p)
        yield policy.mass_change(subset, lambda label, _, __: d[label]), (inner, mass, mean)


def surrogate_gradient(z: list[Symbol], p: list[Expr], factors: list[Expr]) -> list[Expr]:
    """Gradient in the logits z of (1/N) sum_j factors_j p_j(z), the factors held constant."""
    return [sum(f * sympy.diff(q, logit) for f, q in zip(factors, p, strict=True)) / N for logit in z]


def softmax(size: int) -> tuple[list[Symbol], list[Expr]]:
    """Symbolic logits and their probabilities."""
    z = list(sympy.symbols(f"z1:{size + 1}"))
    return z, [sympy.exp(logit) / sum(map(sympy.exp, z)) for logit in z]


def _probability_gradient() -> Iterator[Case]:
    # R_j is 0 where j is not sampled, so that one symbol a action covers all patterns.
    for size in range(2, LARGEST_SIZE + 1):
        (z, p), rewards = softmax(size), list(sympy.symbols(f"R1:{size + 1}"))
        baseline = sum(r * q for r, q in zip(rewards, p, strict=True))
        for gradient, q, reward in zip(surrogate_gradient(z, p, rewards), p, rewards, strict=True):
            yield gradient, (q, reward, baseline)


_ANY = "policies of any size, by class moments"
_PATTERNS = f"every pattern of 1..{LARGEST_SIZE} actions"

IDENTITIES = (
    Identity(
        "softmax-first-order",
        "eq. 18",
        "dp_i = p_i (dz_i - sum_j p_j dz_j), the softmax's Jacobian, K = 2..4",
        _softmax_cases,
        lambda i, p, d: p[i] * (d[i] - sum(q * x for q, x in zip(p, d, strict=True))),
        rational,
    ),
    Identity(
        "subset-mass",
        "eq. 19",
        "dQ_S = sum_S p_i dz_i - Q_S sum_j p_j dz_j, every subset, K = 2..5",
        _subset_cases,
        lambda inner, mass, mean: inner - mass * mean,
    ),
    Identity(
        "subset-mass-any-size",
        "eq. 19",
        f"the same; {_ANY}",
        _subset_any_size,
        lambda inner, mass, mean: inner - mass * mean,
    ),
    Identity(
        "probability-gradient",
        "eq. 5",
        "d/dz_i (1/N) sum_sampled R_j p_j = (1/N) p_i (R_i - S_R), K = 2..4",
        _probability_gradient,
        lambda p, reward, baseline: p * (reward - baseline) / N,
        rational,
    ),
    Identity(
        "total-mass",
        "eq. 17",
        "dQ_pos = (eta/N) [(R_c - S_R) Q_neg A2 + (S_R - R_w) Q_pos B2 + S_R (Q_pos U_neg2 - Q_neg U_pos2)]; "
        f"{_PATTERNS}",
        lambda: mass_change_cases("AU", range(1, LARGEST_SIZE + 1)),
        total_mass,
    ),
    Identity("total-mass-any-size", "eq. 17", f"the same; {_ANY}", lambda: mass_change_any_size("AU"), total_mass),
    Identity(
        "total-mass-reduced",
        "ours",
        f"dQ_pos = (eta/N) [R_c Q_neg A2 - R_w Q_pos B2 + S_R (Q_pos T_neg - Q_neg T_pos)]; {_ANY}",
        lambda: mass_change_any_size("AU"),
        total_mass_reduced,
    ),
    Identity(
        "unsampled-mass",
        "eq. 10",
        f"dQ_u = (eta/N) [-S_R U_pos2 - Q_u ((R_c - S_R) A2 + (R_w - S_R) B2 - S_R U2)]; {_PATTERNS}",
        lambda: mass_change_cases("U", range(1, LARGEST_SIZE + 1)),
        unsampled_mass,
    ),
    Identity(
        "unsampled-mass-any-size", "eq. 10", f"the same; {_ANY}", lambda: mass_change_any_size("U"), unsampled_mass
    ),
    Identity(
        "unsampled-mass-reduced",
        "ours",
        f"dQ_u = (eta/N) [-S_R (T_pos - A2) - Q_u (R_c A2 + R_w B2 - S_R T2)]; {_ANY}",
        lambda: mass_change_any_size("U"),
        unsampled_mass_reduced,
    ),
)
