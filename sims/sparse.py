"""The fast exact engine: the state of the touched actions only, float64 throughout, one thread.

    engine = SparseEngine(config)
    engine.draw()                  # the group of the next update, from the current policy
    engine.snapshot()              # policy and drawn counts, in classes of equal probability
    engine.update()                # the optimizer's step on that group
    engine.advance(49)             # draw and update, in compiled code

See `sims.kernels` for what makes it fast and `sims.dense` for the plain reference that it is tested against.
"""

from __future__ import annotations

import math

import numpy as np

from fgrpo_theory.focal import focal_weight
from fgrpo_theory.foundation.checks import as_whole, require

from .config import OPTIMIZERS, SimConfig, start_probabilities
from .kernels import SERIES_REACH, Rule, advance, apply
from .sampler import draw, fill_slot, refresh_edges
from .snapshot import Snapshot
from .state import build_state

# Moments divided by beta^t stay in range over the 512 steps between two rescalings from here on.
_LEAST_BETA = 0.5


def lazy_applies(config: SimConfig) -> bool:
    """Whether untouched actions never move, and the step of any action is short enough for the lazy rule."""
    beta1, beta2 = config.betas
    # With beta1^2 < beta2 the steps of an action that is not drawn shrink, and no step is longer than this many learning
    # rates (Cauchy-Schwarz on the two moments, times the largest ratio of their bias corrections).
    if config.optimizer == "sgd" or min(beta1, beta2) < _LEAST_BETA or beta1 * beta1 >= beta2:
        return False
    correction = max(1.0, math.sqrt(1.0 - beta2) / (1.0 - beta1))
    longest = correction * (1.0 - beta1) / math.sqrt((1.0 - beta2) * (1.0 - beta1 * beta1 / beta2))
    return (
        config.surrogate == "ratio"
        and config.centre_rewards
        and config.weight_decay == 0.0
        and longest * config.learning_rate / config.temperature <= SERIES_REACH
    )


