"""Zero-shot sets as others keep them: tars, parquet, index files, synsets, known class names; draws and metrics."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.benchmarks import _class_sets, zeroshot
from compclip.benchmarks.zeroshot import Config
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark_module
from compclip.evaluate.benchmark import parse_reference
from tests.benchmarks import picture_tables
from tests.data import tar_files

RED, GREEN = (tar_files.picture(8, 8, "WEBP", colour) for colour in (250, 0))


@pytest.fixture
def names(dump) -> Callable[..., Path]:
    def write(*classes: str) -> Path:
        dump("z/classnames.txt", "\n".join(classes) + "\n")
        return dump("z/zeroshot_classification_templates.txt", "{c}\n").parent

    return write


def sample(key: str, label: object, raw: bytes = RED) -> list[tuple[str, bytes]]:
    return [(f"{key}.webp", raw), (f"{key}.cls", str(label).encode())]


def red_pictures(benchmark) -> list[bool]:
    return [images.load_image(parse_reference(ref)[0]).getpixel((4, 4))[0] > 128 for ref in benchmark.images]


# --- tars -----------------------------------------------------------------------------------------------------


def test_clip_benchmarks_tars_are_read_where_they_lie(names, embeddings):
    folder = names("red", "green")
    tar_files.write(folder / "test/0.tar", [*sample("s0000000", 0), *sample("s0000001", "1\n", GREEN)])
    tar_files.write(folder / "test/10.tar", sample("s0000003", 1, GREEN))
    tar_files.write(folder / "test/2.tar", sample("s0000002", 0))
    (folder / "test/nshards.txt").write_text("3\n")
    benchmark = benchmark_module.load_benchmark("x", Section("zeroshot", str(folder), str(folder), "test"))
    assert [r.id for r in benchmark.records] == ["0/0/s0000000", "1/0/s0000001", "0/2/s0000002", "1/10/s0000003"]
    assert red_pictures(benchmark) == [True, False, True, False]
    assert benchmark_module.count_benchmark(benchmark)["missing_images"] == 0
    result = benchmark.score(embeddings(dict.fromkeys(benchmark.images, [1, 0]), {"red": [1, 0], "green": [0, 1]}))
    assert result.items["top_1"].values.tolist() == [1, 0, 1, 0]


def test_a_label_is_part_of_the_fingerprint(names):
    folder = names("red", "green")
    prints = set()
    for label in (0, 1):
        tar_files.write(folder / "test/0.tar", sample("s", label))
        prints.add(zeroshot.load(folder, split="test").fingerprint())
    assert len(prints) == 2


def test_what_lacks_a_picture_or_a_label_is_counted(names):
    folder = names("red", "green")
    odd = [("a.cls", b"0"), ("b.webp", RED), ("c.webp", b""), ("c.cls", b"1"), ("d.json", b"{}")]
    tar_files.write(folder / "0.tar", [*odd, *sample("e", 1)])
    benchmark = zeroshot.load(folder)
    assert len(benchmark) == 1 and benchmark.dropped == {"no_picture": 2, "no_label": 2}


# --- parquet --------------------------------------------------------------------------------------------------


def test_parquet_with_a_picture_and_a_label_a_row(names, tmp_path):
    folder = names("red", "green")
    rows = [{"image": {"bytes": raw, "path": None}, "label": label} for raw, label in ((RED, 0), (GREEN, 1))]
    picture_tables.write(folder / "data/test-00000-of-00001.parquet", rows)
    picture_tables.write(folder / "data/train-00000-of-00001.parquet", rows[:1])
    benchmark = benchmark_module.load_benchmark("x", Section("zeroshot", str(folder), str(tmp_path / "images"), "test"))
    assert benchmark.evaluate.keywords["labels"] == {"0/0": 0, "1/1": 1}
    assert red_pictures(benchmark) == [True, False]
    assert [file.name for file in benchmark.files][-1] == "test-00000-of-00001.parquet"


# --- index files ----------------------------------------------------------------------------------------------


def test_elevaters_index_files(names, dump, picture):
    """Archives unpacked beside each other, or all in one folder; a picture may have several classes."""
    folder = names("a", "b", "c")
    dump("z/test_ic.txt", "test.zip@x/1.png 0\ntest.zip@two words.png 1,2\n\n")
    first, second = picture("z/images/test/x/1.png"), picture("z/images/two words.png")
    benchmark = zeroshot.load(folder, split="test_ic.txt")
    assert benchmark.images == [str(first), str(second)]
    assert benchmark.evaluate.keywords["shown_classes"] == {"test.zip@x/1.png": (0,), "test.zip@two words.png": (1, 2)}
    dump("z/train.txt", "test.zip@x/1.png 2\n")
    assert zeroshot.load(folder, split="train.txt").evaluate.keywords["labels"] == {"test.zip@x/1.png": 2}


def coco(**changed: object) -> dict:
    """Of kitti-distance's form: categories count from 1, in any order."""
    document = {
        "images": [{"id": 1, "file_name": "x/1.png", "zip_file": "test.zip"}, {"id": 2, "file_name": "2.png"}],
        "annotations": [{"image_id": 2, "category_id": 1}, {"image_id": 1, "category_id": 2}],
        "categories": [{"id": 2, "name": "far"}, {"id": 1, "name": "near"}],
    }
    return document | changed


