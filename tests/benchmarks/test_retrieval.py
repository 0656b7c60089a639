"""Retrieval: six formats, recall both ways, ties, dropped captions and images."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import retrieval
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark_module
from compclip.evaluate.benchmark import parse_reference
from tests.benchmarks import official_files, picture_tables
from tests.data import tar_files

KARPATHY = {
    "dataset": "coco",
    "images": [
        {"filename": "a.png", "filepath": "val2014", "split": "test", "sentences": [{"raw": "a1"}, {"raw": "a2"}]},
        {"filename": "b.png", "filepath": "val2014", "split": "test", "sentences": [{"raw": "b1"}]},
        {"filename": "c.png", "filepath": "val2014", "split": "train", "sentences": [{"raw": "c1"}]},
    ],
}
COCO = {
    "images": [{"id": 7, "file_name": "a.png"}, {"id": 9, "file_name": "b.png"}, {"id": 11, "file_name": "c.png"}],
    "annotations": [
        {"id": 1, "image_id": 7, "caption": "a1"}, {"id": 2, "image_id": 9, "caption": "b1"},
        {"id": 3, "image_id": 7, "caption": "a2"}, {"id": 4, "image_id": 9, "caption": " "},
    ],
}  # fmt: skip
FLICKR = 'image,caption\na.png,a1\na.png,"a2, quoted"\nb.png,b1\n'


def shape(benchmark) -> list[tuple]:
    return [(record.id, record.images[0].rpartition("/")[2], record.texts) for record in benchmark.records]


def load_section(file):
    """The benchmark as a section of params.yaml names it, with its pictures as they are called on the disk."""
    return benchmark_module.load_benchmark("x", Section("retrieval", str(file), str(file.parent / "images")))


def test_karpathy_images_lie_in_filepath_where_there_is_such_a_folder(dump, picture):
    file = dump("r/dataset_coco.json", KARPATHY)
    flat = picture("r/images/a.png")
    assert load_section(file).images == [str(flat), str(flat.parent / "val2014/b.png")]
    at = picture("r/images/val2014/a.png")
    assert load_section(file).images[0] == str(at)
    row = KARPATHY["images"][0] | {"filepath": "x" * 300}  # too long for a folder
    assert load_section(dump("r/dataset_coco.json", {"images": [row]})).images == [str(flat)]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_tables_of_one_s_own(tmp_path, dump, picture, kind):
    """As a source reads them: rows of one picture are one record, also where its bytes are inside the table."""
    picture("r/images/a.png")
    picture("r/images/b.png", "blue")
    captions = [("a.png", "a1"), ("b.png", "b1"), ("a.png", "a2")]
    if kind == "csv":
        file = dump("r/test.csv", official_files.table(("filepath", "title"), *captions))
    elif kind == "jsonl":
        file = dump("r/test.jsonl", [{"image": name, "text": caption} for name, caption in captions])
    else:
        colours = {"a.png": "red", "b.png": "blue"}
        rows = [{"image": picture_tables.cell(colours[name], name), "caption": caption} for name, caption in captions]
        file = picture_tables.write(tmp_path / "r/test.parquet", rows)
    images_folder = file.parent if kind == "parquet" else file.parent / "images"
    read = benchmark_module.load_benchmark("x", Section("retrieval", str(file), str(images_folder)))
    assert [(record.id, record.texts) for record in read.records] == [("a", ("a1", "a2")), ("b", ("b1",))]
    assert [images.load_image(parse_reference(ref)[0]).getpixel((0, 0))[2] for ref in read.images] == [0, 255]
    assert benchmark_module.count_benchmark(read)["missing_images"] == 0


def test_a_damaged_row_of_a_table_is_an_error(dump, picture):
    """Without it the gallery is another; options name other columns."""
    picture("r/images/a.png")
    file = dump("r/test.csv", "place,what\na.png,a1\na.png\n")
    options = {"layout": {"picture": "place", "captions": "what"}}
    section = Section("retrieval", str(file), str(file.parent / "images"), options=options)
    with pytest.raises(UserError, match="1 damaged rows .*line 3.*repair them"):
        benchmark_module.load_benchmark("x", section)


def test_coco_drops_and_counts_what_has_no_caption(dump):
    benchmark = retrieval.load(dump("r/captions.json", COCO))
    assert shape(benchmark) == [("7", "a.png", ("a1", "a2")), ("9", "b.png", ("b1",))]
    assert benchmark.dropped == {"empty_caption": 1, "image_without_caption": 1, "caption_without_image": 0}


def test_flickr8k(dump):
    file = dump("r/captions.txt", FLICKR)
    assert shape(retrieval.load(file)) == [("a.png", "a.png", ("a1", "a2, quoted")), ("b.png", "b.png", ("b1",))]
    dump("r/test_images.txt", "b.png\nz.png\n")
    benchmark = retrieval.load(file.parent, split="test_images.txt")
    assert shape(benchmark) == [("b.png", "b.png", ("b1",))]
    assert benchmark.dropped == {"empty_caption": 0, "image_without_caption": 0, "name_without_caption": 1}


LAVIS = [
    {"image": "val2014/a.png", "caption": ["a1", "a2"]},
    {"image": "val2014/b.png", "caption": ["b1", " "]},
    {"image": "val2014/c.png", "caption": []},
]


def test_lavis_lists(dump, picture):
    """Pictures in the folder that the list names, or all in one."""
    file = dump("r/coco_karpathy_test.json", LAVIS)
    at = picture("r/images/b.png")
    benchmark = load_section(file)
    assert shape(benchmark) == [("val2014/a.png", "a.png", ("a1", "a2")), ("val2014/b.png", "b.png", ("b1",))]
    assert benchmark.images == [str(at.parent / "val2014/a.png"), str(at)]
    assert (benchmark.dropped["empty_caption"], benchmark.dropped["image_without_caption"]) == (1, 1)


def test_lavis_training_lists_have_a_caption_a_record(dump):
    rows = [{"image": name, "caption": text, "image_id": 1} for name, text in (("a.png", "a1"), ("b.png", "b1"))]
    file = dump("r/flickr30k_train.json", [*rows, {**rows[0], "caption": "a2"}])
    assert shape(retrieval.load(file)) == [("a.png", "a.png", ("a1", "a2")), ("b.png", "b.png", ("b1",))]


def test_clip_benchmarks_karpathy_files(dump):
    """Commas and quotes are the caption's; the first line is none, as in CLIP_benchmark, and told where it was one."""
    text = 'image,caption\n1.jpg,A man, and "a dog\n2.jpg,b1 \n\n1.jpg,"a2"\n'
    benchmark = retrieval.load(dump("r/flickr30k_test_karpathy.txt", text).parent)
    assert shape(benchmark) == [("1.jpg", "1.jpg", ('A man, and "a dog', '"a2"')), ("2.jpg", "2.jpg", ("b1",))]
    assert benchmark.dropped["caption_in_first_line"] == 0
    headless = retrieval.load(dump("s/x_karpathy.txt", text.partition("\n")[2]))
    assert headless.dropped["caption_in_first_line"] == 1 and len(headless.records[1].texts) == 1


