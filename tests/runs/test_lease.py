"""Leases: never two holders, whatever dies, stands still or lies about the time, where no lock reaches."""

from __future__ import annotations

import errno
import functools
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.runs import lock
from compclip.runs.lock import DEAD_S, LONG_S, STILL_S, Lease
from compclip.runs.run_folder import RunFolder
from tests.runs.machines import Clock, claim, silent_for, stepped


def test_one_of_two_machines(run):
    """The second one waits until the first has given it back; then the next number is its own."""
    first, second = claim(run, "a"), claim(run, "b")
    assert first.take() and not second.take() and not second.take(locked=False)
    assert first.beat()
    first.close()
    assert second.take() and second.beat() and not first.beat()
    assert run.leases() == [2]


def test_a_killed_process_of_the_same_machine_is_gone_at_once(run):
    """Its lock is ours, so it lives no more; where there are no locks, only time tells."""
    assert claim(run, "a").take()
    assert not claim(run, "a").take(locked=False)
    assert claim(run, "a").take(locked=True)


def test_a_dead_machine_by_the_clock_of_the_file_system(run):
    """Untouched for DEAD_S, and seen to stand still for STILL_S: neither alone will do."""
    clock = Clock()
    dead, waiting = claim(run, "a"), claim(run, "b", clock)
    assert dead.take()
    silent_for(run, DEAD_S + 5)
    assert not waiting.take()
    clock.now += STILL_S - 1
    assert not waiting.take()
    clock.now += 1
    assert waiting.take()


def test_a_silence_that_is_too_short(run):
    """However long we looked."""
    clock = Clock()
    slow, waiting = claim(run, "a"), claim(run, "b", clock)
    assert slow.take()
    silent_for(run, DEAD_S - 20)
    assert not waiting.take()
    clock.now += STILL_S
    assert not waiting.take()


@pytest.mark.parametrize("ahead", [-1800.0, 1800.0])
def test_clocks_that_differ(run, ahead):
    """A file system that stamps with the writers' clocks: half an hour's difference costs a live holder nothing."""
    clock = Clock()
    skewed, waiting = claim(run, "a"), claim(run, "b", clock)
    assert skewed.take()
    for beat in range(20):
        silent_for(run, ahead - 15 * beat)
        assert not waiting.take()
        clock.now += 15
        assert not waiting.take()


def test_long_dead_needs_no_second_look(run):
    """A run of last week is taken over at once."""
    assert claim(run, "a").take()
    silent_for(run, LONG_S + 1)
    assert claim(run, "b").take()


def test_a_holder_that_stood_still(run):
    """It finds out at its next beat; what it gives back is not the other one's."""
    paused, successor = claim(run, "a"), claim(run, "b")
    assert paused.take()
    silent_for(run, LONG_S + 1)
    assert successor.take()
    assert not paused.beat()
    paused.close()
    assert successor.beat() and not claim(run, "c").take()


@pytest.mark.parametrize("lease_text", ["", "{", "null", "[]", '{"pid": 1}'])
def test_a_holder_that_died_while_it_wrote(run, lease_text):
    """Half a lease is somebody's until it was silent for long; nothing breaks over it."""
    run.lease(1).write_text(lease_text)
    assert not claim(run, "a").take()
    assert lock._describe_lease_holder(run) in ("another process", "")
    silent_for(run, LONG_S + 1)
    assert claim(run, "a").take()


def test_a_full_disk_leaves_nobody_behind(run, monkeypatch):
    """A lease that could not be written is free again at once."""

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lock.json, "dumps", full)
        with pytest.raises(UserError, match="No space left on device; free space"), lock.hold(run):
            pass
    assert claim(run, "b").take()


def test_a_file_system_that_does_not_answer_takes_nothing_away(run, monkeypatch):
    """A beat that fails is no lost run; a folder that is gone is."""
    lease_held = claim(run, "a")
    assert lease_held.take()
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "leases", _stale)
        assert lease_held.beat()
    assert lease_held.beat()
    shutil.rmtree(run.path)
    assert not lease_held.beat()


def _stale(_self: RunFolder) -> list[int]:
    raise OSError(errno.ESTALE, "Stale file handle")


@settings(max_examples=150)
@given(
    order=st.lists(st.integers(0, 5), min_size=100, max_size=100),
    machines=st.lists(st.sampled_from("abc"), min_size=2, max_size=4),
    earlier_state=st.sampled_from(["nothing", "dead", "given back", "half"]),
    rounds=st.integers(1, 3),
)
def test_never_two_holders(order, machines, earlier_state, rounds):
    """Machines whose locks do not reach each other, at every order of their calls: dead leases, drops, late comers."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        _leave_lease(run, earlier_state)
        together = contend(run, order, machines, rounds)
        assert set(together) == {1}
        assert claim(run, "z").take()  # nobody is left behind


def contend(run: RunFolder, order: list[int], machines: list[str], rounds: int) -> list[int]:
    """How many held the run at each moment at which one more came to hold it."""
    holding, together = [], []
    with stepped(order, len(machines)) as steps:

        def actor(machine: str) -> None:
            for _ in range(rounds):
                own_lease = claim(run, machine)
                if own_lease.take(locked=False):
                    holding.append(machine)
                    together.append(len(holding))
                    steps.step()
                    assert own_lease.beat()
                    holding.remove(machine)
                    own_lease.close()

        steps.drive([functools.partial(actor, machine) for machine in machines])
    return together


def _leave_lease(run: RunFolder, earlier_state: str) -> None:
    """What an earlier holder left."""
    if earlier_state == "half":
        run.lease(1).touch()
    elif earlier_state != "nothing":
        earlier = claim(run, "dead")
        assert earlier.take()
        if earlier_state == "given back":
            earlier.close()
            return
    if earlier_state in ("dead", "half"):
        silent_for(run, LONG_S + 1)


def test_two_holders_would_be_seen(tmp_path, monkeypatch, rng):
    """The test above finds it where a lease that another one has made since is taken away."""
    make, holder_counts = Lease._make, []

    def careless(self: Lease, number: int) -> bool:
        lock._unlink(self.folder.lease(number))
        return make(self, number)

    monkeypatch.setattr(Lease, "_make", careless)
    monkeypatch.setattr(Lease, "beat", lambda self: True)
    for number in range(40):
        run = RunFolder(tmp_path / str(number))
        run.path.mkdir()
        holder_counts += contend(run, rng.integers(0, 6, 100).tolist(), ["a", "b"], 1)
    assert max(holder_counts) == 2
