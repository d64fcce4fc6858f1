"""Prompts of unequal length in one row of tokens without padding, what they begin alike with computed once.

A system prompt or solved examples stand before every question; under causal attention the states of that common
beginning do not depend on what follows, so it needs one computation for the whole batch, and autograd adds the
gradients of all prompts there. Row: the common beginning, then the rest of each prompt. Every rest has at least one
token: the one whose hidden state gives the first completion token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor


@dataclass
class Padding:
    """Where the tokens of rows of unequal length sit in a rectangle [row, longest]."""

    lengths: list[int]
    device: torch.device
    longest: int = field(init=False)
    slots: Int[Tensor, " token"] | None = field(init=False)

    def __post_init__(self) -> None:
        self.longest = max(self.lengths)
        lengths = torch.tensor(self.lengths)
        places = torch.arange(self.longest).expand(len(self.lengths), -1)
        full = bool((lengths == self.longest).all())
        self.slots = None if full else (places < lengths[:, None]).flatten().nonzero()[:, 0].to(self.device)

    def pad(self, packed: Tensor) -> Tensor:
        """[token, ...] -> [row, longest, ...], zeros in the gaps."""
        shape = (len(self.lengths), self.longest, *packed.shape[1:])
        if self.slots is None:
            return packed.reshape(shape)
        flat = packed.new_zeros(len(self.lengths) * self.longest, *packed.shape[1:])
        return flat.index_copy(0, self.slots, packed).view(shape)

    def unpad(self, padded: Tensor) -> Tensor:
        """[row, longest, ...] -> [token, ...]."""
        flat = padded.flatten(0, 1)
        return flat if self.slots is None else flat.index_select(0, self.slots)


class PackedPrompts:
    """The layout of prompts in one row; states are [token, head, width] there and [prompt, longest, head, width] apart."""

    def __init__(self, prompts: Sequence[Int[Tensor, " _"]]) -> None:
        device = prompts[0].device
        self.lengths = [len(prompt) for prompt in prompts]
        self.common = common_beginning(prompts)
        self.rests = Padding([length - self.common for length in self.lengths], device)
        self.token_ids = torch.cat([prompts[0][: self.common], *(prompt[self.common :] for prompt in prompts)])
        positions = [torch.arange(self.common), *(torch.arange(self.common, length) for length in self.lengths)]
        self.position_ids = torch.cat(positions).to(device)
        rest_lengths = torch.tensor(self.rests.lengths, device=device)
        self.ends = self.common - 1 + rest_lengths.cumsum(0)
        """Where each prompt's last token stands in the row."""
        self.longest = self.common + self.rests.longest
        # A rest's query sees the common beginning and its own rest up to itself; gaps lie behind every real query.
        keys, queries = torch.arange(self.longest), torch.arange(self.rests.longest)[:, None]
        self._bias = torch.zeros(1, 1, *(keys <= queries + self.common).shape, device=device)
        self._bias.masked_fill_((keys > queries + self.common).to(device), float("-inf"))

    def apart(self, packed: Tensor) -> Tensor:
        """The states of each prompt: [token, ...] -> [prompt, longest, ...], zeros behind the shorter ones."""
        rests = self.rests.pad(packed[self.common :])
        if not self.common:
            return rests
        shared = packed[: self.common].expand(len(self.lengths), *packed[: self.common].shape)
        return torch.cat([shared, rests], dim=1)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, apart: tuple[Tensor, Tensor], scaling: float | None
    ) -> Tensor:
        """Causal attention inside each prompt, [token, head, width] in and out; apart: `apart` of key and value."""
        cut = self.common
        bias = self._bias.to(query.dtype) if cut else None
        rests = self.rests.unpad(sdpa(self.rests.pad(query[cut:]), *apart, scaling, bias))
        if not cut:
            return rests
        shared = sdpa(query[None, :cut], key[None, :cut], value[None, :cut], scaling, None)[0]
        return torch.cat([shared, rests])


def common_beginning(prompts: Sequence[Int[Tensor, " _"]]) -> int:
    """Tokens that all prompts begin with, less the last token of any prompt; 0 for a single prompt.

    >>> common_beginning([torch.tensor([5, 6, 7]), torch.tensor([5, 6]), torch.tensor([5, 6, 8, 9])])
    1
    """
    most = min(map(len, prompts)) - 1
    if len(prompts) == 1 or most == 0:
        return 0
    rows = torch.stack([prompt[:most] for prompt in prompts])
    return int((rows == rows[0]).all(0).long().cumprod(0).sum())


def sdpa(query: Tensor, key: Tensor, value: Tensor, scaling: float | None, bias: Tensor | None) -> Tensor:
    """Scaled dot-product attention, [row, token, head, width] in and out; causal without a bias."""
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    shared_heads = query.shape[1] != key.shape[1]
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask=bias, is_causal=bias is None, scale=scaling, enable_gqa=shared_heads
    )
    return out.transpose(1, 2)
