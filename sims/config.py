"""What one simulation is: a categorical policy that learns by group-relative policy gradient (section 5.1, appendix J).

The policy is p = softmax(logits / temperature) over `actions` actions. A step draws `group_size` actions, centres their
rewards by the batch mean, and climbs one of two surrogates, times the focal weight of eq. 12:

    "ratio"         L = (1/N) sum_j r_j p_j / p_j(old)    gradient n_i r_i / N: figure 2 of the paper
    "probability"   L = (1/N) sum_j r_j p_j               as printed in appendix J, eq. 5 after differentiation

Left out on purpose: division by the group's standard deviation, clipping and KL terms (the paper's simulation has none).
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrpo_theory.foundation.checks import as_choice, as_float, as_gamma, as_whole, require

SURROGATES = ("ratio", "probability")
OPTIMIZERS = ("adam", "adamw", "sgd")
MAX_ACTIONS = 2**31 - 64


@dataclass(frozen=True)
class ActionClass:
    """`size` actions that start with the same logit."""

    logit: float
    """start logit of each action of the class"""
    size: int
    """number of actions"""
    is_correct: bool
    """whether the verifier accepts these actions"""

    def __post_init__(self) -> None:
        as_whole("size", self.size)
        require(np.isfinite(as_float("logit", self.logit)), "logit must be finite", logit=self.logit)


@dataclass(frozen=True)
class Subset:
    """A set E of correct actions whose tail miss is counted: the first `size` actions of one class."""

    name: str
    """name in the columns `tail_miss_NAME` and `tail_miss_NAME_law`"""
    class_index: int
    """index of the class in `SimConfig.classes`"""
    size: int
    """number of actions in E"""


@dataclass(frozen=True)
class SimConfig:
    """One simulation, fully resolved. Raises ValueError of one line at the first field that breaks its rule."""

    classes: tuple[ActionClass, ...]
    """classes of start logits, as (logit, size, is_correct)"""
    group_size: int = 8
    """N, the number of actions drawn in a step"""
    gamma: float = 0.0
    """focal exponent of eq. 12; 0 is the plain method"""
    surrogate: str = "ratio"
    """the objective: ratio (gives figure 2) or probability (as printed)"""
    optimizer: str = "adam"
    """adam, adamw (decoupled weight decay) or sgd (no momentum), each as in torch.optim"""
    learning_rate: float = 1e-2
    """step size of the optimizer"""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates of the first and second moment"""
    eps: float = 1e-8
    """Adam's epsilon, added to the root of the second moment"""
    weight_decay: float = 0.0
    """weight decay on the logits: L2 for adam and sgd, decoupled for adamw"""
    reward_correct: float = 1.0
    """R_c, the reward of a correct action"""
    reward_wrong: float = -1.0
    """R_w, the reward of a wrong action, below R_c"""
    centre_rewards: bool = True
    """subtract the batch mean from the rewards before the gradient"""
    temperature: float = 1.0
    """the policy is softmax(logits / temperature); the gradient goes through it"""
    steps: int = 1000
    """number of updates"""
    record_every: int = 50
    """updates between two rows of the trajectory"""
    seed: int = 0
    """root of the run's random stream"""
    subsets: tuple[Subset, ...] = ()
    """subsets of correct actions whose tail miss is counted"""

    def __post_init__(self) -> None:
        require(bool(self.classes), "classes must hold at least one class", classes=len(self.classes))
        require(self.actions <= MAX_ACTIONS, f"actions must be at most {MAX_ACTIONS}", actions=self.actions)
        as_whole("group_size", self.group_size)
        as_whole("steps", self.steps)
        as_whole("record_every", self.record_every)
        as_whole("seed", self.seed, least=0)
        as_gamma(self.gamma)
        as_choice("surrogate", self.surrogate, SURROGATES)
        as_choice("optimizer", self.optimizer, OPTIMIZERS)
        self._check_numbers()
        self._check_subsets()

    def _check_numbers(self) -> None:
        for name in ("learning_rate", "eps", "temperature"):
            value = as_float(name, getattr(self, name))
            require((value > 0) & np.isfinite(value), f"{name} must be finite and above 0", **{name: value})
        decay = as_float("weight_decay", self.weight_decay)
        require((decay >= 0) & np.isfinite(decay), "weight_decay must be finite and at least 0", weight_decay=decay)
        betas = as_float("betas", self.betas)
        require(betas.shape == (2,), "betas must be two numbers", betas=self.betas)
        require((betas >= 0) & (betas < 1), "betas must lie in [0, 1)", betas=betas)
        right, wrong = as_float("reward_correct", self.reward_correct), as_float("reward_wrong", self.reward_wrong)
        require(
            (right > wrong) & np.isfinite(right) & np.isfinite(wrong),
            "reward_correct must be above reward_wrong, both finite",
            reward_correct=right,
            reward_wrong=wrong,
        )

    def _check_subsets(self) -> None:
        require(
            len({subset.name for subset in self.subsets}) == len(self.subsets) <= 8,
            "subsets must be at most 8, with distinct names",
            subsets=[subset.name for subset in self.subsets],
        )
        for subset in self.subsets:
            require(
                0 <= subset.class_index < len(self.classes),
                "class_index must name one of the classes",
                class_index=subset.class_index,
            )
            group = self.classes[subset.class_index]
            require(group.is_correct, "a subset must lie in a class of correct actions", subset=subset.name)
            require(1 <= subset.size <= group.size, f"size must lie in 1..{group.size}", size=subset.size)

    @property
    def actions(self) -> int:
        """Number of actions over all classes; action ids run through the classes in order."""
        return sum(group.size for group in self.classes)

    def resolved(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SimConfig:
        """The inverse of `resolved` (also after a trip through JSON)."""
        plain = dict(values)
        plain["classes"] = tuple(ActionClass(**group) for group in plain["classes"])
        plain["subsets"] = tuple(Subset(**subset) for subset in plain.get("subsets", ()))
        plain["betas"] = tuple(plain.get("betas", (0.9, 0.999)))
        return cls(**plain)


def start_probabilities(config: SimConfig) -> np.ndarray:
    """Start probability of one action of each class, float64[classes]."""
    logits = np.array([group.logit for group in config.classes]) / config.temperature
    sizes = np.array([group.size for group in config.classes], dtype=np.float64)
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / (weights @ sizes))


def field_help(kind: type) -> dict[str, str]:
    """The docstring under each field of a dataclass: one source for readers and for `--help`."""
    definition = ast.parse(inspect.getsource(kind).strip()).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        ast.unparse(field.target): ast.literal_eval(text.value)
        for field, text in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
