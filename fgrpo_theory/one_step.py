"""What one update does to a categorical policy p = softmax(z), to first order (eqs. 5, 9, 10, 17, 18, 19; Prop. 3.2).

Surrogate "probability" is the paper's: raw rewards, an action counts once however often it was drawn,

    dz_i = (eta/N) g p_i (R_i - S_R), with R_i = 0 for unsampled i                              eq. 5 (g: eq. 12)

Surrogate "ratio" is what GRPO steps on (ours): importance ratios, centred rewards, multiplicities n_i,

    dz_i = (eta/N) g n_i A_i,  A_i = R_i - mean R, divided by std R + eps if std_scaled         eq. 3

There an unsampled action has dz = 0, and the laws below read, with V_pos, V_neg = sum of n_i p_i over correct / wrong,

    dQ_pos   = (eta/N) g [ A+ V_pos Q_neg - A- V_neg Q_pos ],   dQ_u,pos = -Q_u,pos (eta/N) g [ A+ V_pos + A- V_neg ].

Every function takes one policy and any number of groups: `counts` is "... action". Fractions in, Fractions out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from .foundation.checks import ArrayLike, BoolArray, as_boolean, as_float, require
from .policy import LawOptions, Numbers, Options, as_fractions, as_numbers, as_options, as_policy, takes_options


@dataclass(frozen=True)
class Moments:
    """Sampled and unsampled masses and second moments of a group (section 2 of the paper); each "..."."""

    P_pos: Numbers
    """Mass of the sampled correct actions."""
    P_neg: Numbers
    """Mass of the sampled wrong actions."""
    Q_pos: Numbers
    """Total correct mass."""
    Q_neg: Numbers
    """Total wrong mass."""
    Q_u_pos: Numbers
    """Unsampled correct mass Q_pos - P_pos, eq. 9, summed over the unsampled actions."""
    A2: Numbers
    """Sum of p^2 over sampled correct actions."""
    B2: Numbers
    """Sum of p^2 over sampled wrong actions."""
    U2: Numbers
    """Sum of p^2 over unsampled actions."""
    U_pos2: Numbers
    """Sum of p^2 over unsampled correct actions."""
    U_neg2: Numbers
    """Sum of p^2 over unsampled wrong actions."""
    S_R: Numbers
    """Batch baseline R_c P_pos + R_w P_neg."""


@dataclass(frozen=True)
class MassChange:
    """First-order change of Q_u,pos and its two parts (eq. 10); each "..."."""

    total: Numbers
    """direct + coupling."""
    direct: Numbers
    """The unsampled actions' own logit changes: -S_R U_pos2 (0 for the ratio surrogate)."""
    coupling: Numbers
    """Normalization: -Q_u,pos times sum of p dz."""


def sampled_moments(
    p: ArrayLike, is_correct: ArrayLike, counts: ArrayLike, *, reward_correct: float = 1.0, reward_wrong: float = -1.0
) -> Moments:
    """The moments of eqs. 9, 10 and 17 for one group or many.

    p: "action", sums to 1. is_correct: "action" booleans. counts: "... action", how often each action was drawn.
    Raises ValueError.

    >>> m = sampled_moments([0.5, 0.2, 0.3], [True, True, False], [1, 0, 1])
    >>> float(m.Q_u_pos), round(float(m.S_R), 12)
    (0.2, 0.2)
    """
    p_, correct, n, o = _prepare(p, is_correct, counts, reward_correct=reward_correct, reward_wrong=reward_wrong)
    return _moments(p_, correct, n > 0, o)