def test_clip_benchmarks_tars_of_captions(tmp_path):
    """Pictures are read where they lie; captions are the lines of a text."""
    raw = tar_files.picture(8, 8)
    lines = "a1\na2, \u00fc\n".encode()
    members = [("s0.jpg", raw), ("s0.txt", lines), ("s1.jpg", raw), ("s2.jpg", raw), ("s2.txt", b" ")]
    tar = tar_files.write(tmp_path / "wds/test/0.tar", members)
    section = Section("retrieval", str(tmp_path / "wds"), str(tmp_path / "wds"), "test")
    benchmark = benchmark_module.load_benchmark("x", section)
    assert [(record.id, record.texts) for record in benchmark.records] == [("0/s0", ("a1", "a2, \u00fc"))]
    assert benchmark.dropped == {"no_captions": 1, "empty_caption": 1, "image_without_caption": 1}
    assert images.load_image(parse_reference(benchmark.images[0])[0]).size == (8, 8) and benchmark.files == ()
    tar_files.write(tar, [("s0.jpg", raw), ("s0.txt", b"\xff")])
    with pytest.raises(UserError, match=r"test: 0/s0: not UTF-8 at byte 0; fetch the tar again"):
        retrieval.load(tmp_path / "wds", split="test")


def test_flickr8ks_token_file(dump):
    """Two pictures have odd names there; a split's file lists names; the lemmas beside it are another file."""
    text = "1.jpg#0\tA child , in pink .\n1.jpg#1\ta2\n2.jpg.1#0\tb1\n3.jpg#0\t\n"
    file = dump("r/Flickr8k.token.txt", text)
    dump("r/Flickr8k.lemma.token.txt", text)
    benchmark = retrieval.load(file.parent)
    assert shape(benchmark) == [("1.jpg", "1.jpg", ("A child , in pink .", "a2")), ("2.jpg.1", "2.jpg.1", ("b1",))]
    assert (benchmark.dropped["empty_caption"], benchmark.dropped["image_without_caption"]) == (1, 1)
    dump("r/Flickr_8k.testImages.txt", "1.jpg\n")
    assert len(retrieval.load(file, split="Flickr_8k.testImages.txt")) == 1


