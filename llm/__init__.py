"""The compact trainer: grouped sampling, objectives, tasks, training, evaluation. See docs/trainer.md."""
