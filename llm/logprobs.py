"""Log-probabilities of completions, with the prompt's computation shared inside a group and exact gradients.

    log pi(token | prompt, earlier tokens) = z_token - logsumexp(z),   z = logits / temperature, upcast to float32

The batch is one packed row without padding (see `shared_attention`): each prompt once, then each completion without its
last token, whose logits nobody needs; completions that begin alike are computed once where that is cheaper
(`prefix_tree`). The LM head and the log-softmax run on completion positions alone; what exceeds one
chunk is computed again in the backward pass, so that no [token, vocabulary] array outlives its chunk. The first completion token is
scored from the prompt's last position. Models whose attention cannot be shared (sliding windows, recurrent layers, scaled
logits) take a plain pass over right-padded full sequences; it is also the oracle of the tests.
Dropout is off. Left out on purpose: gradients that stop at the prompt, which would not be exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from fgrpo_theory.foundation.checks import require

from .models import backbone_and_head, dropout_off, shares_prompts, unwrap
from .packing import PackedPrompts
from .prefix_tree import PrefixTree, inner_nodes, prefix_tree
from .rollouts import Rollouts, split
from .shared_attention import PackedLayout, run

CHUNK_LOGITS = 2**25
"""Logits computed at once: 128 MiB in float32."""


def token_logprobs(
    logits: Float[Tensor, "token vocabulary"],
    token_ids: Int[Tensor, " token"],
    temperature: float,
    with_entropy: bool = True,
) -> tuple[Float[Tensor, " token"], Float[Tensor, " token"]]:
    """(log-probability, entropy) of each token, in nats, in float32 (float64 for float64 logits).

    Without `with_entropy` the second is zeros.

    >>> logprobs, _ = token_logprobs(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), temperature=0.5)
    >>> round(float(logprobs[0]), 4)
    -2.1429
    """
    law: tuple[Tensor, Tensor] = _TokenLaw.apply(  # type: ignore[no-untyped-call]  # PyTorch's apply has no types
        logits, token_ids, temperature, with_entropy
    )
    return law


class _TokenLaw(torch.autograd.Function):
    """With p = softmax(z): d lp / dz = onehot - p, d H / dz = -p (log p + H). One vocabulary-wide array lives at a time."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, token_ids: Tensor, temperature: float, with_entropy: bool) -> Any:
        scaled = _scaled(logits, temperature)
        log_total = scaled.logsumexp(-1, keepdim=True)
        logprobs = (scaled.gather(-1, token_ids[:, None]) - log_total)[:, 0]
        entropy = torch.zeros_like(logprobs)
        if with_entropy:
            law = scaled - log_total
            entropy = -(law.exp() * law).sum(-1)
        ctx.save_for_backward(logits, token_ids, log_total, entropy)
        ctx.temperature, ctx.with_entropy = temperature, with_entropy
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_logprobs: Tensor, of_entropy: Tensor) -> tuple[Tensor, None, None, None]:
        logits, token_ids, log_total, entropy = ctx.saved_tensors
        law = _scaled(logits, ctx.temperature) - log_total
        if ctx.with_entropy:
            slope = (law + entropy[:, None]).mul_(of_entropy[:, None]).add_(of_logprobs[:, None])
            gradient = law.exp_().mul_(slope).neg_()
        else:
            gradient = law.exp_().mul_(-of_logprobs[:, None])
        gradient.scatter_add_(-1, token_ids[:, None], of_logprobs[:, None])
        return gradient.div_(ctx.temperature).to(logits.dtype), None, None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """Logits over the temperature, in float32 at least; the logits themselves where nothing changes."""
    exact = logits if logits.dtype == torch.float64 else logits.float()
    return exact if temperature == 1 else exact / temperature


def completion_logprobs(
    model: Any,
    rollouts: Rollouts,
    *,
    temperature: float,
    with_entropy: bool = False,
    micro_batch_tokens: int | None = None,
    share_prompts: bool | None = None,
) -> tuple[Float[Tensor, "prompt rollout token"], Float[Tensor, "prompt rollout token"] | None]:
    """(log-probabilities, entropies or None) in nats of the tokens under the mask; 0 elsewhere. Differentiable.

    micro_batch_tokens: most tokens in one forward pass (see `rollouts.split`); None is one pass. Under autograd every pass
        stays alive until backward: to save memory there, split the rollouts and call backward for each part.
    share_prompts: None shares where the model allows it; False takes the plain pass.
    Raises ValueError if temperature is not above 0, or share_prompts asks for what the model does not allow.
    """
    require(temperature > 0, "temperature must be above 0", temperature=temperature)
    model = dropout_off(unwrap(model))
    able = shares_prompts(model)
    require(able or not share_prompts, "share_prompts must be off for this model", model=type(model).__name__)
    one_pass = _shared_pass if able and share_prompts is not False else _plain_pass
    parts: Iterable[tuple[slice, slice, Rollouts]] = [(slice(None), slice(None), rollouts)]
    if micro_batch_tokens is not None:
        parts = split(rollouts, micro_batch_tokens)
    every_place = torch.arange(rollouts.mask.numel(), device=rollouts.mask.device).view(rollouts.mask.shape)
    values, places = [], []
    for groups, slots, part in parts:
        if part.mask.any():
            values.append(one_pass(model, part, temperature, with_entropy))
            places.append(every_place[groups, slots][part.mask])
    if not places:
        zeros = rollouts.old_logprobs.new_zeros(rollouts.mask.shape)
        return zeros, zeros.clone() if with_entropy else None
    index = torch.cat(places)
    logprobs = _place(torch.cat([value for value, _ in values]), index, rollouts.mask)
    return logprobs, _place(torch.cat([value for _, value in values]), index, rollouts.mask) if with_entropy else None


