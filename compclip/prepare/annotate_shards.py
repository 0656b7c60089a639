"""Analyse every caption of a shard and write the shard as training reads it: the stage `annotate`.

Texts that others released (`data.<name>.texts`) are joined to the captions here, and large pictures are stored smaller
where the section has a `short_side`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compclip.config.released_lists import DENSE, NEGATIVE, BalancedTexts, texts_config
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.shard_files import SAMPLES, SHARDS, Manifest
from compclip.prepare import (
    balanced_negatives,
    benchmark_overlap,
    mask_filling,
    picture_scaling,
    region_lists,
    rewrite_shards,
    stored_lists,
)
from compclip.prepare.shard_writer import SCHEMA, ShardResult, ShardTask, WriteShard, load_samples, write_batch
from compclip.text.annotation import BARE, DENSE_MASKED, SEPARATOR, Annotation
from compclip.text.annotation_columns import AnnotationColumns, add_stored_texts
from compclip.text.parser_models import versions

# columns of a sample in a shard that training reads
SAMPLE_COLUMNS = ("id", "image", "split", "width", "height", "offset", "length")


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
        decided_by["texts"] = stored_lists.describe_lists(texts)
    language = []
    if any(isinstance(section, BalancedTexts) for section in texts.values()):
        language, decided_by["language"] = balanced_negatives.language_files(folder, samples), samples.fingerprint
    rewritten = {shard.name: shard.sha256 for shard in rewrites.shards}
    tasks = []
    for shard in samples.shards:
        file = f"{shard.name}.arrow"
        inputs = {
            "samples": str(folder / SAMPLES / file),
            "rewrites": str(folder / rewrite_shards.FOLDER / file) if shard.name in rewritten else "",
            "excluded": excluded,
            "relatives": cfg.relative_weights if cfg.relatives else "",
            "short_side": cfg.short_side,
            "replacement_captions": cfg.replacement_captions,
            "vocabulary": list_files(folder, samples) if cfg.replacement_captions else [],
            "folder": str(folder / SHARDS),
            "language": language,
        }
        contents = {"samples": shard.sha256, "rewrites": rewritten.get(shard.name, "")}
        tasks.append(ShardTask.create(shard.name, inputs, decided_by | contents))
    return tasks


def open_annotator(texts: stored_lists.TextSections | None = None) -> WriteShard:
    """Return the function that analyses a shard's captions, each different one once, and joins the lists of `texts`."""
    from compclip.text.spacy_parser import annotate_columns

    lists = stored_lists.open_lists(texts or {})
    balanced = (texts or {}).get(NEGATIVE)

    def write(task: ShardTask, path: Path) -> ShardResult:
        benchmarks = task.inputs["excluded"].items()
        excluded = {name: benchmark_overlap.read_benchmark_images(Path(file)) for name, file in benchmarks}
        samples, counts = benchmark_overlap.exclude_images(load_samples(Path(task.inputs["samples"])), excluded)
        rewrites = rewrite_shards.load_rewrites(Path(task.inputs["rewrites"])) if task.inputs["rewrites"] else {}
        captions = [caption for sample in samples for caption in sample.captions]
        balance = None
        if isinstance(balanced, BalancedTexts):
            balance = balanced_negatives.ShardBalance(balanced, task.inputs["language"])

        def complete(annotation: Annotation) -> Annotation:
            whole = _add_rewrites(annotation, rewrites.get(annotation.text))
            return balance.draw(whole) if balance else whole

        least = task.inputs["replacement_captions"]
        vocabulary = read_vocabulary(tuple(task.inputs["vocabulary"]), least) if least else None
        annotations = annotate_columns(captions, counts, complete, task.inputs["relatives"], vocabulary)
        joined, text_counts = stored_lists.find_texts(lists, samples)
        joined |= _list_masked_texts(rewrites, captions, joined.get(DENSE, ()))
        if balance:
            joined[NEGATIVE], balance_counts = balance.choose(samples)
            text_counts += balance_counts + stored_lists.count_texts(NEGATIVE, joined[NEGATIVE])
        counts.update(text_counts)
        sizes = [len(sample.captions) for sample in samples]
        tar = ""
        side = task.inputs["short_side"]
        if side:
            folder = Path(task.inputs["folder"])
            samples, tar, picture_counts = picture_scaling.store_small(samples, side, path.with_suffix(".tar"), folder)
            counts.update(picture_counts)
        write_batch(path, build_batch(samples, sizes, annotations, joined))
        return ShardResult(len(samples), len(captions), dict(counts), tar)

    return write


