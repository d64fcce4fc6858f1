"""The policies and parameters of the cells, chosen so that every term of every formula matters somewhere.

N runs from 2 to 1024; mu from 0.001 to 0.97; E from a half of the correct mass to a thousandth; gamma 0, 0.5, 1, 2; reward
pairs (1, -1), (1, 0), (2, 0.3); std-scaled advantages with both ddof and with eps. The policies: "six" (mixed, N = 8),
"five" (mostly wrong, N = 16), "pair" (six at N = 2: most actions stay unsampled), "three" (one rare correct action, N = 256),
"ample" (mostly correct, N = 24), "wide" (a small copy of figure 2's: one anchor, 40 leaves, 100 wrong actions).
That every term matters is not a claim but a test: each wrong law drops or changes one, and some cell must kill it.
"""

from __future__ import annotations

import math

from .scenarios import Policy, StepOptions

SIX = Policy("six", (0.30, 0.12, 0.03, 0.35, 0.15, 0.05), (True, True, True, False, False, False))
FIVE = Policy("five", (0.05, 0.02, 0.60, 0.30, 0.03), (True, True, False, False, False))
THREE = Policy("three", (0.55, 0.002, 0.448), (True, True, False))
AMPLE = Policy("ample", (0.60, 0.27, 0.03, 0.08, 0.02), (True, True, True, False, False))
WIDE = Policy("wide", (0.02, 0.004, 0.0082), (True, True, False), (1, 40, 100))
FEW = Policy("few", (0.90, 0.05, 0.03, 0.02), (True, True, True, False))
# 1/i over 50 actions.
ZIPF = Policy("zipf", tuple(1 / i / math.fsum(1 / j for j in range(1, 51)) for i in range(1, 51)), (True,) * 50)

