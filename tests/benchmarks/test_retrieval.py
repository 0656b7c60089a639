"""Retrieval: three formats, recall both ways, ties, dropped captions and images."""

from __future__ import annotations

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import retrieval

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


def test_karpathy(dump):
    file = dump("r/dataset_coco.json", KARPATHY)
    assert shape(retrieval.load(file)) == [("a.png", "a.png", ("a1", "a2")), ("b.png", "b.png", ("b1",))]
    assert shape(retrieval.load(file.parent, split="train")) == [("c.png", "c.png", ("c1",))]
    with pytest.raises(UserError, match=r"unknown split 'tset'; did you mean 'test'"):
        retrieval.load(file, split="tset")


def test_karpathy_images_lie_in_filepath_where_there_is_such_a_folder(dump, picture):
    file = dump("r/dataset_coco.json", KARPATHY)
    assert retrieval.load(file).images[0] == str(file.parent / "a.png")
    picture("r/images/val2014/a.png")
    assert retrieval.load(file).images[0] == str(file.parent / "images/val2014/a.png")


def test_coco_drops_and_counts_what_has_no_caption(dump):
    benchmark = retrieval.load(dump("r/captions.json", COCO))
    assert shape(benchmark) == [("7", "a.png", ("a1", "a2")), ("9", "b.png", ("b1",))]
    assert benchmark.dropped == {"empty_caption": 1, "image_without_caption": 1, "caption_without_image": 0}


def test_coco_counts_captions_of_no_image(dump):
    stray = [{"image_id": 8, "caption": "x"}, {"image_id": "7", "caption": "y"}]
    benchmark = retrieval.load(dump("r/captions.json", {**COCO, "annotations": COCO["annotations"] + stray}))
    assert len(benchmark) == 2 and benchmark.dropped["caption_without_image"] == 2


def test_flickr8k(dump):
    file = dump("r/captions.txt", FLICKR)
    assert shape(retrieval.load(file)) == [("a.png", "a.png", ("a1", "a2, quoted")), ("b.png", "b.png", ("b1",))]
    dump("r/test_images.txt", "b.png\nz.png\n")
    benchmark = retrieval.load(file.parent, split="test_images.txt")
    assert shape(benchmark) == [("b.png", "b.png", ("b1",))]
    assert benchmark.dropped == {"empty_caption": 0, "image_without_caption": 0, "name_without_caption": 1}


def test_flickr8k_with_a_byte_order_mark_other_line_ends_and_doubled_quotes(dump):
    file = dump("r/captions.txt", "")
    file.write_bytes(b'\xef\xbb\xbfimage,caption\r\na.png,"a ""big"" dog"\r\n\r\nb.png,a 5" nail\r\n')
    assert shape(retrieval.load(file)) == [("a.png", "a.png", ('a "big" dog',)), ("b.png", "b.png", ('a 5" nail',))]


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


def test_the_same_caption_of_two_images_is_a_tie_and_wrong(dump, embeddings):
    file = dump("r/captions.txt", "image,caption\na.png,same\nb.png,same\n")
    benchmark = retrieval.load(file)
    a, b = benchmark.images
    result = benchmark.score(embeddings({a: [0.3, 0.7], b: [0.3, 0.7]}, {"same": [0.1, 0.9]}))
    assert result.metrics["t2i_recall_at_1"] == 0.0


def test_an_unreadable_image_takes_its_captions_along(dump, embeddings):
    benchmark = retrieval.load(dump("r/captions.json", COCO))
    a, b = benchmark.images
    result = benchmark.score(embeddings({b: [0, 1]}, {"a1": [1, 0], "a2": [0, 2], "b1": [0, 1]}, {a: "unreadable"}))
    assert result.items["i2t_recall_at_1"].values.tolist() == [1]
    assert result.items["t2i_recall_at_1"].ids == ("9#0",)
    assert result.counts["unreadable_image"] == 1 and result.counts["scored"] == 1
    assert benchmark.score(embeddings({}, {"a1": [1]}, {a: "missing", b: "missing"})).metrics == {}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", {"images": [{"file_name": "a"}]}, r"x.json: neither COCO captions .* nor Karpathy's"),
        ("x.json", {"images": [{"id": 1}], "annotations": []}, r"record 1: no field 'file_name'"),
        ("x.json", {"images": [], "annotations": [{"image_id": 1}]}, r"record of annotation 0: no field 'caption'"),
        ("x.json", {"pictures": []}, r"no field 'images'"),
        ("x.json", {"images": [3]}, r"record 0: expected an object, not int"),
        ("x.json", {"images": [3], "annotations": []}, r"record of image 0: expected an object, not int"),
        ("x.json", {"images": [], "annotations": None}, r"field 'annotations' is None"),
        ("x.json", {"images": [{**KARPATHY["images"][0], "filepath": 5}]}, r"record a.png: field 'filepath' is 5"),
        ("x.txt", "", r"expected the header 'image,caption'; found ''"),
        (
            "x.txt",
            'image,caption\na.jpg,"A man\nb.jpg,a dog\nc.jpg,a cat',
            r"x.txt: line 2: .* close a caption's quotes",
        ),
        ("x.txt", 'image,caption\na.jpg,ok\nb.jpg,"two\nlines"\n', r"x.txt: line 3: .* close a caption's quotes"),
        ("x.txt", 'image,caption\na.jpg,"A" man\n', r"x.txt: line 2: .* double those"),
        ("x.txt", "file,text\n", r"expected the header 'image,caption'; found 'file,text'"),
        ("x.txt", "image,caption\na.png,one, two\n", r"line 2: expected image,caption"),
        ("x.txt", "image,caption\na.png\n", r"line 2: expected image,caption"),
    ],
)
def test_damaged_files(dump, name, content, message):
    with pytest.raises(UserError, match=message) as caught:
        retrieval.load(dump(f"r/{name}", content))
    assert "\n" not in str(caught.value)


def test_a_folder_must_hold_one_caption_file(dump):
    folder = dump("r/a.json", COCO).parent
    dump("r/captions.txt", FLICKR)
    with pytest.raises(UserError, match=r"expected one file .* found a.json, captions.txt"):
        retrieval.load(folder)


def test_real_files(shared_data):
    coco = retrieval.load(
        shared_data / "coco/annotations/captions_val2017.json", images=shared_data / "coco/val2017")  # fmt: skip
    assert (len(coco), sum(len(record.texts) for record in coco.records)) == (154, 770)
    flickr = retrieval.load(shared_data / "flickr8k")
    assert len(flickr) == 1000 and sum(len(record.texts) for record in flickr.records) == 5000
