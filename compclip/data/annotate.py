"""The stage `annotate`: every caption of a shard analysed, and the shard written as training reads it."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from compclip.data import rewrite, shards
from compclip.data.item import Item, Made, Make
from compclip.data.rewrite import Rewrites
from compclip.data.sample import Sample
from compclip.data.shards import Manifest
from compclip.text.annotate import about
from compclip.text.annotate import columns as analyse
from compclip.text.columns import Columns

OWN = ("id", "image", "split", "width", "height", "offset", "length")  # of a sample, in a shard that training reads


def items(folder: Path, found: Manifest, rewritten: Manifest, code: str) -> list[Item]:
    """A shard for each of the samples in data/<name>/; `rewritten` has those whose captions a model rewrote."""
    written, made_with = {shard.name: shard.sha256 for shard in rewritten.shards}, about()
    return [_item(folder, shard, written, {"code": code, "about": made_with}) for shard in found.shards]


def _item(folder: Path, shard: shards.Shard, written: Mapping[str, str], asked: dict) -> Item:
    texts = str(folder / rewrite.FOLDER / f"{shard.name}.arrow") if shard.name in written else ""
    given = {"samples": str(folder / shards.SAMPLES / f"{shard.name}.arrow"), "rewrites": texts}
    return Item.of(shard.name, given, asked | {"samples": shard.sha256, "rewrites": written.get(shard.name, "")})


@contextlib.contextmanager
def opened() -> Iterator[Make]:
    """What analyses the captions of a shard, each different one once."""

    def make(item: Item, path: Path) -> Made:
        samples = shards.load(Path(item.given["samples"]))
        written = rewrite.load(Path(item.given["rewrites"])) if item.given["rewrites"] else {}
        captions, counts = [c for sample in samples for c in sample.captions], Counter[str]()
        texts = [written.get(text, Rewrites()) for text in captions] if written else []
        said = [len(sample.captions) for sample in samples]
        shards.write_batch(path, batch(samples, said, analyse(captions, counts), texts))
        counts.update(captions=len(captions), different=len(set(captions)))
        return Made(len(samples), len(captions), dict(counts))

    yield make


def batch(
    samples: Sequence[Sample], said: Sequence[int], found: Columns, written: Sequence[Rewrites]
) -> pa.RecordBatch:
    """A shard as training reads it: samples, how many captions each has, and what was found in all of them.

    `written`: what a model made of each caption; empty where nobody asked.
    """
    arrays = found.arrays()
    if written:
        arrays["written_swap"] = pa.array([texts.swap for texts in written], pa.string())
        arrays["written_replace"] = pa.array([texts.replace for texts in written], pa.string())
    captions = pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays))
    edges = pa.array(itertools.accumulate(said, initial=0), pa.int32())
    listed = pa.ListArray.from_arrays(edges, captions)
    own = {name: pa.array([getattr(s, name) for s in samples], shards.SCHEMA.field(name).type) for name in OWN}
    made = pa.RecordBatch.from_pydict(own | {"captions": listed})
    return made.replace_schema_metadata({f"made by {name}": value for name, value in about().items()})
