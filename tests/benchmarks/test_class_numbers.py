"""Class numbers of a release by the names that it ships: a perfect model is right about all of its pictures.

`elevater_orders.json` has, of the five sets that ELEVATER numbers otherwise, the place among CLIP_benchmark's classes of
each of its classes (its toolkit's prompts.py).
"""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import _class_sets, zeroshot
from compclip.benchmarks._class_sets import ClassSet
from compclip.benchmarks.zeroshot import Config
from tests.benchmarks import picture_tables
from tests.data import tar_files

ORDERS: dict[str, list[int]] = json.loads((Path(__file__).parent / "elevater_orders.json").read_text())
WORDED = {"caltech101": {"off-center face": "Faces", "airplane": "airplanes"}, "fgvc_aircraft": {"F-16A/B": "F-16A-B"},
          "cars": {"Ram C/V Cargo Van Minivan 2012": "Ram C V Cargo Van Minivan 2012"}}  # fmt: skip
# in Hugging Face's order
FOOD = sorted(_class_sets.load_class_set("food101").names, key=lambda name: name.replace(" ", ""))


def release_names(title: str) -> list[str]:
    """The names of ELEVATER's numbers, some worded as releases word them."""
    names = _class_sets.load_class_set(title).names
    return [WORDED.get(title, {}).get(names[i], names[i].replace(" ", "_")) for i in ORDERS[title]]


@pytest.fixture
def accuracy(embeddings) -> Callable[..., float]:
    """Top-1 of a model that sees what each picture shows: picture i the class with the number `truth[i]`."""

    def score(benchmark, truth: Sequence[int], class_set: ClassSet) -> float:
        one_hot = np.eye(len(class_set.names))
        texts = {template.replace("{c}", name): one_hot[i]
                 for i, name in enumerate(class_set.names) for template in class_set.templates}  # fmt: skip
        embedded = embeddings(dict(zip(benchmark.images, one_hot[list(truth)], strict=True)), texts)
        return benchmark.score(embedded).metrics["top_1"]

    return score


@pytest.fixture
def index(dump) -> Callable[..., Path]:
    """The folder of an index file with a picture of each class, and of `labels.txt` where names are given."""

    def write(count: int, names: Sequence[str] = (), file: str = "labels.txt") -> Path:
        if names:
            dump(f"e/{file}", "\n".join(names) + "\n")
        return dump("e/test.txt", "".join(f"test.zip@{i}.jpg {i}\n" for i in range(count))).parent

    return write


# --- index files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("title", "share"), [("caltech101", 34.3), ("cars", 16.3), ("cifar100", 1.0),
                                              ("fgvc_aircraft", 80.0), ("food101", 98.0)])  # fmt: skip
def test_elevaters_numbers_are_mapped_by_its_labels(index, accuracy, title, share):
    """By number alone a perfect model would be right about `share` of the classes."""
    order, class_set = ORDERS[title], _class_sets.load_class_set(title)
    assert 100 * np.mean(np.array(order) == np.arange(len(order))) == pytest.approx(share, abs=0.05)
    benchmark = zeroshot.load(index(len(order), release_names(title)), split="test.txt", options=Config(title))
    assert accuracy(benchmark, order, class_set) == 1.0
    assert [file.name for file in benchmark.files] == [f"{title}.json", "test.txt", "labels.txt"]


@pytest.mark.parametrize("title", ORDERS)
def test_numbers_in_another_order_without_names_are_refused(index, title):
    message = rf"test.txt: its class numbers have no names, .*{title} .* labels.txt beside it"
    with pytest.raises(UserError, match=message):
        zeroshot.load(index(3), split="test.txt", options=Config(title))


@pytest.mark.parametrize("title", ["eurosat", "fer2013", "pets", "gtsrb", "country211", "imagenet"])
def test_sets_that_elevater_numbers_as_we_do_need_no_names(index, title):
    count = len(_class_sets.load_class_set(title).names)
    labels = zeroshot.load(index(count), split="test.txt", options=Config(title)).evaluate.keywords["labels"]
    assert list(labels.values()) == list(range(count))


@pytest.mark.parametrize(
    ("changed", "message"),
    [("no food", r"labels.txt: class 'no food' is no name of food101, .*name it as the set does"),
     ("baklava", r"classes 'baklava' and 'baklava' are one class of the set; give each another name"),
     ("", r"labels.txt: class '' is no name of food101")],
)  # fmt: skip
def test_every_label_is_one_class(index, changed, message):
    names = [changed, *release_names("food101")[1:]]
    with pytest.raises(UserError, match=message):
        zeroshot.load(index(101, names), split="test.txt", options=Config("food101"))


def test_categories_of_a_json_index_by_their_names(dump, accuracy):
    class_set = _class_sets.load_class_set("resisc45")
    release = [name.replace(" ", "_") for name in reversed(class_set.names)]
    content = {"images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(45)],
               "annotations": [{"image_id": i, "category_id": i + 1} for i in range(45)],
               "categories": [{"id": i + 1, "name": name} for i, name in enumerate(release)]}  # fmt: skip
    benchmark = zeroshot.load(dump("j/test.json", content).parent, split="test.json", options=Config("resisc45"))
    assert accuracy(benchmark, range(44, -1, -1), class_set) == 1.0


# --- tables ---------------------------------------------------------------------------------------------------


