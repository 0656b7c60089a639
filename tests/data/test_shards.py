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
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import Sample
from compclip.prepare import sample_cleaning, shard_stages, shard_work, shard_writer
from compclip.text.replace import clove
from tests.data import tar_files
from tests.data.reading import in_folder
from tests.prepared_set import all_annotations

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
        offset=st.integers(0, 2**63 - 1),
        length=st.integers(0, 2**63 - 1),
        url=TEXT,
        sha256=TEXT,
        head=st.integers(0, 2**64 - 1),
    ),
    max_size=4,
)
NAME = SafeName("x", "data")


@pytest.fixture
def one_process() -> None:
    """As the stages do it: in several processes where there are cores."""


@given(samples=SAMPLES)
@settings(max_examples=25)
def test_round_trip(tmp_path_factory, samples):
    """Whatever the texts, samples come back equal, and equal samples give equal bytes."""
    folder = tmp_path_factory.mktemp("s")
    shard_writer.save_samples(folder / "a.arrow", samples)
    shard_writer.save_samples(folder / "b.arrow", samples)
    assert shard_writer.load_samples(folder / "a.arrow") == samples
    assert (folder / "a.arrow").read_bytes() == (folder / "b.arrow").read_bytes()


@pytest.fixture
def photographs(tmp_path):
    """A data set of two pictures with three captions, one of them twice; its Data section."""
    texts = {"a.jpg": ["A black dog runs.", "This picture shows a red ball."], "b.jpg": ["A black dog runs."]}
    for name in texts:
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    return described(tmp_path, texts)


def described(folder, texts):
    """The Data section of some pictures and their captions."""
    records = [{"filename": n, "split": "train", "sentences": [{"raw": t} for t in ts]} for n, ts in texts.items()]
    (folder / "d.json").write_text(json.dumps({"images": records}))
    return Data("karpathy", str(folder / "d.json"), str(folder), captioner="none")


def test_both_stages(photographs, tmp_path):
    """Samples without openings; one annotation a caption, in order, equal captions analysed once; counts in JSON."""
    folder = tmp_path / "data" / "x"
    counts = shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    samples = in_folder(folder)
    assert [s.captions for s in samples] == [("A black dog runs.", "A red ball."), ("A black dog runs.",)]
    assert (counts["samples"], counts["openings_dropped"]) == (2, 1)
    assert read_json(folder / "counts.json") == counts
    counts = shard_stages.run_stage("annotate", NAME, photographs, tmp_path)
    data = PreparedDataset(folder)
    assert [tuple(a.text for a in annotations) for annotations in all_annotations(data)] == [
        s.captions for s in samples
    ]
    assert [data.sample(i).picture for i in range(2)] == [s.picture for s in samples]
    assert (counts["captions"], counts["different"], counts.get("without_noun", 0)) == (3, 2, 0)
    assert data.locate_caption(2) == (1, 0)
    assert data.sharing("dog", True).tolist() == [0, 2]


def test_what_is_made_is_not_made_again(photographs, tmp_path, monkeypatch):
    """Three shards; a new caption in the last one makes that one alone anew, and the others are the same files."""
    texts = {f"{i}.jpg": [f"A dog runs {i} times."] for i in range(6)}
    for name in texts:
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    monkeypatch.setattr(shard_writer, "ROWS", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    write_counts = Counter[str]()
    monkeypatch.setattr(shard_work, "_write", counted(shard_work._write, write_counts))

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
    assert [a[0].text for a in all_annotations(PreparedDataset(tmp_path / "data" / "x"))] == [
        t for (t,) in texts.values()
    ]


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
    texts = [
        shard_writer.load_samples(Path(w.items[0].inputs["path"]))[0].captions[0] for w in (first_work, second_work)
    ]
    assert texts == ["A black dog runs.", "Another dog."]
    shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    assert [str(p) for p in (second_work.folder / "blocks").iterdir()] == [second_work.items[0].inputs["path"]]


def counted(make, write_counts):
    """A function that counts what it is asked to make."""

    def counting(work, item, how):
        write_counts[item.name] += 1
        make(work, item, how)

    return counting


def test_a_picture_that_changes_is_looked_at_again(photographs, tmp_path):
    """Its shard has another fingerprint, by the picture's bytes alone: its time makes nothing else."""
    manifest = tmp_path / "data" / "x" / "samples" / "manifest.json"
    shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    first = shard_files.read_manifest(manifest, "recaption").fingerprint
    os.utime(tmp_path / "a.jpg", (1, 1))
    shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    assert shard_files.read_manifest(manifest, "recaption").fingerprint == first
    raw = bytearray((tmp_path / "a.jpg").read_bytes())
    raw[-3] ^= 1
    (tmp_path / "a.jpg").write_bytes(raw)
    shard_stages.run_stage("recaption", NAME, photographs, tmp_path)
    assert shard_files.read_manifest(manifest, "recaption").fingerprint != first


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


def test_processes_make_what_one_makes(tmp_path, monkeypatch):
    """The same shards, whoever makes them."""
    texts = {f"{i}.jpg": [f"A dog runs {i} times."] for i in range(6)}
    for name in texts:
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    monkeypatch.setattr(shard_writer, "ROWS", 2)
    manifests = []
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: set(range(cores)))
        shard_stages.run_stage("recaption", NAME, described(tmp_path, texts), tmp_path / str(cores))
        manifests.append(
            shard_files.read_manifest(tmp_path / str(cores) / "data" / "x" / "samples" / "manifest.json", "")
        )
    assert manifests[0] == manifests[1] and len(manifests[0].shards) == 3


def test_pictures_with_few_sentences_are_left_out_and_counted(photographs, tmp_path):
    """CLIC B.1; a sentence of one word is none."""
    described(
        tmp_path, {"a.jpg": ["Two dogs run on grass. A red ball lies there."], "b.jpg": ["Nice. A dog runs on it."]}
    )
    counts = shard_stages.run_stage("recaption", NAME, replace(photographs, min_sentences=2), tmp_path)
    assert [Path(s.image).name for s in in_folder(tmp_path / "data" / "x")] == ["a.jpg"]
    assert counts["few_sentences"] == 1
    with pytest.raises(UserError, match="no picture has min_sentences=9; lower it"):
        shard_stages.run_stage("recaption", SafeName("y", "data"), replace(photographs, min_sentences=9), tmp_path)
    assert not (tmp_path / "data" / "y" / "counts.json").exists()


def test_the_openings_that_go_are_a_parameter(photographs, tmp_path):
    described(tmp_path, {"a.jpg": ["The image showcases a dog."], "b.jpg": ["This picture shows a cat."]})
    captions_and_count = {}
    for name in ("usual", "clic"):
        counts = shard_stages.run_stage("recaption", NAME, replace(photographs, openings=name), tmp_path)
        captions_and_count[name] = (
            [s.captions[0] for s in in_folder(tmp_path / "data" / "x")],
            counts["openings_dropped"],
        )
    assert captions_and_count == {
        "usual": (["The image showcases a dog.", "A cat."], 1),
        "clic": (["a dog.", "This picture shows a cat."], 1),
    }


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
