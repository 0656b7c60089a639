"""The comparison with released programs, on the one that every installation has: open_clip's losses."""

import shutil
from pathlib import Path

import open_clip
import pytest

from compclip.base.plugins import METHODS, list_plugins
from perf.truth import released_losses
from tests.shipped_files import list_shipped

PROGRAM = Path(open_clip.__file__).parent
UNPUBLISHED = {"crepe", "mosaiclip", "clip_in"}  # whose authors released no training loss


@pytest.mark.parametrize("name", ["finetune", "finetune_sigmoid"])
def test_plain_fine_tuning_is_open_clips(name):
    value, slope = released_losses.measure(name, PROGRAM)
    assert value < 1e-14 and slope < 1e-13


def test_another_loss_is_told(tmp_path):
    """Theirs, halved once more."""
    shutil.copy(PROGRAM / "loss.py", tmp_path)
    text = (tmp_path / "loss.py").read_text()
    (tmp_path / "loss.py").write_text(text.replace(") / 2", ") / 4"))
    assert ") / 2" in text and released_losses.measure("finetune", tmp_path)[0] > 0.1


def test_every_method_with_a_grid_as_released_has_its_comparison():
    released = {path.stem.rpartition("_")[0] for path in list_shipped("experiments/grids/*_re[ld]*ed.yaml")}
    compared = {name for name in list_plugins(METHODS) if any(key.startswith(name) for key in released_losses.COMPARE)}
    assert (released & set(list_plugins(METHODS))) - compared == UNPUBLISHED
