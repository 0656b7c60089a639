"""Won and lost items on the page: pictures, texts, both outcomes, a bound on bytes, and what is not there said."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from compclip.report import item_gallery
from compclip.report.item_gallery import make_galleries
from compclip.report.slice_tables import search_table
from tests.report.compared_rows import RECORDS, make_table, write_records

ROOM = 1 << 20


@pytest.fixture
def root(tmp_path):
    Image.new("RGB", (400, 200), (200, 30, 30)).save(tmp_path / "photo.png")
    return tmp_path


def search(root: Path, picture: str = "photo.png"):
    """NegCLIP wins a quarter of the first metric and loses an eighth of the second."""
    base, ours = np.array([[0.0], [1.0]]) * np.ones((1, RECORDS)), np.array([[0.0], [1.0]]) * np.ones((1, RECORDS))
    ours[0, : RECORDS // 4], ours[1, : RECORDS // 8] = 1.0, 0.0
    return search_table(make_table({"pretrained": base, "negclip": ours}), {"made": write_records(root, picture)})


def make(root, table, count=3, room=ROOM):
    ((gallery,),) = [make_galleries([table], count, root, Path("../results"), room)]
    return gallery


def test_items_with_pictures_texts_and_outcomes(root):
    gallery = make(root, search(root))
    (of_method,) = gallery.methods
    assert of_method.counts == (RECORDS // 4, RECORDS // 8)
    assert [len(side) for side in (of_method.won, of_method.lost)] == [3, 3]
    item = of_method.won[0]
    assert (item.ours, item.theirs) == ("right", "wrong") and item.name.startswith("made/itt/")
    assert item.texts in (("cup above hat", "cup below hat"), ("cup below hat", "cup above hat"))
    assert item.link == "../results/negclip/vit-scenes-0/made.json" and item.run == "negclip-vit-scenes-0"
    assert item.thumbnails[0].startswith("data:image/jpeg;base64,") and len(item.thumbnails[0]) < 4000
    assert gallery.note == "" and make(root, search(root)) == gallery  # the same items in every call


def test_no_items_where_none_are_wanted(root):
    (of_method,) = make(root, search(root), count=0).methods
    assert of_method.won == of_method.lost == []


@pytest.mark.parametrize("picture", ["gone.png", "broken.png"])
def test_pictures_that_are_missing_or_no_pictures(root, picture):
    """The item is shown, and the number is said."""
    (root / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    gallery = make(root, search(root, picture))
    assert len(gallery.methods[0].won) == 3 and gallery.methods[0].won[0].thumbnails == ()
    assert gallery.note == "Not on this machine, or no picture that can be read: 6."


def test_what_does_not_fit_is_counted(root):
    table = search(root)
    size = make(root, table).methods[0].won[0].bytes
    room = item_gallery.TABLE_BYTES + item_gallery.METHOD_BYTES + 2 * size + size // 2
    gallery = make(root, table, room=room)
    (of_method,) = gallery.methods
    assert (len(of_method.won), len(of_method.lost)) == (1, 1)
    assert gallery.note == "4 items did not fit into the 2 MB that the page may have. "
