"""DOCCI and ImageInWords by their sentences, Urban1k and ShareGPT4V by their whole captions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.benchmarks import _captioned, docci, imageinwords, sharegpt4v, urban1k


def line(key: str, split: str = "test", text: str = "A toilet. Towels hang.\nLight.") -> dict:
    return {"example_id": key, "split": split, "image_file": f"{key}.jpg", "description": text}


def turns(text: str, picture: str = "sam/images/sa_1.jpg") -> dict:
    return {"id": "x", "image": picture, "conversations": [{"value": "Describe."}, {"value": text}]}


def test_sentences_by_flairs_rule():
    pieces = _captioned.split_sentences("A 1.5 m wall.\n\n\nIt is red! </s> And")
    assert pieces == ["A 1", "5 m wall", "It is red!", "And"]


@given(st.text(alphabet=" .\nab</s>"))
def test_sentences_hold_every_letter_and_no_end(text):
    pieces = _captioned.split_sentences(text)
    assert all(piece == piece.strip() and "." not in piece and "\n" not in piece for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.replace("</s>", "").replace(".", "").split())


@pytest.fixture
def docci_folder(dump):
    rows = [line("test_0"), line("train_0", "train"), line("test_1", text="A dog.")]
    return dump("d/docci_descriptions.jsonlines", rows).parent


def test_docci_takes_the_test_pictures_and_their_sentences(docci_folder):
    first, second = docci.load(docci_folder, images="there").records
    assert (first.id, first.images) == ("test_0", ("there/test_0.jpg",))
    assert first.texts == ("A toilet", "Towels hang", "Light")
    assert second.texts == ("A dog",)
    assert [record.id for record in docci.load(docci_folder, split="train").records] == ["train_0"]


def test_flairs_own_sentences(dump):
    rows = [{"image": "a.jpg", "caption": text, "image_id": 4} for text in ("one", "two")]
    rows.append({"image": "b.jpg", "caption": " ", "image_id": 5})
    benchmark = docci.load(dump("f/test_annotations.json", {"annotations": rows}))
    assert [(record.id, record.texts) for record in benchmark.records] == [("4", ("one", "two"))]
    assert benchmark.dropped == {"image_without_caption": 1}
    by_image_name = imageinwords.load(dump("f/finegrained_annotations.json", {"annotations": rows}), images="there")
    assert by_image_name.images == ["there/a.jpg"]


@pytest.fixture
def words(dump):
    dump("w/IIW-400/data.jsonl", [{"image/key": "aar_test_1", "IIW": "A cup. Red."}])
    dump("w/DOCCI_Test/data.jsonl", [{"image": "test_2", "IIW": "A dog.", "DOCCI": "No."}])
    return dump("w/DCI_Test/data.jsonl", [{"image": "sa_3.jpg", "ex_id": "1", "IIW": "A car."}]).parent.parent


def test_image_in_words_pools_three_sets(words):
    benchmark = imageinwords.load(words, images="at")
    assert benchmark.images == ["at/docci_aar/aar_test_1.jpg", "at/docci/test_2.jpg", "at/dci/sa_3.jpg"]
    assert [record.texts for record in benchmark.records] == [("A cup", "Red"), ("A dog",), ("A car",)]
    assert [record.id for record in benchmark.records] == ["IIW-400/1", "DOCCI_Test/1", "DCI_Test/1"]
    assert len(imageinwords.load(words, split="DCI_Test")) == 1


def test_urban1k_takes_first_lines_in_the_order_of_their_numbers(dump, picture, embeddings):
    for number, text in (("10", "ten"), ("9", "nine\nand more"), ("11", " ")):
        folder = dump(f"u/caption/{number}.txt", text).parent.parent
        picture(f"u/image/{number}.jpg")
    benchmark = urban1k.load(folder)
    assert [(r.id, r.texts) for r in benchmark.records] == [("9", ("nine",)), ("10", ("ten",))]
    assert benchmark.images[0] == str(folder / "image" / "9.jpg")
    result = benchmark.score(embeddings(dict.fromkeys(benchmark.images, [1.0]), {"nine": [2], "ten": [1]}))
    assert result.metrics["i2t_recall_at_1"] == 0.5 and result.counts["image_without_caption"] == 1


def share(dump, content) -> object:
    return dump(f"s/{sharegpt4v.FILES[0]}", content)


def test_sharegpt4v_reads_no_further_than_it_is_asked(dump, picture, monkeypatch):
    """Across the borders of what is read at once; what is behind may be anything."""
    monkeypatch.setattr(sharegpt4v, "CHUNK", 7)
    picture("s/images/sa_1.jpg")
    content = " [" + ",\n".join(json.dumps(turns(text)) for text in ("a long\ncaption", "", "third")) + ", }"
    benchmark = sharegpt4v.load(share(dump, content), split="3")
    assert [(r.id, r.texts) for r in benchmark.records] == [("0", ("a long caption",)), ("2", ("third",))]
    assert benchmark.images[0].endswith("s/images/sa_1.jpg") and benchmark.dropped == {"image_without_caption": 1}


@pytest.mark.parametrize(
    ("content", "split", "message"),
    [([turns("a")], "2", r"holds 1 records, not 2; lower split"), ("{}", "1", r"expected a list of records"),
     ('[{"image": "a", ', "1", r"record 0: not JSON"), ("[" * 5000, "1", r"record 0: not JSON"),
     ([{**turns("a"), "conversations": [{}]}], "1", r"record 0: a conversation of 1 turns, not 2"),
     ([turns("a")], "0", r"split='0': must be a number of records")],
)  # fmt: skip
def test_damaged_sharegpt4v(dump, content, split, message):
    with pytest.raises(UserError, match=message):
        sharegpt4v.load(share(dump, content), split=split)
