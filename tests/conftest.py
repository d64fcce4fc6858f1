"""Shape and type annotations are enforced while the tests run: jaxtyping shapes, beartype types."""

from jaxtyping import install_import_hook

# Of sims, everything but the compiled modules: numba cannot compile a function wrapped by a checker.
CHECKED_SIMS = ["config", "presets", "snapshot", "sparse", "dense", "tracking", "sweep", "workers", "cli", "crosscheck"]

install_import_hook(["fgrpo_theory", "llm", *(f"sims.{name}" for name in CHECKED_SIMS)], "typecheck.checked")
