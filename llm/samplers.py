"""The law of the next token and an exact draw from it, in float64.

Order: temperature, then top-k, then top-p of what is left, then min-p. Ties go to the lower id, so exactly k tokens stay
under top-k. top_p keeps the smallest set of most probable tokens whose mass reaches top_p; min_p drops tokens below min_p
times the most probable one. The draw inverts the cumulative sum with a uniform of 53 bits: events down to about 1e-15 have
their probability, while float32 sums or float32 Gumbel noise lose those below 1e-7. Greedy decoding is top_k = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fgrpo_theory.foundation.checks import require


@dataclass(frozen=True)
class Warping:
    """What turns logits into the sampling law. The defaults leave the model's own law."""

    temperature: float = 1.0
    """Divides the logits; above 0."""
    top_p: float = 1.0
    """Mass of the most probable tokens that stay, in (0, 1]."""
    top_k: int = 0
    """How many of the most probable tokens stay; 0 keeps all."""
    min_p: float = 0.0
    """Share of the largest probability below which tokens go, in [0, 1]."""

    def __post_init__(self) -> None:
        require(0 < self.temperature < float("inf"), "temperature must be above 0", temperature=self.temperature)
        require(0 < self.top_p <= 1, "top_p must lie in (0, 1]", top_p=self.top_p)
        require(self.top_k >= 0, "top_k must be at least 0", top_k=self.top_k)
        require(0 <= self.min_p <= 1, "min_p must lie in [0, 1]", min_p=self.min_p)


def log_law(logits: Float[Tensor, "row token"], temperature: float) -> Float[Tensor, "row token"]:
    """log-softmax at the temperature, in float64."""
    return torch.log_softmax(logits.double() / temperature, dim=-1)


def warped(log_probabilities: Float[Tensor, "row token"], warping: Warping) -> Float[Tensor, "row token"]:
    """Unnormalised float64 probabilities of the sampling law: 0 where a rule drops the token.

    >>> law = warped(torch.tensor([[0.5, 0.3, 0.2]]).double().log(), Warping(top_p=0.6))
    >>> [round(p, 6) for p in law[0].tolist()]
    [0.5, 0.3, 0.0]
    """
    law = log_probabilities.exp()
    if warping.top_k or warping.top_p < 1:
        ordered, order = law.sort(dim=-1, descending=True, stable=True)
        if warping.top_k:
            ordered[..., warping.top_k :] = 0.0
        if warping.top_p < 1:
            before = ordered.cumsum(-1) - ordered
            # The first token always stays: the mass before it is 0.
            ordered = ordered.masked_fill(before >= warping.top_p * ordered.sum(-1, keepdim=True), 0.0)
        law = torch.zeros_like(law).scatter_(-1, order, ordered)
    if warping.min_p > 0:
        law = law.masked_fill(law < warping.min_p * law.amax(-1, keepdim=True), 0.0)
    return law


def draw(law: Float[Tensor, "row token"], uniforms: Float[Tensor, "row draw"]) -> Int[Tensor, "row draw"]:
    """The token at which the cumulative mass first exceeds uniform * total; a token of mass 0 is never drawn.

    law: unnormalised float64 probabilities. uniforms: float64 in [0, 1), any number of independent draws a row.
    Raises ValueError if a row has no mass, or a mass that is not finite.
    """
    sums = law.cumsum(-1)
    total = sums[:, -1:]
    require(((total > 0) & total.isfinite()).cpu().numpy(), "logits must be finite", mass=total.cpu().numpy())
    # Rounding may lift uniform * total to the total itself; the last token with mass is then meant.
    targets = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(sums, targets, right=True)
