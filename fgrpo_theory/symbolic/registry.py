"""What a symbolic proof is: a derived value, a claimed formula, and an exact residual.

An identity is kept as two independent halves. `derive` works the value out from first principles (a definition, an
enumeration, an integral), one case after another, and hands on the symbols that the formula speaks of; `claim` is the
formula alone. The proof subtracts the two in exact arithmetic. Since the halves are apart, a wrong formula can be put
in place of the claim, and the tests do so for every identity: none of these proofs is one that cannot fail.

Sign claims carry a certificate: the derived value equals an expression whose sign follows term by term from the signs
of its symbols, by sympy's assumptions. What is left out: sympy's own correctness, which is taken for granted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import sympy
from sympy import Expr

Sign = Literal["positive", "negative", "nonnegative", "nonpositive"]
Case = tuple[Expr, tuple[Any, ...]]

# The residual of a sign claim whose certificate is equal to the derived value but has no provable sign.
UNSIGNED = sympy.Symbol("sign_not_proved")


class Proof(NamedTuple):
    """The outcome for one identity: `residual` is 0 exactly when it holds in all of its `cases`."""

    name: str
    source: str
    statement: str
    residual: Expr
    seconds: float
    cases: int

    @property
    def holds(self) -> bool:
        """Whether the residual is exactly 0."""
        return bool(self.residual == 0)


class Identity(NamedTuple):
    """One statement to prove.

    `derive` yields (derived value, arguments of the claim), a pair a case; `claim` maps those arguments to the claimed
    value; `reduce` brings a difference to a form in which it is 0 if it vanishes; `sign`, if given, is the sign that
    every claimed value must provably have.
    """

    name: str
    source: str
    statement: str
    derive: Callable[[], Iterable[Case]]
    claim: Callable[..., Expr | int]
    reduce: Callable[[Expr], Expr] = sympy.expand
    sign: Sign | None = None


def prove(identity: Identity) -> Proof:
    """Check every case of one identity; the residual is that of the first case that fails, else 0.

    Raises ValueError if the identity derives no case at all, since it would then hold of nothing.
    """
    start = time.perf_counter()
    residual, cases = sympy.Integer(0), 0
    for derived, arguments in identity.derive():
        cases += 1
        residual = _residual(identity, derived, sympy.sympify(identity.claim(*arguments)))
        if residual != 0:
            break
    if not cases:
        raise ValueError(f"identity must derive at least one case, got identity={identity.name}")
    return Proof(identity.name, identity.source, identity.statement, residual, time.perf_counter() - start, cases)


def prove_each(identities: Iterable[Identity]) -> Iterator[Proof]:
    """Prove one identity after another, each when it is asked for, so that progress can be shown."""
    return map(prove, identities)


def rational(difference: Expr) -> Expr:
    """Decides whether a rational function of the symbols is 0, by bringing it over one denominator."""
    return sympy.cancel(sympy.together(difference))


def powers(difference: Expr) -> Expr:
    """Simplifies sums of products of symbolic powers and roots of positive symbols."""
    return sympy.simplify(sympy.expand(difference))


def _residual(identity: Identity, derived: Expr, claimed: Expr) -> Expr:
    difference = identity.reduce(derived - claimed)
    if difference != 0 or identity.sign is None:
        return difference
    return sympy.Integer(0) if getattr(claimed, f"is_{identity.sign}") is True else UNSIGNED
