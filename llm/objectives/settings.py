"""What an objective is made of: one advantage, one surrogate, one aggregation, and additions to them.

    loss = - sum over loss tokens of w_t (S(ratio_t, g A) - kl * k3_t + entropy_bonus * H_t)

A is the group advantage, g the focal weight (1 - X/N)^gamma of eq. 12, S the surrogate, w_t the aggregation's weight.
`OBJECTIVES` names the methods of the paper and the related ones; every part can be changed with `dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgrpo_theory.foundation.checks import as_choice, as_float, as_gamma, as_whole, require

ADVANTAGES = ("grpo", "dr_grpo", "rloo", "maxrl")
SURROGATES = ("clip", "cispo")
AGGREGATIONS = ("token", "sequence", "constant")


@dataclass(frozen=True)
class ObjectiveConfig:
    """One objective, fully resolved. Raises ValueError of one line at the first field that breaks its rule."""

    advantage: str = "grpo"
    """group advantage: grpo (R - mean) / (std + eps), dr_grpo R - mean, rloo, or maxrl (R - mean) / (mean + eps)"""
    surrogate: str = "clip"
    """clip: min(r A, clip(r) A), as GRPO and DAPO; cispo: sg(clip(r)) A log pi"""
    aggregation: str = "token"
    """weight of a loss token: token (1 / all loss tokens), sequence (mean of the rollouts' means), constant (Dr.GRPO)"""
    eps_low: float = 0.2
    """the ratio's lower bound is 1 - eps_low"""
    eps_high: float = 0.2
    """the ratio's upper bound is 1 + eps_high (an offset, for cispo too)"""
    gamma: float = 0.0
    """focal exponent of eq. 12, on any advantage; 0 is the plain method, bit for bit"""
    ddof: int = 1
    """divisor N - ddof of the group's variance: 1 as torch.std, 0 as figure 4"""
    eps: float = 1e-6
    """added to the divisor of the grpo and maxrl advantages (verl 1e-6, TRL 1e-4)"""
    smoothing: float = 0.0
    """DS-GRPO's c: A - c * mean log-prob for correct rollouts, A + c * it for wrong ones; 0 is off"""
    entropy_bonus: float = 0.0
    """coefficient of the policy's entropy at the loss tokens, which is maximised"""
    kl: float = 0.0
    """coefficient of the k3 estimate of KL(policy || starting policy)"""
    truncated: str = "wrong"
    """rollouts without an end: wrong (scored by the verifier like any other) or masked (no part in N or in the loss)"""
    overlong_buffer: int = 0
    """DAPO's soft length penalty starts this many tokens before max_new_tokens; 0 is off"""
    overlong_penalty: float = 1.0
    """largest length penalty, subtracted from the reward (never from success)"""
    dynamic_sampling: bool = False
    """DAPO: draw further prompts until the batch holds active groups only"""

    def __post_init__(self) -> None:
        as_choice("advantage", self.advantage, ADVANTAGES)
        as_choice("surrogate", self.surrogate, SURROGATES)
        as_choice("aggregation", self.aggregation, AGGREGATIONS)
        as_choice("truncated", self.truncated, ("wrong", "masked"))
        as_gamma(self.gamma)
        require(self.ddof in (0, 1), "ddof must be 0 or 1", ddof=self.ddof)
        as_whole("overlong_buffer", self.overlong_buffer, least=0)
        require(0 <= self.eps_low <= 1, "eps_low must lie in [0, 1]", eps_low=self.eps_low)
        for name in ("eps_high", "eps", "smoothing", "entropy_bonus", "kl", "overlong_penalty"):
            value = as_float(name, getattr(self, name))
            require((value >= 0) & (value < float("inf")), f"{name} must be finite and at least 0", **{name: value})


_GRPO = ObjectiveConfig()
OBJECTIVES = {
    "grpo": _GRPO,
    "dapo": replace(_GRPO, eps_high=0.28),
    "cispo": replace(_GRPO, surrogate="cispo", eps_low=1.0, eps_high=5.0),
    "dr_grpo": replace(_GRPO, advantage="dr_grpo", aggregation="constant"),
    "rloo": replace(_GRPO, advantage="rloo"),
    "maxrl": replace(_GRPO, advantage="maxrl"),
    # The controls of section 5.5; the matched low learning rate is a setting of the optimizer (config.matched_low_lr).
    "ds_grpo": replace(_GRPO, smoothing=0.01),
    "grpo_h": replace(_GRPO, entropy_bonus=0.001),
    "grpo_kl": replace(_GRPO, kl=0.001),
}
