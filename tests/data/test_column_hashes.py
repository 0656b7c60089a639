"""Hashes of columns: of values in order, not of how a shard stores them; those of shards, joined."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compclip.base.errors import UserError
from compclip.base.files import read_json, write_json
from compclip.data import column_hashes
from compclip.data.sample import NegativeImage, Region, Sample
from compclip.data.shard_files import MANIFEST, SHARDS, read_batch, read_manifest
from compclip.prepare import shard_writer
from compclip.text.annotation import Annotation
from tests.prepared_set import prepared

CAPTION = Annotation("A dog runs.", (0, 2, 6), (1, 5, 10), ("DET", "NOUN", "VERB"), sentences=((0, 11),))
SAMPLES = [Sample(str(number), f"{number}.jpg", (), "train", 8, 6) for number in range(5)]
OF_CAPTION: dict[str, dict[str, Any]] = {  # by the column that differs then
    "tokens": {"pos": ("DET", "NOUN", "AUX")}, "stored_dense": {"stored": {"dense": ("A dog.",)}},
    "lemma": {"lemma": ("a", "hound", "run")}, "chunks": {"chunks": ((0, 2),)}, "verbs": {"verbs": ((2, 3),)},
    "sentences": {"sentences": ((0, 11), (11, 11))}, "candidates": {"candidates": ((), ("cat",), ())},
    "masked": {"masked": ((), ("cat",), ())}, "relatives": {"relatives": (((), ()), (("cat",), (2,)), ((), ()))},
    "written_swap": {"written_swap": "A run dogs."}, "written_replace": {"written_replace": "A hound runs."},
}  # fmt: skip
OF_SAMPLE: dict[str, Any] = {
    "id": "other", "split": "restval", "width": 9, "height": 9,
    "regions": (Region(0.0, 0.0, 1.0, 0.5, ("a dog",)),),
}  # fmt: skip
NEGATIVE = NegativeImage("cat.jpg", head=7)


def hash_data(folder: Path, caption=CAPTION, sample=SAMPLES[3], size: int = 2) -> dict[str, str]:
    """The hashes of the columns of five samples, of which the fourth, and its caption, may be others."""
    samples = [*SAMPLES[:3], sample, SAMPLES[4]]
    annotations = [CAPTION] * 3 + [caption, CAPTION]
    prepared(folder, samples, [[annotation] for annotation in annotations], size)
    return dict(column_hashes.read_columns(folder))


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


@pytest.mark.parametrize("column", [*OF_CAPTION, *OF_SAMPLE])
def test_a_value_is_in_its_column_alone(tmp_path, column):
    """Also of a column that was not there before."""
    caption = replace(CAPTION, **OF_CAPTION.get(column, {}))
    sample = replace(SAMPLES[3], **{column: OF_SAMPLE[column]}) if column in OF_SAMPLE else SAMPLES[3]
    assert differing(hash_data(tmp_path / "a"), hash_data(tmp_path / "b", caption, sample)) == {column}


def test_texts_numbers_of_captions_and_order_count(tmp_path):
    """The nouns of a caption are read from its text."""
    first = hash_data(tmp_path / "a")
    assert differing(first, hash_data(tmp_path / "b", replace(CAPTION, text="A cat runs."))) == {"text", "nouns"}
    prepared(tmp_path / "c", SAMPLES, [[CAPTION]] * 4 + [[CAPTION] * 2], 2)
    assert differing(first, dict(column_hashes.read_columns(tmp_path / "c"))) >= {"captions", "text", "tokens"}
    prepared(tmp_path / "d", SAMPLES[::-1], [[CAPTION]] * 5, 2)
    assert differing(first, dict(column_hashes.read_columns(tmp_path / "d"))) == {"id", "image", "pictures"}
    assert hash_data(tmp_path / "e", size=3).items().isdisjoint(first.items()), "the order of training follows shards"


def test_how_a_shard_stores_values_does_not_count(tmp_path):
    """Words in another order of their dictionary, and wider numbers, are the same values."""
    hash_data(tmp_path / "a", replace(CAPTION, candidates=((), ("cat", "cow"), ("sits",))), size=5)
    path = tmp_path / "a" / SHARDS / "00000.arrow"
    batch = read_batch(path, "")
    captions = batch["captions"]
    columns = {field.name: captions.values.field(index) for index, field in enumerate(captions.type.value_type)}
    spans = columns["sentences"]
    columns["sentences"] = pa.ListArray.from_arrays(spans.offsets, spans.values.cast(pa.int32()))
    words = columns["candidates"].values.field("words")
    reversed_words = pa.array(words.dictionary.to_pylist()[::-1])
    codes = pa.array([len(reversed_words) - 1 - code for code in words.indices.to_pylist()])
    pairs = [columns["candidates"].values.field("token"), pa.DictionaryArray.from_arrays(codes, reversed_words)]
    values = pa.StructArray.from_arrays(pairs, names=["token", "words"])
    columns["candidates"] = pa.ListArray.from_arrays(columns["candidates"].offsets, values)
    struct = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
    others = {name: batch[name] for name in batch.schema.names}
    stored_otherwise = others | {"captions": pa.ListArray.from_arrays(captions.offsets, struct)}
    shard_writer.write_batch(tmp_path / "b.arrow", pa.RecordBatch.from_pydict(stored_otherwise))
    assert (tmp_path / "b.arrow").read_bytes() != path.read_bytes()
    hashes = [column_hashes.hash_shard(file, tmp_path / "none") for file in (tmp_path / "b.arrow", path)]
    assert hashes[0] == hashes[1]


def test_a_record_of_this_manifest_is_read_and_another_one_is_not(tmp_path):
    """Without a record, or with one from before there were hashes, the shards are read; else they may be away."""
    hashes = hash_data(tmp_path / "x")
    record = tmp_path / "fingerprints/x.json"
    assert not record.exists()
    manifest = read_manifest(tmp_path / "x" / MANIFEST, "")
    for older in ({"prepared": manifest.fingerprint, "columns": {"id": "i"}}, {"prepared": "another", "columns": {}}):
        write_json(record, older)
        assert column_hashes.read_columns(tmp_path / "x") == hashes
    shards = sorted((tmp_path / "x" / SHARDS).glob("*.arrow"))
    shard_hashes = [column_hashes.hash_shard(path, tmp_path / "none") for path in shards]
    column_hashes.write_columns(tmp_path / "x", manifest, shard_hashes)
    shutil.rmtree(tmp_path / "x" / SHARDS)
    assert column_hashes.read_columns(tmp_path / "x") == hashes == read_json(record)["columns"]
    record.unlink()
    column_hashes._read_columns.cache_clear()
    with pytest.raises(UserError, match="00000.arrow: not there; run `dvc repro annotate` first"):
        column_hashes.read_columns(tmp_path / "x")


def hash_pictures(folder: Path, shown: list[Sample], stored: list[Sample]) -> tuple[str, str]:
    """The hashes of pictures and negative pictures of a shard of `shown`, whose source's pictures are `stored`."""
    prepared(folder, shown, [[CAPTION]] * len(shown), len(shown))
    shard_writer.save_samples(folder / "samples/00000.arrow", stored)
    hashes = column_hashes.read_columns(folder)
    return hashes["pictures"], hashes["negative_pictures"]


