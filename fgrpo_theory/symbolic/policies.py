"""Symbolic categorical policies, of a given small size and of any size, for the one-step laws.

Every action belongs to one of four classes: A (correct, sampled), U (correct, unsampled), B (wrong, sampled) and
W (wrong, unsampled). A policy of size K has symbols p_1 ... p_(K-1), the last probability being 1 minus their sum, and
a class an action. A policy of any size is a set of sums over its classes: a polynomial summed over
a class is linear in the class's moments S_ij = sum of p^i n^j (n the multiplicity), and the masses sum to 1.
Both kinds give the same `Moments`, so that one claim is checked on both. Notation: paper section 3 and appendix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

import sympy
from sympy import Expr, Symbol

N = Symbol("N", positive=True, integer=True)
ETA, G, R_C, R_W = sympy.symbols("eta g R_c R_w", real=True)
CLASSES, CORRECT, SAMPLED = "AUBW", "AU", "AB"
REWARD = {"A": R_C, "U": R_C, "B": R_W, "W": R_W}

# Stand-ins for one action's probability and multiplicity in a summand over a class of any size.
P_ANY, N_ANY = sympy.symbols("p n", positive=True)


class Moments(NamedTuple):
    """The sums that the laws speak of. `V_pos`, `V_neg`: sums of n p; `correct`: sampled correct rollouts (X)."""

    Q_pos: Expr
    Q_u: Expr
    A2: Expr
    B2: Expr
    U_pos2: Expr
    U_neg2: Expr
    S_R: Expr
    V_pos: Expr
    V_neg: Expr
    correct: Expr

    @property
    def Q_neg(self) -> Expr:
        """Total wrong mass."""
        return 1 - self.Q_pos

    @property
    def T_pos(self) -> Expr:
        """Sum of p^2 over all correct actions."""
        return self.A2 + self.U_pos2

    @property
    def T_neg(self) -> Expr:
        """Sum of p^2 over all wrong actions."""
        return self.B2 + self.U_neg2


class Policy(NamedTuple):
    """A sampled policy. `over(classes, f)` sums f(class label, p, n) over the actions of the classes."""

    over: Callable[[str, Callable[[str, Expr, Expr], Expr]], Expr]

    def moments(self) -> Moments:
        """The sums of this policy; the baseline is S_R = R_c P_pos + R_w P_neg."""

        def power(classes: str, i: int, j: int) -> Expr:
            return self.over(classes, lambda _, p, n: p**i * n**j)

        return Moments(
            Q_pos=power("AU", 1, 0),
            Q_u=power("U", 1, 0),
            A2=power("A", 2, 0),
            B2=power("B", 2, 0),
            U_pos2=power("U", 2, 0),
            U_neg2=power("W", 2, 0),
            S_R=R_C * power("A", 1, 0) + R_W * power("B", 1, 0),
            V_pos=power("A", 1, 1),
            V_neg=power("B", 1, 1),
            correct=power("A", 0, 1),
        )

    def mass_change(self, subset: str, dz: Callable[[str, Expr, Expr], Expr]) -> Expr:
        """Sum of eq. 18, dp_i = p_i (dz_i - sum_j p_j dz_j), over a subset of the classes."""
        mean = self.over(CLASSES, lambda label, p, n: p * dz(label, p, n))
        return self.over(subset, lambda label, p, n: p * (dz(label, p, n) - mean))


def policy_of_any_size() -> Policy:
    """Four classes of any sizes, known by their moments; the masses of the classes sum to 1."""

    def moment(label: str, i: int, j: int) -> Expr:
        if label not in SAMPLED and j > 0:
            return sympy.Integer(0)
        if (label, i, j) == ("W", 1, 0):
            return 1 - sympy.Add(*(moment(other, 1, 0) for other in "AUB"))
        if (label, i, j) == ("B", 0, 1):
            return N - moment("A", 0, 1)
        return Symbol(f"{label}_{i}{j}")

    def over(classes: str, f: Callable[[str, Expr, Expr], Expr]) -> Expr:
        total = sympy.Integer(0)
        for label in classes:
            multiplicity = N_ANY if label in SAMPLED else sympy.Integer(0)
            terms = sympy.Poly(f(label, P_ANY, multiplicity), P_ANY, N_ANY).terms()
            total += sum(factor * moment(label, i, j) for (i, j), factor in terms)
        return total

    return Policy(over)


def probabilities(size: int) -> list[Expr]:
    """p_1, ..., p_(size-1) and 1 minus their sum."""
    free = list(sympy.symbols(f"p1:{size}", positive=True))
    return [*free, 1 - sympy.Add(*free)]


def policies_of_size(size: int) -> Iterator[Policy]:
    """Every pattern of classes over `size` actions of symbolic probability, up to the order of the free ones.

    The multiplicities of sampled actions are symbols n_i that sum to N; unsampled ones have 0. The empty sample is
    kept: the laws of the raw rewards hold of it too.
    """
    return map(_explicit, _patterns(size))


def sampled_policies_of_size(size: int) -> Iterator[Policy]:
    """The patterns in which at least one action was sampled, as in every group of N >= 1 rollouts."""
    return (_explicit(pattern) for pattern in _patterns(size) if set(pattern) & set(SAMPLED))


def _patterns(size: int) -> Iterator[tuple[str, ...]]:
    # p_1 ... p_(size-1) are interchangeable symbols, so their order adds nothing; the last one is their complement.
    return ((*free, last) for free in combinations_with_replacement(CLASSES, size - 1) for last in CLASSES)


def _explicit(pattern: tuple[str, ...]) -> Policy:
    p = probabilities(len(pattern))
    sampled = [i for i, label in enumerate(pattern) if label in SAMPLED]
    n = [Symbol(f"n{i + 1}", positive=True) if i in sampled else sympy.Integer(0) for i in range(len(pattern))]
    if sampled:
        n[sampled[-1]] = N - sum(n[i] for i in sampled[:-1])
    actions = list(zip(pattern, p, n, strict=True))
    return Policy(lambda classes, f: sympy.Add(*(f(*action) for action in actions if action[0] in classes)))
