"""Stages killed at random moments, run again, end as if nobody had touched them; often: `perf/interrupted.py --kills 200`."""

from perf import interrupted


def test_a_few_kills_change_nothing(here_finished):
    """The same files, the same runs in MLflow, and no command that needs a person."""
    outcome = interrupted.experiment(here_finished, kills=4, seed=0, kinds=["call"])  # a moment is the clock's
    assert outcome["kills"] >= 4
    assert sorted(outcome["of"]) == ["evaluate", "prepare", "report", "track"]
    assert (outcome["differing"], outcome["needed_a_person"]) == ([], [])
