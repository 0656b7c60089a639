"""Many writers, real servers, and models that load back."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import mlflow.artifacts
import open_clip
import pytest
from mlflow import MlflowClient

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.model import backbone
from compclip.track import __main__ as track_command
from compclip.track import sync, tracking_store, writer
from compclip.track.sync import StoreFollower
from tests import fake_runs, postgres_server, tiny_project
from tests.track import live
from tests.track.project import HOME, params, source, steps, tracked, update
from tests.track.test_dashboard import free_port

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
NAMES = sorted(cell.name for cell in fake_runs.cells(("pretrained", "clic")))


def command_line(tmp_path, *options):
    return [sys.executable, "-m", "compclip.track", "--params", str(tmp_path / "params.yaml"), *options]


@pytest.fixture
def runs(tmp_path):
    params(tmp_path)
    return fake_runs.make(tmp_path, fake_runs.cells(("pretrained", "clic")))


def test_four_processes_in_a_fresh_store_lose_and_duplicate_nothing(tmp_path, runs, monkeypatch):
    """Each has a run of its own and one that all share; the database is made by whoever comes first."""
    address, started = f"sqlite:///{tmp_path / 'mlflow' / 'mlflow.db'}", []
    for i in range(4):
        runs_folder = tmp_path / f"runs{i}"
        fake_runs.make(runs_folder, fake_runs.cells(("clic",)))
        for folder in ("runs", "results"):
            (runs_folder / folder / "clic" / "vit-scenes-1").rename(runs_folder / folder / "clic" / f"own-{i}")
        words = command_line(tmp_path, "--uri", address)[3:]
        monkeypatch.chdir(runs_folder)
        started.append(tiny_project.fork(lambda words=words: track_command.main(words)))
    assert [tiny_project.ended(pid) for pid in started] == [0] * 4
    client, runs_by_name = tracked(address)  # fails where a name stands twice
    assert sorted(runs_by_name) == sorted(["clic-vit-scenes-0", *(f"clic-own-{i}" for i in range(4))])
    assert all(steps(client, run) == [10, 20, 30] for run in runs_by_name.values())


@pytest.mark.usefixtures("forked_commands")
def test_a_second_driver_says_whom_it_waits_for(tmp_path, runs, uri):  # noqa: F811
    file = tracking_store.sqlite_file(uri).with_suffix(".lock")
    with tracking_store.lock_store(file):
        words = command_line(tmp_path, "--uri", uri)
        second = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert second.stdout.readline() == f"{file}: process {os.getpid()} is writing the store; waiting for it\n"
    assert second.communicate(timeout=120)[0] == f"{uri}: 4 added, 0 replaced, 0 unchanged\n"
    assert second.returncode == 0


@pytest.fixture
def checkpoints(runs):
    """A tiny model with weights of its own in every run."""
    write_json(runs / "tiny.json", TINY)
    for seed, name in enumerate(NAMES):
        backbone.create(str(runs / "tiny.json"), seed=seed).save(fake_runs.trained(runs, name).checkpoint)
    return runs


def test_logged_models_share_their_files_with_the_runs_and_each_other(tmp_path, checkpoints, uri):  # noqa: F811
    """One inode for each checkpoint's weights, wherever they are shown; open_clip loads a model's folder."""
    update(tmp_path, uri)
    weights = [path.stat().st_ino for path in tmp_path.rglob("open_clip_model.safetensors")]
    assert (len(weights), len(set(weights))) == (8, 4)
    heads = [path.read_text() for path in tmp_path.rglob("MLmodel")]
    assert len({line for head in heads for line in head.splitlines() if line.startswith("model_id:")}) == 4
    client, runs_by_name = tracked(uri)
    [output] = runs_by_name[NAMES[0]].outputs.model_outputs
    folder = tracking_store.path_of_uri(client.get_logged_model(output.model_id).artifact_location)
    assert open_clip.create_model(f"local-dir:{folder}").visual.output_dim == TINY["embed_dim"]


class Server:
    """A real `mlflow server` on localhost that can be killed and started again over the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.process = folder, free_port(), None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port), "--workers", "1",
                 "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}",
                 "--artifacts-destination", str(self.folder / "files")]  # fmt: skip
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True,
                                            cwd=self.folder, env=os.environ | quiet)  # fmt: skip
        tiny_project.wait_for(self.answers)

    def answers(self) -> bool:
        assert self.process.poll() is None, "the server ended"
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"{self.uri}/health", timeout=5).status == 200

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def one_server(tmp_path_factory, empty_database):  # noqa: F811
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(empty_database)
    mlflow_server = Server(folder)
    mlflow_server.start()
    yield mlflow_server
    mlflow_server.kill()


