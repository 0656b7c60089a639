"""Posts to a webhook: a real server on this machine gets them, and nothing that goes wrong with them is an error."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.config import read
from compclip.launch import profiles, run_jobs, slurm
from compclip.launch.profiles import Profile
from compclip.runs import jobs, notify
from compclip.runs.notify import News
from compclip.runs.run_store import StoredRun
from tests import fake_store
from tests.http_server import QuietHandler, run_server, send_answer

pytestmark = pytest.mark.usefixtures("forked_commands")
SECRET = "hooks/T0-B1-a-secret"


class Hook:
    """What a server got, and what it answers."""

    def __init__(self) -> None:
        self.bodies: list[dict] = []
        self.paths: list[str] = []
        self.status = 200


@pytest.fixture
def hook(monkeypatch) -> Iterator[Hook]:
    """A server whose URL is in $HOOK."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "COMPCLIP_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    server = Hook()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            server.paths.append(self.path)
            server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            send_answer(self, server.status, {})

    with run_server(Handler) as url:
        monkeypatch.setenv("HOOK", f"{url}/{SECRET}")
        yield server


def test_what_is_posted(hook, tmp_path):
    """A line for people, the same as numbers, every failure with its reason; the project by its folder."""
    news = News("runs ended: 1 of 2 done", {"runs": 2, "failed": 1}, {"clic-a-b-0": "out of memory"})
    assert notify.post("HOOK", news, tmp_path / "thesis")
    body = {
        "text": "[thesis] runs ended: 1 of 2 done\nclic-a-b-0: out of memory",
        "project": "thesis",
        "counts": {"runs": 2, "failed": 1},
        "failures": [{"name": "clic-a-b-0", "reason": "out of memory"}],
    }
    assert (hook.paths, hook.bodies) == ([f"/{SECRET}"], [body])


def test_a_server_that_refuses(hook, capsys):
    """One line of warning, which does not tell the secret."""
    hook.status = 503
    assert not notify.post("HOOK", News("ended"))
    assert capsys.readouterr().err == "warning: ended: not posted to $HOOK: HTTP 503\n"


@pytest.mark.parametrize(("url", "why"), [
    ("", "it is not set"), (f"file:///{SECRET}", "it holds no URL"), (f"http://127.0.0.1:port/{SECRET}", "InvalidURL"),
    (f"http://[::1/{SECRET}", "ValueError"),
    (f"http://127.0.0.1/{SECRET}\nhttp://127.0.0.1/{SECRET}", "$HOOK: holds a line break"),
])  # fmt: skip
def test_a_url_that_is_none(monkeypatch, capsys, url, why):
    """The variable is named, what it holds is not shown."""
    monkeypatch.setenv("HOOK", url)
    assert not notify.post("HOOK", News("ended"))
    err = capsys.readouterr().err
    assert err.startswith(f"warning: ended: not posted to $HOOK: {why}") and err.count("\n") == 1
    assert SECRET not in err


def test_a_server_that_says_nothing(monkeypatch, capsys):
    """It is not waited for."""
    monkeypatch.setattr(notify, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HOOK", f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}")
        assert not notify.post("HOOK", News("ended"))
    assert re.search(r"not posted to \$HOOK: Timeout\w*\n", capsys.readouterr().err)


@pytest.mark.parametrize(("value", "why"), [
    (f"https://example.org/{SECRET}", "is a URL, which is a secret; put it into an environment variable"),
    (f"$HOOK{SECRET}", "names no environment variable"), ("2HOOK", "names no environment variable"),
])  # fmt: skip
def test_a_profile_names_a_variable(tmp_path, value, why):
    """Never the URL; a value that is wrong may be one and is not repeated."""
    write_atomic(tmp_path / "p.yaml", f"executor: local\nnotify: {value}\n")
    with pytest.raises(UserError, match=re.escape(f"p.yaml: notify: {why}")) as error:
        profiles.load_profile(tmp_path / "p.yaml")
    assert value not in str(error.value)
    write_atomic(tmp_path / "p.yaml", "executor: local\nnotify: COMPCLIP_WEBHOOK\n")
    assert profiles.load_profile(tmp_path / "p.yaml").notify == "COMPCLIP_WEBHOOK"


@pytest.fixture
def stored_run(tmp_path, monkeypatch) -> StoredRun:
    """A run whose job left a last line, in a project in the current folder."""
    monkeypatch.chdir(fake_store.project(tmp_path / "thesis"))
    first_run = fake_store.runs(Path("."))[0]
    jobs.write_inputs(first_run, "params.yaml")
    first_run.folder.log.write_text("step 1\nerror: train: the loss is nan at step 2\n")
    return first_run


def test_a_cluster_s_job_says_it_itself(hook, stored_run, monkeypatch):
    """The trainer's end with an exit code, under the name by which others know the job."""
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "41")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setattr(slurm.subprocess, "Popen", lambda *_, **__: SimpleNamespace(pid=0, poll=lambda: 2))
    monkeypatch.setattr(slurm.signal, "signal", lambda *_: None)
    with pytest.raises(RuntimeError, match="exit code 2"):
        slurm.JobCommand(stored_run.key, notify="HOOK")()
    name = stored_run.cell.name
    assert hook.bodies[0]["failures"][0]["name"] == name
    assert hook.bodies[0]["text"].startswith(
        f"[thesis] {name}: job 41_3 failed\n{name}: exit code 2: error: train: the loss is nan at step 2 ("
    )


def test_a_launch_that_ends(hook, stored_run, monkeypatch):
    """Each run that failed when it does, and the sum at the end."""
    todo = fake_store.runs(Path("."))

    class Ended:
        def __init__(self, runs: list, *_: object, on_failed=None) -> None:
            self.runs, self.on_failed = runs, on_failed

        def drive(self) -> dict[str, str]:
            self.on_failed(self.runs[0], "out of memory")
            return {self.runs[0].cell.name: "out of memory"}

    monkeypatch.setattr(run_jobs, "LocalRunDriver", Ended)
    monkeypatch.setattr(run_jobs, "locate_runs", lambda *_: todo)
    run_jobs.send(Profile(executor="local", notify="HOOK"), read.load_params("params.yaml"), 1)
    assert [body["counts"] for body in hook.bodies] == [{"failed": 1}, {"runs": 2, "done": 1, "failed": 1}]
    assert hook.bodies[1]["text"].startswith("[thesis] runs ended: 1 of 2 done\n")
