"""Tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) over the parameters together.

Conditional parameters form groups, each drawn together, with any number of objectives. Running trials count as bad
ones, so that others are drawn elsewhere.
"""

from __future__ import annotations

import optuna


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """Return the sampler; the first `startup_trials` are drawn at random."""
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup_trials, multivariate=True, group=True)
