"""Draw groups and count what happens, from the definitions alone.

Nothing here knows a law: rollouts are drawn one by one from a categorical policy by inverting its float64 cumulative
sum, and events, masses and advantages are read off what was drawn. import-linter keeps the closed forms of fgrpo_theory
out of this module. All kernels add to arrays that the caller owns, so that blocks of groups can be summed.

Source: F-GRPO (arXiv 2602.06717), section 2 (definitions of active group, tail miss, sampled masses, baseline S_R) and
eq. 3 (advantage); Good 1953 (singletons). Left out on purpose: the update itself, in `step_sampler`.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import njit

# The run-time type checker of the tests cannot wrap a compiled function, hence no_type_check below each njit.


@njit(nogil=True, cache=True)
@no_type_check
def draw_counts(rng: np.random.Generator, cumulative: np.ndarray, group_size: int, counts: np.ndarray) -> None:
    """Draw one group; counts["action"] becomes how often each action was drawn."""
    counts[:] = 0
    last = cumulative.size - 1
    for _ in range(group_size):
        point = rng.random() * cumulative[last]
        low, high = 0, last
        while low < high:
            middle = (low + high) >> 1
            if cumulative[middle] <= point:
                low = middle + 1
            else:
                high = middle
        counts[low] += 1


@njit(nogil=True, cache=True)
@no_type_check
def count_events(
    rng: np.random.Generator,
    groups: int,
    group_size: int,
    mu: float,
    tau: float,
    events: np.ndarray,
    correct: np.ndarray,
) -> None:
    """Add the groups that are active, and those that are active with no rollout in E, to events[0] and events[1].

    A rollout falls in E with probability tau and is correct with probability mu; correct["count"] is the histogram of X.
    """
    for _ in range(groups):
        rare, right = 0, 0
        for _ in range(group_size):
            point = rng.random()
            rare += point < tau
            right += point < mu
        correct[right] += 1
        if 0 < right < group_size:
            events[0] += 1
            events[1] += rare == 0


@njit(nogil=True, cache=True)
@no_type_check
def count_active_misses(rng: np.random.Generator, active: int, group_size: int, mu: float, tau: float) -> int:
    """Draw groups until `active` of them are active; how many of those have no rollout in E."""
    misses, found = 0, 0
    while found < active:
        rare, right = 0, 0
        for _ in range(group_size):
            point = rng.random()
            rare += point < tau
            right += point < mu
        if 0 < right < group_size:
            found += 1
            misses += rare == 0
    return misses


@njit(nogil=True, cache=True)
@no_type_check
def count_population_misses(rng: np.random.Generator, mu: np.ndarray, group_size: int, rare_fraction: float) -> int:
    """One group a prompt, prompt i having success probability mu[i] and E of probability rare_fraction * mu[i]."""
    misses = 0
    for i in range(mu.size):
        rare, right = 0, 0
        for _ in range(group_size):
            point = rng.random()
            rare += point < rare_fraction * mu[i]
            right += point < mu[i]
        misses += (right > 0) & (right < group_size) & (rare == 0)
    return misses


@njit(nogil=True, cache=True)
@no_type_check
def add_sampled_masses(
    rng: np.random.Generator, groups: int, group_size: int, k: int, policy: tuple, rewards: tuple, sums: np.ndarray
) -> None:
    """Draw until `groups` groups have X = k; add their P_pos, P_neg and S_R, an action counting once, to sums[0:3].

    policy: (p, cumulative, is_correct), each "action". rewards: (R_c, R_w).
    """
    p, cumulative, is_correct = policy
    counts = np.empty(p.size, dtype=np.int64)
    found = 0
    while found < groups:
        draw_counts(rng, cumulative, group_size, counts)
        right, mass_right, mass_wrong = 0, 0.0, 0.0
        for i in range(p.size):
            if is_correct[i]:
                right += counts[i]
                mass_right += p[i] * (counts[i] > 0)
            else:
                mass_wrong += p[i] * (counts[i] > 0)
        if right == k:
            found += 1
            sums[0] += mass_right
            sums[1] += mass_wrong
            sums[2] += rewards[0] * mass_right + rewards[1] * mass_wrong


@njit(nogil=True, cache=True)
@no_type_check
def add_advantage_sizes(
    rng: np.random.Generator, groups: int, group_size: int, mu: float, options: np.ndarray, sums: np.ndarray
) -> None:
    """Add the mean over rollouts of |g A| of each group, for each row of options: gamma, ddof, eps, R_c, R_w."""
    success = np.empty(group_size, dtype=np.bool_)
    for _ in range(groups):
        for j in range(group_size):
            success[j] = rng.random() < mu
        rate = success.sum() / group_size
        for o in range(options.shape[0]):
            gamma, ddof, eps, high, low = options[o]
            mean, square, size = rate * high + (1 - rate) * low, 0.0, 0.0
            for j in range(group_size):
                deviation = (high if success[j] else low) - mean
                square += deviation * deviation
                size += abs(deviation)
            if 0.0 < rate < 1.0:
                sums[o] += (1 - rate) ** gamma * (size / group_size) / (np.sqrt(square / (group_size - ddof)) + eps)


@njit(nogil=True, cache=True)
@no_type_check
def count_subset_hits(rng: np.random.Generator, trials: int, samples: int, correct: int, k: int) -> int:
    """Take k of `samples` answers without replacement, `correct` of which are right; how often one of the k is right."""
    hits = 0
    for _ in range(trials):
        hit = False
        for taken in range(k):
            if rng.random() * (samples - taken) < correct:
                hit = True
                break
        hits += hit
    return hits


@njit(nogil=True, cache=True)
@no_type_check
def record_singletons(
    rng: np.random.Generator, group_size: int, policy: tuple, once: np.ndarray, twice: np.ndarray, unseen: np.ndarray
) -> None:
    """One sample an entry: the actions drawn once, those drawn twice, and the true mass of those never drawn."""
    p, cumulative, _ = policy
    counts = np.empty(p.size, dtype=np.int64)
    for g in range(once.size):
        draw_counts(rng, cumulative, group_size, counts)
        once[g], twice[g], unseen[g] = 0, 0, 0.0
        for i in range(p.size):
            once[g] += counts[i] == 1
            twice[g] += counts[i] == 2
            unseen[g] += p[i] * (counts[i] == 0)
