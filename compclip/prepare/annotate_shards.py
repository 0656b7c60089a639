"""The stage `annotate`: every caption of a shard analysed, and the shard written as training reads it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compclip.data import shard_files
from compclip.data.sample import Sample
from compclip.data.shard_files import Manifest
from compclip.prepare import benchmark_overlap, negative_images, released_texts, rewrite_shards
from compclip.prepare.shard_task import MakeShard, ShardResult, ShardTask
from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import Columns, stored

OWN = ("id", "image", "split", "width", "height", "offset", "length")  # of a sample, in a shard that training reads


def annotation_tasks(
    folder: Path,
    found: Manifest,
    rewritten: Manifest,
    code: str,
    exclude: Sequence[str] = (),
    texts: released_texts.TextSections | None = None,
    relatives: bool = False,
) -> list[ShardTask]:
    """A shard for each of the samples in data/<name>/; `rewritten` has those whose captions a model rewrote.

    Pictures of the benchmarks in `exclude` are left out; `texts` are lists that stand beside the captions; `relatives`
    asks for the words of CLoVe's rule. Raises UserError where a benchmark was not looked at.
    """
    from compclip.text.spacy_parser import about  # spaCy brings torch: not for a process that makes other shards

    written, asked = {shard.name: shard.sha256 for shard in rewritten.shards}, {"code": code, "about": about()}
    excluded = {name: str(benchmark_overlap.benchmark_file(folder.parent, name)) for name in exclude}
    if relatives:
        asked["relatives"] = True
    if excluded:
        asked["excluded"] = {name: benchmark_overlap.fingerprint(Path(path)) for name, path in excluded.items()}
    if texts:
        asked["texts"] = released_texts.describe_inputs(texts)
    return [_item(folder, shard, written, asked, excluded) for shard in found.shards]


def _item(folder: Path, shard: shard_files.Shard, written: Mapping[str, str], asked: dict, excluded: dict) -> ShardTask:
    told = str(folder / rewrite_shards.FOLDER / f"{shard.name}.arrow") if shard.name in written else ""
    given = {
        "samples": str(folder / shard_files.SAMPLES / f"{shard.name}.arrow"),
        "rewrites": told,
        "excluded": excluded,
    }
    given["relatives"] = asked.get("relatives", False)
    return ShardTask.of(shard.name, given, asked | {"samples": shard.sha256, "rewrites": written.get(shard.name, "")})


@contextlib.contextmanager
def open_annotator(texts: released_texts.TextSections | None = None) -> Iterator[MakeShard]:
    """What analyses the captions of a shard, each different one once, and joins the `texts` that belong to them."""
    from compclip.text.spacy_parser import columns as analyse

    with released_texts.open_lists(texts or {}) as lists:

        def make(item: ShardTask, path: Path) -> ShardResult:
            excluded = {
                name: benchmark_overlap.read_benchmark_images(Path(file))
                for name, file in item.given["excluded"].items()
            }
            samples, counts = benchmark_overlap.exclude_images(
                shard_files.load_samples(Path(item.given["samples"])), excluded
            )
            written = rewrite_shards.load_rewrites(Path(item.given["rewrites"])) if item.given["rewrites"] else {}
            captions = [c for sample in samples for c in sample.captions]
            said = [len(sample.captions) for sample in samples]
            found = analyse(captions, counts, _completing(written), item.given["relatives"])
            more = released_texts.find_texts(lists, samples)
            counts.update(more.counts)
            shard_files.write_batch(path, build_batch(samples, said, found, more.texts, more.about))
            return ShardResult(len(samples), len(captions), dict(counts))

        yield make


def _completing(written: Mapping[str, rewrite_shards.Rewrites]) -> Callable[[Annotation], Annotation]:
    """What puts into a caption's annotation the texts and words that models wrote for it."""

    def complete(annotation: Annotation) -> Annotation:
        texts = written.get(annotation.text)
        if texts is None:
            return annotation
        words = dict(texts.masked)
        masked = tuple(words.get(start, ()) for start in annotation.starts) if words else ()
        return replace(annotation, written_swap=texts.swap, written_replace=texts.replace, masked=masked)

    return complete


def build_batch(
    samples: Sequence[Sample],
    said: Sequence[int],
    found: Columns,
    texts: Mapping[str, Sequence[Sequence[str]]] | None = None,
    more_about: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """A shard as training reads it: samples, how many captions each has, and what was found in all of them.

    `texts` are those that stand beside each caption, by kind.
    """
    from compclip.text.spacy_parser import about

    edges = pa.array(itertools.accumulate(said, initial=0), pa.int32())
    listed = pa.ListArray.from_arrays(edges, stored(found.array(), texts or {}))
    own = {name: pa.array([getattr(s, name) for s in samples], shard_files.SCHEMA.field(name).type) for name in OWN}
    made = pa.RecordBatch.from_pydict(own | {"captions": listed} | negative_images.build_column(samples))
    return made.replace_schema_metadata({f"made by {k}": v for k, v in about().items()} | dict(more_about or {}))
