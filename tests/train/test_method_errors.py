"""A loss of one's own that is wrong: one line with the place in one's own file, or with the term that is not finite."""

from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.train import __main__ as train_command
from tests.base.test_plugins import on_path, package  # noqa: F401

HEAD = """from dataclasses import dataclass

import own_helper
from compclip.train import losses
from compclip.train.batch import Views

TRAINS = True


@dataclass(frozen=True)
class Config:
    weight: float = 1.0


def views(cfg, step):
    return Views()


def loss(f, cfg, step):
    clip = losses.clip(f.image_BD, f.text_BD, f.scale)
"""
FIRST = len(HEAD.splitlines()) + 1  # the line behind
HELPER = "def far(f):\n    return f.image_BD[:, 999].mean()\n"


def message(on_path, folder: Path, body: str) -> str:  # noqa: F811
    """What a training with this loss ends with."""
    package(folder, "own-pack", {"own": "own_method"}, own_method=f"{HEAD}    {body}\n", own_helper=HELPER)
    on_path(folder)
    grid = ("methods.own={}", "grid.methods=[pretrained,own]")
    with pytest.raises(UserError) as error:
        train_command.main(["--cell", "own-tiny-scenes-0", *grid])
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("body, reason", [
    ('return {"clip": clip, "own": (f.image_BD @ f.text_BD).mean()}', "RuntimeError: mat1 and mat2 shapes"),
    ('return {"own": losses.clip(f.image_BD, f.text_BD[:, :3], f.scale)}', "RuntimeError: mat1 and mat2 shapes"),
    ('return {"clip": clip, "own": own_helper.far(f)}', "IndexError: index 999 is out of bounds"),
], ids=["shape", "in_our_losses", "in_a_helper"])  # fmt: skip
def test_the_place_in_the_own_file(here, on_path, tmp_path, body, reason):  # noqa: F811
    """The last line of the method's file that was under way, whoever raised it; the helper has a file of its own."""
    error_line = message(on_path, tmp_path / "site", body)
    assert error_line.startswith(f"{tmp_path}/site/own_method.py:{FIRST}: {reason}")
    assert error_line.endswith("; repair the loss of method 'own'")


@pytest.mark.parametrize("value, printed", [("1 / (clip * 0)", "inf"), ("(clip * 0).log() * 0", "nan")])
def test_the_term_that_is_not_finite(here, on_path, tmp_path, value, printed):  # noqa: F811
    error_line = message(on_path, tmp_path / "site", f'return {{"clip": clip, "own": {value}}}')
    assert error_line.startswith(f"train: the loss is {printed} at step 1: own={printed}; lower train.lr=0.001")
    assert "clip" not in error_line and "repair that term" in error_line
