"""MLflow beside runs that are under way: seconds behind, whatever is killed, and in the end what a rebuild makes."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from compclip.base.errors import UserError
from compclip.base.files import hold_exclusively, read_mapping, write_json
from compclip.base.shared_folders import read_user
from compclip.launch import run_jobs
from compclip.launch.profiles import Profile
from compclip.runs import follower as follower_process
from compclip.runs import jobs
from compclip.track import __main__ as track_command
from compclip.track import sync, tracking_store
from compclip.track.sync import StoreFollower
from compclip.train import job
from tests import fake_runs
from tests.conftest import ROOT
from tests.tiny_project import forked, wait_for
from tests.track import live
from tests.track.project import HOME, params, source
from tests.track.test_sync import calls

FIRST, SECOND, THIRD = (fake_runs.cell("clic", seed=seed) for seed in (0, 1, 2))
SEEDS = (0, 1, 2)
LOCAL = str(ROOT / "slurm" / "local.yaml")


@pytest.fixture
def project(tmp_path):
    """A grid of three seeds of which nothing is trained yet."""
    params(tmp_path, ("clic",), SEEDS)
    live.plan(tmp_path, [FIRST, SECOND, THIRD])
    return tmp_path


def load(root):
    return source(root, methods=("clic",), seeds=SEEDS)


def make_follower(root, uri):
    return StoreFollower(lambda: load(root), uri, root)


def run_states(uri):
    """Status and logged steps of each run, by name."""
    rows = live.contents(uri)
    return {name: (row[0], [point[0] for point in row[5].get("train/clip", ())]) for (_, name), row in rows.items()}


def test_a_run_that_goes_on_is_the_same_mlflow_run(project, uri):
    """Its curve grows, but for a line that is being written; set back to step 10, it has no step twice."""
    live.begin(project, FIRST)
    live.log(project, FIRST, 10, 20)
    follower = make_follower(project, uri)
    assert follower.poll()
    assert list(live.contents(uri)) == [(HOME, FIRST.name)]
    with open(live.folder(project, FIRST).metrics, "a") as file:
        file.write('{"step": 30, "lo')
    assert follower.poll()
    assert run_states(uri) == {FIRST.name: ("RUNNING", [10, 20])}
    sync.update_store(load(project), uri, anew=True)  # a rebuild keeps it
    assert run_states(uri) == {FIRST.name: ("RUNNING", [10, 20])}
    live.begin(project, FIRST, live.DEAD)
    assert not follower.poll()
    assert run_states(uri) == {FIRST.name: ("FAILED", [10, 20])}
    live.set_back(project, FIRST, 10)
    live.begin(project, FIRST)
    live.log(project, FIRST, 20, 30, late=100)
    assert follower.poll()
    assert run_states(uri) == {FIRST.name: ("RUNNING", [10, 20, 30])}
    live.folder(project, FIRST).job.unlink()
    follower.poll()
    assert run_states(uri) == {FIRST.name: ("KILLED", [10, 20, 30])}
    live.begin(project, FIRST, live.DEAD, jobs.TRAINS)  # its job ended with what it was to make, the checkpoint
    write_json(live.folder(project, FIRST).final.environment, {})
    follower.poll()
    assert run_states(uri) == {FIRST.name: ("FINISHED", [10, 20, 30])}


STORY = (
    lambda root: (live.begin(root, FIRST), live.log(root, FIRST, 10, 20)),
    lambda root: live.log(root, FIRST, 30),
    lambda root: live.begin(root, FIRST, live.DEAD),
    lambda root: (live.set_back(root, FIRST, 20), live.begin(root, FIRST), live.log(root, FIRST, 30, late=50)),
    lambda root: (live.begin(root, SECOND), live.log(root, SECOND, 10)),
    lambda root: fake_runs.make(root, [FIRST]),
    lambda root: (live.begin(root, THIRD), live.log(root, THIRD, 10)),
    lambda root: (live.log(root, SECOND, 20), live.begin(root, SECOND, live.DEAD)),
    lambda root: live.folder(root, THIRD).job.unlink(),
)


@pytest.mark.parametrize("every", [3, 8])
def test_a_follower_that_is_killed_ends_with_what_a_rebuild_makes(project, uri, empty_database, monkeypatch, every):
    """One that dies at every third or eighth call to MLflow, before or behind it; each time another one begins."""
    call_count = [0]
    writes = ("create_run", "log_batch", "set_terminated", "update_run", "log_artifact", "set_tag", "delete_run")

    def dying(real):
        def call(*args, **kwargs):
            call_count[0] += 1
            if call_count[0] % every == 0 and call_count[0] % 2:
                raise KeyboardInterrupt
            real_result = real(*args, **kwargs)
            if call_count[0] % every == 0:
                raise KeyboardInterrupt
            return real_result

        return call

    for name in writes:
        monkeypatch.setattr(MlflowClient, name, dying(getattr(MlflowClient, name)))
    follower, deaths = make_follower(project, uri), 0
    for chapter in STORY:
        chapter(project)
        try:
            follower.poll()
        except KeyboardInterrupt:
            follower, deaths = make_follower(project, uri), deaths + 1
    monkeypatch.undo()
    monkeypatch.setenv(sync.PROJECT, "compclip")
    assert deaths
    assert not make_follower(project, uri).poll()
    (project / "other").mkdir()
    (project / "other" / "mlflow.db").write_bytes(empty_database)
    rebuilt = f"sqlite:///{project / 'other' / 'mlflow.db'}"
    sync.update_store(load(project), rebuilt, anew=True)
    assert live.contents(uri) == live.contents(rebuilt)
    assert {name: row[0] for name, row in run_states(uri).items()} == {
        FIRST.name: "FINISHED", SECOND.name: "FAILED", THIRD.name: "KILLED"
    }  # fmt: skip


def test_a_run_of_other_parameters_takes_the_place_of_the_former_one(project, uri):
    """A cell whose key changed is another run; the first one's files are no cell's any more."""
    live.begin(project, FIRST)
    fake_runs.make(project, [THIRD])
    follower = make_follower(project, uri)
    follower.poll()
    live.plan(project, [SECOND, THIRD])
    follower.poll()
    assert list(run_states(uri)) == [THIRD.name]


def test_a_poll_reads_and_asks_for_nothing_that_did_not_move(project, uri, monkeypatch):
    """No call to MLflow without something new, and with a new line the same calls beside one run under way or two."""
    live.begin(project, FIRST)
    live.log(project, FIRST, 10)
    fake_runs.make(project, [THIRD])
    follower = make_follower(project, uri)
    follower.poll()
    spent = []
    for step, started_cells in ((20, ()), (30, (SECOND,))):
        for cell in started_cells:
            live.begin(project, cell)
            follower.poll()
        with monkeypatch.context() as patch:
            names = calls(patch)
            patch.setattr(sync, "load_project", None)
            follower.poll()
            assert not names
            live.log(project, FIRST, step)
            follower.poll()
            spent.append(len(names))
    assert spent[0] == spent[1]


def words(root, uri, *more):
    return ["--follow", "--every", "0.05", "--uri", uri, "--params", str(root / "params.yaml"), *more]


def test_a_signal_ends_the_command(project, uri, capsys, monkeypatch):
    """SIGTERM as Ctrl-C; the run goes on."""
    live.begin(project, FIRST)
    monkeypatch.chdir(project)
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sync.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    try:
        assert track_command.main(words(project, uri)) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "stopped; nothing is lost" in capsys.readouterr().out
    assert run_states(uri) == {FIRST.name: ("RUNNING", [])}


def test_an_absent_server_is_said_once_and_tried_again(project, uri, capsys, monkeypatch):
    live.begin(project, FIRST, live.DEAD)
    real, failures = sync.update_store, []

    def update(*args, **kwargs):
        failures.append(1)
        if len(failures) < 4:
            raise UserError("http://x: no server answers")
        return real(*args, **kwargs)

    monkeypatch.setattr(sync, "update_store", update)
    assert sync.follow(make_follower(project, uri), 0.01) == 0
    assert capsys.readouterr().out.count("no server answers; trying again every 0.01 s") == 1
    assert run_states(uri) == {FIRST.name: ("FAILED", [])}


def test_a_second_follower_says_who_is_there(project, uri, monkeypatch):
    monkeypatch.chdir(project)
    with hold_exclusively(tracking_store.path_beside(uri, "follow.lock"), ""):
        with pytest.raises(UserError, match=rf"process {os.getpid()} follows the runs"):
            track_command.main(words(project, uri))
        # one that a driver started waits, and not longer than the driver is there
        with pytest.raises(UserError, match="follows the runs"):
            sync.follow(make_follower(project, uri), 0.01, beside=live.DEAD)


def test_a_follower_beside_a_driver_outlasts_it(project, uri):
    """It ends as soon as the driver is gone, and not before."""
    awaited = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    polls = []

    class Watching(StoreFollower):
        def poll(self):
            polls.append(awaited.poll())
            if len(polls) == 3:
                awaited.communicate(b"\n")
            return False

    watching = Watching(lambda: None, uri, project)
    assert sync.follow(watching, 0.01, beside=awaited.pid) == 0
    assert polls == [None, None, None, 0]


@pytest.mark.usefixtures("forked_commands")
def test_a_driver_starts_one_that_outlives_it(project, uri, monkeypatch, capfd):
    """It logs what the driver's runs left, and says in .work/track.log how it ended."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    params(project, ("clic",), SEEDS)
    live.begin(project, FIRST, live.DEAD)
    live.log(project, FIRST, 10)
    monkeypatch.chdir(project)
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # as the command's settings say before its import
    assert forked(lambda: follower_process.start_follower("params.yaml")) == 0
    pid = int(re.search(r"process (\d+)", capfd.readouterr().out)[1])
    wait_for(lambda: not jobs.read_start_time(pid))
    assert (project / follower_process.LOG).read_text() == "nothing runs any more; MLflow is up to date\n"
    assert run_states(uri) == {FIRST.name: ("FAILED", [10])}


