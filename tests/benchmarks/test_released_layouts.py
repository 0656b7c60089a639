"""Trees in which others keep the same pictures and captions: the same records, with every picture found."""

from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import docci, imageinwords, negbench, sharegpt4v, urban1k
from compclip.evaluate import benchmark_module
from tests.benchmarks import picture_tables
from tests.benchmarks.official_files import table


def flair(*rows: tuple[int, str, str]) -> dict:
    """FLAIR's form: a caption a record."""
    return {"annotations": [{"image_id": key, "image": image, "caption": text} for key, image, text in rows]}


def all_there(benchmark) -> bool:
    return bool(benchmark.records) and not benchmark_module.count_benchmark(benchmark)["missing_images"]


# --- DOCCI ----------------------------------------------------------------------------------------------------


ROWS = [("test_00000", "test", "A toilet. Towels hang."), ("train_00000", "train", "A dog."),
        ("test_00001", "test", "A cat.")]  # fmt: skip
TEXTS = [("A toilet", "Towels hang"), ("A cat",)]


@pytest.fixture
def docci_images(picture):
    for key, _, _ in ROWS:
        picture(f"d/images/{key}.jpg")


@pytest.mark.parametrize("path", ["d", "d/annotations", "d/annotations/test_annotations.json"])
def test_flairs_tree_of_docci(dump, docci_images, tmp_path, path):
    """annotations/test_annotations.json beside images/, whichever of them is named."""
    sentences = [(i, f"test_0000{i}.jpg", text) for i, text in ((0, "A toilet"), (0, "Towels hang"), (1, "A cat"))]
    dump("d/annotations/test_annotations.json", flair(*sentences))
    benchmark = docci.load(tmp_path / path)
    assert [record.texts for record in benchmark.records] == TEXTS and all_there(benchmark)


@pytest.mark.parametrize("name", ["docci.csv", "docci_descriptions.csv", "test.csv"])
def test_the_hubs_csv_of_docci(dump, docci_images, tmp_path, name):
    """With all splits and a column that says which, or a file for each."""
    rows = [("example_id", "image_file", "description", "split")]
    rows += [(key, f"{key}.jpg", description, split) for key, split, description in ROWS]
    if name == "test.csv":
        rows = [row[:3] for row in rows if row[3] in ("split", "test")]
    dump(f"d/{name}", table(*rows))
    benchmark = docci.load(tmp_path / "d")
    assert [record.id for record in benchmark.records] == ["test_00000", "test_00001"]
    assert [record.texts for record in benchmark.records] == TEXTS and all_there(benchmark)
    assert docci.load(tmp_path / "d" / name).records == benchmark.records


def test_the_hubs_tables_of_docci(tmp_path):
    """As `load_dataset("google/docci")` has them: image, example_id, description, a table a split."""
    for split in ("train", "test"):
        rows = [{"image": picture_tables.cell("red"), "example_id": key, "description": text}
                for key, row_split, text in ROWS if row_split == split]  # fmt: skip
        picture_tables.write(tmp_path / f"d/data/{split}-00000-of-00001.parquet", rows)
    benchmark = docci.load(tmp_path / "d", tmp_path / "d")
    assert [record.texts for record in benchmark.records] == TEXTS and all_there(benchmark)
    assert [record.id for record in docci.load(tmp_path / "d", tmp_path / "d", "train").records] == ["train_00000"]


# --- ImageInWords -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["finegrained_annotations.json", "test_annotations.json"])
def test_flairs_tree_of_image_in_words(dump, picture, tmp_path, name):
    """Its text and its program call the file otherwise; pictures lie beside it."""
    rows = [(0, "docci/test_1.jpg", "A cup"), (1, "docci_aar/aar_test_2.jpg", "A dog"), (2, "dci/sa_3.jpg", "A car")]
    dump(f"w/{name}", flair(*rows))
    for _, image, _ in rows:
        picture(f"w/{image}")
    benchmark = imageinwords.load(tmp_path / "w")
    assert [record.texts for record in benchmark.records] == [("A cup",), ("A dog",), ("A car",)]
    assert all_there(benchmark)
    assert [record.id for record in imageinwords.load(tmp_path / "w", split="IIW-400, DCI_Test").records] == ["1", "2"]


