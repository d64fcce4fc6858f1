"""What a run reports every `record_every` updates. A row at step t describes the policy after t updates.

    Q_pos, M_ret        correct mass; retained positive mass, eq. 26
    above_start         share of correct actions above their start probability (by more than 1e-12 of it)
    worst_drop          largest loss of probability of a correct action, and the largest loss relative to its start
    entropy             of the policy, in nats
    correct, active     X of the group drawn from this policy for the next update, and whether 0 < X < N
    Q_u_pos, S_R        unsampled correct mass (eq. 9) and batch baseline of that group
    active_share        share of active groups since the last row
    tail_miss_E         share of steps since the last row with an active group that misses the subset E
    tail_miss_E_law     Lemma 3.1 for E under this policy
    dQ_pos, dQ_u_pos    first-order change that one plain gradient step on that group makes (eqs. 17 and 10, or the ratio
                        surrogate's laws), and ..._expected, its exact expectation over the draw of a group

The last four follow the closed forms of fgrpo_theory, so they exist for centred rewards with the ratio surrogate and raw
rewards with the probability surrogate only, and while the policy has few distinct probabilities (`DRIFT_ENTRIES`); their
cost grows with that number. Elsewhere, as in the first row for what is counted since the last one, the value is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fgrpo_theory import (
    active_probability,
    expected_mass_changes,
    tail_miss_probability,
    total_mass_change,
    unsampled_mass_change,
)

from .config import SimConfig
from .measure import measure
from .snapshot import Snapshot

# Most entries of a snapshot for which the drift is computed, for each surrogate: a few milliseconds a row.
DRIFT_ENTRIES = {"ratio": 4096, "probability": 64}

Row = dict[str, Any]


@runtime_checkable
class Engine(Protocol):
    """What the tracker needs of an engine; `sims.sparse` and `sims.dense` provide it."""

    config: SimConfig

    @property
    def step(self) -> int: ...

    @property
    def correct_counts(self) -> np.ndarray: ...

    @property
    def missed(self) -> np.ndarray: ...

    def draw(self) -> None: ...

    def advance(self, steps: int) -> None: ...

    def snapshot(self) -> Snapshot: ...


def record_steps(config: SimConfig) -> list[int]:
    """The steps that get a row: 0, every `record_every`, and the last."""
    return [*range(0, config.steps, config.record_every), config.steps]


def trajectory(engine: Engine) -> Iterator[Row]:
    """Run a fresh engine to its last step and yield a row at each of `record_steps`."""
    config = engine.config
    last, missed = 0, engine.missed.copy()
    for step in record_steps(config):
        engine.advance(step - engine.step)
        engine.draw()
        row: Row = {"step": step, **observe(engine.snapshot(), config)}
        counts, since = engine.correct_counts[last:step], engine.missed - missed
        row["active_share"] = float(np.mean((counts > 0) & (counts < config.group_size))) if step else None
        for subset, misses in zip(config.subsets, since, strict=True):
            row[f"tail_miss_{subset.name}"] = int(misses) / (step - last) if step else None
        last, missed = step, engine.missed.copy()
        yield row


def observe(snapshot: Snapshot, config: SimConfig) -> Row:
    """The values of a row that one policy and its group determine."""
    values = measure(*snapshot[:5])
    q_pos, kept, start, above, many, drop, relative, entropy, q_u_pos, p_neg, correct = values
    row: Row = {
        "Q_pos": q_pos,
        "M_ret": kept / start if start else None,
        "above_start": above / many if many else None,
        "worst_drop": drop if many else None,
        "worst_drop_relative": relative if many else None,
        "entropy": entropy,
        "correct": int(correct),
        "active": bool(0 < correct < config.group_size),
        "Q_u_pos": q_u_pos,
        "S_R": config.reward_correct * (q_pos - q_u_pos) + config.reward_wrong * p_neg,
    }
    for bit, subset in enumerate(config.subsets):
        law = _tail_miss_law(config.group_size, q_pos, _subset_mass(snapshot, bit, subset.class_index, subset.size))
        row[f"tail_miss_{subset.name}_law"] = law
    return row | _drift(snapshot, config)


def _subset_mass(snapshot: Snapshot, bit: int, class_index: int, size: int) -> float:
    """Probability of subset `bit`: its marked entries, and the rest of it among the untouched actions of its class."""
    inside = (snapshot.marks >> np.uint8(bit)) & np.uint8(1) == 1
    unseen = size - int(inside.sum())
    return float(snapshot.probability[inside].sum() + (unseen * snapshot.probability[class_index] if unseen else 0.0))


def _tail_miss_law(group_size: int, mu: float, tau: float) -> float:
    mu = min(mu, 1.0)
    # A subset whose probability has underflowed is missed by every active group.
    law = tail_miss_probability(group_size, mu, min(tau, mu)) if tau > 0.0 else active_probability(group_size, mu)
    return float(law)


def _drift(snapshot: Snapshot, config: SimConfig) -> Row:
    names = ("dQ_pos", "dQ_pos_expected", "dQ_u_pos", "dQ_u_pos_expected")
    used = snapshot.size > 0
    law_holds = config.centre_rewards == (config.surrogate == "ratio") and config.temperature == 1.0
    if not law_holds or int(used.sum()) > DRIFT_ENTRIES[config.surrogate]:
        return dict.fromkeys(names)
    p, size, right, counts = (
        column[used] for column in (snapshot.probability, snapshot.size, snapshot.is_correct, snapshot.counts)
    )
    options: dict[str, Any] = {
        "gamma": config.gamma,
        "learning_rate": config.learning_rate,
        "surrogate": config.surrogate,
        "reward_correct": config.reward_correct,
        "reward_wrong": config.reward_wrong,
    }
    expected = expected_mass_changes(p, size, right, config.group_size, **options)
    if config.surrogate == "ratio":
        # This law sees undrawn actions through their mass alone, so a class of them can stand as one action.
        realised: tuple[np.ndarray, ...] = (p * size, right, counts)
    else:
        realised = tuple(np.repeat(column, size) for column in (p, right, counts))
    total, unsampled = total_mass_change(*realised, **options), unsampled_mass_change(*realised, **options).total
    return dict(zip(names, map(float, (total, expected[0], unsampled, expected[1])), strict=True))
