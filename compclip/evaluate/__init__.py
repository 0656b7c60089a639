"""Evaluation: from a checkpoint to outcomes."""
