"""A store in a group's folder, under the umask of most systems: each member waits for, takes over, scores, removes."""

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compclip.base import links
from compclip.base.errors import UserError, entry
from compclip.base.files import fingerprint, write_atomic, write_json
from compclip.base.shared_folders import open_plain
from compclip.evaluate import __main__ as evaluate_command
from compclip.runs import __main__ as runs_command
from compclip.runs import inventory, jobs, lock, run_store
from compclip.runs.run_folder import RunFolder
from compclip.train import __main__ as train_command
from compclip.train import optimiser
from tests import held_job, tiny_project
from tests.tiny_project import ended, fork, forked, wait_for

TEAM, ALICE, BOB = 60_100, 60_001, 60_002  # numbers without a name: nobody has to make an account
CELL = tiny_project.cell("finetune")
TRAIN = ["--cell", CELL]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes of other users")


@pytest.fixture
def umask() -> Iterator[None]:
    """Debian's."""
    previous_umask = os.umask(0o022)
    yield
    os.umask(previous_umask)


def mode(path: Path) -> int:
    """The permission bits, setgid with them."""
    return stat.S_IMODE(path.stat().st_mode)


def write_everything(run: RunFolder) -> None:
    """Every kind of entry that a run has."""
    with lock.hold(run):
        write_json(run.scores("e1") / "sugarcrepe.json", {})
        for path in (run.log, run.metrics, run.intermediate):
            open_plain(path, "a").close()
        write_atomic(run.path / "weights", "x")
        links.link_or_copy(run.path / "weights", run.final.weights)
        write_json(run.final.environment, {})


@pytest.mark.parametrize(("above", "folders", "files"), [(0o2775, 0o2775, 0o664), (0o775, 0o2775, 0o664),
                                                         (0o755, 0o755, 0o644), (0o2755, 0o2755, 0o644)])  # fmt: skip
def test_entries_follow_the_store(tmp_path, umask, above, folders, files):
    """A folder that its group may write has entries that its group may write; in any other the umask counts."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(above)
    run = RunFolder(tmp_path / "store" / "key")
    write_everything(run)
    paths = [run.path, *run.path.rglob("*")]
    assert {mode(p) for p in paths if p.is_dir()} == {folders}
    assert {mode(p) for p in paths if p.is_file()} == {files}
    write_atomic(tmp_path / "weights", "x")
    assert mode(tmp_path / "weights") == 0o644, "what is not in the store is as ever"


class Member(NamedTuple):
    """Somebody with a checkout who shares the store.

    What they do runs in a fork of this process, after its imports: another user may not be able to read its Python.
    """

    user: int
    root: Path
    store: Path

    def start(self, main: Callable[[list[str]], int], *argv: str) -> int:
        return fork(lambda: self._call(main, argv))

    def run(self, main: Callable[[list[str]], int], *argv: str) -> str:
        """What such a command says to its end."""
        assert ended(self.start(main, *argv)) == 0, self.output
        return self.output

    @property
    def output(self) -> str:
        path = self.root / "said"
        return path.read_text() if path.is_file() else ""

    def _call(self, main: Callable[[list[str]], int], argv: tuple[str, ...]) -> None:
        self.give_up()
        os.chdir(self.root)
        os.environ[run_store.VARIABLE] = str(self.store)
        sys.stdout = sys.stderr = open("said", "w", buffering=1)  # noqa: SIM115 (until the process ends)
        sys.argv[1:] = argv
        assert entry(main) == 0

    def give_up(self) -> None:
        """Become this user for good, in a forked process."""
        os.setgroups([TEAM])
        os.setgid(self.user)
        os.setuid(self.user)
        os.umask(0o022)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that all users reach, which pytest's own are not; it holds a group's store."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    (path / "store").mkdir()
    os.chown(path / "store", ALICE, TEAM)
    (path / "store").chmod(0o2775)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def imported(project, tmp_path_factory) -> None:
    """Everything that the commands import, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny_project.other(project, tmp_path_factory.mktemp("imported") / "p"))
        assert train_command.main(TRAIN) == 0 and evaluate_command.main(["--cell", CELL]) == 0
        assert runs_command.main(["remove", "--force", tiny_project.at(CELL).key]) == 0


@pytest.fixture
def team(shared_folder, project, imported) -> tuple[Member, Member]:
    members = []
    for user, name in ((ALICE, "alice"), (BOB, "bob")):
        root = tiny_project.other(project, shared_folder / name)
        for path in (root, *root.rglob("*")):
            os.chown(path, user, user)
        members.append(Member(user, root, shared_folder / "store"))
    return members[0], members[1]


