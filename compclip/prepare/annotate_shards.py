"""Analyse every caption of a shard and write the shard as training reads it: the stage `annotate`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compclip.data.sample import Sample
from compclip.data.shard_files import SAMPLES, Manifest
from compclip.prepare import benchmark_overlap, negative_images, released_texts, rewrite_shards
from compclip.prepare.shard_writer import SCHEMA, ShardResult, ShardTask, WriteShard, load_samples, write_batch
from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import AnnotationColumns, add_stored_texts

# columns of a sample in a shard that training reads
SAMPLE_COLUMNS = ("id", "image", "split", "width", "height", "offset", "length")


def annotation_tasks(
    folder: Path,
    samples: Manifest,
    rewrites: Manifest,
    code: str,
    exclude: Sequence[str] = (),
    texts: released_texts.TextSections | None = None,
    relatives: bool = False,
) -> list[ShardTask]:
    """Return one task for each shard of `samples` in data/<name>/; `rewrites` lists the shards that a model rewrote.

    Pictures of the benchmarks in `exclude` are left out. `texts` are lists joined to the captions; `relatives` asks for
    the words of CLoVe's rule. Raises UserError where an excluded benchmark's pictures were not written.
    """
    from compclip.text.spacy_parser import versions  # spaCy imports torch: not in a process that writes other shards

    excluded = {name: str(benchmark_overlap.benchmark_file(folder.parent, name)) for name in exclude}
    decided_by: dict = {"code": code, "about": versions()}
    if relatives:
        decided_by["relatives"] = True
    if excluded:
        decided_by["excluded"] = {name: benchmark_overlap.fingerprint(Path(path)) for name, path in excluded.items()}
    if texts:
        decided_by["texts"] = released_texts.describe_inputs(texts)
    rewritten, tasks = {shard.name: shard.sha256 for shard in rewrites.shards}, []
    for shard in samples.shards:
        file = f"{shard.name}.arrow"
        inputs = {
            "samples": str(folder / SAMPLES / file),
            "rewrites": str(folder / rewrite_shards.FOLDER / file) if shard.name in rewritten else "",
            "excluded": excluded,
            "relatives": relatives,
        }
        contents = {"samples": shard.sha256, "rewrites": rewritten.get(shard.name, "")}
        tasks.append(ShardTask.create(shard.name, inputs, decided_by | contents))
    return tasks


@contextlib.contextmanager
def open_annotator(texts: released_texts.TextSections | None = None) -> Iterator[WriteShard]:
    """Give the function that analyses a shard's captions, each different one once, and joins the lists of `texts`."""
    from compclip.text.spacy_parser import annotate_columns as analyse

    with released_texts.open_lists(texts or {}) as lists:

        def write(task: ShardTask, path: Path) -> ShardResult:
            excluded = {
                name: benchmark_overlap.read_benchmark_images(Path(file))
                for name, file in task.inputs["excluded"].items()
            }
            samples, counts = benchmark_overlap.exclude_images(load_samples(Path(task.inputs["samples"])), excluded)
            rewrites = rewrite_shards.load_rewrites(Path(task.inputs["rewrites"])) if task.inputs["rewrites"] else {}
            captions = [caption for sample in samples for caption in sample.captions]
            annotations = analyse(captions, counts, _add_rewrites(rewrites), task.inputs["relatives"])
            joined = released_texts.find_texts(lists, samples)
            counts.update(joined.counts)
            sizes = [len(sample.captions) for sample in samples]
            write_batch(path, build_batch(samples, sizes, annotations, joined.texts, joined.metadata))
            return ShardResult(len(samples), len(captions), dict(counts))

        yield write


def _add_rewrites(rewrites: Mapping[str, rewrite_shards.Rewrites]) -> Callable[[Annotation], Annotation]:
    """Return the function that adds to an annotation the texts and words that models wrote for its caption."""

    def complete(annotation: Annotation) -> Annotation:
        texts = rewrites.get(annotation.text)
        if texts is None:
            return annotation
        words = dict(texts.masked)
        masked = tuple(words.get(start, ()) for start in annotation.starts) if words else ()
        return replace(annotation, written_swap=texts.swap, written_replace=texts.replace, masked=masked)

    return complete


def build_batch(
    samples: Sequence[Sample],
    caption_counts: Sequence[int],
    annotations: AnnotationColumns,
    texts: Mapping[str, Sequence[Sequence[str]]] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """Return a shard as training reads it, of samples, their numbers of captions, and all captions' annotations.

    `texts` are the lists of texts of each caption, by kind.
    """
    from compclip.text.spacy_parser import versions

    edges = pa.array(itertools.accumulate(caption_counts, initial=0), pa.int32())
    captions = pa.ListArray.from_arrays(edges, add_stored_texts(annotations.array(), texts or {}))
    columns = {name: pa.array([getattr(s, name) for s in samples], SCHEMA.field(name).type) for name in SAMPLE_COLUMNS}
    batch = pa.RecordBatch.from_pydict(columns | {"captions": captions} | negative_images.build_column(samples))
    makers = {f"made by {name}": version for name, version in versions().items()}
    return batch.replace_schema_metadata(makers | dict(metadata or {}))
