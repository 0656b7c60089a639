"""Released texts beside captions: the authors' files as they lie, what belongs to which caption, and what is counted."""

import json
import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from compclip.base.errors import UserError
from compclip.config import read as parameters
from compclip.config import released_lists
from compclip.config.sections import Data
from compclip.data import shard_files
from compclip.interface.views import Views
from compclip.methods import finetune
from compclip.prepare import caption_join, stored_lists
from compclip.text import dense_texts, masked_words, stored_texts, swap
from tests.data import reading
from tests.data.reading import put, put_lines, read_list
from tests.shipped_files import SHIPPED_PARAMS

# NegCLIP's train_neg_clip.tsv: an index, and lists as Python shows them.
NEGCLIP = (
    "\ttitle\tfilepath\tneg_caption\n"
    "0\tA dog sees a cat.\tcoco/a.jpg\t['A cat sees a dog.', \"A man's dog \\\\ sees.\"]\n"
    "1\tA red bus.\tcoco/b.jpg\t[]\n"
    "2\tA cup.\tcoco/b.jpg\t__import__('os').abort()\n"
)


def texts(file, **options) -> released_lists.Texts:
    return released_lists.texts_config(Data(texts={"negative": {"file": str(file), **options}}))["negative"]


# --- files as their authors write them ------------------------------------------------------------------------------


def test_negclip(tmp_path):
    """By the caption's own text; a column that is no list is damaged, and nothing of it is run."""
    file = put(tmp_path / "t.tsv", NEGCLIP)
    assert read_list(texts(file, on="caption", column="neg_caption", lists=True)) == (
        {"A dog sees a cat.": ("A cat sees a dog.", "A man's dog \\ sees.")},
        {"captions_rows": 3, "captions_damaged": 1, "captions_empty": 1},
    )
    assert list(read_list(texts(file, on="image", column="neg_caption", lists=True))[0]) == ["a.jpg"]


def test_dac_and_svlc_have_a_file_for_each_picture(tmp_path):
    """DAC's sentences as a list, or below `caption`; SVLC's paraphrase, and what stands for none."""
    put(tmp_path / "llm" / "a.jpg.json", '["A dog.", "Grass  is\\ngreen."]')
    put(tmp_path / "sam" / "a.jpg.json", '{"caption": ["a dog", "a ball"]}')
    put(tmp_path / "pos" / "a.jpg.json", '{"positive": "Dogs play.", "caption": "A dog."}')
    put(tmp_path / "pos" / "b.jpg.json", '{"positive": "invalid", "caption": "A cat."}')
    assert read_list(texts(tmp_path / "llm", on="image"))[0] == {"a.jpg": ("A dog.", "Grass is green.")}
    assert read_list(texts(tmp_path / "sam", on="image", column="caption"))[0] == {"a.jpg": ("a dog", "a ball")}
    assert read_list(texts(tmp_path / "pos", on="image", column="positive", skip=["invalid"])) == (
        {"a.jpg": ("Dogs play.",)},
        {"captions_rows": 2, "captions_empty": 1},
    )


def test_what_is_no_such_file_is_counted(tmp_path):
    contents = ('{"other": "x"}', "[1, 2]", b"\xff", "{", "[" * 100_000, "7")
    for name, content in zip("abcdef", contents, strict=True):
        put(tmp_path / f"{name}.json", content)
    os.mkfifo(tmp_path / "g.json")
    texts_by_key, counts = read_list(texts(tmp_path, on="key", column="caption"))
    assert not texts_by_key
    assert counts == {"captions_rows": 7, "captions_damaged": 5, "captions_not_utf8": 1, "captions_empty": 1}
    with pytest.raises(UserError, match="set texts.column to one of 'other'"):
        read_list(texts(tmp_path, on="key"))
    with pytest.raises(UserError, match="a.json: no such list"):
        read_list(texts(tmp_path / "a.json", on="key"))
    # img2dataset writes key.txt and key.json beside a picture: what it says of the picture is no caption
    put(tmp_path / "both" / "a.txt", "a dog")
    put(tmp_path / "both" / "a.json", '{"caption": "a cat"}')
    assert read_list(texts(tmp_path / "both", on="key"))[0] == {"a": ("a dog",)}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=5))
