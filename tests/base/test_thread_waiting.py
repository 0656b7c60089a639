"""Work that others end is waited for as long as it may take; OpenMP's threads sleep meanwhile."""

import threading

import pytest

from compclip.base import worker_processes


def test_what_ends_is_handed_on():
    """A result, and an error as it was raised."""
    assert worker_processes.run_within(60, lambda: 3) == 3
    with pytest.raises(KeyError, match="there"):
        worker_processes.run_within(60, lambda: {}["there"])


def test_what_does_not_end_is_left():
    """Once it is not allowed any more."""
    ended, looks = threading.Event(), iter([True, False])
    with pytest.raises(TimeoutError):
        worker_processes.run_while(lambda: next(looks), ended.wait)
    ended.set()
    assert next(looks, "no further look") == "no further look"


@pytest.mark.parametrize("name,value", [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000")])
def test_the_users_choice_is_left_alone(name, value):
    assert worker_processes.passive_waiting({name: value}) == {}
    assert worker_processes.passive_waiting({}) == {"OMP_WAIT_POLICY": "passive"}