def test_elevaters_index_files_like_cocos(names, dump, picture):
    folder = names("near", "far")
    dump("z/test.json", coco())
    first, second = picture("z/images/test/x/1.png"), picture("z/images/2.png")
    benchmark = zeroshot.load(folder, split="test.json")
    assert benchmark.images == [str(first), str(second)]
    assert benchmark.evaluate.keywords["labels"] == {"test.zip@x/1.png": 1, "2.png": 0}


IMAGE = {"bytes": RED, "path": None}
DAMAGED = [  # a file, its content, the split that reads it, and what must be named
    ("0.tar", sample("a", 2), "", "0/a.cls: class 2 of 2"), ("0.tar", sample("a", "red"), "", "0/a.cls: .*b'red'"),
    ("0.tar", sample("a", "9" * 40), "", "0/a.cls"),
    ("0.tar", [*sample("a", 1), *sample("b", 0), *sample("a", 1)], "", "0.tar: .*'a'"),
    ("test.parquet", [{"image": IMAGE, "label": 5}], "", "row 0: label: class 5 of 2"),
    ("test.parquet", [{"image": IMAGE, "label": "x"}], "", "row 0: label: class 'x'"),
    ("test.parquet", [{"image": IMAGE}], "", "label or fine_label.*image"),
    ("test.parquet", [{"label": 0}], "", "image or img.*label"),
    ("test.txt", "test.zip@a.png\n", "test.txt", "test.txt: line 1"),
    ("test.txt", "a.png 0\nb.png 0,x\n", "test.txt", "test.txt: line 2"),
    ("test.txt", "a.png 3\n", "test.txt", "test.txt: line 1: class 3 of 2"),
    ("test.json", coco(categories=[{"id": 1}]), "test.json", "1 categories for 2 classes"),
    ("test.json", coco(annotations=[{"image_id": 1, "category_id": 7}]), "test.json", "category_id 7"),
    ("test.json", coco(annotations=[{"image_id": 1, "category_id": 2}]), "test.json", "image 2"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "split", "what"), DAMAGED)
def test_damaged_files(names, dump, file, content, split, what):
    folder = names("near", "far")
    if file.endswith("tar"):
        tar_files.write(folder / file, content)
    elif file.endswith("parquet"):
        picture_tables.write(folder / file, content)
    else:
        dump(f"z/{file}", content)
    with pytest.raises(UserError, match=what):
        zeroshot.load(folder, split=split)


# --- known sets -----------------------------------------------------------------------------------------------


