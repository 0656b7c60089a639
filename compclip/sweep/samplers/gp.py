"""Gaussian process with expected improvement (Optuna's GPSampler): for few, costly trials of continuous parameters.

Conditional parameters are drawn at random; running trials are taken into account. Its time a draw grows with the cube
of the number of trials: beyond some hundred, `tpe` is the better choice.
"""

from __future__ import annotations

import json
from typing import Any

import optuna

DRAWN = "gp:relative_params:"  # where Optuna stores a trial's draw in pieces, for processes beside it


class ResumingGPSampler(optuna.samplers.GPSampler):
    """Gives a trial whose driver died what was drawn for it; Optuna would draw again, and count it as another one."""

    def sample_relative(self, study: optuna.Study, trial: Any, search_space: Any) -> dict[str, Any]:
        """Return the values of the parameters that are drawn together."""
        pieces = {int(name[len(DRAWN) :]): text for name, text in trial.system_attrs.items() if name.startswith(DRAWN)}
        if pieces:
            return json.loads("".join(text for _, text in sorted(pieces.items())))
        return super().sample_relative(study, trial, search_space)


def sampler(seed: int, startup_trials: int) -> optuna.samplers.BaseSampler:
    """Return the sampler; the first `startup_trials` are drawn at random."""
    return ResumingGPSampler(seed=seed, n_startup_trials=startup_trials, warn_independent_sampling=False)