@takes_options
def logit_update(
    p: ArrayLike,
    is_correct: ArrayLike,
    counts: ArrayLike,
    **options: Unpack[LawOptions],
) -> Numbers:
    """dz, "... action": eq. 5, or the ratio surrogate's update (see the module). Raises ValueError.

    >>> logit_update([0.5, 0.2, 0.3], [True, True, False], [1, 0, 1], surrogate="ratio")
    array([ 0.5,  0. , -0.5])
    """
    p_, correct, n, o = _prepare(p, is_correct, counts, **options)
    scale = _scale(correct, n, o)
    if o.surrogate == "ratio":
        plus, minus = _centred(correct, n, o)
        return np.asarray(scale[..., None] * n * np.where(correct, plus[..., None], minus[..., None]))
    reward = np.where(correct, o.reward_correct, o.reward_wrong)
    baseline = _moments(p_, correct, n > 0, o).S_R
    return np.asarray(scale[..., None] * p_ * (np.where(n > 0, reward, 0) - baseline[..., None]))


def softmax_change(p: ArrayLike, dz: ArrayLike) -> Numbers:
    """dp_i = p_i (dz_i - sum_j p_j dz_j), eq. 18. p: "action"; dz: "... action". Raises ValueError.

    >>> softmax_change([0.5, 0.5], [1.0, 0.0])
    array([ 0.25, -0.25])
    """
    p_, change = _with_update(p, dz)
    return np.asarray(p_ * (change - (p_ * change).sum(-1)[..., None]))


def subset_mass_change(p: ArrayLike, dz: ArrayLike, subset: ArrayLike) -> Numbers:
    """dQ_S = sum_{i in S} p_i dz_i - Q_S sum_j p_j dz_j, eq. 19. subset: "... action" booleans. Raises ValueError.

    >>> subset_mass_change([0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [True, True, False])
    np.float64(0.125)
    """
    p_, change = _with_update(p, dz)
    inside = as_boolean("subset", subset)
    require(
        inside.shape[-1:] == p_.shape,
        "subset must have one column an action of p",
        **{"subset.shape": inside.shape, "p.shape": p_.shape},
    )
    return np.asarray((p_ * change * inside).sum(-1) - (p_ * inside).sum(-1) * (p_ * change).sum(-1))[()]


@takes_options
def total_mass_change(
    p: ArrayLike,
    is_correct: ArrayLike,
    counts: ArrayLike,
    **options: Unpack[LawOptions],
) -> Numbers:
    """dQ_pos, eq. 17 (BroRL, Theorem 1), or the ratio surrogate's law; "...". Raises ValueError.

    >>> total_mass_change([0.5, 0.2, 0.3], [True, True, False], [1, 0, 1], surrogate="ratio").round(6)
    np.float64(0.18)
    """
    p_, correct, n, o = _prepare(p, is_correct, counts, **options)
    m, scale = _moments(p_, correct, n > 0, o), _scale(correct, n, o)
    if o.surrogate == "ratio":
        plus, minus = _centred(correct, n, o)
        v_pos, v_neg = (n * p_ * correct).sum(-1), (n * p_ * ~correct).sum(-1)
        return np.asarray(scale * (plus * v_pos * m.Q_neg - minus * v_neg * m.Q_pos))[()]
    return np.asarray(
        scale
        * (
            (o.reward_correct - m.S_R) * m.Q_neg * m.A2
            + (m.S_R - o.reward_wrong) * m.Q_pos * m.B2
            + m.S_R * (m.Q_pos * m.U_neg2 - m.Q_neg * m.U_pos2)
        )
    )[()]


@takes_options
def unsampled_mass_change(
    p: ArrayLike,
    is_correct: ArrayLike,
    counts: ArrayLike,
    **options: Unpack[LawOptions],
) -> MassChange:
    """dQ_u,pos with its direct drift and its coupling, eq. 10 (Prop. 3.2), or the ratio surrogate's law. Raises ValueError.

    >>> float(unsampled_mass_change([0.5, 0.2, 0.3], [True, True, False], [1, 0, 1], surrogate="ratio").total.round(6))
    -0.02
    """
    p_, correct, n, o = _prepare(p, is_correct, counts, **options)
    m, scale = _moments(p_, correct, n > 0, o), _scale(correct, n, o)
    if o.surrogate == "ratio":
        plus, minus = _centred(correct, n, o)
        v_pos, v_neg = (n * p_ * correct).sum(-1), (n * p_ * ~correct).sum(-1)
        direct, coupling = 0 * scale, -scale * m.Q_u_pos * (plus * v_pos + minus * v_neg)
    else:
        direct = -scale * m.S_R * m.U_pos2
        coupling = (
            -scale * m.Q_u_pos * ((o.reward_correct - m.S_R) * m.A2 + (o.reward_wrong - m.S_R) * m.B2 - m.S_R * m.U2)
        )
    return MassChange(np.asarray(direct + coupling)[()], np.asarray(direct)[()], np.asarray(coupling)[()])


