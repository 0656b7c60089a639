"""Analyse every caption of a shard and write the shard as training reads it: the stage `annotate`.

Texts that others released (`data.<name>.texts`) are joined to the captions here, and large pictures are stored smaller
where the section has a `short_side`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compclip.base.json_text import replace_lone
from compclip.config.released_lists import NEGATIVE, BalancedTexts, MemberText, Texts, TextSection, texts_config
from compclip.config.sections import Data
from compclip.data import images
from compclip.data.sample import ImageLocation, Sample
from compclip.data.shard_files import SAMPLES, SHARDS, Manifest
from compclip.prepare import (
    balanced_negatives,
    benchmark_overlap,
    caption_join,
    caption_vocabulary,
    file_listing,
    negative_images,
    picture_scaling,
    rewrite_shards,
)
from compclip.prepare.shard_writer import SCHEMA, ShardResult, ShardTask, WriteShard, load_samples, write_batch
from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import AnnotationColumns, add_stored_texts

# columns of a sample in a shard that training reads
SAMPLE_COLUMNS = ("id", "image", "split", "width", "height", "offset", "length")
MAX_BYTES = 1 << 16  # of a text in a tar
TextSections = Mapping[str, TextSection]
TextLists = Mapping[str, caption_join.CaptionJoin | MemberText]


def annotation_tasks(
    folder: Path,
    samples: Manifest,
    rewrites: Manifest,
    code: str,
    cfg: Data,
) -> list[ShardTask]:
    """Return one task for each shard of `samples` in data/<name>/; `rewrites` lists the shards that a model rewrote.

    Raises UserError where the pictures of a benchmark that `cfg` excludes were not written.
    """
    from compclip.text.spacy_parser import versions  # spaCy imports torch: not in a process that writes other shards

    excluded = {name: str(benchmark_overlap.benchmark_file(folder.parent, name)) for name in cfg.exclude}
    texts = texts_config(cfg)
    decided_by: dict = {"code": code, "about": versions()}
    if cfg.relatives:
        decided_by["relatives"] = cfg.relative_weights
    if cfg.short_side:
        decided_by["short_side"] = cfg.short_side
    if cfg.replacement_captions:
        decided_by["vocabulary"] = [cfg.replacement_captions, samples.fingerprint]
    if excluded:
        decided_by["excluded"] = {name: benchmark_overlap.fingerprint(Path(path)) for name, path in excluded.items()}
    if texts:
        decided_by["texts"] = {
            kind: [vars(section), list(file_listing.iterate_files(section.file)) if isinstance(section, Texts) else []]
            for kind, section in texts.items()
        }
    language = []
    if any(isinstance(section, BalancedTexts) for section in texts.values()):
        language, decided_by["language"] = balanced_negatives.language_files(folder, samples), samples.fingerprint
    rewritten, tasks = {shard.name: shard.sha256 for shard in rewrites.shards}, []
    for shard in samples.shards:
        file = f"{shard.name}.arrow"
        inputs = {
            "samples": str(folder / SAMPLES / file),
            "rewrites": str(folder / rewrite_shards.FOLDER / file) if shard.name in rewritten else "",
            "excluded": excluded,
            "relatives": cfg.relative_weights if cfg.relatives else "",
            "short_side": cfg.short_side,
            "replacement_captions": cfg.replacement_captions,
            "vocabulary": caption_vocabulary.list_files(folder, samples) if cfg.replacement_captions else [],
            "folder": str(folder / SHARDS),
            "language": language,
        }
        contents = {"samples": shard.sha256, "rewrites": rewritten.get(shard.name, "")}
        tasks.append(ShardTask.create(shard.name, inputs, decided_by | contents))
    return tasks


def open_annotator(texts: TextSections | None = None) -> WriteShard:
    """Return the function that analyses a shard's captions, each different one once, and joins the lists of `texts`."""
    from compclip.text.spacy_parser import annotate_columns

    lists = open_lists(texts or {})
    balanced = (texts or {}).get(NEGATIVE)

    def write(task: ShardTask, path: Path) -> ShardResult:
        benchmarks = task.inputs["excluded"].items()
        excluded = {name: benchmark_overlap.read_benchmark_images(Path(file)) for name, file in benchmarks}
        samples, counts = benchmark_overlap.exclude_images(load_samples(Path(task.inputs["samples"])), excluded)
        rewrites = rewrite_shards.load_rewrites(Path(task.inputs["rewrites"])) if task.inputs["rewrites"] else {}
        captions = [caption for sample in samples for caption in sample.captions]
        complete, balance = _add_rewrites(rewrites), None
        if isinstance(balanced, BalancedTexts):
            balance = balanced_negatives.ShardBalance(balanced, task.inputs["language"])
            complete = _chain(complete, balance.draw)
        least, vocabulary = task.inputs["replacement_captions"], None
        if least:
            vocabulary = caption_vocabulary.read_vocabulary(tuple(task.inputs["vocabulary"]), least)
        annotations = annotate_columns(captions, counts, complete, task.inputs["relatives"], vocabulary)
        joined, metadata, text_counts = find_texts(lists, samples)
        if balance:
            joined[NEGATIVE], balance_counts = balance.choose(samples)
            text_counts += balance_counts + _count_texts(NEGATIVE, joined[NEGATIVE])
        counts.update(text_counts)
        sizes = [len(sample.captions) for sample in samples]
        tar = ""
        if side := task.inputs["short_side"]:
            folder = Path(task.inputs["folder"])
            samples, tar, picture_counts = picture_scaling.store_small(samples, side, path.with_suffix(".tar"), folder)
            counts.update(picture_counts)
        write_batch(path, build_batch(samples, sizes, annotations, joined, metadata))
        return ShardResult(len(samples), len(captions), dict(counts), tar)

    return write