def test_every_known_set_is_whole():
    """Names that differ but for ImageNet's, at most one empty, templates with a place for them; 21 are ELEVATER's."""
    counts = {name: _class_sets.load_class_set(name) for name in _class_sets.names()}
    assert len(counts) == 32 and sum(bool(class_set.metric) for class_set in counts.values()) == 21
    for name, class_set in counts.items():
        assert class_set.templates and all("{c}" in template for template in class_set.templates), name
        assert len(set(class_set.names)) == len(class_set.names) or name.startswith("imagenet"), name
        assert class_set.names.count("") <= 1 and class_set.metric in ("", *zeroshot.ELEVATER), name
    sizes = {"caltech101": 102, "cars": 196, "cifar100": 100, "country211": 211, "dtd": 47, "eurosat": 10,
             "fer2013": 7, "fgvc_aircraft": 100, "flowers": 102, "food101": 101, "gtsrb": 43, "imagenet": 1000,
             "imagenet_a": 200, "imagenet_r": 200, "pets": 37, "resisc45": 45, "sun397": 397, "ucf101": 101,
             "voc2007": 20}  # fmt: skip
    assert {name: len(counts[name].names) for name in sizes} == sizes


def test_imagenet_from_its_folders_of_synsets(picture, tmp_path):
    """Some of them as well: other classes compete all the same. The names are open_clip's, which differ from WordNet's."""
    for synset in ("n01440764", "n02124075", "n15075141"):
        picture(f"val/{synset}/ILSVRC2012_val_1.JPEG.png")
    benchmark = zeroshot.load(tmp_path, tmp_path, "val", Config("imagenet"))
    class_set = _class_sets.load_class_set("imagenet")
    labels = benchmark.evaluate.keywords["labels"]
    assert [class_set.names[label] for label in labels.values()] == ["tench", "Egyptian Mau", "toilet paper"]
    assert list(labels.values()) == [0, 285, 999] and len(benchmark.texts) == 998 * 80
    assert benchmark.texts[0] == "a bad photo of a tench." and benchmark.means == {"elevater": ("top_1",)}


def test_one_class_may_have_an_empty_name(names, embeddings):
    """CLEVR's distances have one in CLIP_benchmark's own file; folders go by number then."""
    class_set = _class_sets.load_class_set("clevr_closest_object_distance")
    assert class_set.names[3] == "" and class_set.templates == ("{c} shapes.",)
    folder = names("near", "", "far")
    tar_files.write(folder / "0.tar", [*sample("a", 1), *sample("b", 2)])
    benchmark = zeroshot.load(folder)
    texts = {"near": [1, 0, 0], "": [0, 1, 0], "far": [0, 0, 1]}
    assert benchmark.texts == list(texts)
    result = benchmark.score(embeddings(dict.fromkeys(benchmark.images, [0, 1, 0]), texts))
    assert result.items["top_1"].values.tolist() == [1, 0] and result.counts["empty_text"] == 0


# --- draws ----------------------------------------------------------------------------------------------------


def test_a_seeded_draw_is_the_same_for_everyone(names, picture, monkeypatch):
    folder = names("a", "b")
    for number in range(20):
        picture(f"z/{'ab'[number % 2]}/{number:02}.png")
    everything = [record.id for record in zeroshot.load(folder).records]
    np.random.seed(1)  # as CLIC's program does
    places = list(range(20))
    np.random.shuffle(places)
    benchmark = zeroshot.load(folder, options=Config(sample=7))
    assert [r.id for r in benchmark.records] == [everything[index] for index in sorted(places[:7])]
    assert len(benchmark) == 7 and benchmark.dropped["not_drawn"] == 13
    assert len(zeroshot.load(folder, options=Config(sample=99))) == 20
    monkeypatch.setattr(Config, "seed", 2)
    assert zeroshot.load(folder, options=Config(sample=7)).records != benchmark.records


# --- ELEVATER's metrics ---------------------------------------------------------------------------------------


def test_the_area_under_the_curve_of_two_classes(names, picture, embeddings):
    """Pictures of class 1 score .9 and .4, of class 0 .4 and .1: three pairs and a half of four."""
    folder = names("meme", "hate")
    score_by_picture = {"0/a.png": 0.4, "0/b.png": 0.1, "1/c.png": 0.9, "1/d.png": 0.4}
    at = {str(picture(f"z/{name}")): [1 - score, score] for name, score in score_by_picture.items()}
    benchmark = zeroshot.load(folder, options=Config(metric="roc_auc"))
    result = benchmark.score(embeddings(at, {"meme": [1, 0], "hate": [0, 1]}))
    # shares of the other class that are on the right side: 3/4, 1, 1, 3/4
    items = result.items["roc_auc"]
    assert items.ids == ("0/a.png", "0/b.png", "1/c.png", "1/d.png")
    assert items.values.tolist() == [0.625, 1.125, 1.125, 0.625]
    assert result.metrics["roc_auc"] == result.metrics["elevater"] == 3.5 / 4
    assert result.metrics["top_1"] == 3 / 4
    lone = {at_: v for at_, v in at.items() if "/1/" in at_}
    failures = {at_: "missing" for at_ in at if "/0/" in at_}
    assert "roc_auc" not in benchmark.score(embeddings(lone, {"meme": [1, 0], "hate": [0, 1]}, failures)).metrics


