"""The stage `annotate`: every caption of a shard analysed, and the shard written as training reads it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compclip.data import beside, negatives, overlap, rewrite, shards
from compclip.data.item import Item, Made, Make
from compclip.data.sample import Sample
from compclip.data.shards import Manifest
from compclip.text.annotation import Annotation
from compclip.text.columns import Columns, stored

OWN = ("id", "image", "split", "width", "height", "offset", "length")  # of a sample, in a shard that training reads


def items(
    folder: Path,
    found: Manifest,
    rewritten: Manifest,
    code: str,
    exclude: Sequence[str] = (),
    texts: beside.Asked | None = None,
    relatives: bool = False,
) -> list[Item]:
    """A shard for each of the samples in data/<name>/; `rewritten` has those whose captions a model rewrote.

    Pictures of the benchmarks in `exclude` are left out; `texts` are lists that stand beside the captions; `relatives`
    asks for the words of CLoVe's rule. Raises UserError where a benchmark was not looked at.
    """
    from compclip.text.annotate import about  # spaCy brings torch: not for a process that makes other shards

    written, asked = {shard.name: shard.sha256 for shard in rewritten.shards}, {"code": code, "about": about()}
    excluded = {name: str(overlap.file(folder.parent, name)) for name in exclude}
    if relatives:
        asked["relatives"] = True
    if excluded:
        asked["excluded"] = {name: overlap.fingerprint(Path(path)) for name, path in excluded.items()}
    if texts:
        asked["texts"] = beside.asked(texts)
    return [_item(folder, shard, written, asked, excluded) for shard in found.shards]


def _item(folder: Path, shard: shards.Shard, written: Mapping[str, str], asked: dict, excluded: dict) -> Item:
    told = str(folder / rewrite.FOLDER / f"{shard.name}.arrow") if shard.name in written else ""
    given = {"samples": str(folder / shards.SAMPLES / f"{shard.name}.arrow"), "rewrites": told, "excluded": excluded}
    given["relatives"] = asked.get("relatives", False)
    return Item.of(shard.name, given, asked | {"samples": shard.sha256, "rewrites": written.get(shard.name, "")})


@contextlib.contextmanager
def opened(texts: beside.Asked | None = None) -> Iterator[Make]:
    """What analyses the captions of a shard, each different one once, and joins the `texts` that belong to them."""
    from compclip.text.annotate import columns as analyse

    with beside.opened(texts or {}) as lists:

        def make(item: Item, path: Path) -> Made:
            excluded = {name: overlap.read(Path(file)) for name, file in item.given["excluded"].items()}
            samples, counts = overlap.without(shards.load(Path(item.given["samples"])), excluded)
            written = rewrite.load(Path(item.given["rewrites"])) if item.given["rewrites"] else {}
            captions = [c for sample in samples for c in sample.captions]
            said = [len(sample.captions) for sample in samples]
            found = analyse(captions, counts, _completing(written), item.given["relatives"])
            more = beside.of(lists, samples)
            counts.update(more.counts)
            shards.write_batch(path, batch(samples, said, found, more.texts, more.about))
            return Made(len(samples), len(captions), dict(counts))

        yield make


def _completing(written: Mapping[str, rewrite.Rewrites]) -> Callable[[Annotation], Annotation]:
    """What puts into a caption's annotation the texts and words that models wrote for it."""

    def complete(annotation: Annotation) -> Annotation:
        texts = written.get(annotation.text)
        if texts is None:
            return annotation
        words = dict(texts.masked)
        masked = tuple(words.get(start, ()) for start in annotation.starts) if words else ()
        return replace(annotation, written_swap=texts.swap, written_replace=texts.replace, masked=masked)

    return complete


def batch(
    samples: Sequence[Sample],
    said: Sequence[int],
    found: Columns,
    texts: Mapping[str, Sequence[Sequence[str]]] | None = None,
    more_about: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """A shard as training reads it: samples, how many captions each has, and what was found in all of them.

    `texts` are those that stand beside each caption, by kind.
    """
    from compclip.text.annotate import about

    edges = pa.array(itertools.accumulate(said, initial=0), pa.int32())
    listed = pa.ListArray.from_arrays(edges, stored(found.array(), texts or {}))
    own = {name: pa.array([getattr(s, name) for s in samples], shards.SCHEMA.field(name).type) for name in OWN}
    made = pa.RecordBatch.from_pydict(own | {"captions": listed} | negatives.column(samples))
    return made.replace_schema_metadata({f"made by {k}": v for k, v in about().items()} | dict(more_about or {}))
