"""Words of a masked language model: two tiny random ones, whose vocabularies mark words in the two usual ways."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.released_lists import MaskedSection
from compclip.config.sections import Data
from compclip.prepare import mask_filling, rewrite_shards, shard_stages
from compclip.text import dense_texts, masked_words
from compclip.text.spacy_parser import annotate
from tests import tiny_masked
from tests.data import reading

transformers = pytest.importorskip("transformers", reason="optional: pip install compclip[captioners]")
CAPTIONS = ["A big dog runs on the grass.", "The cat sleeps.", "", "A dog runs, and [MASK] cat."]


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    tiny_masked.bert(folder, transformers)
    return folder


def fill(bert: Path, captions: Sequence[str] = CAPTIONS, **options):
    """The words of captions, and counts."""
    return mask_filling.open_model(MaskedSection(str(bert), **options))(captions)


def open_plainly(bert: Path):
    """Tokenizer and network, as transformers has them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    return tokenizer, transformers.AutoModelForMaskedLM.from_pretrained(bert).eval()


def test_the_words_are_those_of_a_plain_forward_pass(bert):
    """One caption and one place at a time, with no batch and no padding; the caption's own word and pieces are out."""
    cfg = MaskedSection(str(bert), top=12)
    filled, counts = fill(bert, top=12)
    tokenizer, model = open_plainly(bert)
    expected_counts = dict.fromkeys(("words", "usable", "unchanged", "no_word"), 0)
    for caption, annotation, words in zip(CAPTIONS, annotate(CAPTIONS), filled, strict=True):
        expected = []
        for token, pos in enumerate(annotation.pos if "[MASK]" not in caption else ()):
            if pos not in cfg.pos:
                continue
            start, end = annotation.starts[token], annotation.ends[token]
            codes = tokenizer(f"{caption[:start]}[MASK]{caption[end:]}", return_tensors="pt")
            with torch.inference_mode():
                logits = model(**codes).logits[0, codes["input_ids"][0].tolist().index(4)]
            top = [tokenizer.convert_ids_to_tokens(int(code)) for code in logits.argsort(descending=True)[:12]]
            usable = [word for word in top if word.isalpha()]
            other_words = tuple(word for word in usable if word != annotation.word(token).lower())
            expected_counts["words"] += 1
            expected_counts["no_word"] += 12 - len(usable)
            expected_counts["unchanged"] += len(usable) - len(other_words)
            expected_counts["usable"] += bool(other_words)
            expected += [(start, other_words)] if other_words else []
        assert words == tuple(expected)
    assert {name: counts[name] for name in expected_counts} == expected_counts
    assert expected_counts["unchanged"] and expected_counts["no_word"]
    assert not filled[2] and not filled[3]  # a caption of its own sign says nothing


def test_the_fourth_word_alone_as_ce_clip_takes_it(bert):
    """That of all twelve which stands fourth; none where it is the caption's own or no word."""
    every, _ = fill(bert, top=12)
    fourth, _ = fill(bert, top=4, rank=4)
    three, _ = fill(bert, top=3)
    assert any(fourth)
    for words, first_words, all_words in zip(fourth, three, every, strict=True):
        before = dict(first_words)
        for start, (word,) in words:
            left_out = 3 - len(before.get(start, ()))
            assert dict(all_words)[start].index(word) == 3 - left_out


def test_what_the_model_says_of_a_mask_alone(bert):
    """The same for every caption, also for one without words; by a plain forward pass."""
    filled, _ = fill(bert, top=4, rank=4, bare=True)
    tokenizer, model = open_plainly(bert)
    with torch.inference_mode():
        logits = model(**tokenizer("[MASK]", return_tensors="pt")).logits[0, 1]
    token = tokenizer.convert_ids_to_tokens(int(logits.argsort(descending=True)[3]))
    expected = [] if token.startswith("##") or token in tokenizer.all_special_tokens else [(-1, (token,))]
    assert [list(words)[: len(expected)] for words in filled] == [expected] * len(CAPTIONS)
    assert all(start >= 0 for words in filled for start, _ in list(words)[len(expected) :])


def test_a_piece_that_goes_on_is_no_word(tmp_path):
    """Of RoBERTa's vocabulary, which marks beginnings: only marked ones, or any at the beginning of the text."""
    tiny_masked.roberta(tmp_path, transformers)
    model = mask_filling.MaskedModel.load(MaskedSection(str(tmp_path)))
    vocabulary_size = len(model.tokenizer)
    gaps = ((0, 6, "dog", "A big ", " runs"), (0, 0, "A", "", " big dog"))
    blanks = [mask_filling.MaskedPosition(*gap) for gap in gaps]
    inner, first = model.likeliest(blanks, vocabulary_size)
    assert {word for word in inner if word} == {"a", "b", "d", "t"}
    assert {"A", "z", "a"} <= set(first) and not set(first) & {"<pad>", "<mask>", "<s>"}
    tokens = model.tokenizer.tokenize(model.hide_word(blanks[0]))
    assert tokens[tokens.index("<mask>") - 1] == "g"