def _place(values: Float[Tensor, " token"], index: Int[Tensor, " token"], mask: Tensor) -> Tensor:
    """Values at flat places of a mask's shape, 0 elsewhere; differentiable."""
    return values.new_zeros(mask.numel()).index_copy(0, index, values).view(mask.shape)


def _shared_pass(model: Any, rollouts: Rollouts, temperature: float, with_entropy: bool) -> tuple[Tensor, Tensor]:
    """Values of the counted tokens in the mask's order, from one packed row."""
    tree = prefix_tree(rollouts)
    if tree is not None:
        return _tree_pass(model, rollouts, tree, temperature, with_entropy)
    backbone, head = backbone_and_head(model)
    read = _read_tokens(rollouts)
    prompts = PackedPrompts(rollouts.prompts)
    layout = PackedLayout(prompts, read.sum(-1).tolist(), model.dtype)
    token_ids = torch.cat([prompts.token_ids, rollouts.completions[read]])
    hidden = run(backbone, token_ids[None], layout)[0]
    # A token is scored where the token before it was read; the first one at the prompt's end.
    source = torch.empty_like(rollouts.completions)
    source[..., 0] = prompts.ends[:, None]
    source[..., 1:] = (layout.prompt_tokens - 1 + read.flatten().cumsum(0).view(read.shape))[..., :-1]
    counted = hidden.index_select(0, source[rollouts.mask])
    return _score(head, counted, rollouts.completions[rollouts.mask], temperature, with_entropy)


def _tree_pass(
    model: Any, rollouts: Rollouts, tree: PrefixTree, temperature: float, with_entropy: bool
) -> tuple[Tensor, Tensor]:
    """The same values, every distinct beginning computed and scored once."""
    backbone, head = backbone_and_head(model)
    prompts, nodes = PackedPrompts(rollouts.prompts), inner_nodes(tree, len(rollouts.prompts))
    layout = PackedLayout.of_tree(prompts, tree, nodes, model.dtype)
    token_ids = torch.cat([prompts.token_ids, tree.token[nodes.index]])
    hidden = run(backbone, token_ids[None], layout)[0]
    row = torch.empty_like(tree.parent)
    row[nodes.index] = layout.prompt_tokens + torch.arange(len(nodes.index), device=row.device)
    source = torch.where(tree.parent < 0, prompts.ends[tree.group], row[tree.parent])
    values = _score(head, hidden.index_select(0, source), tree.token, temperature, with_entropy)
    place = tree.node[rollouts.mask]
    return values[0].index_select(0, place), values[1].index_select(0, place)


def _read_tokens(rollouts: Rollouts) -> Bool[Tensor, "prompt rollout token"]:
    """Completion tokens that the model must read: every counted one but the last of each rollout."""
    return torch.cat([rollouts.mask[..., 1:], torch.zeros_like(rollouts.mask[..., :1])], dim=-1)


def _score(
    head: Any, hidden: Float[Tensor, "token width"], token_ids: Int[Tensor, " token"], temperature: float, entropy: bool
) -> tuple[Tensor, Tensor]:
    """Head and log-softmax in chunks; with several chunks each is computed again in the backward pass."""

    def score(part: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        return token_logprobs(head(part), ids, temperature, with_entropy=entropy)

    vocabulary = head(hidden[:1].detach()).shape[-1] if not hasattr(head, "out_features") else head.out_features
    rows = max(1, CHUNK_LOGITS // vocabulary)
    if len(hidden) <= rows:
        return score(hidden, token_ids)
    chunks = zip(hidden.split(rows), token_ids.split(rows), strict=True)
    if torch.is_grad_enabled():
        scored = [checkpoint(score, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
    else:
        scored = [score(*chunk) for chunk in chunks]
    return torch.cat([value for value, _ in scored]), torch.cat([value for _, value in scored])


def _plain_pass(model: Any, rollouts: Rollouts, temperature: float, with_entropy: bool) -> tuple[Tensor, Tensor]:
    """The same values from full sequences, one batch a group, so that no prompt is ever padded."""
    read = _read_tokens(rollouts)
    scored = []
    for prompt, completions, mask, inner in zip(
        rollouts.prompts, rollouts.completions, rollouts.mask, read, strict=True
    ):
        live = mask.any(-1)
        if not live.any():
            continue
        longest = int(mask.sum(-1).max())
        ids = torch.cat([prompt.expand(int(live.sum()), -1), completions[live][:, : longest - 1]], dim=1)
        seen = torch.cat([torch.ones_like(prompt).expand(len(ids), -1), inner[live][:, : longest - 1].long()], dim=1)
        logits = model(input_ids=ids, attention_mask=seen, use_cache=False, logits_to_keep=longest).logits
        inside = mask[live][:, :longest]
        scored.append(token_logprobs(logits[inside], completions[live][:, :longest][inside], temperature, with_entropy))
    return torch.cat([value for value, _ in scored]), torch.cat([value for _, value in scored])
