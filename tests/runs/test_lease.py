"""Leases: never two holders, whatever dies, stands still or lies about the time, where no lock reaches."""

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
from compclip.runs.lock import DEAD_S, Lease
from compclip.runs.run_folder import RunFolder
from tests.runs.machines import Clock, claim, outlived, stamp, stepped


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


@pytest.mark.parametrize("ahead", [-1e9, 0.0, 1e9])
def test_a_dead_machine(run, ahead):
    """It is seen to stand still for DEAD_S, whatever its clock said of its last beat."""
    clock = Clock()
    dead, waiting = claim(run, "a"), claim(run, "b", clock)
    assert dead.take()
    stamp(run, ahead)
    assert not waiting.take()
    clock.now += DEAD_S - 1
    assert not waiting.take()
    clock.now += 1
    assert waiting.take()
    assert not run.sightings()


@pytest.mark.parametrize("rate", [-1.0, 0.001, 1.0])
@pytest.mark.parametrize("ahead", [-1e9, 1800.0])
def test_clocks_that_differ(run, ahead, rate):
    """A live holder loses nothing by a clock that is wrong, slow, or set back at every beat."""
    clock = Clock()
    skewed, waiting = claim(run, "a"), claim(run, "b", clock)
    assert skewed.take()
    for beat in range(20):
        stamp(run, ahead + rate * 15 * beat)
        assert not waiting.take()
        clock.now += 15
        assert not waiting.take()


def test_the_next_command_knows_since_when(run, monkeypatch):
    """A machine's commands share its clock: the second one to look at a run of last week takes it, or shows it free."""
    assert claim(run, "a").take()
    stamp(run, -7 * 86400)
    clock = Clock()
    monkeypatch.setattr(lock.time, "monotonic", clock)
    assert lock.describe_holder(run).startswith("process ")
    clock.now += DEAD_S
    assert lock.describe_holder(run) == ""
    assert not claim(run, "b", clock).take()  # another machine begins to look
    assert Lease(run, clock=clock).take()


@pytest.mark.parametrize("note", ["{", '{"lease": 1, "since": -1e9}'])
def test_a_note_that_is_damaged(run, note):
    """Is written anew: nobody is taken for dead by it."""
    clock = Clock()
    assert claim(run, "a").take() and not claim(run, "b", clock).take()
    [path] = run.sightings()
    path.write_text(note)
    clock.now += DEAD_S
    assert not claim(run, "b", clock).take()
    clock.now += DEAD_S
    assert claim(run, "b", clock).take()


def test_a_holder_that_stood_still(run):
    """It finds out at its next beat; what it gives back is not the other one's."""
    paused = claim(run, "a")
    assert paused.take()
    successor = outlived(run, "b")
    assert successor.take()
    assert not paused.beat()
    paused.close()
    assert successor.beat() and not claim(run, "c").take()


@pytest.mark.parametrize("lease_text", ["", '{"pid": 1}'])
def test_a_holder_that_died_while_it_wrote(run, lease_text):
    """Half a lease is somebody's until it was silent for long; nothing breaks over it."""
    run.lease(1).write_text(lease_text)
    assert not claim(run, "a").take()
    assert lock._describe_lease_holder(run) == "another process"
    assert outlived(run, "a").take()


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
        for machine in set(machines) if earlier_state in ("dead", "half") else ():
            assert not claim(run, machine, Clock()).take()
        together = contend(run, order, machines, rounds)
        assert set(together) == {1}
        assert claim(run, "z").take()  # nobody is left behind


def contend(run: RunFolder, order: list[int], machines: list[str], rounds: int) -> list[int]:
    """How many held the run at each moment at which one more came to hold it."""
    holding, together, clock = [], [], Clock()
    clock.now += DEAD_S
    with stepped(order, len(machines)) as steps:

        def actor(machine: str) -> None:
            for _ in range(rounds):
                own_lease = claim(run, machine, clock)
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
