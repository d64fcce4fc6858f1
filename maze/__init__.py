"""Single-solution mazes: generation, tokens, verifier and environment, and the group-size study on llm's trainer (section 5.2)."""
