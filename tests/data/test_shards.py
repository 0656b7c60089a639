"""Shards in their files, and the stages that write a data set."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.data import shard_files
from compclip.data.prepared_dataset import NegativeImageColumn, PreparedDataset, RegionColumn
from compclip.data.sample import NegativeImage, Region, Sample, SampleMember
from compclip.prepare import annotate_shards, sample_cleaning, shard_stages, shard_work, shard_writer
from compclip.text.replace import clove
from tests.data import reading, tar_files
from tests.data.reading import put_karpathy
from tests.prepared_set import all_annotations

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SIDE, PLACE = st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
TEXTS = dict.fromkeys(("id", "image", "split", "url", "sha256"), TEXT) | {
    "captions": st.lists(TEXT, max_size=3).map(tuple)
}
NUMBERS = {"width": SIDE, "height": SIDE, "offset": PLACE, "length": PLACE, "head": st.integers(0, 2**64 - 1)}
NEGATIVE = st.builds(NegativeImage, TEXT, PLACE, PLACE, st.integers(0, 2**64 - 1))
MEMBER = st.builds(SampleMember, st.sampled_from(["neg_image", "neg_caption"]), PLACE, PLACE)
SHARES = dict.fromkeys(("left", "upper", "right", "lower"), st.floats(0, 1))
REGION_TEXTS = {"captions": st.lists(TEXT, min_size=1).map(tuple), "negatives": st.lists(TEXT).map(tuple)}
REGION = st.builds(Region, **SHARES, **REGION_TEXTS)
LISTS = {"negatives": NEGATIVE, "members": MEMBER, "regions": REGION}
LISTS = {name: st.lists(item, max_size=3).map(tuple) for name, item in LISTS.items()}
SAMPLES = st.lists(st.builds(Sample, **TEXTS, **NUMBERS, **LISTS), max_size=4)
NAME = SafeName("x", "data")


@pytest.fixture
def one_process() -> None:
    """As the stages do it: in several processes where there are cores."""


@given(samples=SAMPLES)
@settings(max_examples=25)
def test_round_trip(tmp_path_factory, samples):
    """Whatever they hold, samples come back equal, equal ones give equal bytes, and training reads their lists."""
    folder = tmp_path_factory.mktemp("s")
    shard_writer.save_samples(folder / "a.arrow", samples)
    shard_writer.save_samples(folder / "b.arrow", samples)
    assert shard_writer.load_samples(folder / "a.arrow") == samples
    assert (folder / "a.arrow").read_bytes() == (folder / "b.arrow").read_bytes()
    columns = {name for name in LISTS if any(getattr(sample, name) for sample in samples)}
    names = shard_files.read_batch(folder / "a.arrow", "recaption").schema.names
    assert set(names) == {*shard_writer.SCHEMA.names, *columns}
    arrays = shard_writer.build_list_columns(samples, annotate_shards.LIST_COLUMNS)
    for row, sample in enumerate(samples if "negatives" in arrays else ()):
        assert NegativeImageColumn(arrays["negatives"])[row] == tuple(image.picture for image in sample.negatives)
    for row, sample in enumerate(samples if "regions" in arrays else ()):
        assert RegionColumn(arrays["regions"])[row] == sample.regions


@pytest.fixture
def photographs(tmp_path):
    """A data set of two pictures with three captions, one of them twice; its Data section."""
    texts = {"a.jpg": ["A black dog runs.", "This picture shows a red ball."], "b.jpg": ["A black dog runs."]}
    for name in texts:
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    return described(tmp_path, texts)


def described(folder: Path, texts: dict[str, list[str]]) -> Data:
    """The Data section of some pictures and their captions."""
    return Data("karpathy", str(put_karpathy(folder / "d.json", texts)), str(folder), captioner="none")


@pytest.fixture
def six_dogs(tmp_path, monkeypatch) -> dict[str, list[str]]:
    """Captions of six pictures, in shards of two."""
    monkeypatch.setattr(shard_writer, "ROWS", 2)
    for i in range(6):
        Image.new("RGB", (20, 10)).save(tmp_path / f"{i}.jpg")
    return {f"{i}.jpg": [f"A dog runs {i} times."] for i in range(6)}


def test_both_stages(photographs, tmp_path):
    """Samples without openings; one annotation a caption, in order, equal captions analysed once; counts in JSON."""
    folder = tmp_path / "data" / "x"
    samples, counts = reading.recaption(photographs, tmp_path)
    assert [s.captions for s in samples] == [("A black dog runs.", "A red ball."), ("A black dog runs.",)]
    assert (counts["samples"], counts["openings_dropped"]) == (2, 1)
    assert read_json(folder / "counts.json") == counts
    counts = shard_stages.run_stage("annotate", NAME, photographs, tmp_path)
    data = PreparedDataset(folder)
    texts = [tuple(a.text for a in annotations) for annotations in all_annotations(data)]
    assert texts == [s.captions for s in samples]
    assert [data.sample(i).picture for i in range(2)] == [s.picture for s in samples]
    assert (counts["captions"], counts["different"], counts.get("without_noun", 0)) == (3, 2, 0)
    assert data.locate_caption(2) == (1, 0)
    assert data.sharing("dog", True).tolist() == [0, 2]


def test_what_is_made_is_not_made_again(six_dogs, tmp_path, monkeypatch):
    """Three shards; a new caption in the last one makes that one alone anew, and the others are the same files."""
    texts = six_dogs
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    write_counts, write = Counter[str](), shard_work._write
    monkeypatch.setattr(
        shard_work, "_write", lambda work, item, how: (write_counts.update([item.name]), write(work, item, how))
    )

    def both():
        cfg = described(tmp_path, texts)
        shard_stages.run_stage("recaption", NAME, cfg, tmp_path)
        shard_stages.run_stage("annotate", NAME, cfg, tmp_path)
        took = dict(write_counts)
        write_counts.clear()
        return took, [p.stat().st_ino for p in sorted((tmp_path / "data" / "x" / "shards").glob("*.arrow"))]

    took, first = both()
    assert took == {"00000": 2, "00001": 2, "00002": 2}
    texts["5.jpg"] = ["A cat sleeps."]
    took, second = both()
    assert took == {"00002": 2}
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, True, False]
    del texts["4.jpg"], texts["5.jpg"]
    assert both() == ({}, first[:2])
    annotations = all_annotations(PreparedDataset(tmp_path / "data" / "x"))
    assert [a[0].text for a in annotations] == [t for (t,) in texts.values()]


@pytest.mark.parametrize("source", ["webdataset", "table"])
def test_a_longer_list_of_files_makes_shards_of_the_new_ones(tmp_path, source):
    """Of tars and of tables with pictures inside, whatever their folders are then."""
    suffix = "tar" if source == "webdataset" else "parquet"
    for number in range(4):
        path = tmp_path / f"{number}.{suffix}"
        raw = tar_files.picture(colour=number)
        if source == "webdataset":
            tar_files.write(path, tar_files.sample("a", "A dog.", raw))
        else:
            pq.write_table(pa.table({"image": [raw], "caption": ["A dog."]}), path)
    cfg = Data(source, f"{tmp_path}/{{0..2}}.{suffix}", str(tmp_path), captioner="none")
    shard_stages.run_stage("recaption", NAME, cfg, tmp_path)
    longer = replace(cfg, path=f"{tmp_path}/{{0..3}}.{suffix}")
    assert [task.name for task in shard_stages.plan_work("recaption", NAME, longer, tmp_path).missing()] == ["00003"]
    if source == "webdataset":
        longer = replace(longer, images=f"{tmp_path}/{{0..3}}.{suffix}")
        assert len(shard_stages.plan_work("recaption", NAME, longer, tmp_path).missing()) == 1


def test_a_task_reads_what_it_was_sent_for(photographs, tmp_path):
    """Whatever the data is asked for in the meantime; what nobody wants goes when the stage is through."""
    first_work = shard_stages.plan_work("recaption", NAME, photographs, tmp_path)
    described(tmp_path, {"a.jpg": ["Another dog."]})
    second_work = shard_stages.plan_work("recaption", NAME, photographs, tmp_path)
    files = [Path(work.items[0].inputs["path"]) for work in (first_work, second_work)]
    assert [shard_writer.load_samples(file)[0].captions[0] for file in files] == ["A black dog runs.", "Another dog."]
    shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    assert [str(p) for p in (second_work.folder / "blocks").iterdir()] == [second_work.items[0].inputs["path"]]


def test_a_picture_that_changes_is_looked_at_again(photographs, tmp_path):
    """Its shard has another fingerprint, by the picture's bytes alone: its time makes nothing else."""
    first = recaptioned_manifest(photographs, tmp_path).fingerprint
    os.utime(tmp_path / "a.jpg", (1, 1))
    assert recaptioned_manifest(photographs, tmp_path).fingerprint == first
    raw = bytearray((tmp_path / "a.jpg").read_bytes())
    raw[-3] ^= 1
    (tmp_path / "a.jpg").write_bytes(raw)
    assert recaptioned_manifest(photographs, tmp_path).fingerprint != first


