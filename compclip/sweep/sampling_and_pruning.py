"""How a study draws its trials, and which it stops.

Optuna's samplers as a study declares them, so that a restart continues and repeats nothing.

The rule `dominated` stops a trial at a rung where enough others did better in every objective.
A trial is dominated by another where that is at least as good in all objectives and better in one. At a rung the others
are the trials that finished or were stopped before and had scores at that step; with fewer than `startup_trials` of
them nothing is stopped. A trial is stopped where at least `dominated_share` of them dominate it. Of points without any
pattern in two objectives the middle one is dominated by a quarter, so that 0.5 stops what is plainly behind, and never
a trial of the front at that rung. With one objective it stops what is worse than that share: with 0.5, than the median.

Nothing is drawn: the verdict depends on the scores alone, which the trial keeps in its storage (`scores_at_rungs`), so
that a driver started again comes to the same one. With several trials at a time it depends, as what is drawn does, on
which had finished.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
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
        self._make = make
        self._seed = seed
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


def should_stop(study: Study, values: Sequence[float], other_values: Sequence[Sequence[float]]) -> bool:
    """Return whether a trial with these values at a rung is stopped.

    `other_values`: those of the trials before, at that rung.
    """
    if len(other_values) < study.startup_trials:
        return False
    other_gains = [study.sign_values(row) for row in other_values]
    return dominated_share(study.sign_values(values), other_gains) >= study.dominated_share


def dominated_share(values: Sequence[float], other_values: Collection[Sequence[float]]) -> float:
    """Return the share of the others that dominate `values`; 0 without others."""
    return sum(dominates(trial_values, values) for trial_values in other_values) / max(1, len(other_values))


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether `a` is at least as good as `b` in all and better in one; more is better. NaN is neither."""
    return all(x >= y for x, y in zip(a, b, strict=True)) and list(a) != list(b)
