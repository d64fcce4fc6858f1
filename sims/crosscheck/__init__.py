"""The cross-check of fgrpo_theory against sampling code that knows nothing of its laws; see docs/crosscheck.md."""