def train_held(argv: list[str]) -> int:
    """A training that comes to its fourth step and waits for the file `go`."""
    rate = optimiser.learning_rate

    def hold_at_third(step: int, steps: int, cfg) -> float:
        if step == 3:
            held_job.hold()
        return rate(step, steps, cfg)

    optimiser.learning_rate = hold_at_third
    return train_command.main(argv)


def start_held(member: Member) -> int:
    """Start such a training, and wait until it waits; its process."""
    process = member.start(train_held, *TRAIN)
    wait_for((member.root / "held").exists)
    return process


def steps(output: str) -> list[str]:
    return [line.split()[1] for line in output.splitlines() if line.startswith("step ")]


@needs_root
def test_a_live_run_is_waited_for(team):
    """And published by both; it is trained once."""
    alice, bob = team
    first = start_held(alice)
    second = bob.start(train_command.main, *TRAIN)
    wait_for(lambda: "\n" in bob.output)
    assert "trains this run (running); waiting for it" in bob.output
    (alice.root / "go").touch()
    assert [ended(first), ended(second)] == [0, 0], bob.output
    assert len(steps(alice.output)) == 10 and not steps(bob.output)
    weights = [tiny_project.trained(member.root, CELL) / "checkpoint" for member in team]
    assert fingerprint(weights[0]) == fingerprint(weights[1])


@needs_root
def test_a_killed_run_is_taken_over(team):
    """From its last checkpoint; and whoever owns the store's folder removes what both have written."""
    alice, bob = team
    process = start_held(alice)
    os.kill(process, signal.SIGKILL)
    ended(process)
    assert steps(bob.run(train_command.main, *TRAIN)) == [f"{step}/10" for step in range(3, 11)]
    [run] = map(RunFolder, alice.store.iterdir())
    assert {p.stat().st_uid for p in run.path.rglob("*")} == {ALICE, BOB}
    assert f"removed {run.key}" in alice.run(runs_command.main, "remove", "--force", run.key)
    assert not list(alice.store.iterdir())


@needs_root
def test_a_finished_run_is_scored_another_way(team):
    """By another member: both results stay, and what is finished stays read-only."""
    alice, bob = team
    params = bob.root / "params.yaml"
    params.write_text(params.read_text().replace("evaluate: {", "evaluate: {pictures: upright, "))
    for member in team:
        member.run(train_command.main, *TRAIN)
        member.run(evaluate_command.main, "--cell", CELL)
    [run] = map(RunFolder, alice.store.iterdir())
    assert {path.stat().st_uid for path in (run.path / "scores").iterdir()} == {ALICE, BOB}
    weights = run.final.weights
    assert mode(weights) & links.WRITABLE == 0 and weights.stat().st_uid == ALICE


@needs_root
def test_gc_by_the_owner_of_the_store(shared_folder):
    """Runs that another member made go whole, also where only the folder's group, and no setgid, says who shares it."""
    (shared_folder / "store").chmod(0o775)
    alice, bob = (Member(user, shared_folder / str(user), shared_folder / "store") for user in (ALICE, BOB))
    (shared_folder / str(BOB)).mkdir()
    os.chown(shared_folder / str(BOB), BOB, BOB)
    run = RunFolder(shared_folder / "store" / ("0" * 16))
    assert forked(lambda: (bob.give_up(), write_everything(run), links.protect(run.final.path))) == 0
    assert forked(lambda: (alice.give_up(), inventory.remove(run))) == 0
    assert not list((shared_folder / "store").iterdir())


@needs_root
def test_the_process_of_another_user_is_not_stopped(shared_folder):
    """Nor is a traceback shown of it."""
    alice, bob = (Member(user, shared_folder, shared_folder / "store") for user in (ALICE, BOB))
    process = fork(lambda: (alice.give_up(), signal.pause()))
    record = {"kind": "local", "host": os.uname().nodename, "pid": process, "started": jobs.read_start_time(process)}
    job = jobs.LocalJob(RunFolder(shared_folder / "store" / ("0" * 16)), record)
    wait_for(lambda: Path(f"/proc/{process}").stat().st_uid == ALICE)

    def attempt(give_up=lambda: None) -> None:
        give_up()
        with pytest.raises(UserError, match=f"process {process}: belongs to {ALICE}; ask them to stop it"):
            job.cancel()

    assert forked(lambda: attempt(bob.give_up)) == 0
    attempt()  # as an operator, whom the system would let end it
    os.kill(process, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
