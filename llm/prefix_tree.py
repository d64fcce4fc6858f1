"""Completions of a group that begin alike, as a tree: every distinct beginning is one node, computed once.

The state after a beginning depends on nothing behind it, so rollouts that share it share its computation, and autograd
adds their gradients there: exact. A policy that knows its task repeats itself a great deal (on the maze of section 5.2,
128 rollouts a prompt have four to ten times fewer distinct beginnings than tokens); free text parts after a few tokens.
A node attends to its prompt and its ancestors, so one row a group holds all its nodes, under a mask. That is worth it
where this row's attention is no larger than that of one row a rollout; else there is no tree, found out early.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .rollouts import Rollouts


@dataclass(frozen=True)
class PrefixTree:
    """Nodes in the order of their groups, and by depth inside a group: parents stand before children."""

    node: Int[Tensor, "prompt rollout token"]
    """The node of each counted token: the beginning that ends with it; -1 where the mask is False."""
    group: Int[Tensor, " node"]
    """The prompt that a node belongs to."""
    token: Int[Tensor, " node"]
    """Its last token."""
    parent: Int[Tensor, " node"]
    """The node without the last token; -1 where the prompt comes before it."""
    depth: Int[Tensor, " node"]
    """Tokens before its last one."""

    @property
    def inner(self) -> Bool[Tensor, " node"]:
        """Where a node has children: its token must be read."""
        has_children = torch.zeros_like(self.parent, dtype=torch.bool)
        has_children[self.parent[self.parent >= 0]] = True
        return has_children


def prefix_tree(rollouts: Rollouts) -> PrefixTree | None:
    """The tree of a batch, or None where one row a rollout is cheaper."""
    mask, ids = rollouts.mask.flatten(0, 1), rollouts.completions.flatten(0, 1)
    groups, group_size = rollouts.mask.shape[:2]
    vocabulary, device = int(ids.max()) + 1, ids.device
    rollout_group = torch.arange(groups, device=device).repeat_interleave(group_size)
    parent, nodes = -1 - rollout_group, torch.full(ids.shape, -1, device=device)
    levels: list[tuple[Tensor, Tensor, Tensor]] = []
    made, parted, lengths = 0, False, mask.sum(-1)
    for depth in range(int(lengths.max())):
        live = mask[:, depth].nonzero()[:, 0]
        # Parents of the first depth are negative: shift all by the number of groups, so that keys order by group.
        keys = (parent[live] + groups) * vocabulary + ids[live, depth]
        first, place = _distinct(keys, parted)
        if not parted and len(first) == len(live):
            parted = True
            # From here on every token is a node of its own.
            rest = torch.bincount(rollout_group, (lengths - depth).clamp(min=0).double(), minlength=groups)
            before = torch.bincount(torch.cat([rollout_group[:0], *(g for g, _, _ in levels)]), minlength=groups)
            if not _worth(rollouts, int((rest + before).max())):
                return None
        chosen = live[first]
        levels.append((rollout_group[chosen], ids[chosen, depth], parent[chosen]))
        parent = parent.index_put((live,), made + place)
        nodes[live, depth] = made + place
        made += len(first)
    tree = _ordered(levels, nodes.view(rollouts.mask.shape))
    return tree if _worth(rollouts, int(torch.bincount(tree.group[tree.inner], minlength=groups).max())) else None


def _distinct(keys: Int[Tensor, " row"], parted: bool) -> tuple[Int[Tensor, " distinct"], Int[Tensor, " row"]]:
    """(the first row with each key, in the order of the keys; which of these keys each row has)."""
    if parted:
        each = torch.arange(len(keys), device=keys.device)
        return each, each
    distinct, place = torch.unique(keys, return_inverse=True)
    rows = torch.arange(len(keys), device=keys.device)
    first = torch.full_like(distinct, len(keys)).scatter_reduce(0, place, rows, "amin")
    return first, place


def _worth(rollouts: Rollouts, widest: int) -> bool:
    """Whether attention over one row of `widest` nodes a group is no larger than over one row a rollout."""
    prompt = max(map(len, rollouts.prompts))
    longest = int(rollouts.lengths.max())
    return widest * (prompt + widest) <= rollouts.group_size * longest * (prompt + longest)


def _ordered(levels: list[tuple[Tensor, Tensor, Tensor]], nodes: Tensor) -> PrefixTree:
    group, token, parent = (torch.cat(parts) for parts in zip(*levels, strict=True))
    sizes = torch.tensor([len(level[0]) for level in levels], device=group.device)
    depth = torch.arange(len(levels), device=group.device).repeat_interleave(sizes)
    order = group.argsort(stable=True)
    new = torch.empty_like(order)
    new[order] = torch.arange(len(order), device=order.device)
    # One place more: index -1 stays -1.
    new = torch.cat([new, new.new_tensor([-1])])
    return PrefixTree(new[nodes], group[order], token[order], new[parent.clamp(min=-1)][order], depth[order])


@dataclass(frozen=True)
class InnerNodes:
    """The nodes that must be read, as one row a group."""

    index: Int[Tensor, " inner"]
    """Which nodes these are, group by group."""
    counts: list[int]
    """How many each group has."""
    sees: Bool[Tensor, "group query key"]
    """Whom a node attends to, in rows padded to the longest: its ancestors and itself; a gap sees itself."""


def inner_nodes(tree: PrefixTree, groups: int) -> InnerNodes:
    """The layout of a tree's inner nodes."""
    index = tree.inner.nonzero()[:, 0]
    group, depth = tree.group[index], tree.depth[index]
    counts = torch.bincount(group, minlength=groups)
    first = counts.cumsum(0) - counts
    place = torch.arange(len(index), device=index.device) - first[group]
    widest = int(counts.max())
    among_inner = torch.full_like(tree.parent, -1)
    among_inner[index] = torch.arange(len(index), device=index.device)
    parent = among_inner[tree.parent[index]]
    sees = torch.zeros(len(index), widest, dtype=torch.bool, device=index.device)
    sees[torch.arange(len(index), device=index.device), place] = True
    for level in range(1, int(depth.max()) + 1 if len(depth) else 0):
        nodes = (depth == level).nonzero()[:, 0]
        sees[nodes] |= sees[parent[nodes]]
    rows = torch.eye(widest, dtype=torch.bool, device=index.device).repeat(groups, 1, 1)
    rows[group, place] = sees
    return InnerNodes(index, counts.tolist(), rows)
