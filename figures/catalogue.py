"""Every figure, in the order of the report. Importing this module fills the register."""

from __future__ import annotations

from . import (
    ablation_figures,
    focal_figures,
    maze_coverage,
    maze_figures,
    maze_gallery,
    maze_groups,
    simulation_figures,
    study_dynamics,
    study_exact,
    study_figures,
    theory_figures,
)

MODULES = (
    theory_figures,
    focal_figures,
    simulation_figures,
    ablation_figures,
    study_figures,
    study_dynamics,
    study_exact,
    maze_figures,
    maze_coverage,
    maze_gallery,
    maze_groups,
)

THEORY = ("figure1", "figure3", "worst_group_size", "figure4", "figure5", "update_scale", "expected_drift")
SIMULATION = ("figure2", "trajectories", "zone", "surrogates", "gammas")
CROSSCHECK = ("crosscheck",)

STUDIES = ("llm_pass_at_k", "llm_dynamics", "llm_exact", "llm_equal_mu", "llm_rare")

MAZE = (
    "maze_dynamics",
    "maze_final",
    "maze_differences",
    "maze_pass_at_k",
    "maze_coverage",
    "maze_coverage_by_start",
    "maze_groups",
    "maze_gallery",
)

ORDER = THEORY + SIMULATION + CROSSCHECK + STUDIES + MAZE
