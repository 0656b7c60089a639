"""Training: from samples to a checkpoint."""
