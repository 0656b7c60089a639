"""DCI: long descriptions as LoTLIP makes one text of them."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import dci

ROWS = {
    "a.json": {"image": "sa_1.jpg", "short_caption": "A red cup. On a table!", "extra_caption": "\nBehind it a man."},
    "b.json": {"image": "sa_2.jpg", "short_caption": "Two dogs", "extra_caption": ""},
}
SPLITS = {"train": ["b.json"], "valid": [], "test": ["a.json"]}


@pytest.fixture
def folder(dump, picture):
    dump("d/splits.json", SPLITS)
    picture("d/photos/sa_1.jpg")
    dump("d/complete/b.json", ROWS["b.json"])
    return dump("d/annotations/a.json", ROWS["a.json"]).parent.parent


def test_one_text_a_picture_of_all_splits(folder):
    train, test = dci.load(folder).records
    assert test.texts == ("A red cup. On a table!. Behind it a man",)  # cut at full stops and line ends alone
    assert test.images == (str(folder / "photos/sa_1.jpg"),) and (train.id, train.texts) == ("b", ("Two dogs",))
    assert [record.id for record in dci.load(folder, split="test").records] == ["a"]


@pytest.mark.parametrize(
    ("splits", "split", "message"),
    [({"train": []}, "", "no field 'valid'"), (SPLITS, "tset", "did you mean 'test'"),
     ({**SPLITS, "test": ["../../x.json"]}, "test", "x.json: no such file")],
)  # fmt: skip
def test_damaged_splits(folder, dump, splits, split, message):
    dump("d/splits.json", splits)
    with pytest.raises(UserError, match=message):
        dci.load(folder, split=split)