def test_who_sends_runs_starts_it_where_asked(tmp_path, monkeypatch):
    """Not where nothing is to be sent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(follower_process.VARIABLE, "follow")
    started = []
    monkeypatch.setattr(follower_process, "start_follower", lambda params, root: started.append(params))
    run = SimpleNamespace(adopt_if_finished=lambda: True, folder=None)
    monkeypatch.setattr(run_jobs, "locate_runs", lambda *_: [run])
    monkeypatch.setattr(run_jobs.jobs, "find_worker", lambda _: None)
    monkeypatch.setattr(run_jobs, "_drive_here", lambda *_: None)
    for stale in ([], [run]):
        monkeypatch.setattr(run_jobs, "list_stale", lambda *_, stale=stale: stale)
        run_jobs.send(Profile(executor="local"), None, 1)
    assert started == ["params.yaml"]


def test_user_host_and_branch_are_tags_of_mlflow(project, uri):
    """Of a run under way as of a finished one; what an earlier version did not record is absent."""
    live.begin(project, FIRST)
    life = next(live.folder(project, FIRST).lives.glob("*.json"))
    write_json(life, read_mapping(life) | {"host": "node7"})
    fake_runs.make(project, [SECOND, THIRD])
    environment = fake_runs.trained(project, SECOND.name).environment
    write_json(environment, read_mapping(environment) | {"user": "ada", "host": "node8", "git_branch": "main"})
    make_follower(project, uri).poll()
    names = ("mlflow.user", "host", "mlflow.source.git.branch", "mlflow.source.git.commit")
    tags = {name: [row[4].get(tag) for tag in names] for (_, name), row in live.contents(uri).items()}
    assert tags == {
        FIRST.name: [read_user(os.getuid()), "node7", None, ""],
        SECOND.name: ["ada", "node8", "main", "0123456789abcdef"],
        THIRD.name: [None, None, None, "0123456789abcdef"],
    }


def test_a_training_notes_who_ran_it(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", "-b", "trial", str(tmp_path)], check=True)
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], check=True, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    expected = {"user": read_user(os.getuid()), "host": socket.gethostname(), "git_branch": "trial"}
    expected["started_by"] = os.getppid()
    assert job.describe_author() == expected
    monkeypatch.setenv("PATH", "")
    assert job.describe_author() == expected | {"git_branch": ""}