def table(folder: Path, names: object, column: str = "label", count: int = 101, stem: str = "test") -> Path:
    """A picture of each class, with the schema that the package datasets writes; without names a plain one."""
    rows = [{"image": picture_tables.cell("red"), column: i} for i in range(count)]
    features = {"image": {"_type": "Image"}, column: {"names": names, "_type": "ClassLabel"}}
    metadata = None if names is None else {"huggingface": json.dumps({"info": {"features": features}})}
    return picture_tables.write(folder / f"{stem}.parquet", rows, metadata).parent


def test_numbers_of_a_table_are_mapped_by_its_schema(tmp_path, accuracy):
    """Hugging Face's food101 has cheesecake before cheese plate: 98 % by number alone."""
    truth = [_class_sets.load_class_set("food101").names.index(name) for name in FOOD]
    assert 100 * np.mean(np.array(truth) == np.arange(101)) == pytest.approx(98.0, abs=0.05)
    folder = table(tmp_path / "p", [name.replace(" ", "_") for name in FOOD])
    benchmark = zeroshot.load(folder, options=Config("food101"))
    assert accuracy(benchmark, truth, _class_sets.load_class_set("food101")) == 1.0


@pytest.mark.parametrize("names", [None, [], {"0": "apple_pie"}, ["apple_pie", 3]])
def test_a_table_without_names_is_refused(tmp_path, names):
    folder = table(tmp_path / "p", names)
    with pytest.raises(UserError, match=r"test.parquet: its class numbers have no names, .* food101 .* labels.txt in "):
        zeroshot.load(folder, options=Config("food101"))
    (folder / "labels.txt").write_text("\n".join(FOOD))
    assert len(zeroshot.load(folder, options=Config("food101"))) == 101


def test_two_tables_of_other_names(tmp_path):
    names = [name.replace(" ", "_") for name in FOOD]
    table(tmp_path / "p", names, stem="test-00000-of-00002")
    table(tmp_path / "p", names[::-1], stem="test-00001-of-00002")
    with pytest.raises(UserError, match=r"test-00001-of-00002.parquet: names its classes otherwise than test-00000"):
        zeroshot.load(tmp_path / "p", split="test", options=Config("food101"))


def test_imagenets_names_as_the_hub_has_them(tmp_path):
    """Every synonym of each synset: most are no name of ours, and none says that the order is another."""
    synonyms = io.StringIO(_class_sets._package_file("timm", "data/_info/imagenet_synset_to_lemma.txt").read_text())
    of_synset = dict(line.rstrip("\n").split("\t", 1) for line in synonyms)
    folder = table(tmp_path / "p", [of_synset[s] for s in _class_sets.load_class_set("imagenet").synsets], count=5)
    labels = zeroshot.load(folder, options=Config("imagenet")).evaluate.keywords["labels"]
    assert list(labels.values()) == list(range(5))


# --- tars, own names, folders -----------------------------------------------------------------------------------


def test_tars_are_mapped_by_the_names_of_their_builder(dump, tmp_path):
    """`vtab/caltech101` read as `caltech101`: its first class is the accordion, whose number here is 5."""
    dump("w/classnames.txt", "\n".join(_class_sets.load_class_set("caltech101_vtab").names))
    tar_files.write(tmp_path / "w/test/0.tar", [("s.webp", tar_files.picture(8, 8, "WEBP", 9)), ("s.cls", b"0")])
    benchmark = zeroshot.load(tmp_path / "w", split="test", options=Config("caltech101"))
    assert [record.id for record in benchmark.records] == ["5/0/s"] and len(benchmark.files) == 2


def test_own_names_in_another_order_than_the_schema(dump, tmp_path):
    """The names say which is which, as long as they are the same; else classnames.txt says what the numbers mean."""
    dump("p/zeroshot_classification_templates.txt", "{c}")
    dump("p/classnames.txt", "b\na")
    folder = table(tmp_path / "p", ["a", "b"], count=2)
    assert zeroshot.load(folder).evaluate.keywords["labels"] == {"1/0": 1, "0/1": 0}
    dump("p/classnames.txt", "first\nsecond")
    assert zeroshot.load(folder).evaluate.keywords["labels"] == {"0/0": 0, "1/1": 1}


CALTECH = ["BACKGROUND_Google", "Faces", "Faces_easy", "Leopards", "Motorbikes", "accordion", "airplanes", "yin_yang"]


def test_the_folders_of_caltech101(picture, tmp_path):
    for name in CALTECH:
        picture(f"c/{name}/image_0001.png")
    labels = zeroshot.load(tmp_path, tmp_path / "c", options=Config("caltech101")).evaluate.keywords["labels"]
    names = [_class_sets.load_class_set("caltech101").names[label] for label in labels.values()]
    assert names == ["background", "off-center face", "centered face", "leopard", "motorbike", "accordion", "airplane",
                     "yin and yang symbol"]  # fmt: skip


def test_names_that_differ_in_more_than_spelling_differ():
    """Of every known set the plain names and aliases are one class each, but ImageNet's two pairs of twins."""
    for title in _class_sets.names():
        class_set = _class_sets.load_class_set(title)
        plain = [_class_sets.plain_name(name) for name in class_set.names if name]
        assert len(plain) - len(set(plain)) <= 2 * title.startswith("imagenet"), title
        aliases = {_class_sets.plain_name(alias): name for alias, name in class_set.aliases.items()}
        assert set(aliases.values()) <= set(class_set.names) and not aliases.keys() & set(plain), title
