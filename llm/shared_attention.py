"""Attention in which the rollouts of a group share their prompt's keys and values.

Registered with transformers under the name `fgrpo_shared`. Every layer but attention works on tokens one by one, so a
batch may be one packed row without padding: all prompts, then all completions. Attention alone needs to know who sees
whom, and learns it from a layout that travels through the model's keyword arguments:

- `PackedLayout`: prompts and completions in one differentiable pass. Keys of a prompt serve every rollout of its group,
  so autograd adds the rollouts' gradients there: exact, and the prompt is computed once. What all prompts of the batch
  begin with (a system prompt, solved examples) is computed once for all of them (`packing`).
  Completions that begin alike may be one row of distinct beginnings a group (`prefix_tree`).
- `DecodeState`: one new token for each live row. The prompts' keys and values are kept once a group, never repeated;
  a row's own keys grow in a buffer. Finished rollouts leave it, and rollouts that have begun alike are one row.

Without a layout it is transformers' own `sdpa`. Left out: sliding windows, soft caps and sinks, which are refused here
(such models take the plain passes).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .packing import PackedPrompts, Padding, sdpa
from .prefix_tree import InnerNodes, PrefixTree

NAME = "fgrpo_shared"
_REFUSED = ("sliding_window", "softcap", "s_aux", "position_bias")


class PackedLayout:
    """One row of tokens: the prompts (`PackedPrompts`), then every rollout's tokens, group by group.

    With a tree (see `of_tree`) a group has one row of nodes in place of its rollouts' rows.
    """

    def __init__(self, prompts: PackedPrompts, completion_lengths: list[list[int]], dtype: torch.dtype) -> None:
        positions = [
            torch.arange(start, start + length)
            for start, group in zip(prompts.lengths, completion_lengths, strict=True)
            for length in group
        ]
        flat = [length for group in completion_lengths for length in group]
        own = torch.ones(1, max(flat), max(flat), dtype=torch.bool).tril()
        self._place(prompts, flat, torch.cat(positions), own, dtype)

    @classmethod
    def of_tree(cls, prompts: PackedPrompts, tree: PrefixTree, nodes: InnerNodes, dtype: torch.dtype) -> PackedLayout:
        """The layout whose completion tokens are a tree's inner nodes."""
        layout = object.__new__(cls)
        lengths = torch.tensor(prompts.lengths, device=tree.group.device)
        positions = lengths[tree.group[nodes.index]] + tree.depth[nodes.index]
        layout._place(prompts, nodes.counts, positions, nodes.sees, dtype)
        return layout

    def _place(
        self, prompts: PackedPrompts, rows: list[int], positions: Tensor, own: Tensor, dtype: torch.dtype
    ) -> None:
        """rows: tokens in each row; own: [1 or row, query, key], where a row's token sees another of its row."""
        device = prompts.token_ids.device
        self.prompts, self.prompt_tokens = prompts, len(prompts.token_ids)
        self.completions = Padding(rows, device) if max(rows) else None
        self.group_size = len(rows) // len(prompts.lengths)
        if self.completions is not None:
            self.bias = self._bias(prompts.lengths, own.to(device), dtype)
        self.position_ids = torch.cat([prompts.position_ids, positions.to(device)])[None]

    def _bias(self, prompt_lengths: list[int], own: Tensor, dtype: torch.dtype) -> Float[Tensor, "row 1 query key"]:
        """0 where a completion token sees a key, -inf elsewhere; keys are the padded prompt, then the row's own."""
        device = own.device
        in_prompt = (
            torch.arange(self.prompts.longest, device=device) < torch.tensor(prompt_lengths, device=device)[:, None]
        )
        if self.prompts.rests.slots is None:
            in_prompt = in_prompt[:1]
        in_prompt = in_prompt[:, None].repeat_interleave(1 if len(in_prompt) == 1 else self.group_size, dim=0)
        rows = max(len(in_prompt), len(own))
        seen = torch.cat([in_prompt.expand(rows, own.shape[1], -1), own.expand(rows, -1, -1)], dim=-1)
        return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, float("-inf"))[:, None]

    def attend(self, module: Any, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """[1, head, token, width] each -> [1, token, head, width]."""
        query, key, value = (x[0].transpose(0, 1) for x in (query, key, value))
        cut = self.prompt_tokens
        prompt_key, prompt_value = self.prompts.apart(key[:cut]), self.prompts.apart(value[:cut])
        out = self.prompts.attend(query[:cut], key[:cut], value[:cut], (prompt_key, prompt_value), scaling)
        if self.completions is not None:
            keys = self._with_prompt(prompt_key, self.completions.pad(key[cut:]))
            values = self._with_prompt(prompt_value, self.completions.pad(value[cut:]))
            rows = sdpa(self.completions.pad(query[cut:]), keys, values, scaling, self.bias)
            out = torch.cat([out, self.completions.unpad(rows)])
        return out[None]

    def _with_prompt(self, prompt: Tensor, padded: Tensor) -> Tensor:
        """The prompt's states before each rollout's own, padded ones: [row, prompt + completion, head, width]."""
        groups: Tensor = padded.unflatten(0, (-1, self.group_size))
        return torch.cat([prompt[:, None].expand(-1, self.group_size, -1, -1, -1), groups], dim=2).flatten(0, 1)


class DecodeState:
    """Keys and values while sampling: the first pass reads the prompts, then each step adds one token to each live row."""

    def __init__(self, prompts: PackedPrompts) -> None:
        device = prompts.token_ids.device
        self.prompt_layout = PackedLayout(prompts, [[0]] * len(prompts.lengths), torch.float32)
        self.prompt_lengths = torch.tensor(prompts.lengths, device=device)
        self.group = torch.arange(len(prompts.lengths), device=device)
        self.steps, self.reading = 0, True
        self.prompt: dict[int, tuple[Tensor, Tensor]] = {}
        self.own: dict[int, tuple[Tensor, Tensor]] = {}
        self._place_rows()

    def _place_rows(self) -> None:
        """Give each live rollout a place in the rectangle [group, most live rollouts of one group]."""
        groups = len(self.prompt_lengths)
        counts = torch.bincount(self.group, minlength=groups)
        first = counts.cumsum(0) - counts
        self.width = int(counts.max())
        self.places = (
            self.group * self.width + torch.arange(len(self.group), device=self.group.device) - first[self.group]
        )
        self.full = len(self.group) == groups * self.width

    def keep(self, rows: Int[Tensor, " live"]) -> None:
        """Go on with these rows, in this order; one may come several times. Rows of a group stay together."""
        self.group = self.group.index_select(0, rows)
        self.own = {
            layer: (key.index_select(0, rows), value.index_select(0, rows)) for layer, (key, value) in self.own.items()
        }
        self._place_rows()

    def position_ids(self) -> Int[Tensor, "row token"]:
        """Positions of the tokens that the coming pass reads."""
        if self.reading:
            return self.prompt_layout.position_ids
        return (self.prompt_lengths[self.group] + self.steps)[:, None]

    def passed(self) -> None:
        """Say that a pass through all layers is over."""
        self.steps += not self.reading
        self.reading = False

    def attend(self, module: Any, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Prompts: as `PackedLayout`. Then [row, head, 1, width] each -> [row, 1, head, width]."""
        layer = module.layer_idx
        if self.reading:
            prompts = self.prompt_layout.prompts
            key_, value_ = (prompts.apart(x[0].transpose(0, 1)) for x in (key, value))
            self.prompt[layer] = (key_.permute(0, 2, 3, 1).contiguous(), value_.transpose(1, 2).contiguous())
            return self.prompt_layout.attend(module, query, key, value, scaling)
        own_key, own_value = self._append(layer, key, value)
        rows, heads, _, width = query.shape
        query = query.reshape(rows, key.shape[1], heads // key.shape[1], width) * (scaling or width**-0.5)
        prompt_key, prompt_value = self.prompt[layer]
        scores = torch.cat([self._prompt_scores(query, prompt_key), query @ own_key.transpose(-1, -2)], dim=-1)
        weights = (
            torch.softmax(scores.float(), dim=-1).to(query.dtype)
            if scores.dtype != torch.float64
            else scores.softmax(-1)
        )
        prompt_tokens = prompt_key.shape[-1]
        values = self._prompt_values(weights[..., :prompt_tokens], prompt_value)
        return (values + weights[..., prompt_tokens:] @ own_value).reshape(rows, 1, heads, width)

    def _append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new token's states behind the rollout's own; the buffer doubles when it is full."""
        keys, values = self.own.get(layer) or (key[:, :, :0], value[:, :, :0])
        if keys.shape[2] == self.steps:
            longer = (0, 0, 0, max(16, self.steps))
            self.own[layer] = keys, values = F.pad(keys, longer), F.pad(values, longer)
        keys[:, :, self.steps], values[:, :, self.steps] = key[:, :, 0], value[:, :, 0]
        return keys[:, :, : self.steps + 1], values[:, :, : self.steps + 1]

    def _spread(self, rows: Tensor) -> Tensor:
        """[row, kv head, share, x] -> [group, kv head, place * share, x]."""
        groups = len(self.prompt_lengths)
        if not self.full:
            rows = rows.new_zeros(groups * self.width, *rows.shape[1:]).index_copy(0, self.places, rows)
        padded: Tensor = rows.unflatten(0, (groups, self.width))
        return padded.transpose(1, 2).flatten(2, 3)

    def _gather(self, spread: Tensor, share: int) -> Tensor:
        """The way back."""
        apart: Tensor = spread.unflatten(2, (self.width, share))
        rows = apart.transpose(1, 2).flatten(0, 1)
        return rows if self.full else rows.index_select(0, self.places)

    def _prompt_scores(self, query: Tensor, prompt_key: Tensor) -> Tensor:
        scores = self._spread(query) @ prompt_key
        if self.prompt_layout.prompts.rests.slots is not None:
            places = torch.arange(prompt_key.shape[-1], device=scores.device)
            beyond = places >= self.prompt_lengths[:, None]
            scores = scores.masked_fill(beyond[:, None, None], float("-inf"))
        return self._gather(scores, query.shape[2])

    def _prompt_values(self, weights: Tensor, prompt_value: Tensor) -> Tensor:
        return self._gather(self._spread(weights) @ prompt_value, weights.shape[2])


def _forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    shared_layout: PackedLayout | DecodeState | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface; see the module's docstring."""
    if shared_layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    for name in _REFUSED:
        if options.get(name) is not None:
            raise ValueError(f"shared prompts need plain attention, got {name}={options[name]!r}")
    return shared_layout.attend(module, query, key, value, scaling), None


def run(
    backbone: Any, token_ids: Int[Tensor, "row token"], layout: PackedLayout | DecodeState
) -> Float[Tensor, "row token width"]:
    """Last hidden states of the tokens that the layout describes.

    The four-axis mask is a stand-in: it keeps transformers from building a square one, and the layout replaces it.
    """
    if backbone.config._attn_implementation != NAME:
        backbone.set_attn_implementation(NAME)
    positions = layout.position_ids() if isinstance(layout, DecodeState) else layout.position_ids
    stand_in = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=token_ids.device)
    output = backbone(
        input_ids=token_ids, position_ids=positions, attention_mask=stand_in, use_cache=False, shared_layout=layout
    )
    if isinstance(layout, DecodeState):
        layout.passed()
    hidden: Tensor = output.last_hidden_state
    return hidden


AttentionInterface.register(NAME, _forward)
AttentionMaskInterface.register(NAME, sdpa_mask)
