"""What is drawn: frozen descriptions of experiments that know how to draw themselves, and nothing of the laws.

A scenario states its `resolution`: the shift that its cells must detect, in standard deviations of one group's value.
The number of groups follows from it (`groups`), so that a suite is made coarser or finer by one factor. `draw` returns
arrays that add up over blocks of groups; blocks have random streams of their own, so that the result does not depend on
how many workers draw them. import-linter keeps the closed forms of fgrpo_theory out of this module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import samplers, step_sampler

Totals = dict[str, np.ndarray]

# Standard errors that threshold and power take together in the strictest of the tests (see `decisions`).
_STANDARD_ERRORS = 10.4
# Draws of one block: about a tenth of a second.
_BLOCK_DRAWS = 2e7


@dataclass(frozen=True)
class Policy:
    """A categorical policy in classes of equal actions."""

    name: str
    """name in the cells"""
    probability: tuple[float, ...]
    """probability of one action of each class"""
    correct: tuple[bool, ...]
    """whether the class is correct"""
    size: tuple[int, ...] = ()
    """actions in each class; () is one each"""

    @property
    def sizes(self) -> np.ndarray:
        """Actions in each class."""
        return np.array(self.size or [1] * len(self.probability))

    @property
    def p(self) -> np.ndarray:
        """Probability of each action."""
        return np.repeat(self.probability, self.sizes)

    @property
    def is_correct(self) -> np.ndarray:
        """Whether each action is correct."""
        return np.repeat(self.correct, self.sizes)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(p, cumulative p, is_correct), as the samplers take them."""
        return self.p, np.cumsum(self.p), self.is_correct


@dataclass(frozen=True)
class StepOptions:
    """How the update is made; the fields are those of fgrpo_theory's laws."""

    gamma: float = 0.0
    learning_rate: float = 1.0
    reward_correct: float = 1.0
    reward_wrong: float = -1.0
    surrogate: str = "probability"
    std_scaled: bool = False
    ddof: int = 1
    eps: float = 0.0

    @property
    def label(self) -> str:
        """Short name in the cells."""
        scaled = f" std ddof {self.ddof} eps {self.eps:g}" if self.std_scaled else ""
        rate = f" eta {self.learning_rate:g}" if self.learning_rate != 1 else ""
        return f"g{self.gamma:g} R({self.reward_correct:g},{self.reward_wrong:g}){scaled}{rate}"

    @property
    def row(self) -> list[float]:
        """The option as the step sampler takes it."""
        values = {**vars(self), "ratio": self.surrogate == "ratio"}
        return [float(values[name]) for name in step_sampler.OPTION_COLUMNS]


@dataclass(frozen=True)
class Scenario:
    """What every experiment has."""

    name: str
    """unique; names the random stream"""
    resolution: float
    """shift to be detected, in standard deviations of one group's value"""
    group_size: int
    """N"""

    @cached_property
    def groups(self) -> int:
        """Independent groups to draw."""
        return math.ceil((_STANDARD_ERRORS / self.resolution) ** 2)

    @property
    def cost(self) -> float:
        """Draws that one group needs, roughly, whatever is done with them included."""
        return float(self.group_size)

    def blocks(self) -> list[int]:
        """Groups of each block."""
        largest = max(1, int(_BLOCK_DRAWS / self.cost))
        full, rest = divmod(self.groups, largest)
        return [largest] * full + [rest] * (rest > 0)

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        """Draw `groups` groups; arrays that add up over blocks."""
        raise NotImplementedError

    def merge(self, parts: list[Totals]) -> Totals:
        """The totals of all blocks, in their order."""
        return {name: sum(part[name] for part in parts[1:]) + parts[0][name] for name in parts[0]}


@dataclass(frozen=True)
class Rollouts(Scenario):
    """Groups of a policy of three kinds of action: in E, correct outside E, wrong."""

    mu: float = 0.5
    tau: float = 0.1

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        events, correct = np.zeros(2, dtype=np.int64), np.zeros(self.group_size + 1, dtype=np.int64)
        samplers.count_events(rng, groups, self.group_size, self.mu, self.tau, events, correct)
        return {"active": events[:1], "miss": events[1:], "correct": correct}


