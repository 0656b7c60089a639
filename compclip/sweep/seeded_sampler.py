"""Optuna's samplers and pruner as a study declares them, so that a restart continues and repeats nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from compclip.base import plugins
from compclip.sweep.study_declaration import Study


class SeededSampler(optuna.samplers.BaseSampler):
    """A sampler without state of its own: each draw comes from a fresh one seeded by (seed, trial number, parameter).

    Re-seeding one sampler at every start of the driver would repeat its trials; this one goes on where it was, and
    finds the rest of a trial whose driver died between two of its values.
    """

    def __init__(self, make: Callable[[int], optuna.samplers.BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._last: tuple[int, optuna.samplers.BaseSampler] | None = None  # joint samplers keep the space between calls

    def _make_sampler(self, trial: FrozenTrial, what: str) -> optuna.samplers.BaseSampler:
        digest = hashlib.sha256(f"{self._seed}/{trial.number}/{what}".encode()).digest()
        return self._make(int.from_bytes(digest[:4], "little"))

    def _joint(self, trial: FrozenTrial) -> optuna.samplers.BaseSampler:
        if self._last is None or self._last[0] != trial.number:
            self._last = trial.number, self._make_sampler(trial, "")
        return self._last[1]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Any:
        """Return the parameters that are drawn together."""
        return self._joint(trial).infer_relative_search_space(study, trial)

    def sample_relative(self, study: optuna.Study, trial: FrozenTrial, search_space: Any) -> dict[str, Any]:
        """Return their values."""
        return self._joint(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """Return one parameter's value."""
        return self._make_sampler(trial, param_name).sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: Any, values: Any) -> None:
        """Let the sampler store what it keeps with a finished trial."""
        self._make_sampler(trial, "after").after_trial(study, trial, state, values)


def make_sampler(study: Study) -> SeededSampler:
    """Make the declared sampler."""
    sampler_factory = plugins.load_plugin(plugins.SAMPLERS, study.sampler).sampler
    return SeededSampler(lambda seed: sampler_factory(seed, study.startup_trials), study.seed)


def make_pruner(study: Study) -> optuna.pruners.BasePruner:
    """Make the declared pruner."""
    if study.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=study.startup_trials)
    return optuna.pruners.NopPruner()