@pytest.mark.parametrize(
    ("caption", "cleaned"),
    [("A man's dog; it (Rex) runs, fast.", "a man's dog it rex runs, fast"), ("word " * 40, " ".join(["word"] * 30)),
     ('"Stop!" ~ #1 * a:b', "stop 1 a b"), ("well-known? yes/no", "well-known? yes/no")],
)  # fmt: skip
def test_captions_as_clic_prepares_them(dump, caption, cleaned):
    file = dump("r/x.json", [{"image": "a.png", "caption": [caption]}])
    assert retrieval.load(file, options=retrieval.Config("clic")).texts == [cleaned]
    assert retrieval.load(file).texts == [caption]


def test_recall_both_ways(dump, embeddings):
    benchmark = retrieval.load(dump("r/captions.json", COCO))
    a, b = benchmark.images
    # a2 is nearer to image b; image b's nearest text is a2, its own comes second
    texts = {"a1": [1, 0], "a2": [0.1, 1], "b1": [0, 0.9]}
    result = benchmark.score(embeddings({a: [1, 0], b: [0, 1]}, texts))
    assert result.items["i2t_recall_at_1"].values.tolist() == [1, 0]
    assert result.items["t2i_recall_at_1"].values.tolist() == [1, 0, 1]
    assert result.items["t2i_recall_at_1"].ids == ("7#0", "7#1", "9#0")
    assert result.metrics["i2t_recall_at_5"] == result.metrics["t2i_recall_at_10"] == 1.0


def test_an_unreadable_image_takes_its_captions_along(dump, embeddings):
    benchmark = retrieval.load(dump("r/captions.json", COCO))
    a, b = benchmark.images
    result = benchmark.score(embeddings({b: [0, 1]}, {"a1": [1, 0], "a2": [0, 2], "b1": [0, 1]}, {a: "unreadable"}))
    assert result.items["i2t_recall_at_1"].values.tolist() == [1]
    assert result.items["t2i_recall_at_1"].ids == ("9#0",)
    assert result.counts["unreadable_image"] == 1 and result.counts["scored"] == 1
    assert benchmark.score(embeddings({}, {"a1": [1]}, {a: "missing", b: "missing"})).metrics == {}


DAMAGED = [  # what must be named
    ("x.json", {"images": [{"file_name": "a"}]}, "x.json"),
    ("x.json", {"images": [{"id": 1}], "annotations": []}, "record 1.*'file_name'"),
    ("x.json", {"images": [], "annotations": [{"image_id": 1}]}, "annotation 0.*'caption'"),
    ("x.json", {"pictures": []}, "'images'"),
    ("x.json", {"images": [{**KARPATHY["images"][0], "filepath": 5}]}, "record a.png.*'filepath' is 5"),
    ("x.json", [{"image": "a.png"}], "record 0.*'caption'"), ("x.json", 3, "x.json"),
    ("y.json", {**COCO, "images": [*COCO["images"], {"id": "7", "file_name": "z.png"}]}, "'7'"),
    ("x_karpathy.txt", "h\na.jpg,x\ny", "x_karpathy.txt: line 3"), ("x_karpathy.txt", "h\n", "x_karpathy.txt"),
    ("x.token.txt", "a.jpg\tx", "x.token.txt: line 1"), ("x.txt", "file,text\n", "'image,caption'.*'file,text'"),
    ("x.txt", "image,caption\na.png\n", "line 2"),
    ("x.txt", 'image,caption\na.jpg,"A man\nb.jpg,a dog\nc.jpg,a cat', "line 2.*quotes"),
    ("x.txt", 'image,caption\na.jpg,ok\nb.jpg,"two\nlines"\n', "line 3.*quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "names"), DAMAGED)
def test_damaged_files(dump, name, content, names):
    with pytest.raises(UserError, match=names) as caught:
        retrieval.load(dump(f"r/{name}", content))
    assert "\n" not in str(caught.value)


def test_real_files(shared_data):
    coco = retrieval.load(
        shared_data / "coco/annotations/captions_val2017.json", images=shared_data / "coco/val2017")  # fmt: skip
    assert (len(coco), sum(len(record.texts) for record in coco.records)) == (154, 770)
    flickr = retrieval.load(shared_data / "flickr8k")
    assert len(flickr) == 1000 and sum(len(record.texts) for record in flickr.records) == 5000
