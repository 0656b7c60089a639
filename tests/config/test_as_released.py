"""The grids of what authors ran: every value has the release's beside it, and the page shows what they say."""

import pytest

from compclip.config import read
from perf.truth import as_released
from perf.truth.as_released import GRIDS, PAGES, ReleasedValue
from tests.shipped_files import list_shipped

RELEASED = list_shipped("experiments/grids/*_re[ld]*ed.yaml")  # as released, and reduced


def number(text: str) -> float | None:
    """A text as a number; None for words."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def test_pages_are_written_from_the_grids():
    for page in PAGES:
        text = page.path.read_text()
        assert text == as_released.write_page(page), "run python -m perf.truth.as_released"
        assert text.count("\n## ") == len(as_released.list_grids(page))
    assert sorted(grid for page in PAGES for grid in as_released.list_grids(page)) == RELEASED


@pytest.mark.parametrize("grid", RELEASED, ids=lambda path: path.stem)
def test_every_comment_is_read(grid):
    """Those behind a key whose values stand below it as well; the head names the page of its table."""
    (page,) = [page for page in PAGES if grid in as_released.list_grids(page)]
    assert f" experiments/grids/{page.path.name} has " in grid.read_text()
    comments = [line.partition("  # ")[2] for line in grid.read_text().splitlines() if line.startswith("  ")]
    theirs = [comment.partition(" | ")[0] for comment in comments if " | " in comment]
    assert [value.theirs for value in as_released.read_values(grid)] == theirs


@pytest.mark.parametrize("grid", RELEASED, ids=lambda path: path.stem)
def test_every_value_has_theirs_beside_it(grid):
    """Nothing of the schedule is open; a number that is not theirs says why."""
    assert as_released.list_uncommented(grid) == set()
    values = as_released.read_values(grid)
    assert {"train", "methods", "backbones", "data"} <= {value.section for value in values}
    for value in values:
        path, _, line = value.place.rpartition(":")
        assert (path and line.isdigit()) or value.place == "no program", value
        assert value.reason or not is_other_number(value), value


# What the programs' own functions of defaults gave for the model and the options of the release's command:
# `get_default_params` and its like tell "vit" in a name from all others.
OPTIMISER = {  # beta1, beta2, eps
    "ahnpl": (0.9, 0.98, 1e-6), "ce_clip": (0.9, 0.98, 1e-6), "clove": (0.9, 0.98, 1e-6), "dac": (0.9, 0.98, 1e-6),
    "degla": (0.9, 0.98, 1e-6), "fg_clip": (0.9, 0.999, 1e-8), "fineclip": (0.9, 0.999, 1e-8),
    "flair": (0.9, 0.98, 1e-8), "gnm_clip": (0.9, 0.98, 1e-6), "llip": (0.9, 0.95, 1e-6),
    "read_clip": (0.9, 0.999, 1e-8), "superclip": (0.9, 0.98, 1e-6), "svlc": (0.9, 0.98, 1e-6),
    "triplet_clip": (0.9, 0.999, 1e-8),
}  # fmt: skip


@pytest.mark.parametrize("method", OPTIMISER)
def test_the_optimiser_is_that_of_the_program(method):
    (grid,) = GRIDS.glob(f"{method}_re[ld]*ed.yaml")
    train = read.read_with_overrides(grid, ()).train
    assert (train.beta1, train.beta2, train.eps) == OPTIMISER[method]


@pytest.mark.parametrize("grid", RELEASED, ids=lambda path: path.stem)
def test_a_part_of_the_samples_is_no_grid_as_released(grid):
    """A smaller batch at their rate and steps; an epoch of pictures is as many samples as they count of captions."""
    values = {value.key: value for value in as_released.read_values(grid) if value.section == "train"}
    batch = values["batch_size"]
    theirs = number(batch.theirs)
    is_smaller = theirs is not None and number(batch.value) < theirs
    assert is_smaller == grid.stem.endswith("_reduced")


def is_other_number(value: ReleasedValue) -> bool:
    """Whether both are numbers, and not the same."""
    ours, theirs = number(value.value.strip("[]")), number(value.theirs)
    return ours is not None and theirs is not None and ours != theirs


def test_another_number_is_noticed(tmp_path):
    (tmp_path / "grid.yaml").write_text(
        "train:\n  lr: 1.0e-5  # 5e-06 | a.py:3\n  eps: 1.0e-6  # 1e-06 | a.py:4\n  threads: 8\n"
    )
    lr, eps = as_released.read_values(tmp_path / "grid.yaml")
    assert (lr.place, is_other_number(lr), is_other_number(eps)) == ("a.py:3", True, False)
    assert as_released.list_uncommented(tmp_path / "grid.yaml") == {"threads"}