def test_lists_are_read_as_either_language_writes_them(texts):
    assert caption_join.parse_texts(repr(texts)) == caption_join.parse_texts(json.dumps(texts)) == texts


NO_LISTS = ["a", "'a'", "[1]", "[b'a']", "{'a'}", "['a'", "[" * 5000, "[" + "-" * 9000 + "1]", "['a' * 9]", "[f'{1}']",
            "[9**9]", "['" + "a" * caption_join.LONGEST_LITERAL + "']", "[x for x in 'a']", "[" + "9" * 5000 + "]", "\0",
            "['a', ['b']]"]  # fmt: skip


@pytest.mark.parametrize("literal", NO_LISTS)
def test_what_is_no_list_of_texts(literal):
    with pytest.raises(ValueError):
        caption_join.parse_texts(literal)


def test_halves_of_pairs_and_warnings(recwarn):
    """A backslash of a regular expression is Python's to warn of, and not ours."""
    assert caption_join.parse_texts("['\\d', '\\ud800']") == ["\\d", "\ufffd"]
    assert caption_join.parse_texts(" [] ") == []
    assert not list(recwarn)


# --- joined to captions ---------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch) -> Data:
    """Three pictures of which two have a caption in common, and lists of two kinds."""
    monkeypatch.chdir(tmp_path)
    captions = {
        "a.png": ["A dog sees a cat.", "A dog runs."],
        "b.png": ["A dog runs."],
        "c.png": ["A cup stands here."],
    }
    reading.put_coco(Path("coco.json"), captions)
    for number, name in enumerate(captions):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(name)
    runs = {"caption": "A dog runs.", "n": ["A cat runs.", "a dog runs.", "No dog runs."]}
    stands = {"caption": "This picture shows a cup stands here.", "n": ["A cup falls."]}
    put_lines(Path("n.jsonl"), [runs, stands, {"caption": "Another.", "n": ["x"]}, 7])
    put(Path("dense/a.png.json"), '["A dog.", "A cat."]')
    put(Path("dense/b.png.json"), '["A hound."]')
    lists = {"negative": {"file": "n.jsonl", "on": "caption", "column": "n"}, "dense": {"file": "dense", "on": "image"}}
    return Data("coco", "coco.json", ".", captioner="none", texts=lists)


def test_the_stages(project):
    """Equal captions of two pictures have the negatives of the caption, and each the dense texts of its picture."""
    data, counts = reading.prepare(project)
    assert {name: n for name, n in counts.items() if "negative" in name or "dense" in name} == {
        "captions_with_negative": 3, "captions_without_negative": 1, "captions_with_dense": 3,
        "captions_without_dense": 1, "negative_rows": 4, "negative_damaged": 1,
        "dense_rows": 2,
    }  # fmt: skip
    annotations = [(i, data.annotation(i, j)) for i in range(3) for j in range(data.captions(i))]
    stored_by_caption = {(i, annotation.text): annotation.stored for i, annotation in annotations}
    runs = ("A cat runs.", "a dog runs.", "No dog runs.")
    assert stored_by_caption == {
        (0, "A dog sees a cat."): {"dense": ("A dog.", "A cat.")},
        (0, "A dog runs."): {"dense": ("A dog.", "A cat."), "negative": runs},
        (1, "A dog runs."): {"dense": ("A hound.",), "negative": runs},
        (2, "A cup stands here."): {"negative": ("A cup falls.",)},
    }


def test_balanced_negatives_are_stored_and_make_a_shard_anew(project):
    """In the place of a list's; other settings are another shard, and what has none is counted."""
    balanced = {"balance": "blind", "rules": ["nouns"]}
    options = ({}, {"caption": "full"}, {"rules": ["nouns", "negclip"]})
    sets = [replace(project, texts={"negative": balanced | more}) for more in options]
    data, counts = reading.prepare(sets[0])
    assert counts["captions_with_negative"] + counts["captions_without_negative"] == 4
    stored = {data.annotation(i, j).stored.get("negative") for i in range(3) for j in range(data.captions(i))}
    assert ("A cat sees a dog.",) in stored and None in stored  # two nouns, and one
    assert len(set(map(reading.first_key, sets))) == 3