def test_sentences_of_one_or_two_characters_are_left_out(dump):
    """As FLAIR's file leaves out twelve: what is left of an abbreviation or a quotation mark behind a full stop."""
    lines = [{"image/key": "a", "IIW": 'A sign says "STOP." It is red. H.P. sauce.'}, {"image/key": "b", "IIW": "A.B."}]
    for name in imageinwords.SETS:
        folder = dump(f"w/{name}/data.jsonl", lines).parent.parent
    benchmark = imageinwords.load(folder, split="IIW-400")
    assert [record.texts for record in benchmark.records] == [('A sign says "STOP', '" It is red', "sauce")]
    assert benchmark.dropped == {"image_without_caption": 1, "short_sentence": 4}


# --- Urban1k ----------------------------------------------------------------------------------------------------


URBAN = {"2": "A busy street.", "10": "Two trams meet."}


@pytest.mark.parametrize(
    ("captions", "pictures"),
    [("u/caption", "u/image"), ("u/caption", "u/images"), ("u/Urban1k/caption", "u/Urban1k/image")],
)
def test_the_authors_trees_of_urban1k(dump, picture, tmp_path, captions, pictures):
    """As unpacked beside the zip, as unpacked in it, and with the pictures' folder as FLAIR calls it."""
    for key, text in URBAN.items():
        dump(f"{captions}/{key}.txt", text)
        picture(f"{pictures}/{key}.jpg")
    benchmark = urban1k.load(tmp_path / "u")
    assert [(record.id, record.texts[0]) for record in benchmark.records] == list(URBAN.items())
    assert all_there(benchmark)


@pytest.mark.parametrize("path", ["u", "u/annotations", "u/annotations/annotations.json"])
def test_flairs_tree_of_urban1k(dump, picture, tmp_path, path):
    """In its file the pictures are in the order of their names as text; ours are in that of their numbers."""
    rows = [(number, f"{key}.jpg", text) for number, (key, text) in enumerate(sorted(URBAN.items()))]
    dump("u/annotations/annotations.json", flair(*rows))
    for key in URBAN:
        picture(f"u/images/{key}.jpg")
    benchmark = urban1k.load(tmp_path / path)
    assert [(record.id, record.texts[0]) for record in benchmark.records] == list(URBAN.items())
    assert all_there(benchmark)


# --- ShareGPT4V -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sa_000000/images/sa_1.jpg", "sam/images/sa_1.jpg"])
@pytest.mark.parametrize("picture_path", ["sa_000000/images/sa_1.jpg", "sa_000000/sa_1.jpg", "images/sa_1.jpg"])
def test_pictures_of_sharegpt4v_in_the_folders_of_sa_1b(dump, picture, tmp_path, name, picture_path):
    """LoTLIP's and FLAIR's list names the folder of SA-1B, the authors' does not; the tars have `images` or not."""
    conversation = [{"value": "Describe."}, {"value": "A long caption."}]
    dump(f"s/{sharegpt4v.FILES[1]}", [{"image": name, "conversations": conversation}])
    at = picture(f"s/{picture_path}")
    benchmark = sharegpt4v.load(tmp_path / "s", split="1")
    assert [Path(image) for image in benchmark.images] == [at]


# --- NegBench ---------------------------------------------------------------------------------------------------


HEADER = "correct_answer,caption_0,caption_1,caption_2,caption_3,correct_answer_template,image_path\n"


def test_negbenchs_templates(dump, picture, tmp_path):
    """The tables before they were rephrased, which the authors' script reads as the experiment `template`."""
    question = "0,This image features a cup,not it,nor it,neither,positive,{}\n"
    dump("n/COCO_val_mcq.csv", HEADER + question.format("data/coco/images/val2017/000000000139.jpg"))
    dump("n/VOC2007_mcq.csv", HEADER + question.format("data/voc/000001.jpg"))
    dump("n/COCO_val_negated_retrieval.csv", "filepath,captions\ndata/000000000139.jpg,['There is no dog.']\n")
    picture("n/images/val2017/000000000139.jpg")
    picture("n/images/VOCdevkit/VOC2007/JPEGImages/000001.jpg")
    split = "coco_mcq_template, voc2007_mcq_template, coco_negated_retrieval_template"
    benchmark = negbench.load(tmp_path / "n", split=split)
    assert {record.subset for record in benchmark.records} == set(split.split(", ")) and all_there(benchmark)
    with pytest.raises(UserError, match=r"synthetic_mcq.csv: no such file"):
        negbench.load(tmp_path / "n", split="synthetic_mcq_template")
