"""Every figure, and the report: drawn from result tables and fgrpo_theory alone."""
