"""Made inputs against every reader; `python -m perf.faults.made_inputs` tries as many as there is time for."""

import random
import shutil
import threading
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from perf.faults import made_inputs, own_files
from perf.faults.fuzz.reader import Reader


def test_no_input_traces_back_hangs_or_leaves_its_folder(capsys):
    """Every reader takes its valid files, and two hundred others end as they should."""
    patiently = ["--deadline", "600"]  # other tests may have the cores
    assert made_inputs.main(["--inputs", "200", "--seed", "0", *patiently]) == 0, capsys.readouterr().out


def _fails(_: random.Random) -> None:
    raise KeyError("x")


def _refuses(_: random.Random) -> None:
    raise UserError("a: b; repair it")


WAYS = {
    "accepted": lambda _: None, "refused": _refuses, "traceback": _fails, "outside": lambda _: Path("../stray").touch(),
    "hang": lambda _: threading.Event().wait(),
}  # fmt: skip


def test_each_kind_of_end_is_told_apart(tmp_path):
    """What the command counts, of readers that do what none may."""
    readers = [Reader(name, lambda folder: None, action, ()) for name, action in WAYS.items()]
    tries = made_inputs.Tries(tmp_path, readers, deadline_s=0.2)
    assert [tries.try_input(kind, 1).kind for kind in WAYS] == list(WAYS)
    assert tries.try_input("refused", 2).message == "a: b; repair it"


@pytest.fixture(scope="module")
def completed(finished, tmp_path_factory):
    """The finished project with all that its stages leave."""
    return own_files.complete(shutil.copytree(finished, tmp_path_factory.mktemp("own") / "project", symlinks=True))


@pytest.mark.parametrize("edits", [4, pytest.param(2000, marks=pytest.mark.long)])
def test_no_damage_of_our_own_files_traces_back(completed, edits, capsys):
    """Whichever file a disk or a copy changed: its readers understand it, or say in a line what is damaged."""
    assert own_files.main(["--edits", str(edits), "--project", str(completed)]) == 0, capsys.readouterr().out


OWN = ("data/scenes/manifest.json", "data/fingerprints/scenes.json", "plan/train/finetune.json", "keys/finetune.json")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(
    "change", [("samples", "tamples"), ("{", "["), ('"', ""), (": ", ": null, "), (":", ": {} , ")]
)
def test_a_changed_key_of_an_own_file_is_said(completed, tmp_path, name, change):
    """One word of it is another: no command ends in a traceback."""
    copy = tmp_path / "copy"
    own_files.copy_project(completed, copy, Path(name))
    path = copy / name
    path.write_text(path.read_text().replace(*change))
    for command in own_files.COMMANDS.values():
        kind, words = own_files.run(copy, command)
        assert kind != own_files.TRACEBACK, words