def _add_rewrites(annotation: Annotation, texts: rewrite_shards.Rewrites | None) -> Annotation:
    """Return an annotation with the texts and words that models wrote for its caption, if any."""
    if texts is None:
        return annotation
    words = dict(texts.masked)
    masked = tuple(words.get(start, ()) for start in annotation.starts) if words else ()
    return replace(annotation, written_swap=texts.swap, written_replace=texts.replace, masked=masked)


def _list_masked_texts(
    rewrites: Mapping[str, rewrite_shards.Rewrites],
    captions: Sequence[str],
    dense: Sequence[Sequence[str]],
) -> dict[str, list[tuple[str, ...]]]:
    """Return what a masked model said beside the words of captions, by kind: for a mask alone, and of dense texts.

    A dense text's words are one text: a line a place, its first character and the words, joined by tabs.
    """
    words = {text: dict(found.masked) for text, found in rewrites.items() if found.masked}
    bare = [words.get(caption, {}).get(mask_filling.BARE, ()) for caption in captions]
    places = [tuple(_pack_places(words.get(text, {})) for text in texts) for texts in dense]
    return ({BARE: bare} if any(bare) else {}) | ({DENSE_MASKED: places} if any(map(any, places)) else {})


def _pack_places(words: Mapping[int, Sequence[str]]) -> str:
    places = [(start, some) for start, some in words.items() if start != mask_filling.BARE]
    return "\n".join(SEPARATOR.join([str(start), *some]) for start, some in places)


def build_batch(
    samples: Sequence[Sample],
    caption_counts: Sequence[int],
    annotations: AnnotationColumns,
    texts: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> pa.RecordBatch:
    """Return a shard as training reads it, of samples, their numbers of captions, and all captions' annotations.

    `texts` are the lists of texts of each caption, by kind.
    """
    edges = pa.array(itertools.accumulate(caption_counts, initial=0), pa.int32())
    captions = pa.ListArray.from_arrays(edges, add_stored_texts(annotations.array(), texts or {}))
    columns = {name: pa.array([getattr(s, name) for s in samples], SCHEMA.field(name).type) for name in SAMPLE_COLUMNS}
    further = stored_lists.build_column(samples) | region_lists.build_column(samples)
    batch = pa.RecordBatch.from_pydict(columns | {"captions": captions} | further)
    return batch.replace_schema_metadata({f"made by {name}": version for name, version in versions().items()})


# --- the words of captions ------------------------------------------------------------------------------------------
# Count the words of a data set's captions, so that WordNet's rule replaces words by words that captions have.
#
# Most of WordNet's words are in no caption: a text that holds one is told from a caption by that alone.


READ_SHARDS = 64  # of which the captions are read: at even distances where a data set has more
_WORD = re.compile(r"[a-z]+")


def list_files(folder: Path, samples: Manifest) -> list[str]:
    """Return the shards of samples in data/<name>/ whose captions are read."""
    shards = samples.shards[:: max(1, -(-len(samples.shards) // READ_SHARDS))]
    return [str(folder / SAMPLES / f"{shard.name}.arrow") for shard in shards]


@functools.lru_cache(maxsize=1)
def read_vocabulary(files: tuple[str, ...], captions: int) -> frozenset[str]:
    """Return the words, in lower case, that at least so many captions of some shards have."""
    return count_words((c for f in files for s in load_samples(Path(f)) for c in s.captions), captions)


def count_words(texts: Iterable[str], captions: int) -> frozenset[str]:
    """Return the words, in lower case, that at least so many of the texts have."""
    counts = Counter[str]()
    for text in texts:
        counts.update(set(_WORD.findall(text.lower())))
    return frozenset(word for word, number in counts.items() if number >= captions)
