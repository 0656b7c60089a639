"""`config use`: another grid becomes the current one, and nobody's edits are lost."""

import shutil
import subprocess
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.config import __main__ as config_command
from compclip.config import read
from tests.shipped_files import SHIPPED_PARAMS


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git repository with params.yaml committed and another grid beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHIPPED_PARAMS, tmp_path / "params.yaml")
    (tmp_path / "other.yaml").write_text(SHIPPED_PARAMS.read_text().replace("seeds: [0, 1]", "seeds: [7]"))
    for command in (["init", "-q"], ["add", "params.yaml"], ["commit", "-qm", "params"]):
        git(*command)
    return tmp_path


def git(*arguments):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments], check=True, capture_output=True
    )


def edit():
    path = Path("params.yaml")
    path.write_text(path.read_text() + "# mine\n")


def test_use_checks_first(repository):
    """An invalid grid leaves params.yaml as it is."""
    original = (repository / "params.yaml").read_bytes()
    Path("bad.yaml").write_text("grid: {methods: [x]}\n")
    with pytest.raises(UserError):
        config_command.main(["use", "bad.yaml"])
    assert (repository / "params.yaml").read_bytes() == original


def test_use_switches_back_and_forth(repository):
    """A params.yaml that is a copy of a grid's file holds nobody's edits, though git calls it changed."""
    (repository / "experiments" / "grids").mkdir(parents=True)
    grid_file = repository / "experiments" / "grids" / "mine.yaml"
    shutil.copy("other.yaml", grid_file)
    assert config_command.main(["use", str(grid_file)]) == 0
    assert config_command.main(["use", "other.yaml"]) == 0
    grid_file.unlink()
    shutil.copy(SHIPPED_PARAMS, "third.yaml")
    with pytest.raises(UserError, match="has uncommitted edits"):
        config_command.main(["use", "third.yaml"])


STATES = {  # what was done with params.yaml, and whether something would be lost
    "committed": ([], False),
    "edited": ([edit], True),
    "staged": ([edit, lambda: git("add", "params.yaml")], True),
    "edited and committed": ([edit, lambda: git("commit", "-qam", "mine")], False),
    "untracked": ([lambda: git("rm", "-q", "--cached", "params.yaml"), lambda: git("commit", "-qm", "gone")], True),
    "ignored": ([lambda: git("rm", "-q", "--cached", "params.yaml"), lambda: Path(".gitignore").write_text("*\n"),
                 lambda: git("commit", "-qm", "gone")], True),
    "no repository": ([lambda: shutil.rmtree(".git")], True),
    "not there": ([lambda: Path("params.yaml").unlink()], False),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_use_in_every_state_of_git(repository, state):
    """Refused in one line, nothing touched, exactly where something would be lost and without --force."""
    steps, lost = STATES[state]
    for step in steps:
        step()
    original = Path("params.yaml").read_bytes() if Path("params.yaml").exists() else None
    if lost:
        with pytest.raises(UserError, match="^params.yaml: has uncommitted edits; commit it or save it in"):
            config_command.main(["use", "other.yaml"])
        assert Path("params.yaml").read_bytes() == original
    assert config_command.main(["use", "other.yaml", *["--force"] * lost]) == 0
    assert Path("params.yaml").read_bytes() == Path("other.yaml").read_bytes()


def test_use_of_what_is_in_use_is_no_loss(repository):
    """The same file twice, and back from a study's best.yaml, need no --force."""
    best = repository / "studies" / "fsc_gamma" / "best.yaml"
    best.parent.mkdir(parents=True)
    shutil.copy("other.yaml", best)
    for file in (best, best, "other.yaml"):
        assert config_command.main(["use", str(file)]) == 0
    assert read.load_params("params.yaml").grid.seeds == [7]


def test_use_without_git(repository, monkeypatch):
    """Where no git can say what is committed, only --force or an equal grid file allows to overwrite."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="has uncommitted edits"):
        config_command.main(["use", "other.yaml"])
