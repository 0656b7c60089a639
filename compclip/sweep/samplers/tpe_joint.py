"""Tree-structured Parzen estimator over the parameters together, in groups where some are conditional.

Also with several objectives. With one and no conditional parameter it draws as `tpe` does.
"""

from __future__ import annotations

import optuna


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """Return the sampler; the first `startup_trials` are drawn at random."""
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup_trials, multivariate=True, group=True)