# (N, mu, tau, resolution, laws); "t" tail miss, "a" activity. Activity is left out where it is too near 1 to be counted.
EVENTS = (
    (2, 0.5, 0.1, 0.0017, "ta"),
    (2, 0.03, 0.01, 0.0017, "ta"),
    (4, 0.95, 0.05, 0.0024, "ta"),
    (4, 0.3, 0.03, 0.0024, "ta"),
    (8, 0.3, 0.03, 0.0034, "ta"),
    (8, 0.9, 0.02, 0.0034, "ta"),
    (8, 0.02, 0.01, 0.0034, "ta"),
    (16, 0.1, 0.05, 0.0048, "ta"),
    (16, 0.5, 0.25, 0.0048, "t"),
    (32, 0.97, 0.01, 0.007, "ta"),
    (64, 0.02, 0.005, 0.01, "ta"),
    (64, 0.3, 0.01, 0.01, "t"),
    (256, 0.005, 0.002, 0.02, "ta"),
    (256, 0.5, 0.003, 0.02, "t"),
    (1024, 0.001, 0.0005, 0.025, "ta"),
    (1024, 0.9, 0.0005, 0.025, "t"),
    (1024, 0.004, 0.001, 0.025, "ta"),
)
# (N, mu) of EVENTS, and the counts k that are looked at.
COUNTS = {(8, 0.3): (0, 2, 5), (64, 0.02): (1, 3), (256, 0.5): (128, 136), (1024, 0.9): (922,), (8, 0.9): (8,)}
# (N, mu, tau, rough activity, resolution)
CONDITIONAL = (
    (4, 0.3, 0.03, 0.75, 0.0034),
    (8, 0.3, 0.03, 0.94, 0.0034),
    (8, 0.02, 0.01, 0.15, 0.007),
    (16, 0.9, 0.1, 0.81, 0.005),
    (64, 0.05, 0.01, 0.96, 0.01),
    (256, 0.005, 0.002, 0.72, 0.02),
)
# (N, alpha, beta, rare fraction, resolution)
POPULATIONS = (
    (4, 2.0, 0.5, 0.3, 0.0034),
    (8, 1.0, 1.0, 0.1, 0.0034),
    (16, 0.5, 2.0, 0.1, 0.005),
    (32, 5.0, 3.0, 0.05, 0.007),
    (64, 0.3, 0.3, 0.02, 0.01),
    (256, 0.2, 1.0, 0.02, 0.02),
)
OPTIONS = (
    StepOptions(),
    StepOptions(gamma=1.0, reward_wrong=0.0),
    StepOptions(gamma=0.5, reward_correct=2.0, reward_wrong=0.3, learning_rate=0.5),
    StepOptions(gamma=2.0),
    StepOptions(surrogate="ratio"),
    StepOptions(surrogate="ratio", gamma=1.0, reward_wrong=0.0),
    StepOptions(surrogate="ratio", gamma=2.0, reward_correct=2.0, reward_wrong=0.3, learning_rate=0.5),
    StepOptions(surrogate="ratio", gamma=0.5, std_scaled=True, ddof=1, eps=1e-4),
    StepOptions(surrogate="ratio", gamma=1.0, reward_wrong=0.0, std_scaled=True, ddof=0, eps=0.1),
)
# Of these the exact variances of the wide policy are at hand: no std, gamma 0 and 1.
WIDE_OPTIONS = (OPTIONS[0], OPTIONS[1], OPTIONS[4], OPTIONS[5])
# (policy, N, options, resolution)
STEPS = (
    (SIX, 2, OPTIONS, 0.006),
    (SIX, 8, OPTIONS, 0.006),
    (FIVE, 16, OPTIONS, 0.007),
    (AMPLE, 24, OPTIONS, 0.008),
    (THREE, 256, OPTIONS, 0.018),
    (WIDE, 64, WIDE_OPTIONS, 0.02),
    (WIDE, 1024, WIDE_OPTIONS, 0.04),
)
# (policy, N) whose variances are looked at.
VARIANCES = ((SIX, 2), (SIX, 8), (FIVE, 16), (AMPLE, 24))
# (policy, N, k, rewards, resolution)
GIVEN_COUNTS = (
    (SIX, 8, 1, (1.0, -1.0), 0.014),
    (SIX, 8, 4, (2.0, 0.3), 0.007),
    (SIX, 8, 7, (1.0, 0.0), 0.025),
    (FIVE, 16, 2, (1.0, -1.0), 0.009),
    (AMPLE, 24, 22, (1.0, -1.0), 0.012),
    (WIDE, 64, 12, (1.0, 0.0), 0.04),
)
# (N, mu, resolution), each with all options (gamma, ddof, eps, R_c, R_w).
ADVANTAGES = ((2, 0.5, 0.005), (4, 0.3, 0.005), (8, 0.1, 0.006), (8, 0.5, 0.006), (16, 0.9, 0.008), (64, 0.05, 0.015))
ADVANTAGE_OPTIONS = (
    (0.0, 1.0, 0.0, 1.0, 0.0),
    (0.5, 0.0, 0.0, 1.0, -1.0),
    (1.0, 1.0, 1e-4, 1.0, 0.0),
    (2.0, 1.0, 0.1, 1.0, 0.0),
    (1.0, 0.0, 0.5, 2.0, 0.3),
)
# (n, mu, the k, resolution)
PASSES = (
    (4, 0.5, (2,), 0.003),
    (8, 0.3, (1, 4), 0.0034),
    (16, 0.1, (8, 16), 0.005),
    (64, 0.02, (4, 16), 0.01),
    (256, 0.005, (64,), 0.02),
)
# (n, c, k, resolution)
SUBSETS = ((10, 3, 5, 0.004), (16, 8, 1, 0.004), (64, 2, 16, 0.006), (256, 5, 32, 0.008), (1024, 1, 256, 0.02))
# (policy, n, resolution); intervals are looked at from n = 30 on, where fgrpo_theory states their coverage.
SINGLETONS = ((SIX, 4, 0.02), (FEW, 30, 0.03), (SIX, 32, 0.03), (ZIPF, 100, 0.04), (WIDE, 64, 0.04))
LEAST_SAMPLES_OF_INTERVALS = 30
# The score interval is approximate: fgrpo_theory states 0.92 for a level of 0.95. The other one holds at its level.
STATED_COVERAGE = {"score": 0.92, "distribution-free": 0.95}
