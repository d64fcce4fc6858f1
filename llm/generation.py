"""Sampling of groups: each prompt is computed once, its keys and values serve the whole group, finished rollouts leave.

Rollouts of a group that have begun alike have one next-token law, so they are one row of the decoder until they part.

Randomness: one numpy generator a group, by the seed rule. It gives a table of uniforms [rollout, token] at once, so a
rollout's draws depend on nothing but the seed and its place in the group: not on the batch, nor on who finished before.
(Logits may differ in their last bits between batches; a draw then differs only where a uniform falls into that gap.)
`old_logprobs` belong to the full softmax at the temperature, before top-k, top-p and min-p, as in training.
A stop string stays in the text, and its last token ends the rollout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fgrpo_theory.foundation import seeds
from fgrpo_theory.foundation.checks import require

from .models import backbone_and_head, dropout_off, shares_prompts, unwrap
from .packing import PackedPrompts
from .rollouts import Rollouts, completion_mask
from .samplers import Warping, draw, log_law, warped
from .shared_attention import DecodeState, run


def group_generators(root: int, name: str, *index: int, groups: Sequence[int]) -> list[np.random.Generator]:
    """One stream a group: `seeds.generator(root, name, *index, group)`; groups are stable numbers of the prompts."""
    return [seeds.generator(root, name, *index, group) for group in groups]


@runtime_checkable
class Decoder(Protocol):
    """A batch being written: logits of each next token. Rollouts that have begun alike are one row until they part."""

    def start(self) -> Float[Tensor, "row vocabulary"]:
        """Read the prompts; logits of each prompt's first token, one row a prompt."""

    def step(self, tokens: Int[Tensor, " row"]) -> Float[Tensor, "row vocabulary"]:
        """Read one token a live row; logits of the next."""

    def keep(self, rows: Int[Tensor, " live"]) -> None:
        """Go on with these rows, in this order; one that is named several times parts into as many."""


class SharedDecoder:
    """Prompts packed in one row and kept once a group (see `shared_attention`)."""

    def __init__(self, model: Any, prompts: Sequence[Tensor]) -> None:
        self.backbone, self.head = backbone_and_head(model)
        self.prompts = PackedPrompts(prompts)
        self.state = DecodeState(self.prompts)

    def start(self) -> Float[Tensor, "row vocabulary"]:
        hidden = run(self.backbone, self.prompts.token_ids[None], self.state)[0]
        logits: Tensor = self.head(hidden.index_select(0, self.prompts.ends))
        return logits

    def step(self, tokens: Int[Tensor, " row"]) -> Float[Tensor, "row vocabulary"]:
        logits: Tensor = self.head(run(self.backbone, tokens[:, None], self.state)[:, 0])
        return logits

    def keep(self, rows: Int[Tensor, " live"]) -> None:
        self.state.keep(rows)


class CachedDecoder:
    """One group through transformers' own cache, for models whose attention cannot be shared."""

    def __init__(self, model: Any, prompts: Sequence[Tensor]) -> None:
        require(len(prompts) == 1, "prompts must be one", prompts=len(prompts))
        self.model, self.prompt = model, prompts[0]

    def start(self) -> Float[Tensor, "row vocabulary"]:
        output = self.model(input_ids=self.prompt[None], use_cache=True, logits_to_keep=1)
        self.cache = output.cache
        logits: Tensor = output.logits[:, -1]
        return logits

    def step(self, tokens: Int[Tensor, " row"]) -> Float[Tensor, "row vocabulary"]:
        logits: Tensor = self.model(input_ids=tokens[:, None], cache=self.cache, use_cache=True).logits[:, -1]
        return logits

    def keep(self, rows: Int[Tensor, " live"]) -> None:
        self.cache.batch_select_indices(rows)


