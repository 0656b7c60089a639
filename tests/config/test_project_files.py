"""`compclip init`: a project from the package's files, and what an upgrade of the package changes in one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.begin import __main__ as init_command
from compclip.config import project_files, read
from tests.shipped_files import SHIPPED_PARAMS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A package's project files that a test may edit, as an upgrade does."""
    source = tmp_path / "package"
    for name in project_files.list_files(ROOT):
        if "safetensors" not in name and "published" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    shutil.copy(SHIPPED_PARAMS, source)
    monkeypatch.setattr(project_files, "find_source", lambda: source)
    return source


@pytest.fixture
def project(package, tmp_path, capsys) -> Path:
    """A project with the grid `try`."""
    assert init_command.main([str(tmp_path / "project"), "--grid", "try"]) == 0
    capsys.readouterr()
    return tmp_path / "project"


def list_changes(package: Path, project: Path) -> dict[str, str]:
    return {d.path: d.change for d in project_files.compare(package, project)}


def test_a_new_project_is_whole(project, package):
    """Every file of the package, the grid's params.yaml, a repository of git and one of DVC with our settings."""
    assert (project / "params.yaml").read_text() == (package / "experiments/grids/try.yaml").read_text()
    assert list_changes(package, project) == {}
    assert os.access(project / "slurm/local-cluster.sh", os.X_OK)
    assert "analytics = false" in (project / ".dvc" / "config").read_text()
    assert subprocess.run(["git", "rev-parse"], cwd=project).returncode == 0


def test_in_a_folder_of_a_repository(package, tmp_path):
    """No repository of git inside of another one; without a grid it is the default."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "team")], check=True)
    assert init_command.main([str(tmp_path / "team" / "clip")]) == 0
    assert not (tmp_path / "team/clip/.git").exists()
    assert (tmp_path / "team/clip/.dvc/config").exists()
    assert read.load_params(tmp_path / "team/clip/params.yaml") == read.load_params(SHIPPED_PARAMS)


def test_an_unknown_grid_writes_nothing(package, tmp_path):
    with pytest.raises(UserError, match="unknown grid 'tyr'; did you mean 'try'"):
        init_command.main([str(tmp_path / "none"), "--grid", "tyr"])
    assert not (tmp_path / "none").exists()


def upgrade_package(package: Path, project: Path) -> None:
    """The package changes four files, gets one and loses one; of these the project edited one and removed one."""
    for name in ("dvc.yaml", "slurm/cpu.yaml", "slurm/a100.yaml", "experiments/claims.yaml"):
        with open(package / name, "a") as file:
            file.write("# of the next version\n")
    (package / "experiments/grids/next.yaml").write_text("grid: {}\n")
    (package / "experiments/studies/fsc_joint.yaml").unlink()
    (project / "slurm/cpu.yaml").write_text("executor: local\n")
    (project / "slurm/a100.yaml").unlink()
    (project / "slurm/local.yaml").write_text("executor: local\njobs: 3\n")  # edited, and nothing new in the package


def test_an_upgrade_overwrites_nothing_that_was_edited(project, package, capsys):
    upgrade_package(package, project)
    expected = {
        "dvc.yaml": "changed", "experiments/claims.yaml": "changed", "experiments/grids/next.yaml": "new",
        "experiments/studies/fsc_joint.yaml": "removed", "slurm/a100.yaml": "removed", "slurm/cpu.yaml": "edited",
    }  # fmt: skip
    assert list_changes(package, project) == expected
    assert init_command.main([str(project), "--update"]) == 0
    assert {n: c for n, c in expected.items() if c in ("edited", "removed")} == list_changes(package, project)
    assert (project / "dvc.yaml").read_bytes() == (package / "dvc.yaml").read_bytes()
    assert (project / "slurm/cpu.yaml").read_text() == "executor: local\n"
    assert (project / "slurm/local.yaml").read_text() == "executor: local\njobs: 3\n"
    assert not (project / "slurm/a100.yaml").exists()


def test_the_differences_are_shown_and_nothing_is_written(project, package, capsys):
    upgrade_package(package, project)
    before = {p: p.read_bytes() for p in project.rglob("*.yaml")}
    assert init_command.main([str(project), "--diff"]) == 0
    printed = capsys.readouterr().out
    assert "+# of the next version" in printed
    assert "-executor: local" in printed
    assert {p: p.read_bytes() for p in project.rglob("*.yaml")} == before
