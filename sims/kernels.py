"""The updates of the sparse engine, compiled: one step of the optimizer on the touched actions.

Two rules, chosen by `sims.sparse.lazy_applies`:

lazy    ratio surrogate with centred rewards, Adam, no weight decay: an action that is not drawn has zero gradient. Its
        moments only decay, so they are kept divided by beta1^t and beta2^(t/2): a step changes the moments of drawn
        actions alone, and every other action needs one division and one short exponential. A block whose last
        step changed no bit of a weight sleeps until one of its actions is drawn: its steps only get shorter.
full    everything else (probability surrogate, raw rewards, weight decay, SGD): all touched actions and one
        representative per untouched class take a plain step.

Both climb: logits move along +gradient. No fast-math: the same seed gives the same bytes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .sampler import draw, refresh_block
from .state import BLOCK, State

# The lazy rule takes exp(dz) by its series, good to float64 for |dz| up to SERIES_REACH.
SERIES_REACH = 0.075
_RESCALE_EVERY = 512
ADAM, ADAMW, SGD = 0, 1, 2


class Rule(NamedTuple):
    """What an update needs besides the state; plain numbers, and the focal weight for each count of correct draws."""

    lazy: bool
    group_size: int
    focal: np.ndarray  # float64[group_size + 1], focal_weight(correct / group_size, gamma)
    reward_correct: float
    reward_wrong: float
    centred: bool
    probability: bool
    optimizer: int
    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    temperature: float


@njit(nogil=True, cache=True, error_model="numpy")
def count_correct(state: State, hits: int) -> int:
    """X, the number of correct draws of this step."""
    correct = 0
    for k in range(hits):
        slot = state.hits[k]
        correct += state.counts[slot] * state.is_correct[slot // BLOCK]
    return correct


@njit(nogil=True, cache=True, error_model="numpy")
def step_rewards(rule: Rule, correct: int) -> tuple[float, float]:
    """Rewards of correct and wrong draws as they enter the gradient; exactly 0 in an inactive group when centred."""
    if rule.centred:
        gap, rate = rule.reward_correct - rule.reward_wrong, correct / rule.group_size
        return gap * (1.0 - rate), -gap * rate
    return rule.reward_correct, rule.reward_wrong


@njit(nogil=True, cache=True, error_model="numpy")
def note_step(state: State, hits: int, correct: int, group_size: int) -> None:
    """Count of correct draws, and the tail misses of the watched subsets."""
    state.history[state.clock[0]] = correct
    if state.missed.size == 0 or correct == 0 or correct == group_size:
        return
    seen = np.uint8(0)
    for k in range(hits):
        seen |= state.marks[state.hits[k]]
    for bit in range(state.missed.size):
        state.missed[bit] += 1 - ((seen >> np.uint8(bit)) & np.uint8(1))


@njit(nogil=True, cache=True, error_model="numpy")
def apply_lazy(state: State, rule: Rule, hits: int, correct: int) -> None:
    """One Adam step under the lazy rule."""
    state.clock[0] += 1
    step, age = state.clock[0], state.clock[0] - state.clock[1]
    decay1, decay2 = rule.beta1**age, rule.beta2**age
    scale = rule.focal[correct] / (rule.group_size * rule.temperature)
    gather_lazy(
        state, hits, scale, step_rewards(rule, correct), ((1.0 - rule.beta1) / decay1, (1.0 - rule.beta2) / decay2)
    )
    spread = math.sqrt((1.0 - rule.beta2**step) / decay2)
    rate = rule.learning_rate / rule.temperature * decay1 / (1.0 - rule.beta1**step) * spread
    for c in range(state.class_size.size):
        start = state.class_start[c] // BLOCK
        move_blocks(state, start, start + (state.class_used[c] + BLOCK - 1) // BLOCK, rate, rule.eps * spread)
    if age >= _RESCALE_EVERY:
        rescale_lazy(state, decay1, math.sqrt(decay2))


@njit(nogil=True, cache=True, error_model="numpy")
def gather_lazy(
    state: State, hits: int, scale: float, rewards: tuple[float, float], gains: tuple[float, float]
) -> None:
    """Add the gradients of the drawn actions to their scaled moments, and wake their blocks."""
    listed, counts, first, second = state.hits, state.counts, state.first, state.second
    is_correct, awake = state.is_correct, state.awake
    for k in range(hits):
        slot = listed[k]
        gradient = scale * (counts[slot] * (rewards[0] if is_correct[slot // BLOCK] else rewards[1]))
        counts[slot] = 0
        first[slot] += gains[0] * gradient
        second[slot] = math.sqrt(second[slot] * second[slot] + gains[1] * gradient * gradient)
        awake[slot // BLOCK] = True


@njit(nogil=True, cache=True, error_model="numpy")
def move_blocks(state: State, start: int, end: int, rate: float, floor: float) -> None:
    """weight *= exp(rate * first / (second + floor)) in the blocks start ... end - 1 that are awake."""
    first, second, weight, awake = state.first, state.second, state.weight, state.awake
    prefix, lane, mass = state.prefix, state.lane, state.mass
    for block in range(start, end):
        if not awake[block]:
            continue
        base, changed = np.uint64(block * BLOCK), 0
        for j in range(np.uint64(BLOCK)):
            slot = base + np.uint64(j)
            x = rate * first[slot] / (second[slot] + floor)
            series = 1.0 + x * (1.0 / 7.0) * (1.0 + x * 0.125)
            series = 1.0 + x * 0.2 * (1.0 + x * (1.0 / 6.0) * series)
            series = 1.0 + x * 0.5 * (1.0 + x * (1.0 / 3.0) * (1.0 + x * 0.25 * series))
            moved = weight[slot] * (1.0 + x * series)
            changed += moved != weight[slot]
            weight[slot] = moved
        awake[block] = changed > 0
        refresh_block(weight, prefix, lane, mass, block)


@njit(nogil=True, cache=True, error_model="numpy")
def rescale_lazy(state: State, decay1: float, root_decay2: float) -> None:
    """Bring the scaled moments and the weights back to ordinary sizes, so that runs of any length stay in range."""
    total = state.total[0]
    for slot in range(state.weight.size):
        state.first[slot] *= decay1
        state.second[slot] *= root_decay2
        state.weight[slot] /= total
    for c in range(state.class_size.size):
        state.class_weight[c] /= total
    state.shift[0] += math.log(total)
    state.clock[1] = state.clock[0]
    for block in range(state.mass.size):
        refresh_block(state.weight, state.prefix, state.lane, state.mass, block)


@njit(nogil=True, cache=True, error_model="numpy")
def optimizer_step(
    rule: Rule, step: int, gradient: float, logit: float, first: float, second: float
) -> tuple[float, float, float]:
    """(logit, first, second) after one step of torch's Adam, AdamW or SGD with maximize=True."""
    descent = -gradient
    if rule.optimizer == ADAMW:
        logit *= 1.0 - rule.learning_rate * rule.weight_decay
    else:
        descent += rule.weight_decay * logit
    if rule.optimizer == SGD:
        return logit - rule.learning_rate * descent, first, second
    first = rule.beta1 * first + (1.0 - rule.beta1) * descent
    second = rule.beta2 * second + (1.0 - rule.beta2) * descent * descent
    root = math.sqrt(second / (1.0 - rule.beta2**step)) + rule.eps
    return logit - rule.learning_rate / (1.0 - rule.beta1**step) * first / root, first, second