@dataclass(frozen=True)
class ActiveGroups(Rollouts):
    """The same, drawn until a fixed number of groups is active."""

    activity: float = 1.0
    """roughly the share of active groups: it sets the size of the blocks only"""

    @property
    def cost(self) -> float:
        return self.group_size / self.activity

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        return {"miss": np.array([samplers.count_active_misses(rng, groups, self.group_size, self.mu, self.tau)])}


@dataclass(frozen=True)
class Population(Scenario):
    """One group a prompt; success probabilities are Beta(alpha, beta), E has rare_fraction of each."""

    alpha: float = 1.0
    beta: float = 1.0
    rare_fraction: float = 0.1

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        mu = rng.beta(self.alpha, self.beta, size=groups)
        return {"miss": np.array([samplers.count_population_misses(rng, mu, self.group_size, self.rare_fraction)])}


@dataclass(frozen=True)
class Steps(Scenario):
    """Groups of a policy, with Q_u,pos and one step for each option."""

    policy: Policy = Policy("", (1.0,), (True,))
    options: tuple[StepOptions, ...] = ()

    @property
    def cost(self) -> float:
        return self.group_size + 3.0 * len(self.policy.p) * len(self.options)

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        sums, squares = np.zeros(1 + 2 * len(self.options)), np.zeros(1 + 2 * len(self.options))
        rows = np.array([option.row for option in self.options])
        step_sampler.add_steps(rng, groups, self.group_size, self.policy.arrays, rows, sums, squares)
        return {"sums": sums, "squares": squares}


@dataclass(frozen=True)
class GivenCount(Scenario):
    """Groups of a policy that hold exactly `correct` correct rollouts; others are drawn and dropped."""

    policy: Policy = Policy("", (1.0,), (True,))
    correct: int = 0
    rewards: tuple[float, float] = (1.0, -1.0)

    @property
    def cost(self) -> float:
        return 8.0 * self.group_size

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        sums = np.zeros(3)
        samplers.add_sampled_masses(rng, groups, self.group_size, self.correct, self.policy.arrays, self.rewards, sums)
        return {"sums": sums}


@dataclass(frozen=True)
class AdvantageSizes(Scenario):
    """Groups scored by eq. 3; options are (gamma, ddof, eps, R_c, R_w)."""

    mu: float = 0.5
    options: tuple[tuple[float, ...], ...] = ()

    @property
    def cost(self) -> float:
        return self.group_size * (1.0 + len(self.options))

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        sums = np.zeros(len(self.options))
        samplers.add_advantage_sizes(rng, groups, self.group_size, self.mu, np.array(self.options), sums)
        return {"sums": sums}


@dataclass(frozen=True)
class Subsets(Scenario):
    """k of `group_size` answers, taken without replacement, of which `correct` are right."""

    correct: int = 1
    k: int = 1

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        return {"hit": np.array([samplers.count_subset_hits(rng, groups, self.group_size, self.correct, self.k)])}


@dataclass(frozen=True)
class Singletons(Scenario):
    """Samples of a policy, each with its singletons, doubletons and true unseen mass."""

    policy: Policy = Policy("", (1.0,), (True,))

    def draw(self, rng: np.random.Generator, groups: int) -> Totals:
        once, twice, unseen = np.empty(groups, dtype=np.int64), np.empty(groups, dtype=np.int64), np.empty(groups)
        samplers.record_singletons(rng, self.group_size, self.policy.arrays, once, twice, unseen)
        return {"once": once, "twice": twice, "unseen": unseen}

    def merge(self, parts: list[Totals]) -> Totals:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def described(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain values, for the summary."""
    return {
        "kind": type(scenario).__name__,
        "groups": scenario.groups,
        "group_size": scenario.group_size,
        "resolution": scenario.resolution,
    }
