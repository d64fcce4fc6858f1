"""A batch of sampled completions and the rules that say which of their tokens count.

Axis order is prompt, rollout, token. A completion counts through its first EOS, inclusive, or, when it has none, for its
length: pad and EOS may be the same id (SmolLM2's tokenizer is like this), so a mask is never derived from the pad id.
Left out on purpose: rewards and advantages, which belong to the verifier's side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fgrpo_theory.foundation.checks import require


@dataclass(frozen=True)
class Rollouts:
    """One sampled batch: every prompt once, and its group of completions.

    A rollout whose mask is all False is an empty slot: it costs no computation and has no log-probabilities.
    """

    prompts: list[Int[Tensor, " _"]]
    """One unpadded prompt a group."""
    completions: Int[Tensor, "prompt rollout token"]
    """Token ids, padded on the right with the pad id."""
    mask: Bool[Tensor, "prompt rollout token"]
    """True through and including the first EOS, or the token that completes a stop string, or the last token."""
    old_logprobs: Float[Tensor, "prompt rollout token"]
    """Natural log-probabilities under the sampling policy at its temperature (full softmax); 0 where the mask is False."""
    truncated: Bool[Tensor, "prompt rollout"]
    """True where neither an EOS nor a stop string came within the token limit."""
    texts: list[list[str]]
    """The completions as text, without special tokens; empty where the task judges token ids."""

    def __post_init__(self) -> None:
        shape = tuple(self.completions.shape)
        require(
            len(self.prompts) == shape[0], "prompts must be one a group", prompts=len(self.prompts), groups=shape[0]
        )
        require(
            all(len(prompt) > 0 for prompt in self.prompts), "every prompt must have a token", prompts="an empty one"
        )
        for name in ("mask", "old_logprobs"):
            other = tuple(getattr(self, name).shape)
            require(other == shape, f"{name} must have the shape of completions", **{name: other}, completions=shape)
        holes = bool((self.mask[..., 1:] & ~self.mask[..., :-1]).any())
        require(not holes, "mask must be True up to some token and False after it", mask="one with holes")
        require(tuple(self.truncated.shape) == shape[:2], "truncated must be one a rollout", truncated=shape[:2])

    @property
    def lengths(self) -> Int[Tensor, "prompt rollout"]:
        """Tokens that count in each completion."""
        return self.mask.sum(-1)

    @property
    def group_size(self) -> int:
        """Rollout slots a prompt, N."""
        return int(self.completions.shape[1])

    def groups(self, start: int, stop: int) -> Rollouts:
        """Prompts start ... stop - 1 with their rollouts."""
        kept = slice(start, stop)
        return replace(self, prompts=self.prompts[kept], texts=self.texts[kept], **_tensors(self, (kept,)))

    def slots(self, start: int, stop: int) -> Rollouts:
        """Rollouts start ... stop - 1 of every prompt."""
        kept = slice(start, stop)
        return replace(self, texts=[row[kept] for row in self.texts], **_tensors(self, (slice(None), kept)))

    def to(self, device: torch.device | str) -> Rollouts:
        """The same rollouts with their tensors on a device."""
        moved = {name: getattr(self, name).to(device) for name in _TENSORS}
        return replace(self, prompts=[prompt.to(device) for prompt in self.prompts], **moved)


_TENSORS = ("completions", "mask", "old_logprobs", "truncated")


def _tensors(rollouts: Rollouts, index: tuple[slice, ...]) -> dict[str, Any]:
    return {name: getattr(rollouts, name)[index] for name in _TENSORS}


def split(rollouts: Rollouts, most_tokens: int) -> Iterator[tuple[slice, slice, Rollouts]]:
    """Parts of at most `most_tokens` tokens (prompts once a part, plus the longest completion a slot), in order.

    Yields (prompts, slots, part): the part is `rollouts.groups(prompts).slots(slots)`. Whole groups go together where they
    fit; a group that is too large is cut between rollouts, its prompt counted again. One rollout is never cut.
    Raises ValueError if most_tokens is below 1.
    """
    require(most_tokens >= 1, "most_tokens must be at least 1", most_tokens=most_tokens)
    costs = [len(prompt) + int(rows.sum()) for prompt, rows in zip(rollouts.prompts, rollouts.lengths, strict=True)]
    start, group_size = 0, rollouts.group_size
    while start < len(costs):
        stop, total = start + 1, costs[start]
        while stop < len(costs) and total + costs[stop] <= most_tokens:
            total, stop = total + costs[stop], stop + 1
        part = rollouts.groups(start, stop)
        if total <= most_tokens:
            yield slice(start, stop), slice(0, group_size), part
        else:
            room = most_tokens - len(rollouts.prompts[start])
            for slot_start, slot_stop in _runs(part.lengths[0].tolist(), room):
                yield slice(start, stop), slice(slot_start, slot_stop), part.slots(slot_start, slot_stop)
        start = stop


def _runs(costs: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Consecutive runs with a total of at most `room`, each of at least one element."""
    start, total = 0, 0
    for position, cost in enumerate(costs):
        if position > start and total + cost > room:
            yield start, position
            start, total = position, 0
        total += cost
    yield start, len(costs)


def completion_mask(
    completions: Int[Tensor, "*batch token"], lengths: Int[Tensor, "*batch"], eos_ids: Sequence[int]
) -> Bool[Tensor, "*batch token"]:
    """True through and including the first EOS of any kind, and never past a completion's length.

    >>> ids = torch.tensor([[7, 2, 2, 2], [7, 8, 0, 0], [7, 3, 0, 0]])
    >>> completion_mask(ids, torch.tensor([4, 2, 4]), eos_ids=[2, 3]).int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]
    """
    is_eos = torch.isin(completions, torch.tensor(list(eos_ids), dtype=completions.dtype, device=completions.device))
    earlier = is_eos.cumsum(-1) - is_eos.long()
    positions = torch.arange(completions.shape[-1], device=completions.device)
    return (earlier == 0) & (positions < lengths[..., None])


def masked_truncated(rollouts: Rollouts) -> Bool[Tensor, "prompt rollout token"]:
    """The mask with truncated rollouts taken out whole, for losses that ignore them. It may be all False."""
    return rollouts.mask & ~rollouts.truncated[..., None]
