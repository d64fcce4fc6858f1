"""Shape and type annotations are enforced while the tests run: jaxtyping shapes, beartype types."""

from jaxtyping import install_import_hook

install_import_hook(["fgrpo_theory", "sims"], "typecheck.checked")