@torch.no_grad()
def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Int[Tensor, " _"]],
    group_size: int,
    *,
    generators: Sequence[np.random.Generator],
    eos_ids: Sequence[int],
    pad_id: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    stop_strings: Sequence[str] = (),
    batch_size: int | None = None,
    decode: bool = True,
) -> Rollouts:
    """Draw `group_size` completions of every prompt.

    tokenizer: anything with `decode(ids, skip_special_tokens=...)`.
    prompts: unpadded ids, one a group, on the model's device. generators: one a group (see `group_generators`).
    batch_size: most rollouts decoded at once; None decodes all together. The result does not depend on it.
    decode: False leaves the texts empty, for tasks that judge token ids.
    Raises ValueError for settings outside their domain, or a prompt too long for the model's positions.
    """
    model = dropout_off(unwrap(model))
    warping = Warping(temperature, top_p, top_k, min_p)
    _check(model, prompts, group_size, generators, max_new_tokens, stop_strings, batch_size)
    uniforms = torch.from_numpy(np.stack([stream.random((group_size, max_new_tokens)) for stream in generators]))
    writer = _Writer(tokenizer, warping, eos_ids, stop_strings)
    shared = shares_prompts(model)
    whole = _Written.empty(len(prompts), group_size, max_new_tokens, pad_id, prompts[0].device)
    for groups, slots in _batches(len(prompts), group_size, batch_size, shared):
        part = uniforms[groups, slots]
        decoder = (SharedDecoder if shared else CachedDecoder)(model, prompts[groups])
        writer.write(decoder, part.to(whole.ids.device), whole.part(groups, slots))
    return whole.rollouts(prompts, tokenizer if decode else None, eos_ids)


@dataclass(frozen=True)
class _Written:
    """What has been sampled: prompt, rollout (and token) are the axes."""

    ids: Int[Tensor, "prompt rollout token"]
    logprobs: Float[Tensor, "prompt rollout token"]
    lengths: Int[Tensor, "prompt rollout"]
    ended: Bool[Tensor, "prompt rollout"]

    @classmethod
    def empty(cls, prompts: int, group_size: int, longest: int, pad_id: int, device: torch.device) -> _Written:
        slots = (prompts, group_size)
        return cls(
            torch.full((*slots, longest), pad_id, dtype=torch.long, device=device),
            torch.zeros((*slots, longest), dtype=torch.float64, device=device),
            torch.zeros(slots, dtype=torch.long, device=device),
            torch.zeros(slots, dtype=torch.bool, device=device),
        )

    def part(self, groups: slice, slots: slice) -> _Written:
        """A view on some prompts and rollouts: what is written there is written here."""
        return _Written(*(tensor[groups, slots] for tensor in (self.ids, self.logprobs, self.lengths, self.ended)))

    def rollouts(self, prompts: Sequence[Tensor], tokenizer: Any, eos_ids: Sequence[int]) -> Rollouts:
        longest = int(self.lengths.max())
        ids = self.ids[..., :longest]
        mask = completion_mask(ids, self.lengths, eos_ids)
        texts = [[""] * ids.shape[1] for _ in prompts]
        if tokenizer is not None:
            texts = [
                [
                    tokenizer.decode(row[:length], skip_special_tokens=True)
                    for row, length in zip(rows, lengths, strict=True)
                ]
                for rows, lengths in zip(ids.tolist(), self.lengths.tolist(), strict=True)
            ]
        return Rollouts(list(prompts), ids, mask, self.logprobs[..., :longest].float(), ~self.ended, texts)