def _prepare(
    p: ArrayLike,
    is_correct: ArrayLike,
    counts: ArrayLike,
    **options: Unpack[LawOptions],
) -> tuple[Numbers, BoolArray, Numbers, Options]:
    p_, correct, _ = as_policy(p, is_correct)
    exact = p_.dtype == object
    checked = as_options(exact, **options)
    n = as_float("counts", counts)
    require(
        n.shape[-1:] == p_.shape,
        "counts must have one column an action of p",
        **{"counts.shape": n.shape, "p.shape": p_.shape},
    )
    require((n >= 0) & (np.floor(n) == n) & np.isfinite(n), "counts must be whole numbers of at least 0", counts=n)
    require(n.sum(-1) >= 1, "counts must hold at least one rollout a group", group_size=n.sum(-1))
    return p_, correct, as_fractions(n) if exact else n, checked


def _with_update(p: ArrayLike, dz: ArrayLike) -> tuple[Numbers, Numbers]:
    p_, _, _ = as_policy(p, np.ones(as_numbers("p", p).shape, dtype=bool))
    change = np.asarray(dz) if p_.dtype == object else as_float("dz", dz)
    require(
        change.shape[-1:] == p_.shape,
        "dz must have one column an action of p",
        **{"dz.shape": change.shape, "p.shape": p_.shape},
    )
    return p_, change


def _moments(p: Numbers, correct: BoolArray, sampled: BoolArray, o: Options) -> Moments:
    square, wrong = p * p, ~correct
    a, b = sampled & correct, sampled & wrong
    u_pos, u_neg = ~sampled & correct, ~sampled & wrong
    p_pos, p_neg = (p * a).sum(-1), (p * b).sum(-1)
    total_pos, total_neg = (p * correct).sum() + 0 * p_pos, (p * wrong).sum() + 0 * p_pos
    u_pos2, u_neg2 = (square * u_pos).sum(-1), (square * u_neg).sum(-1)
    parts = (
        p_pos,
        p_neg,
        total_pos,
        total_neg,
        (p * u_pos).sum(-1),
        (square * a).sum(-1),
        (square * b).sum(-1),
        u_pos2 + u_neg2,
        u_pos2,
        u_neg2,
        o.reward_correct * p_pos + o.reward_wrong * p_neg,
    )
    return Moments(*(np.asarray(part)[()] for part in parts))


def _group(correct: BoolArray, n: Numbers) -> tuple[Numbers, Numbers]:
    """(N, X) of each group."""
    return np.asarray(n.sum(-1)), np.asarray((n * correct).sum(-1))


def _scale(correct: BoolArray, n: Numbers, o: Options) -> Numbers:
    """(eta / N) g for each group."""
    size, right = _group(correct, n)
    return np.asarray(o.learning_rate / size * o.weight(size, right))


def _centred(correct: BoolArray, n: Numbers, o: Options) -> tuple[Numbers, Numbers]:
    """(A+, A-): the centred, possibly std-scaled reward of a correct and of a wrong rollout; 0 in an inactive group."""
    size, right = _group(correct, n)
    active = (right > 0) & (right < size)
    # An inactive group stands in as N = 2, X = 1, so that no std of 0 is divided by.
    size_, right_ = np.where(active, size, 2), np.where(active, right, 1)
    unit = np.where(active, o.gap / size_ / o.spread(size_, right_), 0)
    return np.asarray(unit * (size_ - right_)), np.asarray(-unit * right_)
