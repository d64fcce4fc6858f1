"""Closed forms and exact statistics of group-relative policy optimization, and of its focal weight (arXiv 2602.06717).

Everything is vectorised by broadcasting, float64, and accurate to 1e-12 relative wherever the true value is a normal
double. Bad input raises a `ValueError` of one line that names the parameter, the rule and the value.
"""

from .binomial import binomial_expectation, binomial_weights
from .expectation import (
    expected_baseline,
    expected_mass_changes,
    expected_sampled_mass,
    expected_unsampled_correct_mass,
)
from .focal import focal_advantage, focal_weight, group_advantage, success_from_rewards, success_rate
from .missing_mass import MissingMass, missing_mass
from .one_step import (
    MassChange,
    Moments,
    logit_update,
    sampled_moments,
    softmax_change,
    subset_mass_change,
    total_mass_change,
    unsampled_mass_change,
)
from .pass_at_k import mean_pass_at_k, pass_at_k, pass_at_k_variance
from .planning import concentration_zone, covering_group_size, peak_group_size
from .population import population_tail_miss_probability
from .significance import SubsamplingTest, subsampling_test, subsampling_test_monte_carlo
from .tail_miss import (
    active_probability,
    conditional_tail_miss_probability,
    log_tail_miss_probability,
    tail_miss_probability,
)
from .update_scale import (
    advantage_magnitudes,
    expected_update_scale,
    group_advantage_magnitudes,
    learning_rate_multiplier,
)
from .variance import total_mass_change_variance, unsampled_mass_change_variance

__all__ = [
    "MassChange",
    "MissingMass",
    "Moments",
    "SubsamplingTest",
    "active_probability",
    "advantage_magnitudes",
    "binomial_expectation",
    "binomial_weights",
    "concentration_zone",
    "conditional_tail_miss_probability",
    "covering_group_size",
    "expected_baseline",
    "expected_mass_changes",
    "expected_sampled_mass",
    "expected_unsampled_correct_mass",
    "expected_update_scale",
    "focal_advantage",
    "focal_weight",
    "group_advantage",
    "group_advantage_magnitudes",
    "learning_rate_multiplier",
    "log_tail_miss_probability",
    "logit_update",
    "mean_pass_at_k",
    "missing_mass",
    "pass_at_k",
    "pass_at_k_variance",
    "peak_group_size",
    "population_tail_miss_probability",
    "sampled_moments",
    "softmax_change",
    "subsampling_test",
    "subsampling_test_monte_carlo",
    "subset_mass_change",
    "success_from_rewards",
    "success_rate",
    "tail_miss_probability",
    "total_mass_change",
    "total_mass_change_variance",
    "unsampled_mass_change",
    "unsampled_mass_change_variance",
]
