"""The law of the sampler itself: i.i.d. draws from the policy, for every way a draw can be made.

False-alarm rate 1e-6 for the file, split over its cells (`CELLS`). Every test is two-sided, so too even counts fail too.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from fgrpo_theory import tail_miss_probability
from sims.config import ActionClass, SimConfig, Subset
from sims.presets import PAPER
from sims.rng import bucket_counts, random_words
from sims.sampler import draw, refresh_block
from sims.sparse import SparseEngine
from sims.state import State, build_state

CELLS = 20
ALARM = 1e-6 / CELLS
ACTIONS = 50_000
DRAWS = 40_000_000
# By search (few draws for the slots), by counting (many), and the largest group promised.
GROUP_SIZES = [2048, 131_072, 1_048_576]


def zipf() -> np.ndarray:
    """p_k proportional to 1/k over 50,000 actions, shuffled, so that rare and frequent ones are neighbours."""
    p = 1.0 / np.arange(1, ACTIONS + 1)
    return np.random.default_rng(1).permutation(p / p.sum())


def state_of(p: np.ndarray) -> tuple[State, np.ndarray]:
    """A sampler state in which every action is touched and has the given probability, and the actions' slots."""
    half = len(p) // 2
    config = SimConfig(classes=(ActionClass(0.0, half, True), ActionClass(0.0, len(p) - half, False)), group_size=2**20)
    state = build_state(config, keep_logits=False)
    slots = np.concatenate(
        [start + np.arange(size) for start, size in zip(state.class_start, state.class_size, strict=True)]
    )
    state.class_used[:] = state.class_size
    state.weight[slots] = p * 37.0
    for block in range(state.mass.size):
        refresh_block(state.weight, state.prefix, state.lane, state.mass, block)
    return state, slots


def take(state: State, slots: np.ndarray, group_size: int) -> np.ndarray:
    """Counts of one group, by action; checks that the list of hits is what the counts say."""
    hits = draw(state, group_size)
    counts = state.counts[slots].astype(np.int64)
    assert counts.sum() == group_size
    np.testing.assert_array_equal(np.sort(state.hits[:hits]), np.sort(slots[counts > 0]))
    state.counts[:] = 0
    return counts


def two_sided(law: object, value: float) -> float:
    return float(2 * min(law.cdf(value), law.sf(value)))


def frequency_chi_square(group_size: int, draws: int) -> tuple[float, float]:
    """Pearson's chi-square over all actions after about `draws` draws, and its least expected count."""
    p = zipf()
    state, slots = state_of(p)
    take(state, slots, group_size)
    groups = draws // group_size
    for _ in range(groups):
        draw(state, group_size)
    expected = p * groups * group_size
    return float(((state.counts[slots] - expected) ** 2 / expected).sum()), float(expected.min())


@pytest.mark.parametrize("group_size", GROUP_SIZES)
def test_frequencies_over_a_zipf_law(group_size):
    """40 million draws; sees any law that is off by 0.8 % (root mean square, relative) with probability 0.99."""
    value, least = frequency_chi_square(group_size, DRAWS)
    assert least > 50
    assert two_sided(stats.chi2(ACTIONS - 1), value) > ALARM
    assert power(DRAWS * 0.008**2) > 0.99


@pytest.mark.slow
def test_frequencies_finely_enough_to_see_a_float32_sum():
    """1.1 billion draws: with probability 0.99 this kills a sampler that sums the same law in float32 (off by 0.16 %)."""
    draws, p = 1_100_000_000, zipf()
    rounded = np.diff(np.cumsum(p.astype(np.float32)), prepend=np.float32(0.0)).astype(np.float64)
    rounded /= rounded.sum()
    assert power(draws * ((rounded - p) ** 2 / p).sum()) > 0.99
    value, _ = frequency_chi_square(2**20, draws)
    assert two_sided(stats.chi2(ACTIONS - 1), value) > ALARM


@pytest.mark.parametrize("wrong", ["last slot of a block never drawn", "lanes and rows exchanged", "one bucket twice"])
def test_wrong_laws_are_seen(wrong):
    p = zipf()
    q = p.copy()
    if wrong == "last slot of a block never drawn":
        q[63::64] = 0.0
    elif wrong == "lanes and rows exchanged":
        whole = ACTIONS // 64 * 64
        q[:whole] = p[:whole].reshape(-1, 8, 8).transpose(0, 2, 1).ravel()
    else:
        q[np.cumsum(p) < 1 / 2048] *= 2.0
    q /= q.sum()
    assert power(DRAWS * ((q - p) ** 2 / p).sum()) > 0.99


def power(noncentrality: float) -> float:
    """Probability that the two-sided chi-square test over all actions fails a law with this noncentrality."""
    return float(stats.ncx2.sf(stats.chi2.isf(ALARM / 2, ACTIONS - 1), ACTIONS - 1, noncentrality))