def test_a_long_caption_is_seen_by_its_sentence(bert, monkeypatch):
    """And a place that the model's length cuts off has no words, which is counted."""
    alone, _ = fill(bert, ["The cat sleeps."])
    long, _ = fill(bert, ["The red dog runs. " * 40 + "The cat sleeps."])
    shift = len("The red dog runs. ") * 40
    assert long[0][-len(alone[0]) :] == tuple((start + shift, words) for start, words in alone[0])
    monkeypatch.setattr(mask_filling, "CONTEXT", 10_000)
    filled, counts = fill(bert, ["The red dog runs, " * 20 + "the cat sleeps."])
    assert counts["cut_off"] == counts["words"] - len(filled[0]) > 0


@pytest.fixture
def project(tmp_path, monkeypatch, bert) -> Data:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8)).save("a.png")
    Image.new("RGB", (8, 8), "red").save("b.png")
    reading.put_coco(Path("coco.json"), {"a.png": ["A big dog runs.", "The cat sleeps."], "b.png": ["A big dog runs."]})
    shutil.copytree(bert, "model")
    return Data("coco", "coco.json", ".", captioner="none", masked={"model": "model", "pos": ["NOUN", "VERB"]})


def key(cfg: Data) -> str:
    return reading.first_key(cfg, "rewrite")


def test_the_stages(project):
    """From the data to the rule, beside no rewriter at all; other options make other shards."""
    data, _ = reading.prepare(project)
    counts = shard_stages.run_stage("rewrite", reading.NAME, project)
    assert counts["captions"] == 2 and counts["masked"]["words"] == 4
    first, second, same_text = data.annotation(0, 0), data.annotation(0, 1), data.annotation(1, 0)
    assert first.masked == same_text.masked
    assert [bool(words) for words in first.masked] == [pos in ("NOUN", "VERB") for pos in first.pos]
    (path,) = Path("data/x/rewrites").glob("*.arrow")
    stored_words = rewrite_shards.load_rewrites(path)[second.text].masked
    assert stored_words == tuple((second.starts[t], words) for t, words in enumerate(second.masked) if words)
    rewrites = {masked_words.any_word(second, np.random.default_rng(seed)) for seed in range(60)}
    assert None not in rewrites and second.text not in rewrites and len(rewrites) > 2

    key_before = key(project)
    assert key_before == key(project) != key(replace(project, masked=project.masked | {"top": 2}))
    Path("model/tokenizer_config.json").write_text("{}")
    assert key(project) != key_before


def test_texts_beside_captions_are_filled_too(project):
    """A place of each dense text has the words that the text would have as a caption; a mask alone has its own."""
    Path("dense").mkdir()
    Path("dense/a.png.json").write_text('["The cat sleeps.", "A dog runs."]')
    lists = {"dense": {"file": "dense", "on": "image"}}
    cfg = replace(project, texts=lists, masked=project.masked | {"dense": True, "bare": True, "top": 12})
    data, _ = reading.prepare(cfg)
    as_caption, (cat, dog, caption) = data.annotation(0, 1), dense_texts.list_texts(data.annotation(0, 1))
    assert (cat.text, dog.text, caption.text) == ("The cat sleeps.", "A dog runs.", "The cat sleeps.")
    assert list(zip(cat.starts, cat.ends, cat.masked, strict=True)) == [
        (as_caption.starts[t], as_caption.ends[t], words) for t, words in enumerate(as_caption.masked) if words
    ]
    assert dog.masked and dog.masked != cat.masked
    assert "dense_masked" not in data.annotation(1, 0).stored  # a picture without dense texts
    assert as_caption.stored["bare"] == data.annotation(1, 0).stored["bare"] != ()

    key_before = key(cfg)
    Path("dense/a.png.json").write_text('["A cat sleeps."]')
    assert key(cfg) != key_before and key(project) == key(replace(project, texts=lists))


def test_what_is_no_masked_model(tmp_path, bert):
    """Another kind, code of its own, no folder, and weights without a head."""
    own_code = b'{"model_type": "own", "auto_map": {"AutoModelForMaskedLM": "own.Own"}}'
    for name, config in (("kind", b'{"model_type": "clip_text_model"}'), ("own", own_code)):
        folder = shutil.copytree(bert, tmp_path / name)
        (folder / "config.json").write_bytes(config)
        (folder / "own.py").write_text("raise SystemExit(9)")
        with pytest.raises(UserError, match=str(folder)):
            mask_filling.open_model(MaskedSection(str(folder)))
    with pytest.raises(UserError, match=r"masked.model=nowhere.*`hf download"):
        mask_filling.open_model(MaskedSection("nowhere"))
    folder = shutil.copytree(bert, tmp_path / "headless")
    transformers.AutoModelForMaskedLM.from_pretrained(bert).bert.save_pretrained(folder)
    (folder / "config.json").write_bytes((bert / "config.json").read_bytes())
    with pytest.raises(UserError, match=r"cls\.predictions"):
        mask_filling.open_model(MaskedSection(str(folder)))