def test_pictures_count_by_their_checksums_and_not_by_their_places(tmp_path):
    """Also negative ones; which samples were excluded does not count, a smaller copy does."""
    stored = [replace(s, head=number, negatives=(NEGATIVE,)) for number, s in enumerate(SAMPLES)]
    moved = [replace(s, image="x.tar", offset=512 * s.head, length=9) for s in stored]
    moved = [replace(s, negatives=(replace(NEGATIVE, image="y.tar", offset=512, length=9),)) for s in moved]
    before = hash_pictures(tmp_path / "a", stored, stored)
    assert hash_pictures(tmp_path / "b", moved, moved) == before
    assert hash_pictures(tmp_path / "c", stored[1:], stored) == hash_pictures(tmp_path / "d", stored[1:], stored[1:])
    others = [[replace(stored[0], head=9), *stored[1:]]]
    others.append([replace(s, negatives=(replace(NEGATIVE, head=8),)) for s in stored])
    changed = [hash_pictures(tmp_path / f"e{number}", other, other) for number, other in enumerate(others)]
    assert [pair[0] == before[0] for pair in changed] == [False, True]
    assert [pair[1] == before[1] for pair in changed] == [True, False]
    copies = [[replace(s, image=f"{folder}/0a.tar") for s in moved] for folder in ("data/x", "data/y", "data/x")]
    copies[2][3] = replace(copies[2][3], image="data/x/0b.tar")
    small = [hash_pictures(tmp_path / f"f{number}", shown, stored)[0] for number, shown in enumerate(copies)]
    assert small[0] == small[1] and len({small[0], small[2], before[0]}) == 3
