"""NSGA-II (Deb et al., 2002): generations of trials, each made by crossing the best of the one before."""

from __future__ import annotations

import optuna

LEAST_STARTUP = 2  # a child has two parents


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """Return the sampler; `startup_trials` is the size of a generation, of which the first is drawn at random."""
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=startup_trials)