@pytest.mark.parametrize("positives", [20, 60])
def test_the_spread_of_the_area_s_outcomes_is_that_of_the_area(positives):
    """Beside the standard error of DeLong (1988): variances of the shares in both classes over the classes' sizes."""
    rng = np.random.default_rng(positives)
    shown_N = np.arange(80) < positives
    score_N = rng.normal(size=80) + shown_N
    of_positives = [np.mean([s > rival for rival in score_N[~shown_N]]) for s in score_N[shown_N]]
    of_negatives = [np.mean([rival > s for rival in score_N[shown_N]]) for s in score_N[~shown_N]]
    error = np.sqrt(np.var(of_positives, ddof=1) / positives + np.var(of_negatives, ddof=1) / (80 - positives))
    outcome_N = zeroshot.area_outcomes(score_N, shown_N)
    assert outcome_N.mean() == pytest.approx(np.mean(of_positives))
    assert outcome_N.std(ddof=1) / np.sqrt(80) == pytest.approx(error, rel=0.05)


def test_pictures_of_several_classes_are_ranked(names, dump, picture, embeddings):
    """Class a: right, wrong, right, so that its precisions are 1 and 2/3. By cosines b's last two would be equal; by
    its share of each picture the one that shows it comes first."""
    folder = names("a", "b", "never")
    dump("z/test.txt", "1.png 0\n2.png 1\n3.png 0,1\n")
    for name in "123":
        picture(f"z/{name}.png")
    vectors = {"1.png": [0.9, 0.1, 0], "2.png": [0.5, 0.5, 0], "3.png": [0.2, 0.1, 0.7]}
    texts = {"a": [1, 0, 0], "b": [0, 1, 0], "never": [0, 0, 1]}
    embedded = embeddings({folder / name: vector for name, vector in vectors.items()}, texts)
    result = zeroshot.load(folder, split="test.txt", options=Config(metric="map_11")).score(embedded)
    a = (1 + 5 * 1 + 5 * 2 / 3) / 11  # recall 0 to .5, and from .6 on
    assert result.items["map_11"].ids == ("0", "1")
    assert result.items["map_11"].values == pytest.approx([a, 1.0])
    assert result.metrics["elevater"] == pytest.approx((a + 1) / 2)


def by_counting(score_N: list[float], shown_N: list[bool]) -> float:
    """The same by its definition: at each recall the best precision of any threshold that reaches it."""
    curve = []
    for threshold in score_N:
        selected = [is_shown for score, is_shown in zip(score_N, shown_N, strict=True) if score >= threshold]
        curve.append((sum(selected) / sum(shown_N), sum(selected) / len(selected)))
    points = np.linspace(1, 0, 11)[:-1]
    return (1 + sum(max(precision for recall, precision in curve if recall >= point) for point in points)) / 11


SOME = st.sampled_from([0.1, 0.2, 0.5, 0.9]) | st.floats(0, 1)
SCORED = st.lists(st.tuples(SOME, st.booleans()), min_size=1, max_size=30)


@given(SCORED.filter(lambda items: any(is_shown for _, is_shown in items)))
def test_average_precision_is_what_counting_gives(items):
    score_N, shown_N = map(list, zip(*items, strict=True))
    assert zeroshot.precision_11(np.array(score_N), np.array(shown_N)) == pytest.approx(by_counting(score_N, shown_N))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_the_area_is_the_share_of_pairs_in_order(positive, negative):
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    result = zeroshot.above_negatives(np.array(positive), np.array(negative))
    assert result.mean() == pytest.approx(np.mean(pairs)) and len(result) == len(positive)
