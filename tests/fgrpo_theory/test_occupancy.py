"""The occupancy chain against enumeration of every sequence of draws."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from fgrpo_theory.occupancy import chain, state_count

CLASSES = [([1], [Fraction(1)]), ([3], [Fraction(1, 3)]), ([1, 2], [Fraction(1, 2), Fraction(1, 4)]),
           ([2, 1, 1], [Fraction(1, 5), Fraction(2, 5), Fraction(1, 5)])]  # fmt: skip


def truth(size: list[int], q: list[Fraction], draws: int) -> Counter[tuple[int, ...]]:
    """Chance of each count of different sampled actions, over all sequences of draws."""
    actions = [(kind, number) for kind, many in enumerate(size) for number in range(many)]
    law: Counter[tuple[int, ...]] = Counter()
    for drawn in itertools.product(actions, repeat=draws):
        state = tuple(len({action for action in drawn if action[0] == kind}) for kind in range(len(size)))
        law[state] += math.prod((q[kind] for kind, _ in drawn), start=Fraction(1))
    return law


@pytest.mark.parametrize(("size", "q"), CLASSES)
def test_every_law_of_the_chain_agrees_with_enumeration(size: list[int], q: list[Fraction]) -> None:
    walk = chain(np.array(size, dtype=float), 5)
    laws = list(walk.laws(np.array(q, dtype=float), np.array(size, dtype=float), 5))
    assert len(laws) == 6
    for draws, law in enumerate(laws):
        exact = truth(size, q, draws)
        assert sum(exact.values()) == 1
        found = dict(zip(map(tuple, walk.states.tolist()), law.tolist(), strict=True))
        assert set(exact) <= set(found)
        for state, chance in found.items():
            assert chance == pytest.approx(float(exact[state]), rel=1e-14, abs=0)


@pytest.mark.parametrize("draws", [1, 2, 7, 16])
@pytest.mark.parametrize("size", [[1], [40], [1, 40], [3, 1, 9], [9, 9, 9, 2]])
def test_the_number_of_states_is_known_before(size: list[int], draws: int) -> None:
    states = chain(np.array(size, dtype=float), draws).states
    assert len(states) == state_count(np.array(size, dtype=float), draws)
    assert len({tuple(state) for state in states.tolist()}) == len(states)
    wanted = [d for d in itertools.product(*(range(min(s, draws) + 1) for s in size)) if sum(d) <= draws]
    assert {tuple(state) for state in states.tolist()} == set(wanted)
