"""Every figure, in the order of the report. Importing this module fills the register."""

from __future__ import annotations

from . import ablation_figures, focal_figures, simulation_figures, theory_figures

MODULES = (theory_figures, focal_figures, simulation_figures, ablation_figures)

THEORY = ("figure1", "figure3", "worst_group_size", "figure4", "figure5", "update_scale", "expected_drift")
SIMULATION = ("figure2", "trajectories", "zone", "surrogates", "gammas")
CROSSCHECK = ("crosscheck",)

ORDER = THEORY + SIMULATION + CROSSCHECK
