"""The register of wrong laws, and the proof, by calculation, that the cells of a suite see each of them.

A wrong law is seen in a cell if what it claims differs from the truth by more than the cell declares to detect, and the
power of the test, with the wrong law as its hypothesis and the right law as the truth, is at least `POWER`.
"""

from __future__ import annotations

from fgrpo_theory.foundation.checks import require

from .cells import POWER, Cell, Suite, WrongLaw
from .runner import cells_of
from .wrong_estimators import WRONG_ESTIMATORS
from .wrong_groups import WRONG_GROUPS
from .wrong_updates import WRONG_UPDATES

WRONG_LAWS = {wrong.name: wrong for wrong in (*WRONG_GROUPS, *WRONG_ESTIMATORS, *WRONG_UPDATES)}


def wrong_law(name: str) -> WrongLaw:
    """A wrong law by its name. Raises ValueError."""
    require(name in WRONG_LAWS, "replace must be the name of a wrong law (--list-wrong lists them)", replace=name)
    return WRONG_LAWS[name]


def claim_and_truth(suite: Suite, cell: Cell, wrong: WrongLaw) -> tuple[float, float, float]:
    """What the wrong law claims, what the sample shows on average, and the spread of that."""
    claim = float(wrong.value(**cell.given))
    if wrong.truth is None:
        return claim, suite.expected[cell.name], suite.spread(cell)
    arguments = {**cell.given, "group_size": cell.scenario.group_size}
    truth, spread = wrong.truth(**{name: value for name, value in arguments.items() if name not in ("method", "level")})
    return claim, truth, spread


def sees(suite: Suite, cell: Cell, wrong: WrongLaw) -> bool:
    """Whether this cell is certain enough to refuse the wrong law."""
    claim, truth, spread = claim_and_truth(suite, cell, wrong)
    return abs(claim - truth) > suite.detectable(cell) and suite.power(cell, claim, truth, spread) >= POWER


def killers(suite: Suite, wrong: WrongLaw) -> list[Cell]:
    """The cells that are proved to refuse a wrong law."""
    return [cell for cell in cells_of(suite, wrong) if sees(suite, cell, wrong)]
