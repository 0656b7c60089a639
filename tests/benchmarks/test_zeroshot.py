"""Zero-shot classification: folders to classes, prompt ensembles, mean per class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.benchmarks import zeroshot
from compclip.evaluate import metrics

NAMES = ["red fox", "cat", "dog"]


@pytest.fixture
def folder(dump, picture):
    dump("z/classnames.txt", "\n".join(NAMES) + "\n")
    path = dump("z/zeroshot_classification_templates.txt", "a {c}\nthe {c} {x}\n")
    for name in ("red_fox/1.png", "cat/1.png", "cat/2.PNG", "cat/3.png", "dog/1.png"):
        picture(f"z/images/{name}")
    return path.parent


def scored(benchmark, embeddings, images):
    """Class vectors: two prompts that agree, of very different lengths where the ensemble must not care."""
    texts = {p: v for i, name in enumerate(NAMES) for p, v in zip(
        (f"a {name}", f"the {name} {{x}}"), (np.eye(3)[i], np.eye(3)[i]), strict=True)}  # fmt: skip
    return benchmark.score(embeddings(images, texts))


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_top_1_and_mean_per_class(folder, embeddings, monkeypatch, at_once):
    """However many pictures are looked at together."""
    monkeypatch.setattr(zeroshot, "AT_ONCE", at_once)
    benchmark = zeroshot.load(folder)
    assert benchmark.texts[:2] == ["a red fox", "the red fox {x}"]
    vectors = {"red_fox/1.png": [1, 0, 0], "cat/1.png": [0, 1, 0], "cat/2.PNG": [1, 0, 0], "cat/3.png": [1, 0, 0],
               "dog/1.png": [0, 0.5, 0.5]}  # fmt: skip
    result = scored(benchmark, embeddings, {folder / "images" / k: v for k, v in vectors.items()})
    by_id = dict(zip(result.items["top_1"].ids, result.items["top_1"].values.tolist(), strict=True))
    assert by_id == {"red_fox/1.png": 1, "cat/1.png": 1, "cat/2.PNG": 0, "cat/3.png": 0, "dog/1.png": 0}  # a tie
    assert result.metrics["top_1"] == 2 / 5
    assert result.metrics["mean_per_class"] == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert "top_5" not in result.metrics


def test_top_5_among_more_than_five_classes(dump, picture, embeddings):
    dump("z/classnames.txt", "\n".join(f"c{i}" for i in range(7)))
    folder = dump("z/zeroshot_classification_templates.txt", "{c}").parent
    (folder / "0").mkdir()
    image, second_image = picture("z/2/a.png"), picture("z/6/b.png")
    texts = {f"c{i}": [float(i == j) for j in range(7)] for i in range(7)}
    images = {image: [7, 6, 5, 4, 3, 2, 1], second_image: [7, 6, 5, 4, 3, 2, 1]}
    result = zeroshot.load(folder).score(embeddings(images, texts))
    assert result.items["top_5"].values.tolist() == [1, 0]
    assert result.metrics["top_1"] == 0.0


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.floats(-1, 1), min_size=4, max_size=4)), min_size=1))
def test_the_weighted_outcomes_have_the_mean_per_class_as_their_mean(items):
    label_N, scores_NC = np.array([label for label, _ in items]), np.array([scores for _, scores in items])
    top_1_N = metrics.top_k_outcomes(scores_NC, label_N, [1])["top_1"]
    expected = np.mean([top_1_N[label_N == label].mean() for label in np.unique(label_N)])
    assert zeroshot.balanced(top_1_N, label_N).mean() == pytest.approx(expected)


def test_an_ensemble_is_the_mean_of_its_prompts(folder, embeddings):
    texts = {"a red fox": [1, 0], "the red fox {x}": [0, 1], "a cat": [1, 0], "the cat {x}": [1, 0],
             "a dog": [0, 1], "the dog {x}": [0, 1]}  # fmt: skip
    benchmark = zeroshot.load(folder)
    result = benchmark.score(embeddings({image: [1, 1] for image in benchmark.images}, texts))
    assert result.items["top_1"].values.tolist() == [float(key.startswith("red")) for key in result.items["top_1"].ids]


def test_folders_by_number_and_in_sorted_order(folder, picture, tmp_path):
    for name in ("n01", "n02", "n03"):
        picture(f"wordnet/val/{name}/x.jpg")
    labels = zeroshot.load(folder, images=tmp_path / "wordnet", split="val").evaluate.keywords["labels"]
    assert labels == {"n01/x.jpg": 0, "n02/x.jpg": 1, "n03/x.jpg": 2}
    picture("numbers/2/x.jpg")
    picture("numbers/0/deep/x.jpg")
    labels = zeroshot.load(folder, images=tmp_path / "numbers").evaluate.keywords["labels"]
    assert labels == {"0/deep/x.jpg": 0, "2/x.jpg": 2}


def classes(dump, picture, tmp_path, names, folders):
    """The class that the folders get, by folder."""
    dump("y/classnames.txt", "\n".join(names))
    path = dump("y/zeroshot_classification_templates.txt", "{c}")
    for name in folders:
        picture(f"pictures/{name}/x.png")
    labels = zeroshot.load(path.parent, images=tmp_path / "pictures").evaluate.keywords["labels"]
    return {key.partition("/")[0]: names[label] for key, label in labels.items()}


TWELVE = [f"class {letter}" for letter in "abcdefghijkl"]


@pytest.mark.parametrize(
    ("names", "folders", "expected"),
    [(TWELVE, [str(i + 1) for i in range(12)], TWELVE), (TWELVE, [f"{i + 1:02}" for i in range(12)], TWELVE),
     (TWELVE, [str(i) for i in range(12)], TWELVE), (TWELVE, ["000", "011"], [TWELVE[0], TWELVE[11]]),
     (["a", "b", "c"], ["9", "10", "200"], ["a", "b", "c"]), (["0", "20", "40"], ["0", "1", "2"], ["0", "20", "40"]),
     (["0", "20", "40"], ["20", "40"], ["20", "40"]), (["1", "2", "3"], ["1", "2"], ["1", "2"]),
     (["1", "0"], ["00", "01"], ["1", "0"])],
)  # fmt: skip
def test_numbers_of_folders_are_read_as_numbers(dump, picture, tmp_path, names, folders, expected):
    """1-based as many as the classes, from 0, or names that are numbers themselves."""
    assert classes(dump, picture, tmp_path, names, folders) == dict(zip(folders, expected, strict=True))


@pytest.mark.parametrize(
    ("names", "folders", "message"),
    [
        (["zebra", "apple", "t-shirt"], ["zebra", "apple", "t_shirts"],
         "unknown class folder 't_shirts'; did you mean 't-shirt'"),
        (["zebra", "apple", "t-shirt"], ["T-shirt", "apple", "t_shirt"],
         "folders 'T-shirt' and 't_shirt' are one class; put them together"),
        (["1", "2", "3"], ["1", "2", "4"], "unknown class folder '4'"),
        (["a", "b", "c"], ["1", "2"], r"2 folders numbered 1 to 2, but 3 classes; number them 0 to 2"),
        (["a", "b", "c"], ["0", "3"], r"2 folders numbered 0 to 3, but 3 classes"),
        (["a", "b", "c"], ["1", "01", "2"], r"3 folders numbered 01 to 2, but 3 classes"),
        (["1", "0"], ["0", "1"], r"folder '0' is the name of class 1 and the number of another"),
    ],
)  # fmt: skip
def test_folders_that_leave_a_choice_are_refused(dump, picture, tmp_path, names, folders, message):
    with pytest.raises(UserError, match=message):
        classes(dump, picture, tmp_path, names, folders)


def test_folders_by_the_letters_of_a_name(dump, picture, tmp_path):
    result = classes(dump, picture, tmp_path, ["zebra", "apple", "t-shirt", "Curaçao"], ["Zebra", "t_shirt", "curacao"])
    assert result == {"Zebra": "zebra", "t_shirt": "t-shirt", "curacao": "Curaçao"}


def test_mistakes(folder, dump, picture):
    picture("z/images/dgo/1.png")
    with pytest.raises(UserError, match=r"unknown class folder 'dgo'; did you mean 'dog'"):
        zeroshot.load(folder)
    with pytest.raises(UserError, match=r"images/test: no such folder"):
        zeroshot.load(folder, split="test")
    dump("z/zeroshot_classification_templates.txt", "a photo of {}.")
    with pytest.raises(UserError, match=r"template 'a photo of \{\}.' has no \{c\}"):
        zeroshot.load(folder)
    dump("z/classnames.txt", "a\n\nb\n\nc")
    with pytest.raises(UserError, match=r"classnames.txt: 2 lines are empty; write one class a line"):
        zeroshot.load(folder)


def test_without_names_and_templates_the_folders_name_the_classes(picture):
    """Also those of a split; numbers name nothing."""
    folder = picture("p/test/big_cats/1.png").parents[2]
    picture("p/test/dogs/1.png")
    for benchmark in (zeroshot.load(folder / "test"), zeroshot.load(folder, images=folder, split="test")):
        assert benchmark.texts == ["a photo of a big cats.", "a photo of a dogs."]
        assert [record.id for record in benchmark.records] == ["big_cats/1.png", "dogs/1.png"]
    picture("p/test/003/1.png")
    with pytest.raises(UserError, match="folder '003' names no class; write classnames.txt"):
        zeroshot.load(folder / "test")
