"""Samplers, one file each: `sampler(seed, startup_trials) -> optuna.samplers.BaseSampler`.

It is made anew for each draw, with a seed of its own: what it draws may depend on that seed and on the storage alone,
never on what the same object drew before. LEAST_STARTUP is what `startup_trials` must reach where that is more than 1.
"""