@pytest.fixture
def server(one_server, tmp_path, monkeypatch):
    """One for all tests here, which have projects of their own; the current folder is where locks lie."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", one_server.uri)
    return one_server


def test_a_rebuild_and_a_follower_of_another_checkout_share_a_server(tmp_path, server, monkeypatch):
    """In the middle of the one's rebuild the other's follower logs, and so does a stranger, in both experiments."""
    cells, fresh = fake_runs.cells(("clic",)), fake_runs.cell("clic", seed=2)
    roots = {name: tmp_path / name for name in ("team_a", "team_b")}
    for root in roots.values():
        fake_runs.make(root, cells)
        params(root, ("clic",), (0, 1, 2))
        live.plan(root, [*cells, fresh])
        live.begin(root, fresh)
        live.log(root, fresh, 10)
    load = partial(source, methods=("clic",), seeds=(0, 1, 2))
    followers = {}
    for name, root in roots.items():
        monkeypatch.chdir(root)  # where its lock lies
        followers[name] = StoreFollower(partial(load, root, name), server.uri, root)
        followers[name].poll()
    stranger, real, logged = MlflowClient(server.uri, server.uri), writer.write_run, []
    other_runs = {key: row for key, row in live.contents(server.uri).items() if key[0].startswith("team_b")}

    def write(*args, **kwargs):
        if not logged:
            live.log(roots["team_b"], fresh, 20)
            monkeypatch.chdir(roots["team_b"])
            followers["team_b"].poll()
            monkeypatch.chdir(roots["team_a"])
            for name in roots:
                experiment = stranger.get_experiment_by_name(f"{name}: vit on scenes").experiment_id
                logged.append(stranger.create_run(experiment, run_name=f"mine in {name}").info.run_id)
        return real(*args, **kwargs)

    monkeypatch.setattr(writer, "write_run", write)
    monkeypatch.chdir(roots["team_a"])
    sync.update_store(followers["team_a"].load(), server.uri, anew=True)
    contents = live.contents(server.uri)
    for name in roots:
        points = contents[f"{name}: vit on scenes", fresh.name][5]["train/clip"]
        assert [step for step, _, _ in points] == ([10, 20] if name == "team_b" else [10])
        assert (f"{name}: vit on scenes", f"mine in {name}") in contents
    del other_runs["team_b: vit on scenes", fresh.name]
    assert len(other_runs) == 2 and other_runs.items() <= contents.items()
    assert len(contents) == 2 * (2 + 1 + 1)


def test_a_server_that_vanishes_loses_nothing(tmp_path, checkpoints, server, monkeypatch):
    """Killed in the middle of a run's files; the next call goes on, and the model loads through the server."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")  # the client's tries follow at once
    real, calls = MlflowClient.log_artifact, []

    def vanishing(self, *args, **kwargs):
        calls.append(args)
        if len(calls) == 9:
            server.kill()
        return real(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_artifact", vanishing)
    with pytest.raises(UserError, match="no server answers .*nothing is lost: start it and run") as lost:
        update(tmp_path, tracking_store.store_uri(None))
    assert "\n" not in str(lost.value)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no server answers"):
        update(tmp_path, server.uri)
    server.start()
    counts = update(tmp_path, server.uri)
    assert counts["added"] + counts["replaced"] + counts["unchanged"] == 4
    assert counts["replaced"] == 1  # the one that was cut short
    client, runs_by_name = tracked(server.uri)
    assert len(runs_by_name) == 4
    assert all(steps(client, run) == [10, 20, 30] for name, run in runs_by_name.items() if name.startswith("clic"))
    assert sync.update_store(source(tmp_path), server.uri, anew=True)["added"] == 4
    assert len(tracked(server.uri)[1]) == 4
    mlflow.set_tracking_uri(server.uri)
    [model] = tracked(server.uri)[1]["clic-vit-scenes-0"].outputs.model_outputs
    folder = Path(mlflow.artifacts.download_artifacts(f"models:/{model.model_id}"))
    assert (folder / "open_clip_model.safetensors").is_file()


@pytest.fixture
def postgres():
    with postgres_server.run_server("mlflow") as home:
        yield f"postgresql+psycopg://postgres@/mlflow?host={home}"


@pytest.mark.long
def test_postgresql_holds_the_store(tmp_path, runs, postgres, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started = [subprocess.Popen(command_line(tmp_path, "--uri", postgres), cwd=tmp_path) for _ in range(2)]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    client, runs_by_name = tracked(postgres)
    assert len(runs_by_name) == 4
    assert steps(client, runs_by_name["clic-vit-scenes-0"]) == [10, 20, 30]
    artifact_uri = (tmp_path / "mlflow/artifacts/0001/vit-on-scenes").as_uri()
    assert client.get_experiment_by_name(HOME).artifact_location == artifact_uri
    assert sync.update_store(source(tmp_path), postgres, anew=True)["added"] == 4
    assert update(tmp_path, postgres)["unchanged"] == 4


def test_an_absent_database_is_one_line(tmp_path, runs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"//\*\*\*@127.0.0.1:\d+/db: no server answers"):
        update(tmp_path, f"postgresql://me:secret@127.0.0.1:{free_port()}/db")