def test_a_shard_is_made_anew_when_a_list_is_another(project):
    """And not otherwise; a data set without texts keeps its keys and its columns."""
    reading.recaption(project)
    bare, key_before = replace(project, texts={}), reading.first_key(project)
    assert key_before == reading.first_key(project) != reading.first_key(bare)
    put(Path("dense/b.png.json"), '["A hound is here."]')
    assert reading.first_key(project) != key_before
    reading.prepare(bare)
    (shard,) = Path("data/x/shards").glob("*.arrow")
    batch = shard_files.read_batch(shard, "annotate")
    assert not [field.name for field in batch["captions"].type.value_type if field.name.startswith("stored")]
    assert not [key for key in batch.schema.metadata if b"rows" in key]


@pytest.mark.parametrize(("views", "key", "kind", "overrides"), [
    (Views(negatives=(stored_texts.first_negative,)), "texts.negative", "negative", []),
    (Views(negatives=(stored_texts.paraphrase,)), "texts.paraphrase", "paraphrase", []),
    (Views(groups=(stored_texts.variations(2),)), "texts.variation", "variation", []),
    (Views(negatives=(masked_words.of_pos("ADJ"),)), "masked", "", ["data.scenes.masked={model: m}"]),
    (Views(groups=(dense_texts.bag(2, partial(masked_words.either_of_dense, swap.nouns)),)), "masked.dense", "dense",
     ["data.scenes.masked={model: m, dense: true}"]),
])  # fmt: skip
def test_a_rule_that_reads_beside_captions_needs_data_with_it(monkeypatch, views, key, kind, overrides):
    listed = [f"data.scenes.texts={{{kind}: {{file: a.csv, 'on': key, column: b}}}}"] if kind else []
    monkeypatch.setattr(finetune, "views", lambda cfg, step: views)
    with pytest.raises(UserError, match=re.escape(f"data.scenes.{key}")):
        parameters.load_params(SHIPPED_PARAMS)
    assert parameters.load_params(SHIPPED_PARAMS, listed + overrides)


# --- variations of a picture ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("record", "packed"), [
    ('{"name": "x", "itm_score": [0.25, 0.75], "captions": ["a dog", "A  red\\tdog"]}', "0.5\ta dog\tA red dog"),
    *((record, "") for record in (
        '{"itm_score": [1], "captions": []}', '{"itm_score": [], "captions": ["a"]}',
        '{"itm_score": [NaN], "captions": ["a"]}', '{"itm_score": [1e999], "captions": ["a"]}',
        '{"itm_score": ["1"], "captions": ["a"]}', '{"itm_score": [1], "captions": "a"}',
        '{"itm_score": [1], "captions": ["a", 2]}', '{"itm_score": [1], "captions": [" "]}', '{"captions": ["a"]}',
        "[1]", "7", "{",
    )),
])  # fmt: skip
def test_a_variation_is_its_score_and_its_captions(record, packed):
    assert stored_lists.pack_variation(record) == packed


def test_damaged_variations_keep_their_place(project):
    """So that the others go on belonging to their pictures; they are counted."""
    records = [{"itm_score": [0.5], "captions": ["One."]}, {}, {"itm_score": [0.75], "captions": ["Two.", "Three."]}]
    put_lines(Path("v.jsonl"), [{"image": "a.png", "variation": [json.dumps(record) for record in records]}])
    listed = {"variation": {"file": "v.jsonl", "on": "image", "column": "variation"}}
    data, counts = reading.prepare(replace(project, texts=listed))
    assert data.annotation(0, 1).stored == {"variation": ("0.5\tOne.", "", "0.75\tTwo.\tThree.")}
    # of two captions of the picture
    assert (counts["captions_with_variation"], counts["variation_damaged"]) == (2, 2)
