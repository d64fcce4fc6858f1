"""The plain reference: every action's logit in one torch tensor, torch's own optimizers, on the CPU or a GPU.

    engine = DenseEngine(config)            # cuda where there is one
    engine.advance(config.steps)

It is what the sparse engine is tested against and measured by. Gradients are written out (the tests compare them with
autograd through the surrogate). Its sampler inverts the float64 cumulative sum of the policy: torch.multinomial is not
used, because over 128,000 actions its float32 sums shift M_ret at N = 8192 from 0.041 to 0.093.
"""

from __future__ import annotations

import numpy as np
import torch

from fgrpo_theory.focal import focal_weight
from fgrpo_theory.foundation.checks import as_whole, require
from fgrpo_theory.foundation.seeds import seed_sequence

from .config import SimConfig, start_probabilities
from .snapshot import Snapshot


class DenseEngine:
    """One run of `config` on `device` (None: cuda if there is one, else cpu). The methods are those of `SparseEngine`."""

    def __init__(self, config: SimConfig, device: str | None = None) -> None:
        self.config = config
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        sizes = torch.tensor([group.size for group in config.classes])

        def spread(values: list[float] | list[bool], kind: torch.dtype) -> torch.Tensor:
            return torch.repeat_interleave(torch.tensor(values, dtype=kind), sizes).to(self.device)

        self.logits = spread([group.logit for group in config.classes], torch.float64).requires_grad_()
        self.is_correct = spread([group.is_correct for group in config.classes], torch.bool)
        self._start = np.repeat(start_probabilities(config), sizes.numpy())
        self._marks = _marks(config)
        self._optimizer = build_optimizer(self.logits, config)
        # Any 64-bit seed of the run's own stream will do; torch keeps one generator a device.
        seed = int(seed_sequence(config.seed, "sims.dense").generate_state(1, np.uint64)[0] >> np.uint64(1))
        self._random = torch.Generator(self.device).manual_seed(seed)
        self._counts: torch.Tensor | None = None
        self._history: list[int] = []
        self.missed = np.zeros(len(config.subsets), dtype=np.int64)

    @property
    def step(self) -> int:
        """Updates done so far."""
        return len(self._history)

    @property
    def correct_counts(self) -> np.ndarray:
        """X of each step done, int64[step]."""
        return np.array(self._history, dtype=np.int64)

    def policy(self) -> torch.Tensor:
        """softmax(logits / temperature), float64[actions]."""
        return torch.softmax(self.logits.detach() / self.config.temperature, dim=0)

    def draw(self) -> None:
        """Draw the group of the next update; a second call before `update` keeps the first group."""
        if self._counts is None:
            edges = torch.cumsum(self.policy(), dim=0)
            points = torch.rand(self.config.group_size, dtype=torch.float64, device=self.device, generator=self._random)
            # `right` gives a point that equals an edge to the next action; the last edge is the total, never exceeded.
            actions = torch.searchsorted(edges, points * edges[-1], right=True).clamp_max_(self.config.actions - 1)
            self._counts = torch.bincount(actions, minlength=self.config.actions)

    def inject(self, actions: np.ndarray) -> None:
        """Use these action ids, int[group_size], as the group of the next update. Raises ValueError."""
        ids = as_whole("actions", actions, least=0).astype(np.int64)
        require(ids.shape == (self.config.group_size,), "actions must hold one group", shape=ids.shape)
        require(ids < self.config.actions, f"actions must be below {self.config.actions}", actions=ids)
        self._counts = torch.bincount(torch.from_numpy(ids).to(self.device), minlength=self.config.actions)

    def update(self) -> None:
        """Take the optimizer's step on the group drawn or injected last."""
        counts = self._counts
        if counts is None:
            raise ValueError(f"update needs a group: call draw or inject first, got step={self.step}")
        require(self.step < self.config.steps, "update must not pass the last step", step=self.step)
        self._counts = None
        correct = int(counts[self.is_correct].sum())
        self._note(counts, correct)
        self.logits.grad = surrogate_gradient(self.policy(), counts, self.is_correct, self.config)
        self._optimizer.step()

    def advance(self, steps: int) -> None:
        """`steps` times draw and update (a group already drawn is used first)."""
        for _ in range(steps):
            self.draw()
            self.update()

    def snapshot(self) -> Snapshot:
        """Policy and counts of the group drawn for the next update; every action is its own entry."""
        drawn = np.zeros(self.config.actions, dtype=np.int64) if self._counts is None else self._counts.cpu().numpy()
        return Snapshot(
            probability=self.probabilities(),
            size=np.ones(self.config.actions, dtype=np.int64),
            is_correct=self.is_correct.cpu().numpy(),
            start=self._start,
            counts=drawn,
            marks=self._marks,
        )

    def probabilities(self) -> np.ndarray:
        """Probability of every action id, float64[actions]."""
        return self.policy().cpu().numpy()

    def _note(self, counts: torch.Tensor, correct: int) -> None:
        self._history.append(correct)
        if 0 < correct < self.config.group_size and len(self.missed):
            seen = int(np.bitwise_or.reduce(self._marks[counts.cpu().numpy() > 0]))
            self.missed += np.array([not seen >> bit & 1 for bit in range(len(self.missed))])


def surrogate_gradient(
    policy: torch.Tensor, counts: torch.Tensor, is_correct: torch.Tensor, config: SimConfig
) -> torch.Tensor:
    """Gradient of the surrogate with respect to the logits, float64[actions], focal weight included.

    ratio: n_i r_i / N - p_i sum_j n_j r_j / N; probability: p_i (n_i r_i - sum_j n_j r_j p_j) / N; over the temperature.
    """
    rate = float(counts[is_correct].sum()) / config.group_size
    right, wrong = config.reward_correct, config.reward_wrong
    if config.centre_rewards:
        # r - mean r in a form that is exactly 0 in an inactive group.
        right, wrong = (right - wrong) * (1.0 - rate), (wrong - right) * rate
    # Not torch.where(is_correct, right, wrong): of two Python numbers that is float32.
    rewards = (wrong + is_correct.to(torch.float64) * (right - wrong)) * counts
    if config.surrogate == "probability":
        rewards = rewards * policy
    # Centred rewards of the ratio surrogate sum to zero; their rounded sum must not move the actions not drawn.
    total = 0.0 if config.centre_rewards and config.surrogate == "ratio" else rewards.sum()
    scale = float(focal_weight(rate, config.gamma)) / (config.group_size * config.temperature)
    return scale * (rewards - policy * total)


def build_optimizer(logits: torch.Tensor, config: SimConfig) -> torch.optim.Optimizer:
    """torch's Adam, AdamW or SGD, climbing."""
    if config.optimizer == "sgd":
        return torch.optim.SGD([logits], lr=config.learning_rate, weight_decay=config.weight_decay, maximize=True)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(
        [logits],
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        maximize=True,
    )


def _marks(config: SimConfig) -> np.ndarray:
    ends = np.cumsum([group.size for group in config.classes])
    marks = np.zeros(config.actions, dtype=np.uint8)
    for bit, subset in enumerate(config.subsets):
        start = ends[subset.class_index] - config.classes[subset.class_index].size
        marks[start : start + subset.size] |= np.uint8(1 << bit)
    return marks
