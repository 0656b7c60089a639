"""CREPE-Productivity: official CSV files, boxes, complexities together and apart."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import crepe
from tests.benchmarks import official_files

HEADER = ["image_id", "caption", "n", "n_objects", "n_relations", "n_attributes", "n_connected_components",
          "hard_negs", "x", "y", "width", "height"]  # fmt: skip
TEXTS = {"good": [0.9, 0.1], "bad": [0.1, 0.9], "poor": [0.2, 0.8], "equal": [0.9, 0.1]}
AT = "VG_100K_2/13.jpg#box=237,391,402,208"


def row(caption: str = "good", hard_negs: object = ("bad", "poor"), **columns: str) -> dict:
    negatives = list(hard_negs) if isinstance(hard_negs, tuple) else hard_negs
    fields = {"image_id": "13", "caption": caption, "hard_negs": str(negatives)}
    numbers = {"x": "237.0", "y": "391.0", "width": "402.0", "height": "208.0"}
    return dict.fromkeys(HEADER, "1") | numbers | fields | columns


def table(*rows: dict, header: list[str] = HEADER) -> str:
    return official_files.table(header, *([row[column] for column in header] for row in rows))


def name(kind: str, n: int) -> str:
    return f"crepe/{kind}/prod_vg_hard_negs_{kind}_complexity_{n}.csv"


@pytest.fixture
def folder(dump, picture):
    picture("crepe/images/VG_100K_2/13.jpg")
    for kind in crepe.TYPES:
        for n in range(4, 13):
            path = dump(name(kind, n), table(row(), row("bad", ("poor", "good"))))
    return path.parent.parent


@pytest.fixture
def score(folder, embeddings):
    return lambda **options: crepe.load(folder, **options).score(embeddings({f"{folder}/images/{AT}": [1, 0]}, TEXTS))


def test_types_complexities_and_means(dump, score):
    dump(name("atom", 12), table(row(), row(), row(), row("bad", ("good", "poor"))))
    result = score()
    assert result.metrics["atom"] == pytest.approx((8 + 3) / (16 + 4))  # (8 * 0.5 + 0.75) / 9 were they not pooled
    names = ("swap", "atom/complexity_12", "atom/complexity_4")
    assert [result.metrics[name] for name in names] == [0.5, 0.75, 0.5]
    assert result.metrics["average"] == pytest.approx((0.55 + 0.5 + 0.5) / 3)
    assert result.metrics["average/complexity_12"] == pytest.approx((0.75 + 0.5 + 0.5) / 3)
    assert result.items["atom/complexity_12"].ids == ("12-0", "12-1", "12-2", "12-3")
    assert (result.counts["records"], result.counts["scored"]) == (56, 56)


def test_every_wrong_caption_must_lose_and_a_tie_is_wrong(dump, score):
    dump(name("atom", 4), table(row(hard_negs=("bad", "good ", "poor")), row(hard_negs=("bad", "equal", "poor")),
                                row("poor", ("bad", "good")), row("poor", ("bad",))))  # fmt: skip
    result = score(split="atom")
    assert result.items["atom/complexity_4"].values.tolist() == [1, 0, 0, 1]
    assert (result.counts["foil_is_caption"], result.counts["without_foil"]) == (1, 0)


def test_a_set_of_wrong_captions_is_read_in_one_order(dump, folder):
    """Some rows of the official files hold a set, whose order differs from one run of Python to the next."""
    texts = {f"text {i}" for i in range(9)}
    dump(name("atom", 4), table(row(hard_negs=texts), row(hard_negs=("z", "a"))))
    first, second = crepe.load(folder, split="atom").records[:2]
    assert first.texts == ("good", *sorted(texts)) and second.texts == ("good", "z", "a")


def test_pictures_in_any_of_the_folders(folder, picture):
    box = AT.partition(".jpg")[2]
    assert crepe.load(folder).images == [f"{folder}/images/{AT}"]
    at = picture("flat/13.jpg")
    assert crepe.load(folder, images=at.parent).images == [f"{at}{box}"]
    first = picture("both/VG_100K/13.jpg")
    picture("both/13.jpg")
    assert crepe.load(folder, images=first.parent.parent).images == [f"{first}{box}"]


def test_a_number_that_is_too_long_for_a_file_is_a_missing_picture(dump, folder):
    dump(name("atom", 4), table(row(image_id="1" * 300)))
    assert crepe.load(folder, split="atom").images[0].startswith(f"{folder}/images/{'1' * 300}.jpg#box=")


DAMAGED = [  # what must be named
    (table(row(), header=[c for c in HEADER if c != "width"]), "atom_complexity_4.csv.*'width'"),
    ("", "atom_complexity_4.csv: holds no row"), (table(row(), row(x="")), "record 1.*'x' is ''"),
    (table(row(height="nan")), "record 0.*'height' is 'nan'"),
    *((table(row(hard_negs=text)), "record 0.*'hard_negs'")
      for text in ("bad, poor", "['bad', 1]", "[]", "__import__('os')")),
    (table() + "13,good,4\n", "line 2"), (table() + '13,"' + "a" * 200_000, "line 2"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "names"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files(folder, dump, content, names):
    dump(name("atom", 4), content)
    with pytest.raises(UserError, match=names):
        crepe.load(folder)
