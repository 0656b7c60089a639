"""Tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011): each parameter by itself."""

from __future__ import annotations

import optuna


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """The first `startup_trials` are drawn at random."""
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup_trials)
