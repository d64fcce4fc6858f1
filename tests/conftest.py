"""Shape and type annotations are enforced while the tests run: jaxtyping shapes, beartype types."""

from jaxtyping import install_import_hook

# Of sims, everything but the compiled modules: numba cannot compile a function wrapped by a checker.
CHECKED_SIMS = ["config", "presets", "snapshot", "sparse", "dense", "tracking", "sweep", "workers", "cli", "crosscheck"]
# Likewise of maze: philox, carving and walking are compiled.
CHECKED_MAZE = ["mazes", "generation", "tokens", "verifier", "storage", "render", "env", "vector_env", "policy", "task",
                "presets", "evaluation", "training", "study", "cli"]  # fmt: skip

CHECKED = [*(f"sims.{name}" for name in CHECKED_SIMS), *(f"maze.{name}" for name in CHECKED_MAZE)]
install_import_hook(["fgrpo_theory", "llm", *CHECKED], "typecheck.checked")