def recaptioned_manifest(cfg: Data, root: Path) -> shard_files.Manifest:
    reading.recaption(cfg, root)
    return shard_files.read_manifest(root / "data" / "x" / "samples" / "manifest.json", "recaption")


def test_a_shard_that_fails_leaves_nothing(photographs, tmp_path, monkeypatch):
    """No file under its name, none in data/; the next run makes it."""
    monkeypatch.setattr(sample_cleaning, "measure_images", None)
    with pytest.raises(TypeError):
        shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    assert not (tmp_path / "data").exists()
    assert not list((tmp_path / ".work" / "shards" / "recaption" / "x").glob("*.arrow"))
    monkeypatch.undo()
    assert shard_stages.run_stage("recaption", NAME, photographs, tmp_path)["samples"] == 2


def test_a_process_makes_the_shards_that_it_is_told(photographs, tmp_path, monkeypatch, capsys):
    """As a cluster's array starts it; a name that is none has close matches."""
    monkeypatch.chdir(tmp_path)
    work = shard_stages.plan_work("recaption", NAME, photographs)
    assert shard_work.main([str(work.folder), "00000"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shard": "00000"}
    assert not work.missing()
    with pytest.raises(UserError, match="unknown shard '00001'; did you mean '00000'"):
        shard_work.main([str(work.folder), "00001"])


def test_processes_make_what_one_makes(six_dogs, tmp_path, monkeypatch):
    """The same shards, whoever makes them."""
    manifests = []
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: set(range(cores)))
        manifests.append(recaptioned_manifest(described(tmp_path, six_dogs), tmp_path / str(cores)))
    assert manifests[0] == manifests[1] and len(manifests[0].shards) == 3


def test_pictures_with_few_sentences_are_left_out_and_counted(photographs, tmp_path):
    """CLIC B.1; a sentence of one word is none. The openings that go are a parameter."""
    texts = {"a.jpg": ["Two dogs run on grass. A red ball lies there."], "b.jpg": ["Nice. A dog runs on it."]}
    samples, counts = reading.recaption(replace(described(tmp_path, texts), min_sentences=2), tmp_path)
    assert [Path(s.image).name for s in samples] == ["a.jpg"]
    assert counts["few_sentences"] == 1
    with pytest.raises(UserError, match="no picture has min_sentences=9; lower it"):
        shard_stages.run_stage("recaption", SafeName("y", "data"), replace(photographs, min_sentences=9), tmp_path)
    assert not (tmp_path / "data" / "y" / "counts.json").exists()
    described(tmp_path, {"a.jpg": ["The image showcases a dog."], "b.jpg": ["This picture shows a cat."]})
    expected = {"usual": ["The image showcases a dog.", "A cat."], "clic": ["a dog.", "This picture shows a cat."]}
    for name, captions in expected.items():
        samples, counts = reading.recaption(replace(photographs, openings=name), tmp_path)
        assert ([s.captions[0] for s in samples], counts["openings_dropped"]) == (captions, 1)


def test_words_for_clove_s_rule_are_looked_up_where_they_are_asked_for(photographs, tmp_path):
    """Shards without them stay as they are, and training that asks for them there says what to set."""
    described(tmp_path, {"a.jpg": ["A red dog chases a cat."], "b.jpg": ["A man rides a horse."]})
    shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    rng, fingerprints = np.random.default_rng(0), {}
    for relatives in (False, True, False):
        shard_stages.run_stage("annotate", NAME, replace(photographs, relatives=relatives), tmp_path)
        data = PreparedDataset(tmp_path / "data" / "x")
        fingerprints.setdefault(relatives, []).append(data.manifest.fingerprint)
        if relatives:
            text = clove(data.annotation(0, 0), rng)
            assert text is not None and len(text.split()) >= 6 and text != "A red dog chases a cat."
        else:
            with pytest.raises(UserError, match="set data.<name>.relatives to true"):
                clove(data.annotation(0, 0), rng)
    assert len(set(fingerprints[False])) == 1 and fingerprints[True] != fingerprints[False][:1]
