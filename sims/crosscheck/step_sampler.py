"""Draw groups, take a real softmax step with each, and add up how far the correct masses move.

The logit update dz is written from the definition of each surrogate, and the change of a mass Q is its derivative along
dz, taken numerically through the softmax itself: (Q(z + h dz) - Q(z - h dz)) / 2h, with h dz at most 1e-4. The relative
error of that is of order 1e-8, far below what any cell resolves. Neither eq. 18 nor any law of a mass enters here.

Surrogates (section 3): "probability" L = (1/N) sum of R_i p_i over the distinct actions drawn (eq. 5 is its gradient);
"ratio" L = (1/N) sum over rollouts of A_j p_j / p_j(old), with A of eq. 3, divided by the std or not. Each is multiplied
by g = (1 - X/N)^gamma, eq. 12. import-linter keeps the closed forms of fgrpo_theory out of this module.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import njit

from .samplers import draw_counts

_STEP = 1e-4
# Columns of an option row.
OPTION_COLUMNS = ("gamma", "learning_rate", "reward_correct", "reward_wrong", "ratio", "std_scaled", "ddof", "eps")


@njit(nogil=True, cache=True)
@no_type_check
def probability_update(
    p: np.ndarray, is_correct: np.ndarray, counts: np.ndarray, option: np.ndarray, dz: np.ndarray
) -> None:
    """Gradient of sum of R_i p_i over drawn actions, each once: p_i (R_i [drawn] - sum_j p_j R_j [drawn])."""
    baseline = 0.0
    for i in range(p.size):
        reward = (option[2] if is_correct[i] else option[3]) if counts[i] > 0 else 0.0
        dz[i] = reward
        baseline += p[i] * reward
    for i in range(p.size):
        dz[i] = p[i] * (dz[i] - baseline)


@njit(nogil=True, cache=True)
@no_type_check
def ratio_update(
    is_correct: np.ndarray, counts: np.ndarray, group_size: int, option: np.ndarray, dz: np.ndarray
) -> None:
    """Gradient of sum_j A_j p_j / p_j(old): sum_j A_j ([action of j is i] - p_i), and the A_j sum to 0."""
    mean = 0.0
    for i in range(counts.size):
        mean += counts[i] * (option[2] if is_correct[i] else option[3]) / group_size
    square = 0.0
    for i in range(counts.size):
        dz[i] = (option[2] if is_correct[i] else option[3]) - mean
        square += counts[i] * dz[i] * dz[i]
    spread = 1.0
    if option[5] > 0:
        spread = np.sqrt(square / (group_size - option[6])) + option[7]
    for i in range(counts.size):
        dz[i] = counts[i] * dz[i] / spread if counts[i] > 0 else 0.0


@njit(nogil=True, cache=True)
@no_type_check
def mass_derivatives(p: np.ndarray, is_correct: np.ndarray, counts: np.ndarray, dz: np.ndarray) -> tuple:
    """Derivatives along dz of the correct mass and of the correct mass not drawn, through the softmax."""
    largest = np.abs(dz).max()
    if largest == 0.0:
        return 0.0, 0.0
    h = _STEP / largest
    total_up, total_down, all_up, all_down, left_up, left_down = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(p.size):
        growth = np.exp(h * dz[i])
        up, down = p[i] * growth, p[i] / growth
        total_up += up
        total_down += down
        if is_correct[i]:
            all_up += up
            all_down += down
            if counts[i] == 0:
                left_up += up
                left_down += down
    return (all_up / total_up - all_down / total_down) / (2 * h), (left_up / total_up - left_down / total_down) / (
        2 * h
    )


@njit(nogil=True, cache=True)
@no_type_check
def add_steps(
    rng: np.random.Generator,
    groups: int,
    group_size: int,
    policy: tuple,
    options: np.ndarray,
    sums: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Add Q_u,pos of each group, then (dQ_pos, dQ_u,pos) for each row of options, and their squares.

    policy: (p, cumulative, is_correct), each "action". options: "option column", columns OPTION_COLUMNS.
    sums, squares: 1 + 2 * options.
    """
    p, cumulative, is_correct = policy
    counts, dz = np.empty(p.size, dtype=np.int64), np.empty(p.size)
    for _ in range(groups):
        draw_counts(rng, cumulative, group_size, counts)
        right, unseen = 0, 0.0
        for i in range(p.size):
            if is_correct[i]:
                right += counts[i]
                unseen += p[i] * (counts[i] == 0)
        sums[0] += unseen
        squares[0] += unseen * unseen
        for o in range(options.shape[0]):
            option = options[o]
            if option[4] > 0 and (right == 0 or right == group_size):
                continue
            if option[4] > 0:
                ratio_update(is_correct, counts, group_size, option, dz)
            else:
                probability_update(p, is_correct, counts, option, dz)
            scale = option[1] / group_size * (1 - right / group_size) ** option[0]
            for i in range(p.size):
                dz[i] *= scale
            gained, left = mass_derivatives(p, is_correct, counts, dz)
            sums[1 + 2 * o] += gained
            squares[1 + 2 * o] += gained * gained
            sums[2 + 2 * o] += left
            squares[2 + 2 * o] += left * left
