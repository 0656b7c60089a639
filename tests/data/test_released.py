"""Released hard positives, as their authors wrote them for COCO's captions."""

from __future__ import annotations

import json

import pytest

from compclip.base.errors import UserError
from compclip.config.captions import Rewrites
from compclip.data import released

CAPTIONS = ["A dog  and a cat.", "A bus.", "A dog and a cat.", "A cup."]


@pytest.fixture
def files(tmp_path) -> Rewrites:
    """COCO's captions, and a line for each of them in both files."""
    coco = {"images": [], "annotations": [{"id": n, "caption": text} for n, text in enumerate(CAPTIONS)]}
    (tmp_path / "captions.json").write_text(json.dumps(coco))
    (tmp_path / "swap.jsonl").write_text('"A cat and a dog."\n"None"\n"A second one."\nNone\n')
    (tmp_path / "replace.jsonl").write_text('" A hound\\nand a cat."\n"A coach."\n\n{"x": 1}\n')
    return Rewrites(*(str(tmp_path / name) for name in ("captions.json", "swap.jsonl", "replace.jsonl")))


def test_joined_by_caption(files, tmp_path):
    """The first of two equal captions counts; a placeholder, an empty line and a damaged one are nothing."""
    with released.opened(files, tmp_path / "i") as given:
        assert given(["A cup.", "A bus.", "A dog and a cat.", "Another."]) == [
            {},
            {"replace": "A coach."},
            {"swap": "A cat and a dog.", "replace": "A hound and a cat."},
            {},
        ]


def test_one_file_alone(files, tmp_path):
    with released.opened(Rewrites(files.captions, replace=files.replace), tmp_path / "i") as given:
        assert given(["A dog and a cat."]) == [{"replace": "A hound and a cat."}]


def test_files_that_do_not_belong_together(files, tmp_path):
    for swap, part in (("None\n" * 3, 4), ("None\n" * 5, 5)):
        (tmp_path / "swap.jsonl").write_text(swap)
        with (
            pytest.raises(UserError, match=f"of 4 annotations of .*part at {part}"),
            released.opened(files, tmp_path / "i"),
        ):
            pass
    gone = Rewrites(files.captions, swap=str(tmp_path / "gone.jsonl"))
    with pytest.raises(UserError, match="gone.jsonl: No such file"), released.opened(gone, tmp_path / "i"):
        pass
    (tmp_path / "captions.json").write_text('{"annotations": [1]}')
    with pytest.raises(UserError, match="not COCO's captions"), released.opened(files, tmp_path / "i"):
        pass
    with pytest.raises(UserError, match="swap: names no file"):
        Rewrites(files.captions)
