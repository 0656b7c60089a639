"""A sampler of studies: a Gaussian process over the parameters together."""

from __future__ import annotations

import optuna


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """The first `startup_trials` are drawn at random."""
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup_trials)
