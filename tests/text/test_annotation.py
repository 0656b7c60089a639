"""Annotations as values and in their file."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.text import annotation
from compclip.text.annotate import annotate
from compclip.text.annotation import Annotation
from tests.text.strategies import annotations


def test_round_trip(annotated, tmp_path):
    annotation.save(tmp_path / "a.parquet", list(annotated.values()), {"spacy": "3"})
    assert annotation.load(tmp_path / "a.parquet") == list(annotated.values())
    assert annotation.about(tmp_path / "a.parquet") == {"spacy": "3"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(annotations(), max_size=5))
def test_round_trip_of_anything(tmp_path, values):
    annotation.save(tmp_path / "a.parquet", values)
    assert annotation.load(tmp_path / "a.parquet") == values
    assert pickle.loads(pickle.dumps(values)) == values


def test_batches_keep_order(annotated, tmp_path, monkeypatch):
    monkeypatch.setattr(annotation, "ROWS", 4)
    values = list(annotated.values())
    annotation.save(tmp_path / "a.parquet", values)
    assert annotation.load(tmp_path / "a.parquet") == values


def test_loading_shares_equal_candidates(annotated, tmp_path):
    sentence = annotated["The dog chases the cat."]
    annotation.save(tmp_path / "a.parquet", [sentence, sentence])
    first, second = annotation.load(tmp_path / "a.parquet")
    assert first.candidates[1]
    assert first.candidates[1] is second.candidates[1]


def test_a_missing_or_wrong_file_says_what_to_do(tmp_path):
    (tmp_path / "text").write_text("no parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other")
    for name in ("none", "text", "other"):
        with pytest.raises(UserError, match=f"{name}: .*run the annotate stage again"):
            annotation.load(tmp_path / name)


def test_a_sentence_is_what_annotating_it_alone_would_give(annotated):
    whole = annotated["A mug of red tea and a green apple. It is next to the mug of red tea."]
    texts = [whole.sentence(i).text for i in range(2)]
    assert texts == ["A mug of red tea and a green apple.", "It is next to the mug of red tea."]
    for index, alone in enumerate(annotate(texts)):
        part = whole.sentence(index)
        for name in ("starts", "ends", "sentences", "chunks", "verbs"):
            assert getattr(part, name) == getattr(alone, name), name
        assert all(0 <= head < len(part) for head in part.heads)
        assert len(part.candidates) == len(part)


def test_a_caption_of_one_sentence_is_its_sentence(annotated):
    caption = annotated["The dog chases the cat."]
    assert caption.sentence(0) is caption


@given(annotations())
def test_sentences_hold_their_own_tokens(value: Annotation):
    for index, (begin, end) in enumerate(value.sentences):
        part = value.sentence(index)
        inside = [value.word(t) for t in range(len(value)) if begin <= value.starts[t] < end]
        assert [part.word(t) for t in range(len(part))] == inside
        assert part.text == value.text[begin:end]
