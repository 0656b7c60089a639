"""One store for several checkouts: each run is trained once, and what is shared cannot be edited by accident."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json
from compclip.evaluate import result_store
from compclip.runs import run_store
from compclip.train import __main__ as train_command
from tests import fake_store, tiny_project
from tests.forked_commands import ForkedPopen

STEPS = 10
GRID = tiny_project.PARAMS.replace("pretrained, finetune, ", "").replace("seeds: [0]", "seeds: [0, 1]")
CELLS = ("fsc_clip-tiny-scenes-0", "fsc_clip-tiny-scenes-1")
TRAIN = [sys.executable, "-m", "compclip.train", "--method", "fsc_clip"]


@pytest.fixture(scope="module")
def team(project, tmp_path_factory) -> tuple[Path, list[Path]]:
    """A store, and two checkouts that started the same grid in it at once."""
    folder = tmp_path_factory.mktemp("team")
    roots = [tiny_project.other(project, folder / name, STEPS, GRID) for name in ("alice", "bob")]
    env = {**tiny_project.environment(), run_store.VARIABLE: str(folder / "store")}
    for root in roots:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            tiny_project.plan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", ForkedPopen)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started = [subprocess.Popen(TRAIN, cwd=root, env=env, text=True, **pipes) for root in roots]
    outputs = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    return folder / "store", roots


def test_each_run_is_trained_once(team):
    """By what the trainers said, by the logged steps, and by how long processes worked on each run."""
    where, _ = team
    folders = [run_store.RunFolder(path) for path in sorted(where.iterdir())]
    assert len(folders) == 2
    for folder in folders:
        logged = [line.split()[1] for line in folder.log.read_text().splitlines() if line.startswith("step ")]
        assert Counter(logged) == Counter(f"{step}/{STEPS}" for step in range(1, STEPS + 1))
        assert [row["step"] for row in tiny_project.steps(folder.final.metrics)] == list(range(1, STEPS + 1))
        lived = sorted(read_json(path)["seconds"] for path in folder.lives.glob("*.json"))
        trained = read_json(folder.final.environment)["seconds"]
        assert lived[-1] >= trained - 0.1
        assert sum(lived[:-1]) < trained, "whoever waited found everything there"


def test_both_have_all_of_it(team):
    """The same bits, which on one file system are the same files."""
    where, roots = team
    for name in CELLS:
        first, second = (tiny_project.trained(root, name) for root in roots)
        assert fingerprint(first) == fingerprint(second)
        weights = [path / "checkpoint" / tiny_project.WEIGHTS for path in (first, second)]
        assert weights[0].samefile(weights[1])
        assert read_json(first / "environment.json")["run_key"] in os.listdir(where)
    seeds = [fingerprint(tiny_project.trained(roots[0], name) / "checkpoint" / tiny_project.WEIGHTS) for name in CELLS]
    assert seeds[0] != seeds[1]


def test_what_is_shared_can_only_be_read(team):
    """Else an edit in one checkout's runs/ would be everybody's; the store knows that both published each run."""
    where, roots = team
    finished = [p for p in (*where.glob("*/final/**/*"), *roots[0].glob("runs/*/*/checkpoint/*")) if p.is_file()]
    assert len(finished) >= 2 * 6
    assert not [p for p in finished if p.stat().st_mode & links.WRITABLE]
    for path in where.iterdir():
        assert run_store.list_projects(run_store.RunFolder(path)) == {str(root) for root in roots}


def test_a_third_checkout_trains_nothing(team, project, tmp_path, monkeypatch, capsys):
    """Finished runs are published as they are."""
    where, roots = team
    tiny_project.other(project, tmp_path / "carol", STEPS, GRID)
    monkeypatch.chdir(tmp_path / "carol")
    monkeypatch.setenv(run_store.VARIABLE, str(where))
    tiny_project.plan()
    assert train_command.train_method("fsc_clip", "params.yaml") == 0
    assert "fsc_clip: 2 cells, 2 runs: 2 finished before" in capsys.readouterr().out
    assert fingerprint(*(tiny_project.trained(Path(), name) / "checkpoint" for name in CELLS)) == fingerprint(
        *(tiny_project.trained(roots[1], name) / "checkpoint" for name in CELLS)
    )


@pytest.mark.parametrize("store_path", ["store", "../team", "./x"])
def test_a_relative_store_is_refused(made_project, monkeypatch, store_path):
    """It would be another one in every folder."""
    monkeypatch.setenv(run_store.VARIABLE, store_path)
    with pytest.raises(UserError, match=f"COMPCLIP_STORE='{store_path}': must be an absolute path"):
        fake_store.runs(Path("."))


@pytest.fixture
def elsewhere(tmp_path) -> Iterator[Path]:
    """A folder on another file system than the temporary folder, or a skip."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system to write to: /dev/shm is not there or not another one")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_a_store_on_another_file_system(made_project, elsewhere, monkeypatch, capfd):
    """Published files are copies, which is said once; they are whole, and belong to the checkout alone."""
    monkeypatch.setenv(run_store.VARIABLE, str(elsewhere))
    monkeypatch.setattr(links, "_noted_pairs", set())
    for stored_run in map(fake_store.finish, fake_store.runs(Path("."))):
        stored_run.publish()
        weights, published_weights = stored_run.folder.final.weights, stored_run.published.trained.weights
        assert weights.read_bytes() == published_weights.read_bytes() and not weights.samefile(published_weights)
        assert json.loads(stored_run.published.trained.environment.read_text())["run_key"] == stored_run.key
    assert capfd.readouterr().err.count("files cannot be linked") == 1


def test_results_are_shared_as_runs_are(made_project, tmp_path, monkeypatch):
    """Linked, and only to be read; an own store stays as it is: nobody else has its files, and DVC protects its own."""
    own_run = fake_store.finish(fake_store.runs(Path("."))[0], publish=True)
    assert own_run.folder.final.weights.stat().st_mode & stat.S_IWUSR and not own_run.folder.users.exists()
    monkeypatch.setenv(run_store.VARIABLE, str(tmp_path / "team"))
    stored_run = fake_store.finish(fake_store.runs(Path("."))[0])
    result_store.publish_link(stored_run.folder.results, stored_run.cell, Path("."))
    [result] = stored_run.published.results.glob("*.json")
    assert result.samefile(stored_run.folder.results / result.name)
    assert not result.stat().st_mode & links.WRITABLE


def test_published_runs_come_back_into_an_empty_store(made_project, tmp_path, monkeypatch):
    """A checkout with finished runs joins a team: its runs are the store's by their keys, without training."""
    [first, second] = fake_store.runs(Path("."))
    fake_store.finish(first, publish=True)
    shutil.rmtree("store")
    monkeypatch.setenv(run_store.VARIABLE, str(tmp_path / "team"))
    joined = fake_store.runs(Path("."))
    assert [stored_run.adopt_if_finished() for stored_run in joined] == [True, False]
    assert joined[0].folder.final.weights.samefile(first.published.trained.weights)