@pytest.mark.parametrize("group_size", [2048, 131_072])
def test_spread_of_the_counts_inside_a_group(group_size):
    """Mean over 150 groups of each group's own chi-square: exact mean and variance for i.i.d. draws, then a normal test.

    Pooled over 500 ranges of actions, so that the sum is close to normal. It sees counts whose variance is off by 6 %
    (quasi-random or stratified draws are off by far more): eight standard errors.
    """
    p = zipf()
    state, slots = state_of(p)
    cells = np.add.reduceat(p, np.arange(0, ACTIONS, 100))
    groups, k = 150, len(cells)
    values = []
    for _ in range(groups):
        counts = np.add.reduceat(take(state, slots, group_size), np.arange(0, ACTIONS, 100))
        values.append(((counts - group_size * cells) ** 2 / (group_size * cells)).sum())
    variance = 2 * (k - 1) + ((1 / cells).sum() - k**2 - 2 * k + 2) / group_size
    error = np.sqrt(variance / groups)
    assert 0.06 * (k - 1) > 8 * error
    assert two_sided(stats.norm, (np.mean(values) - (k - 1)) / error) > ALARM


@pytest.mark.parametrize("group_size", [64, 4096, 131_072])
def test_first_group_from_untouched_classes(group_size):
    """How many actions are drawn 1, 2 and 3 times from untouched classes: binomial means, six-sigma bounds for the file.

    Counts of distinct actions are negatively associated, so their variance is below that of independent ones.
    """
    wrong = 118_000
    runs = {64: 100, 4096: 20, 131_072: 4}[group_size]
    seen = np.zeros(3)
    for seed in range(runs):
        engine = SparseEngine(dataclasses.replace(PAPER, group_size=group_size, seed=seed, subsets=()))
        engine.draw()
        snapshot = engine.snapshot()
        counts = snapshot.counts[~snapshot.is_correct]
        seen += [(counts == times).sum() for times in (1, 2, 3)]
    share = stats.binom.pmf([1, 2, 3], group_size, snapshot.probability[2])
    mean, deviation = runs * wrong * share, np.sqrt(runs * wrong * share)
    tested = mean >= 50
    assert tested[0]
    assert (np.abs(seen - mean)[tested] < stats.norm.isf(ALARM / 6) * deviation[tested]).all()


@pytest.mark.parametrize(("name", "tau_size"), [("anchor", 1), ("one", 1), ("many", 40)])
def test_tail_misses_of_a_resting_policy_follow_lemma_3_1(name, tau_size):
    """20,000 groups from a policy that stands still: exact binomial test. It sees an error of 0.028 in the probability."""
    config = SimConfig(
        classes=(ActionClass(3.0, 1, True), ActionClass(1.0, 60, True), ActionClass(0.0, 400, False)),
        group_size=8,
        learning_rate=1e-15,
        steps=20_000,
        record_every=20_000,
        subsets=(Subset("anchor", 0, 1), Subset("one", 1, 1), Subset("many", 1, 40)),
    )
    engine = SparseEngine(config)
    start = engine.snapshot()
    engine.advance(config.steps)
    index = [subset.name for subset in config.subsets].index(name)
    p = start.probability[0 if name == "anchor" else 1] * tau_size
    law = float(tail_miss_probability(8, start.probability[start.is_correct] @ start.size[start.is_correct], p))
    misses = int(engine.missed[index])
    assert stats.binomtest(misses, config.steps, law).pvalue > ALARM
    # The binomial's normal limit: alarm bound plus 2.33 standard deviations for a power of 0.99.
    assert (stats.norm.isf(ALARM / 2) + 2.33) * np.sqrt(0.25 / config.steps) < 0.028


def test_bucket_counts_are_multinomial():
    """Uniform over 2048 buckets, in mean and in spread."""
    rng = SparseEngine(PAPER).state.rng.copy()
    draws, repeats = 100_003, 100
    counts = np.array([bucket_counts(rng, draws, 11) for _ in range(repeats)], dtype=np.int64)
    assert (counts.sum(axis=1) == draws).all()
    expected = draws / 2048
    total = counts.sum(axis=0)
    assert two_sided(stats.chi2(2047), ((total - repeats * expected) ** 2 / (repeats * expected)).sum()) > ALARM
    within = ((counts - expected) ** 2 / expected).sum()
    assert two_sided(stats.norm, (within - repeats * 2047) / np.sqrt(repeats * 2 * 2047)) > ALARM


def test_xoshiro_gives_its_published_words():
    # First outputs of the reference implementation from the state 1, 2, 3, 4.
    words = np.empty(4, dtype=np.uint64)
    random_words(np.array([1, 2, 3, 4], dtype=np.uint64), words)
    assert words.tolist() == [41943041, 58720359, 3588806011781223, 3591011842654386]


def test_unused_slots_are_never_drawn():
    """Ranges that end in zero weights, and single heavy slots, are where rounding could step beside the slots in use."""
    p = np.zeros(200)
    p[:3] = [1e-14, 1.0, 1e-13]
    p[100:102] = [3e-14, 1e-300]
    state, slots = state_of(p)
    for group_size in (1, 7, 70_000):
        counts = take(state, slots, group_size)
        assert counts[1] >= group_size - 5
        assert (counts[p == 0] == 0).all()
