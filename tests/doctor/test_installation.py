"""`compclip doctor`: a line each for what is there, and for what is missing with the fix."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.doctor import __main__ as doctor
from compclip.doctor import installation
from compclip.doctor.check_rows import FAILED, OK, SKIPPED
from compclip.runs import gpus
from compclip.text import wordnet_files
from tests.conftest import ROOT

# A grid that reads nothing but what a stage makes.
GRID = """
grid: {methods: [pretrained], backbones: [random], data: [scenes], seeds: [0]}
methods: {pretrained: {}}
backbones: {random: {model: ViT-B-32}}
data: {scenes: {source: karpathy, path: data/scenes_world/train.json, images: data/scenes_world/train, captioner: none}}
"""


def list_states(rows) -> dict[str, tuple[str, str]]:
    return {row.name: (row.state, row.reason) for row in rows}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project as `compclip init` leaves it."""
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "params.yaml").write_text(GRID)
    (tmp_path / ".dvc").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("COMPCLIP_STORE", raising=False)
    monkeypatch.setattr(gpus, "explain_request", lambda: ("", ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_project_that_has_everything(project, capsys):
    """Exit code 0, a line each, and nothing is left behind."""
    before = sorted(project.rglob("*"))
    assert doctor.main([]) == 0
    text = capsys.readouterr().out
    for name in ("Python", "torch", "WordNet", "DVC", "locks", "hard links", "shared memory", "GPUs", "MLflow"):
        assert f"\n{name} " in text, name
    assert sorted(project.rglob("*")) == before


def test_an_empty_folder_is_told_how_to_become_a_project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert doctor.main([]) == 1
    text = capsys.readouterr().out
    assert "`git init`" in text and "`dvc init`" in text and "`compclip init`" in text


def test_no_heavy_package_is_imported():
    """It would take seconds each, and one that is broken would end the doctor."""
    code = "import sys; from compclip.doctor import __main__ as d; d.main([]); print(*sys.modules)"
    environment = os.environ | {gpus.VISIBLE: "", gpus.PROFILE_GPUS: "0"}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    modules = set(process.stdout.splitlines()[-1].split())
    assert "compclip.doctor.installation" in modules
    assert not modules & {"torch", "open_clip", "spacy", "dvc", "mlflow", "optuna", "submitit", "transformers"}


def test_a_full_disk_and_a_small_shared_memory(project, monkeypatch):
    usage = type("Usage", (), {"free": 64 << 20})
    monkeypatch.setattr(installation.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(installation.worker_processes, "measure_free", lambda: 64 << 20)
    rows = list_states([*installation.check_store(project), *installation.check_shared_memory()])
    assert rows["disk of the store"][0] == FAILED and "COMPCLIP_STORE" in rows["disk of the store"][1]
    assert rows["shared memory"][0] == FAILED and "--shm-size" in rows["shared memory"][1]


def test_file_systems_without_locks(tmp_path, monkeypatch):
    """One that refuses them is a note; one whose locks keep nobody out is a fault."""
    assert installation.check_locks(tmp_path).state == OK
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda file, how: None)
        assert installation.check_locks(tmp_path).state == FAILED

    def refuse(file, how):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert installation.check_locks(tmp_path).state == SKIPPED


def test_links_that_cannot_be_made(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    rows = list_states(installation.check_links(tmp_path, tmp_path))
    assert rows["hard links"][0] == SKIPPED and "Invalid cross-device link" in rows["hard links"][1]
    assert rows["symbolic links"][0] == OK


def test_mlflows_address(tmp_path, monkeypatch):
    """A server that is not there, with its password hidden, and an address that MLflow cannot use."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ada:hush@127.0.0.1:{port}")
    (row,) = installation.check_mlflow(tmp_path)
    assert row.state == FAILED and "no server answers" in row.reason and "hush" not in str(row)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "./mlruns")
    (row,) = installation.check_mlflow(tmp_path)
    assert row.state == FAILED and "sqlite:///FILE" in row.reason


@pytest.mark.parametrize("programs, state", [((), SKIPPED), (("sbatch",), FAILED), (("sbatch", "sacct"), OK)])
def test_slurm(programs, state, monkeypatch):
    monkeypatch.setattr(installation, "_run_command", lambda name, *words: "slurm 24.05" if name in programs else "")
    (row,) = installation.check_slurm()
    assert row.state == state


def test_what_a_grid_lacks(tmp_path, monkeypatch, capsys):
    """Nothing is said of what is there; a line names what is missing, and the fix."""
    monkeypatch.chdir(tmp_path)
    assert doctor.main(["--grid"]) == 0
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(wordnet_files, "is_installed", lambda: False)
    assert doctor.main(["--grid"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"error: WordNet: missing; {wordnet_files.ADVICE.removeprefix('no WordNet: ')}"
