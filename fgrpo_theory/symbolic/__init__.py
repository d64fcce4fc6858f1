"""Symbolic proofs of the paper's identities and of ours, by sympy; `fgrpo theory prove` prints them.

Modules: `registry` (what a proof is), `policies` (symbolic policies), and the identities of `one_step`, `ratio`,
`tail_miss` and `groups`. docs/proofs.md states each with its method. sympy is imported here and nowhere else in the
package, so that the closed forms load without it.

>>> next(prove_all()).residual
0
"""

from collections.abc import Iterator

from . import groups, one_step, ratio, tail_miss
from .registry import Identity, Proof, prove, prove_each

IDENTITIES: tuple[Identity, ...] = (
    *tail_miss.IDENTITIES,
    *groups.IDENTITIES,
    *one_step.IDENTITIES,
    *ratio.IDENTITIES,
)


def prove_all() -> Iterator[Proof]:
    """Prove the identities in order, one at a time; under a minute in all. A residual other than 0 is a failure."""
    return prove_each(IDENTITIES)


__all__ = ["IDENTITIES", "Identity", "Proof", "prove", "prove_all"]
