"""Tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), as Optuna 5 makes it without further arguments.

With one objective it draws those parameters together that every trial has, and conditional ones each by itself; with
several objectives every parameter by itself. Running trials count as bad ones, so that others are drawn elsewhere.
"""

from __future__ import annotations

import optuna


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """Return the sampler; the first `startup_trials` are drawn at random."""
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup_trials)