@njit(nogil=True, cache=True, error_model="numpy")
def apply_full(state: State, rule: Rule, hits: int, correct: int) -> None:
    """One step of all touched actions and of the representatives of the untouched ones."""
    total = state.total[0]
    state.clock[0] += 1
    right, wrong = step_rewards(rule, correct)
    scale = rule.focal[correct] / (rule.group_size * rule.temperature)
    baseline = 0.0
    for k in range(hits):
        slot = state.hits[k]
        reward = right if state.is_correct[slot // BLOCK] else wrong
        own = state.weight[slot] / total if rule.probability else 1.0
        baseline += state.counts[slot] * reward * own
    if rule.centred and not rule.probability:
        baseline = 0.0
    state.shift[0] += math.log(total)
    for c in range(state.class_size.size):
        reward = right if state.class_correct[c] else wrong
        start = state.class_start[c]
        for slot in range(start, start + state.class_used[c]):
            p = state.weight[slot] / total
            own = p if rule.probability else 1.0
            gradient = scale * (state.counts[slot] * reward * own - p * baseline)
            state.counts[slot] = 0
            state.logit[slot], state.first[slot], state.second[slot] = optimizer_step(
                rule, state.clock[0], gradient, state.logit[slot], state.first[slot], state.second[slot]
            )
            state.weight[slot] = math.exp(state.logit[slot] / rule.temperature - state.shift[0])
        gradient = -scale * baseline * state.class_weight[c] / total
        state.class_logit[c], state.class_first[c], state.class_second[c] = optimizer_step(
            rule, state.clock[0], gradient, state.class_logit[c], state.class_first[c], state.class_second[c]
        )
        state.class_weight[c] = math.exp(state.class_logit[c] / rule.temperature - state.shift[0])
        for block in range(start // BLOCK, (start + state.class_used[c] + BLOCK - 1) // BLOCK):
            refresh_block(state.weight, state.prefix, state.lane, state.mass, block)


@njit(nogil=True, cache=True, error_model="numpy")
def apply(state: State, rule: Rule, hits: int) -> None:
    """Note the drawn group and take the optimizer's step."""
    correct = count_correct(state, hits)
    note_step(state, hits, correct, rule.group_size)
    if rule.lazy:
        apply_lazy(state, rule, hits, correct)
    else:
        apply_full(state, rule, hits, correct)


@njit(nogil=True, cache=True, error_model="numpy")
def advance(state: State, rule: Rule, steps: int) -> None:
    """Draw and apply, `steps` times."""
    for _ in range(steps):
        apply(state, rule, draw(state, rule.group_size))
