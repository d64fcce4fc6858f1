"""`fgrpo diagnose`: what a run's own rollout logs say about its group size, its rare answers and the focal weight."""
