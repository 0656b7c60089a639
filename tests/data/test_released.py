"""Released hard positives, as their authors wrote them for COCO's captions."""

from pathlib import Path

import pytest
from PIL import Image

from compclip.base.safe_names import SafeName
from compclip.config.released_lists import ReleasedRewrites
from compclip.config.sections import Data
from compclip.prepare import rewrite_shards, shard_stages
from tests.data.reading import put_coco

CAPTIONS = ["A dog  and a cat.", "A bus.", "A dog and a cat.", "A cup."]


@pytest.fixture
def files(tmp_path) -> ReleasedRewrites:
    """COCO's captions, and a line for each of them in both files."""
    put_coco(tmp_path / "captions.json", {"a.png": CAPTIONS})
    (tmp_path / "swap.jsonl").write_text('"A cat and a dog."\n"None"\n"A second one."\nNone\n')
    (tmp_path / "replace.jsonl").write_text('" A hound\\nand a cat."\n"A coach."\n\n{"x": 1}\n')
    return ReleasedRewrites(*(str(tmp_path / name) for name in ("captions.json", "swap.jsonl", "replace.jsonl")))


def test_joined_by_caption(files, tmp_path):
    """The first of two equal captions counts; a placeholder, an empty line and a damaged one are nothing."""
    find_rewrites = rewrite_shards.open_released(files, tmp_path / "i")
    both = {"swap": "A cat and a dog.", "replace": "A hound and a cat."}
    rewrites = find_rewrites(["A cup.", "A bus.", "A dog and a cat.", "Another."])
    assert rewrites == [{}, {"replace": "A coach."}, both, {}]


def test_the_stages(files, tmp_path, monkeypatch):
    """Released rewrites come where a model's would, and what a model's answer would not pass is not used."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8)).save("a.png")
    put_coco(Path("captions.json"), {"a.png": CAPTIONS})
    cfg = Data("coco", "captions.json", ".", captioner="none", rewrites=vars(files))
    shard_stages.run_stage("recaption", SafeName("d", "data"), cfg)
    assert shard_stages.run_stage("rewrite", SafeName("d", "data"), cfg) == {
        "captions": 3, "swap": {"not_released": 2, "usable": 1}, "replace": {"not_released": 1, "usable": 2}
    }  # fmt: skip
    (path,) = Path("data/d/rewrites").glob("*.arrow")
    assert rewrite_shards.load_rewrites(path)["A bus."] == rewrite_shards.Rewrites(replace="A coach.")
    assert shard_stages.run_stage("annotate", SafeName("d", "data"), cfg)["captions"] == 4
