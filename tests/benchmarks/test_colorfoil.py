"""ColorFoil: made of COCO's captions by the authors' rules, with a draw that can be had again."""

import numpy as np
import pytest

from compclip.benchmarks import colorfoil


class Draws:
    """A generator that draws these places of COMMON."""

    def __init__(self, *colors: str) -> None:
        self.places = [colorfoil.COMMON.index(color) for color in colors]

    def integers(self, count: int) -> int:
        assert count == len(colorfoil.COMMON)
        return self.places.pop(0)


def foil(caption, *colors):
    return colorfoil.make_foil(caption, Draws(*colors))


def test_foils_as_a_person_writes_them():
    assert foil("a red cup", "green") == "a green cup"
    assert foil("a red cup", "red") == "a black cup"  # the colour before it in the list
    assert foil("a blue cup", "blue") == "a brown cup"  # the last, before the first
    assert foil("a red cup and a blue hat", "blue", "pink") == "a pink cup and a pink hat"  # the first foil again
    assert foil("a covered red cup", "white") == "a covewhite white cup"
    assert foil("skis in snow", "grey") == "skis in grey"


CONTENT = {
    "images": [{"id": n, "file_name": f"{n}.jpg"} for n in (4, 2, 3)],
    "annotations": [
        {"image_id": 2, "caption": "Two dogs."}, {"image_id": 4, "caption": "a Red cup, red."},
        {"image_id": 2, "caption": "a tan dog"}, {"image_id": 2, "caption": "a red dog"},
        {"image_id": 4, "caption": "one white cup"},
    ],
}  # fmt: skip


def test_the_first_caption_with_a_colour_of_each_picture(dump, monkeypatch):
    """`Red` and `red.` are no names; pictures are in their own order."""
    file = dump("c/annotations/captions_val2017.json", CONTENT)
    benchmark = colorfoil.load(file.parent.parent, "p")
    assert [(r.id, r.images, r.texts[0]) for r in benchmark.records] == [
        ("4", ("p/4.jpg",), "one white cup"), ("2", ("p/2.jpg",), "a tan dog")]  # fmt: skip
    assert benchmark.dropped == {"without_color": 1, "grey_picture": 0}
    assert colorfoil.load(file, "p").records == benchmark.records
    foils = set()
    for seed in range(8):
        monkeypatch.setattr(colorfoil.Config, "seed", seed)
        foils.add(colorfoil.load(file, "p").records[0].texts[1])
    assert len(foils) > 1 and "one white cup" not in foils


def test_grey_pictures_of_the_whole_set_are_left_out(dump, monkeypatch):
    monkeypatch.setattr(colorfoil, "PICTURES", 3)
    monkeypatch.setattr(colorfoil, "GREY_PICTURES", (0,))
    benchmark = colorfoil.load(dump("c/captions_val2017.json", CONTENT))
    assert [record.id for record in benchmark.records] == ["2"] and benchmark.dropped["grey_picture"] == 1


def test_no_foil_is_its_caption_on_real_captions(shared_data):
    benchmark = colorfoil.load(shared_data / "coco/annotations/captions_val2017.json")
    assert len(benchmark) == 78 and benchmark.dropped["without_color"] == 76
    assert all(caption != foiled for caption, foiled in (record.texts for record in benchmark.records))


def test_draws_are_even():
    """Each colour but its own is drawn, the one before it twice as often: the authors' rule."""
    rng = np.random.default_rng(0)
    foils = [colorfoil.make_foil("red", rng) for _ in range(2000)]
    share = {color: foils.count(color) / len(foils) for color in colorfoil.COMMON}
    assert share.pop("red") == 0 and share.pop("black") == pytest.approx(0.2, abs=0.03)
    assert list(share.values()) == pytest.approx([0.1] * 8, abs=0.03)
