"""The stage `annotate`: every caption of a shard analysed, and the shard written as training reads it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from compclip.data import negatives, overlap, rewrite, shards
from compclip.data.item import Item, Made, Make
from compclip.data.sample import Sample
from compclip.data.shards import Manifest
from compclip.text.columns import Columns

OWN = ("id", "image", "split", "width", "height", "offset", "length")  # of a sample, in a shard that training reads


def items(folder: Path, found: Manifest, rewritten: Manifest, code: str, exclude: Sequence[str] = ()) -> list[Item]:
    """A shard for each of the samples in data/<name>/; `rewritten` has those whose captions a model rewrote.

    Pictures of the benchmarks in `exclude` are left out. Raises UserError where one of these was not looked at.
    """
    from compclip.text.annotate import about  # spaCy brings torch: not for a process that makes other shards

    written, asked = {shard.name: shard.sha256 for shard in rewritten.shards}, {"code": code, "about": about()}
    excluded = {name: str(overlap.file(folder.parent, name)) for name in exclude}
    if excluded:
        asked["excluded"] = {name: overlap.fingerprint(Path(path)) for name, path in excluded.items()}
    return [_item(folder, shard, written, asked, excluded) for shard in found.shards]


def _item(folder: Path, shard: shards.Shard, written: Mapping[str, str], asked: dict, excluded: dict) -> Item:
    texts = str(folder / rewrite.FOLDER / f"{shard.name}.arrow") if shard.name in written else ""
    given = {"samples": str(folder / shards.SAMPLES / f"{shard.name}.arrow"), "rewrites": texts, "excluded": excluded}
    return Item.of(shard.name, given, asked | {"samples": shard.sha256, "rewrites": written.get(shard.name, "")})


@contextlib.contextmanager
def opened() -> Iterator[Make]:
    """What analyses the captions of a shard, each different one once."""
    from compclip.text.annotate import columns as analyse

    def make(item: Item, path: Path) -> Made:
        excluded = {name: overlap.read(Path(file)) for name, file in item.given["excluded"].items()}
        samples, counts = overlap.without(shards.load(Path(item.given["samples"])), excluded)
        written = rewrite.load(Path(item.given["rewrites"])) if item.given["rewrites"] else {}
        captions = [c for sample in samples for c in sample.captions]
        pairs = {caption: (texts.swap, texts.replace) for caption, texts in written.items()}
        said = [len(sample.captions) for sample in samples]
        shards.write_batch(path, batch(samples, said, analyse(captions, counts, pairs)))
        return Made(len(samples), len(captions), dict(counts))

    yield make


def batch(samples: Sequence[Sample], said: Sequence[int], found: Columns) -> pa.RecordBatch:
    """A shard as training reads it: samples, how many captions each has, and what was found in all of them."""
    from compclip.text.annotate import about

    edges = pa.array(itertools.accumulate(said, initial=0), pa.int32())
    listed = pa.ListArray.from_arrays(edges, found.array())
    own = {name: pa.array([getattr(s, name) for s in samples], shards.SCHEMA.field(name).type) for name in OWN}
    made = pa.RecordBatch.from_pydict(own | {"captions": listed} | negatives.column(samples))
    return made.replace_schema_metadata({f"made by {name}": value for name, value in about().items()})