def _chain(*completions: Callable[[Annotation], Annotation]) -> Callable[[Annotation], Annotation]:
    """Return the function that completes an annotation by one function after another."""
    return lambda annotation: functools.reduce(lambda current, complete: complete(current), completions, annotation)


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


# --- texts that others released --------------------------------------------------------------------------------


def open_lists(cfg: TextSections) -> TextLists:
    """Return the lists by kind; balanced texts have none. Raises UserError as `caption_join.open_list`."""
    return {
        kind: caption_join.open_list(texts) if isinstance(texts, Texts) else texts
        for kind, texts in cfg.items()
        if not isinstance(texts, BalancedTexts)
    }


def find_texts(
    lists: TextLists, samples: Sequence[Sample]
) -> tuple[dict[str, list[tuple[str, ...]]], dict[str, str], Counter]:
    """Return the lists' texts by kind for every caption of the samples, metadata for the shard, and counts.

    The metadata are the rows of the lists that were used. Captions with and without texts of a kind are counted.
    """
    texts, metadata, counts = {}, {}, Counter[str]()
    for kind, source in lists.items():
        if isinstance(source, MemberText):
            member = source.member.lower()
            texts[kind] = [_read_member(sample, member) for sample in samples for _ in sample.captions]
        else:
            matches = source.find_texts(samples)
            texts[kind] = matches.texts
            metadata.update(caption_join.pack_row_numbers(matches.rows, _metadata_key(kind)))
        counts.update(_count_texts(kind, texts[kind]))
    return texts, metadata, counts


def _count_texts(kind: str, texts: Sequence[Sequence[str]]) -> Counter:
    """Return how many captions have texts of a kind, and how many have none."""
    matched = sum(map(bool, texts))
    return Counter({f"captions_with_{kind}": matched, f"captions_without_{kind}": len(texts) - matched})


def _read_member(sample: Sample, name: str) -> tuple[str, ...]:
    """Return the text of a member of a sample's tar; nothing where it is missing, empty, or cannot be read."""
    location = next((ImageLocation(sample.image, m.offset, m.length) for m in sample.members if m.name == name), None)
    try:
        content = images.read_bytes(location, MAX_BYTES) if location else b""
    except images.ImageError:
        return ()
    text = " ".join(replace_lone(content.decode(errors="replace")).split())
    return (text,) if text else ()


def count_text_rows(cfg: TextSections, shards: Iterable[Path]) -> Counter:
    """Return what became of the rows of a data set's lists in all its shards: `negative_matched`, …"""
    paths, counts = list(shards), Counter[str]()
    for kind, section in cfg.items():
        if isinstance(section, Texts):
            key = _metadata_key(kind)
            rows = caption_join.open_list(section).count_matches(caption_join.read_row_numbers(p, key) for p in paths)
            counts.update({name.replace("captions", kind, 1): number for name, number in rows.items()})
    return counts


def _metadata_key(kind: str) -> str:
    return f"{caption_join.ROWS}: {kind}"
