"""Monte-Carlo categorical policies, and the cross-check of sampling against fgrpo_theory."""
