"""Annotations as the columns of a shard, and rows out of them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import AnnotationColumns, AnnotationRows, add_stored_texts
from tests.text.strategies import annotations

ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
CANDIDATE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t"), min_size=1, max_size=4)


def columns(values: list[Annotation]) -> pa.StructArray:
    output = AnnotationColumns()
    for value in values:
        output.add(value)
    return output.array()


def all_of(rows: AnnotationRows) -> list[Annotation]:
    return [rows[i] for i in range(len(rows))]


def through_file(annotations: pa.StructArray) -> list[Annotation]:
    """The rows of a shard's file with these columns."""
    batch, sink = pa.RecordBatch.from_struct_array(annotations), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return all_of(AnnotationRows(pa.ipc.open_file(sink.getvalue()).get_batch(0), "00000.arrow"))


@st.composite
def any_annotation(draw) -> Annotation:
    """With words of lemmas and candidates that no table has."""
    value = draw(annotations())
    count = len(value)
    lemma = tuple(draw(ODD) if draw(st.booleans()) else word for word in value.lemma)
    candidates = tuple(tuple(draw(st.lists(CANDIDATE, max_size=2))) for _ in range(count))
    masked = tuple(tuple(draw(st.lists(CANDIDATE, max_size=2))) for _ in range(count))
    odd = {"written_swap": draw(ODD), "written_replace": draw(ODD)}
    table = st.lists(st.tuples(CANDIDATE, st.integers(1, 2**31 - 1)), max_size=3)
    pairs = [draw(table) for _ in range(count)] if draw(st.booleans()) else []
    relatives = tuple((tuple(w for w, _ in of_token), tuple(n for _, n in of_token)) for of_token in pairs)
    return replace(value, lemma=lemma, candidates=candidates, masked=masked, relatives=relatives, **odd)


@settings(max_examples=25, deadline=None)
@given(st.lists(any_annotation(), max_size=4))
def test_rows_of_anything(values):
    """A shard in which no token has a masked model's words has no column of them; relatives all of a shard have, or none.

    Where one has relatives, the others get empty ones.
    """
    has_masked, has_relatives = any(any(value.masked) for value in values), any(value.relatives for value in values)
    values = values if has_masked else [replace(value, masked=()) for value in values]
    empty = [replace(v, relatives=v.relatives or (((), ()),) * len(v) * has_relatives) for v in values]
    assert through_file(columns(values)) == empty


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(ODD.filter(bool), max_size=3), max_size=5), st.lists(ODD.filter(bool), max_size=3))
def test_stored_texts_stand_beside_captions(negatives, dense):
    """Whatever the texts are; kinds without texts are left out of a row."""
    values = [Annotation("") for _ in negatives]
    array = add_stored_texts(columns(values), {"negative": negatives, "dense": [dense] * len(values)})
    for row, row_negatives in zip(through_file(array), negatives, strict=True):
        kinds = {"negative": tuple(row_negatives), "dense": tuple(dense)}
        assert row.stored == {kind: texts for kind, texts in kinds.items() if texts}


def test_columns_of_sentences(annotated):
    """Captions of samples are lists, nouns those of first sentences; without relatives there is no column of them."""
    values = list(annotated.values())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, len(values)], pa.int32()), columns(values))
    assert all_of(AnnotationRows(lists.values)) == values
    array = columns([annotated["Two dogs and three cats sleep."], annotated[""]])
    rows = AnnotationRows(array)
    assert array.field("nouns").to_pylist() == [rows.nouns(i) for i in range(2)] == [["dogs", "cats"], []]
    value = annotated["The dog chases the cat."]
    weighed = replace(value, relatives=(((), ()), (("fox", "sea lion"), (3, 1)), *[((), ())] * 4))
    assert "relatives" not in pa.RecordBatch.from_struct_array(columns([value])).schema.names
    assert columns([weighed]).field("relatives").to_pylist() == [[{"token": 1, "words": "fox\t3\tsea lion\t1"}]]


def test_numbers_are_as_wide_as_they_must_be():
    """A caption of more than 65,535 characters, with a head 300 tokens away and one before its token."""
    words = ["w" * 70_000, *["x"] * 400]
    ends = tuple(np.cumsum([len(w) for w in words]).tolist())
    many = (("NN",) * 401,) * 4
    heads = (300, 0, *[401 - 1] * 399)
    spans = (((0, ends[-1]),), ((0, 401),), (), ((),) * 401)
    long = Annotation("".join(words), (0, *ends[:-1]), ends, *many, heads, *spans)
    tags = (("DET", "NOUN"),) * 4
    short = Annotation("a dog", (0, 2), (1, 5), *tags, (1, 1), ((0, 5),), ((0, 2),), (), ((), ("cat",)))
    assert through_file(columns([short, long, short])) == [short, long, short]