class SparseEngine:
    """One run of `config`. The same configuration gives the same bytes."""

    def __init__(self, config: SimConfig) -> None:
        self.config = config
        self.rule = build_rule(config)
        self.state = build_state(config, keep_logits=not self.rule.lazy)
        self._start = start_probabilities(config)
        self._hits: int | None = None
        self._slot_of: np.ndarray | None = None

    @property
    def step(self) -> int:
        """Updates done so far."""
        return int(self.state.clock[0])

    @property
    def correct_counts(self) -> np.ndarray:
        """X of each step done, int32[step]."""
        return self.state.history[: self.step]

    @property
    def missed(self) -> np.ndarray:
        """Active steps so far without a draw in each subset, int64[subset]."""
        return self.state.missed

    def draw(self) -> None:
        """Draw the group of the next update; a second call before `update` keeps the first group."""
        require(self._slot_of is None, "draw must not follow inject in one run", step=self.step)
        if self._hits is None:
            self._hits = draw(self.state, self.config.group_size)

    def inject(self, actions: np.ndarray) -> None:
        """Use these action ids (0 to actions - 1, int[group_size]) as the group of the next update.

        Raises ValueError if the number or an id is out of range, or if this run has drawn groups of its own.
        """
        ids = as_whole("actions", actions, least=0).astype(np.int64)
        require(ids.shape == (self.config.group_size,), "actions must hold one group", shape=ids.shape)
        require(ids < self.config.actions, f"actions must be below {self.config.actions}", actions=ids)
        if self._slot_of is None:
            require(self.step == 0 and self._hits is None, "inject must not follow draw in one run", step=self.step)
            self._slot_of = np.full(self.config.actions, -1, dtype=np.int64)
        refresh_edges(self.state)
        unique, counts = np.unique(ids, return_counts=True)
        slots = np.array([self._slot(int(action)) for action in unique])
        self.state.counts[slots] = counts
        self.state.hits[: len(slots)] = slots
        self._hits = len(slots)

    def _slot(self, action: int) -> int:
        assert self._slot_of is not None
        if self._slot_of[action] < 0:
            ends = np.cumsum(self.state.class_size)
            c = int(np.searchsorted(ends, action, side="right"))
            slot = int(self.state.class_start[c] + self.state.class_used[c])
            self.state.class_used[c] += 1
            fill_slot(self.state, c, slot)
            label = action - int(ends[c] - self.state.class_size[c])
            if label < self.state.label_marks.shape[1]:
                self.state.marks[slot] = self.state.label_marks[c, label]
            self._slot_of[action] = slot
        return int(self._slot_of[action])

    def update(self) -> None:
        """Take the optimizer's step on the group drawn or injected last."""
        if self._hits is None:
            raise ValueError(f"update needs a group: call draw or inject first, got step={self.step}")
        require(self.step < self.config.steps, "update must not pass the last step", step=self.step)
        apply(self.state, self.rule, self._hits)
        self._hits = None

    def advance(self, steps: int) -> None:
        """`steps` times draw and update (a group already drawn is used first)."""
        as_whole("steps", steps, least=0)
        require(self.step + steps <= self.config.steps, "advance must not pass the last step", step=self.step + steps)
        if self._hits is not None and steps:
            self.update()
            steps -= 1
        advance(self.state, self.rule, steps)

    def snapshot(self) -> Snapshot:
        """Policy and counts of the group drawn for the next update: untouched classes first, then the touched actions."""
        state = self.state
        # Actions touched by a draw join the masses of their blocks at the update; until then the total is the draw's.
        total = refresh_edges(state) if self._hits is None else state.total[0]
        parts = [slice(start, start + used) for start, used in zip(state.class_start, state.class_used, strict=True)]
        many = np.concatenate([np.ones_like(state.class_used), state.class_used])

        def joined(classes: np.ndarray, slots: np.ndarray) -> np.ndarray:
            return np.concatenate([classes, *(slots[part] for part in parts)])

        def spread(classes: np.ndarray) -> np.ndarray:
            return np.repeat(np.concatenate([classes, classes]), many)

        none = np.zeros_like(state.class_used)
        return Snapshot(
            probability=joined(state.class_weight, state.weight) / total,
            is_correct=spread(state.class_correct),
            size=np.repeat(np.concatenate([state.class_size - state.class_used, none + 1]), many),
            start=spread(self._start),
            counts=joined(none, state.counts).astype(np.int64),
            marks=joined(none.astype(np.uint8), state.marks),
        )

    def probabilities(self) -> np.ndarray:
        """Probability of every action id, float64[actions]; only in a run of injected groups, which has ids."""
        require(self._slot_of is not None, "probabilities needs injected groups; use snapshot", step=self.step)
        state, kinds = self.state, np.repeat(np.arange(len(self.state.class_size)), self.state.class_size)
        assert self._slot_of is not None
        touched = self._slot_of >= 0
        weights = state.class_weight[kinds]
        weights[touched] = state.weight[self._slot_of[touched]]
        return np.asarray(weights / weights.sum())


def build_rule(config: SimConfig) -> Rule:
    """The numbers of the update; the focal weight is tabulated over the count of correct draws."""
    rates = np.arange(config.group_size + 1) / config.group_size
    return Rule(
        lazy=lazy_applies(config),
        group_size=config.group_size,
        focal=np.ascontiguousarray(focal_weight(rates, config.gamma), dtype=np.float64),
        reward_correct=float(config.reward_correct),
        reward_wrong=float(config.reward_wrong),
        centred=bool(config.centre_rewards),
        probability=config.surrogate == "probability",
        optimizer=OPTIMIZERS.index(config.optimizer),
        learning_rate=float(config.learning_rate),
        beta1=float(config.betas[0]),
        beta2=float(config.betas[1]),
        eps=float(config.eps),
        weight_decay=float(config.weight_decay),
        temperature=float(config.temperature),
    )
