"""How many different actions of each class k draws from one side have hit: the exact law, by its Markov chain (ours).

A state counts the different sampled actions of each class. One more draw hits a new action of class c with chance
q_c (size_c - d_c), so that the law after k draws follows from that after k - 1 by sums of positive products: nothing cancels.
It serves the laws that are of degree two in the sampled set; those of degree one need pairs of actions alone (`expectation`).

Left out on purpose: any approximation. A chain that would be too large is refused with its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .foundation.checks import FloatArray, IntArray, require

# States of the chain, and steps from state to state in all: under a second, and under 100 MB with six classes.
MOST_STATES = 2**17
MOST_STEPS = 2**27


@dataclass(frozen=True)
class Chain:
    """Every state that draws can reach, and every step to a new action."""

    states: IntArray
    """ "state class": different sampled actions of each class; the first state is the empty one."""
    source: IntArray
    """ "step": the state that a step leaves."""
    target: IntArray
    """ "step": the state that it reaches."""
    kind: IntArray
    """ "step": the class of the new action."""

    def laws(self, q: FloatArray, size: FloatArray, draws: int) -> Iterator[FloatArray]:
        """The chance of each state, "state", after 0, 1, ..., draws draws. q: chance of one action; size: actions; "class"."""
        again = self.states @ q
        new = q[self.kind] * (size[self.kind] - self.states[self.source, self.kind])
        law = np.zeros(len(self.states))
        law[0] = 1.0
        yield law
        for _ in range(draws):
            law = law * again + np.bincount(self.target, law[self.source] * new, minlength=len(law))
            yield law


def chain(size: FloatArray, draws: int) -> Chain:
    """The chain of up to `draws` draws from classes of `size` actions, "class". Raises ValueError if it is too large."""
    states = state_count(size, draws)
    steps = states * size.size * draws
    require(
        states <= MOST_STATES and steps <= MOST_STEPS,
        f"group_size and the correct classes must make at most {MOST_STATES} states and {MOST_STEPS} steps",
        group_size=draws,
        classes=size.size,
        states=f"{states:.3g}",
        steps=f"{steps:.3g}",
    )
    layer, first = np.zeros((1, size.size), dtype=np.int64), 0
    layers, sources, targets, kinds = [layer], [], [], []
    for _ in range(int(min(draws, size.sum()))):
        place, kind = np.nonzero(layer < size)
        reached, index = np.unique(layer[place] + np.eye(size.size, dtype=np.int64)[kind], axis=0, return_inverse=True)
        sources.append(first + place)
        first += len(layer)
        targets.append(first + index.ravel())
        kinds.append(kind)
        layers.append(reached)
        layer = reached
    return Chain(np.concatenate(layers), *(np.concatenate(part) for part in (sources, targets, kinds)))


def state_count(size: FloatArray, draws: int) -> float:
    """How many states the chain has: vectors d of whole numbers, 0 <= d <= size, with a sum of at most `draws`.

    >>> state_count(np.array([1.0, 9.0]), 2)
    5.0
    """
    ways = np.ones(1)
    for actions in np.minimum(size, draws).astype(np.int64):
        total = np.cumsum(np.concatenate([ways, np.zeros(min(int(actions), draws + 1 - ways.size))]))
        total[actions + 1 :] -= total[: max(total.size - actions - 1, 0)].copy()
        # Far above what is allowed the count itself does not matter; it must stay finite.
        ways = np.minimum(total, 1e100)
    return float(ways.sum())