class _Writer:
    """The loop over tokens for one batch of rollouts."""

    def __init__(self, tokenizer: Any, warping: Warping, eos_ids: Sequence[int], stop_strings: Sequence[str]) -> None:
        self.tokenizer, self.warping, self.eos_ids = tokenizer, warping, tuple(eos_ids)
        self.stop_strings = tuple(stop_strings)
        # A character takes at most four tokens (bytes); the token that completes a stop string may hold more behind it.
        self.tail = 4 * max(map(len, self.stop_strings), default=0) + 1

    def write(self, decoder: Decoder, uniforms: Float[Tensor, "prompt rollout token"], written: _Written) -> None:
        eos = torch.tensor(self.eos_ids, dtype=torch.long, device=uniforms.device)
        group, slot = (axis.flatten() for axis in _axes(uniforms))
        # The decoder's row of each rollout.
        logits, row, steps = decoder.start(), group, uniforms.shape[-1]
        for step in range(steps):
            tokens, logprobs = self._draw(logits, row, uniforms[group, slot, step])
            written.ids[group, slot, step] = tokens
            done = torch.isin(tokens, eos) | self._stopped(written.ids[group, slot, : step + 1])
            written.logprobs[group, slot, step] = logprobs
            written.lengths[group, slot] = step + 1
            written.ended[group, slot] = done
            if step + 1 == steps or bool(done.all()):
                return
            if bool(done.any()):
                live = (~done).nonzero()[:, 0]
                group, slot, row, tokens = group[live], slot[live], row[live], tokens[live]
            parents, tokens, row = _parted(row, tokens, logits.shape)
            if len(parents) != len(logits) or bool((parents != torch.arange(len(parents), device=row.device)).any()):
                decoder.keep(parents)
            logits = decoder.step(tokens)

    def _draw(
        self, logits: Tensor, row: Tensor, uniforms: Tensor
    ) -> tuple[Int[Tensor, " rollout"], Float[Tensor, " rollout"]]:
        """Tokens and their log-probabilities; some rollouts at a time, for float64 takes room."""
        rollouts = max(1, MOST_DOUBLES // logits.shape[-1])
        tokens, logprobs = [], []
        for part, numbers in zip(row.split(rollouts), uniforms.split(rollouts), strict=True):
            law = log_law(logits.index_select(0, part), self.warping.temperature)
            tokens.append(draw(warped(law, self.warping), numbers[:, None])[:, 0])
            logprobs.append(law.gather(-1, tokens[-1][:, None])[:, 0])
        return torch.cat(tokens), torch.cat(logprobs)

    def _stopped(self, ids: Int[Tensor, "row token"]) -> Bool[Tensor, " row"]:
        """Where the last token completed a stop string (special tokens are spelled out)."""
        if not self.stop_strings:
            return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
        tails = [self.tokenizer.decode(row, skip_special_tokens=False) for row in ids[:, -self.tail :].tolist()]
        hits = [any(stop in tail for stop in self.stop_strings) for tail in tails]
        return torch.tensor(hits, device=ids.device)


def _parted(
    row: Int[Tensor, " rollout"], tokens: Int[Tensor, " rollout"], shape: torch.Size
) -> tuple[Int[Tensor, " child"], Int[Tensor, " child"], Int[Tensor, " rollout"]]:
    """(row and token of each distinct continuation, in the order of the rows; the continuation of each rollout)."""
    distinct, place = torch.unique(row * shape[1] + tokens, return_inverse=True)
    return distinct // shape[1], distinct % shape[1], place


MOST_DOUBLES = 2**23
"""Numbers in one float64 array of the sampler: 64 MiB."""


def _axes(uniforms: Tensor) -> tuple[Tensor, ...]:
    """Index of prompt and of rollout at every slot."""
    sizes = [torch.arange(size, device=uniforms.device) for size in uniforms.shape[:2]]
    return torch.meshgrid(*sizes, indexing="ij")


def _batches(groups: int, group_size: int, most: int | None, shared: bool) -> Iterator[tuple[slice, slice]]:
    """(prompts, rollouts) of each batch of at most `most` rollouts; one prompt at a time where nothing is shared."""
    most = most if most is not None else groups * group_size
    together = max(1, most // group_size) if shared else 1
    for start in range(0, groups, together):
        for slot in range(0, group_size, min(most, group_size)):
            yield slice(start, min(start + together, groups)), slice(slot, min(slot + most, group_size))


def _check(
    model: Any,
    prompts: Sequence[Tensor],
    group_size: int,
    generators: Sequence[np.random.Generator],
    max_new_tokens: int,
    stop_strings: Sequence[str],
    batch_size: int | None,
) -> None:
    require(
        len(prompts) > 0 and all(len(prompt) > 0 for prompt in prompts),
        "prompts must not be empty",
        prompts=len(prompts),
    )
    require(group_size >= 1, "group_size must be at least 1", group_size=group_size)
    require(max_new_tokens >= 1, "max_new_tokens must be at least 1", max_new_tokens=max_new_tokens)
    require(batch_size is None or batch_size >= 1, "batch_size must be at least 1", batch_size=batch_size)
    require(all(stop_strings), "stop_strings must not be empty text", stop_strings=tuple(stop_strings))
    require(len(generators) == len(prompts), "generators must be one a prompt", generators=len(generators))
    most = getattr(model.config, "max_position_embeddings", None)
    reads = max(map(len, prompts)) + max_new_tokens - 1
    require(
        most is None or reads <= most, f"prompt and max_new_tokens must fit the model's {most} positions", tokens=reads
    )
