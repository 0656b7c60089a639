"""Samples in their file, and the two stages that write a data set."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data import annotate, prepare, recaption, store
from compclip.data.sample import Sample
from compclip.text import annotation
from tests.conftest import ROOT

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SAMPLES = st.lists(
    st.builds(
        Sample,
        id=TEXT,
        image=TEXT,
        captions=st.lists(TEXT, max_size=3).map(tuple),
        split=TEXT,
        width=st.integers(0, 2**31 - 1),
        height=st.integers(0, 2**31 - 1),
    ),
    max_size=4,
)


@given(samples=SAMPLES)
@settings(max_examples=25)
def test_round_trip(tmp_path_factory, samples):
    """Whatever the texts, samples come back equal, and equal samples give equal bytes."""
    folder = tmp_path_factory.mktemp("s")
    store.save(folder / "a.parquet", samples)
    store.save(folder / "b.parquet", samples)
    assert store.load(folder / "a.parquet") == samples
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()


@pytest.mark.parametrize("table", [{"id": ["a"], "other": [1]}, {"id": ["a"], "captions": ["no list"]}])
def test_another_table(tmp_path, table):
    """A parquet file with other columns is a clear error."""
    pq.write_table(pa.table(table), tmp_path / "s.parquet")
    with pytest.raises(UserError, match="s.parquet: no readable samples; run `dvc repro recaption` again"):
        store.load(tmp_path / "s.parquet")


def test_no_table(tmp_path):
    """Bytes that are none, and no file."""
    (tmp_path / "s.parquet").write_bytes(b"no")
    for name in ("s.parquet", "none.parquet"):
        with pytest.raises(UserError, match=f"{name}: no readable samples"):
            store.load(tmp_path / name)


@pytest.fixture
def photographs(tmp_path):
    """A data set of two pictures with three captions, one of them twice; its Data section."""
    texts = {"a.jpg": ["A black dog runs.", "This picture shows a red ball."], "b.jpg": ["A black dog runs."]}
    for name in texts:
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    records = [{"filename": n, "split": "train", "sentences": [{"raw": t} for t in ts]} for n, ts in texts.items()]
    (tmp_path / "d.json").write_text(json.dumps({"images": records}))
    return Data("karpathy", str(tmp_path / "d.json"), str(tmp_path), captioner="none")


def test_both_stages(photographs, tmp_path):
    """Samples without openings; one annotation a caption, in order, equal captions analysed once; counts in JSON."""
    counts = recaption.recaption(photographs, None, tmp_path / "out")
    samples = store.load(tmp_path / "out" / "samples.parquet")
    assert [s.captions for s in samples] == [("A black dog runs.", "A red ball."), ("A black dog runs.",)]
    assert (counts["samples"], counts["openings_dropped"]) == (2, 1)
    assert read_json(tmp_path / "out" / "counts.json") == counts
    counts = annotate.annotate(tmp_path / "out")
    made = annotation.load(tmp_path / "out" / "annotations.parquet")
    assert [a.text for a in made] == [c for s in samples for c in s.captions]
    assert (counts["captions"], counts["different"], counts["without_noun"]) == (3, 2, 0)


def test_pictures_with_few_sentences_are_left_out_and_counted(photographs, tmp_path):
    """CLIC B.1; a sentence of one word is none."""
    texts = {"a.jpg": "Two dogs run on grass. A red ball lies there.", "b.jpg": "Nice. A dog runs on the grass."}
    records = [{"filename": n, "split": "train", "sentences": [{"raw": t}]} for n, t in texts.items()]
    (tmp_path / "d.json").write_text(json.dumps({"images": records}))
    counts = recaption.recaption(replace(photographs, min_sentences=2), None, tmp_path / "out")
    assert [Path(s.image).name for s in store.load(tmp_path / "out" / "samples.parquet")] == ["a.jpg"]
    assert counts["few_sentences"] == 1
    with pytest.raises(UserError, match="no picture has min_sentences=9; lower it"):
        recaption.recaption(replace(photographs, min_sentences=9), None, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_command_names_its_data(tmp_path, monkeypatch):
    """An unknown data set gives close matches, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="unknown data 'scene'; did you mean 'scenes'"):
        prepare.main(["--data", "scene", "--params", str(ROOT / "params.yaml")])
    assert not (tmp_path / "data").exists()


def test_pictures_fingerprint_sees_another_byte(photographs, tmp_path):
    """The samples' fingerprint changes with a picture's bytes."""
    samples = [Sample("a", str(tmp_path / "a.jpg"), ("x",))]
    before = recaption.pictures(samples)
    raw = bytearray((tmp_path / "a.jpg").read_bytes())
    raw[-3] ^= 1
    (tmp_path / "a.jpg").write_bytes(raw)
    assert recaption.pictures(samples) != before
