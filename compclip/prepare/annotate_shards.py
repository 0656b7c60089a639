"""Analyse every caption of a shard and write the shard as training reads it: the stage `annotate`.

Texts that others released (`data.<name>.texts`) are joined to the captions here, and large pictures are stored smaller
where the section has a `short_side`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa
from PIL.Image import Resampling

from compclip.base.files import atomic
from compclip.config.released_lists import DENSE, NEGATIVE, BalancedTexts, texts_config
from compclip.config.sections import Data
from compclip.data import images
from compclip.data.prepared_dataset import NEGATIVE_COLUMN, NEGATIVE_TYPE, REGION_COLUMN, REGION_TYPE
from compclip.data.sample import ImageLocation, Sample, list_captions
from compclip.data.shard_files import SAMPLES, SHARDS, Manifest
from compclip.data.tar_members import BLOCK
from compclip.prepare import (
    balanced_negatives,
    benchmark_overlap,
    mask_filling,
    rewrite_shards,
    stored_lists,
)
from compclip.prepare.sample_cleaning import THREADS
from compclip.prepare.shard_writer import (
    SCHEMA,
    ShardResult,
    ShardTask,
    WriteShard,
    build_columns,
    build_list_columns,
    choose_shards,
    load_samples,
    write_batch,
)
from compclip.text.annotation import BARE, DENSE_MASKED, SEPARATOR, Annotation
from compclip.text.annotation_columns import AnnotationColumns, add_stored_texts
from compclip.text.parser_models import versions

# columns of a sample in a shard that training reads
SAMPLE_COLUMNS = ("id", "image", "split", "width", "height", "offset", "length")
LIST_COLUMNS = {NEGATIVE_COLUMN: NEGATIVE_TYPE, REGION_COLUMN: REGION_TYPE}


def annotation_tasks(folder: Path, samples: Manifest, rewrites: Manifest, code: str, cfg: Data) -> list[ShardTask]:
    """Return one task for each shard of `samples` in data/<name>/; `rewrites` lists the shards that a model rewrote.

    Raises UserError where the pictures of a benchmark that `cfg` excludes were not written.
    """
    texts = texts_config(cfg)
    decided_by: dict = {"code": code, "about": versions()}
    if cfg.relatives:
        decided_by["relatives"] = cfg.relative_weights
    if cfg.short_side:
        decided_by["short_side"] = cfg.short_side
    if cfg.replacement_captions:
        decided_by["vocabulary"] = [cfg.replacement_captions, samples.fingerprint]
    excluded = {}
    for name in cfg.exclude:
        path = folder.parent / benchmark_overlap.BENCHMARKS / f"{name}.arrow"
        excluded[name] = str(path)
        decided_by.setdefault("excluded", {})[name] = benchmark_overlap.fingerprint(path)
    if texts:
        decided_by["texts"] = stored_lists.describe_lists(texts)
    language = []
    if isinstance(texts.get(NEGATIVE), BalancedTexts):
        language = balanced_negatives.language_files(folder, samples)
        decided_by["language"] = samples.fingerprint
    rewritten = {shard.name: shard.sha256 for shard in rewrites.shards}
    tasks = []
    for shard in samples.shards:
        file = f"{shard.name}.arrow"
        inputs = {
            "samples": str(folder / SAMPLES / file),
            "rewrites": str(folder / rewrite_shards.FOLDER / file) if shard.name in rewritten else "",
            "excluded": excluded,
            "vocabulary": choose_shards(folder, samples, READ_SHARDS) if cfg.replacement_captions else [],
            "folder": str(folder / SHARDS),
            "language": language,
        }
        contents = {"samples": shard.sha256, "rewrites": rewritten.get(shard.name, "")}
        tasks.append(ShardTask.create(shard.name, inputs, decided_by | contents))
    return tasks


@contextlib.contextmanager
def open_annotator(cfg: Data) -> Iterator[WriteShard]:
    """Give the function that analyses a shard's captions, each different one once, and joins the lists of texts."""
    from compclip.text.spacy_parser import annotate_columns

    texts = texts_config(cfg)
    lists = stored_lists.open_lists(texts)
    balanced = texts.get(NEGATIVE)

    def write(task: ShardTask, path: Path) -> ShardResult:
        benchmarks = task.inputs["excluded"].items()
        excluded = {name: benchmark_overlap.read_benchmark_images(Path(file)) for name, file in benchmarks}
        samples, counts = benchmark_overlap.exclude_images(load_samples(Path(task.inputs["samples"])), excluded)
        rewrites = rewrite_shards.load_rewrites(Path(task.inputs["rewrites"])) if task.inputs["rewrites"] else {}
        captions = list_captions(samples)
        balance = None
        if isinstance(balanced, BalancedTexts):
            balance = balanced_negatives.ShardBalance(balanced, task.inputs["language"])

        def complete(annotation: Annotation) -> Annotation:
            rewritten = _add_rewrites(annotation, rewrites.get(annotation.text))
            return balance.draw(rewritten) if balance else rewritten

        least = cfg.replacement_captions
        vocabulary = read_vocabulary(tuple(task.inputs["vocabulary"]), least) if least else None
        relatives = cfg.relative_weights if cfg.relatives else ""
        annotations = annotate_columns(captions, counts, complete, relatives, vocabulary)
        joined, text_counts = stored_lists.find_texts(lists, samples)
        joined |= _list_masked_texts(rewrites, captions, joined.get(DENSE, ()))
        if balance:
            joined[NEGATIVE], balance_counts = balance.choose(samples)
            text_counts += balance_counts + stored_lists.count_texts(NEGATIVE, joined[NEGATIVE])
        counts.update(text_counts)
        sizes = [len(sample.captions) for sample in samples]
        tar = ""
        if cfg.short_side:
            folder = Path(task.inputs["folder"])
            samples, tar, picture_counts = store_small(samples, cfg.short_side, path.with_suffix(".tar"), folder)
            counts.update(picture_counts)
        write_batch(path, build_batch(samples, sizes, annotations, joined))
        return ShardResult(len(samples), len(captions), dict(counts), tar)

    yield write


def _add_rewrites(annotation: Annotation, texts: rewrite_shards.Rewrites | None) -> Annotation:
    """Return an annotation with the texts and words that models wrote for its caption, if any."""
    if texts is None:
        return annotation
    words = dict(texts.masked)
    masked = tuple(words.get(start, ()) for start in annotation.starts) if words else ()
    return replace(annotation, written_swap=texts.swap, written_replace=texts.replace, masked=masked)


def _list_masked_texts(
    rewrites: Mapping[str, rewrite_shards.Rewrites], captions: Sequence[str], dense: Sequence[Sequence[str]]
) -> dict[str, list[tuple[str, ...]]]:
    """Return what a masked model said beside the words of captions, by kind: for a mask alone, and of dense texts.

    A dense text's words are one text: a line a place, its first character and the words, joined by tabs.
    """
    packed_words = {}
    bare_words = {}
    for text, rewrite in rewrites.items():
        words = dict(rewrite.masked)
        bare_words[text] = words.pop(mask_filling.BARE, ())
        packed_words[text] = "\n".join(SEPARATOR.join([str(start), *likeliest]) for start, likeliest in words.items())
    texts_by_kind: dict[str, list[tuple[str, ...]]] = {BARE: [bare_words.get(caption, ()) for caption in captions]}
    texts_by_kind[DENSE_MASKED] = [tuple(packed_words.get(text, "") for text in texts) for texts in dense]
    return {kind: texts for kind, texts in texts_by_kind.items() if any(map(any, texts))}


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
    columns = build_columns(samples, map(SCHEMA.field, SAMPLE_COLUMNS)) | {"captions": captions}
    batch = pa.RecordBatch.from_pydict(columns | build_list_columns(samples, LIST_COLUMNS))
    return batch.replace_schema_metadata({f"made by {name}": version for name, version in versions().items()})


# --- the words of captions ------------------------------------------------------------------------------------------
# Count the words of a data set's captions, so that WordNet's rule replaces words by words that captions have.
#
# Most of WordNet's words are in no caption: a text that holds one is told from a caption by that alone.


READ_SHARDS = 64  # of which the captions are read: at even distances where a data set has more
_WORD = re.compile(r"[a-z]+")


@functools.lru_cache(maxsize=1)
def read_vocabulary(files: tuple[str, ...], captions: int) -> frozenset[str]:
    """Return the words, in lower case, that at least so many captions of some shards have."""
    texts_of_shard = (list_captions(load_samples(Path(file))) for file in files)
    return count_words(itertools.chain.from_iterable(texts_of_shard), captions)


def count_words(texts: Iterable[str], captions: int) -> frozenset[str]:
    """Return the words, in lower case, that at least so many of the texts have."""
    counts = Counter[str]()
    for text in texts:
        counts.update(set(_WORD.findall(text.lower())))
    return frozenset(word for word, number in counts.items() if number >= captions)


# --- smaller pictures -----------------------------------------------------------------------------------------------
# Store smaller copies of a shard's large pictures in one tar: JPEGs of quality 95 with a given shorter side.
#
# A tar is named after its content, so that the annotated shard that names it, and the data set's fingerprint with it,
# changes with the pictures. A copy is upright and RGB as reading gives it, without EXIF and colour profile; chroma is
# subsampled as Pillow does by default.


QUALITY = 95
# after scaling again by training, nearer to the picture scaled at once than by bicubic (experiments/log/2026-11.md)
KERNEL = Resampling.LANCZOS
AHEAD = 64  # pictures that are scaled before they are written
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class SmallPicture:
    """A copy: its bytes, a JPEG, and its size in pixels."""

    content: bytes
    width: int
    height: int


@dataclass(frozen=True)
class CopiedPicture:
    """A copy's place in its tar, and its size in pixels."""

    offset: int
    length: int
    width: int
    height: int


def store_small(
    samples: Sequence[Sample], short_side: int, path: Path, folder: Path
) -> tuple[list[Sample], str, Counter]:
    """Write small copies of large pictures to the tar `path`; return the samples that show them, its name, and counts.

    Large is a shorter side of more than `short_side` pixels. The copies are to be published as `folder`/<name>; without
    a large picture the name is "" and no tar is written. Other pictures stay where they are, and so do pictures that
    cannot be read, for training to count.
    """
    pictures: dict[ImageLocation, None] = {}
    names = dict[ImageLocation, str]()
    for sample in samples:
        # the file's name, or within a tar the sample's
        names.setdefault(sample.picture, Path(sample.id if sample.length else sample.image).stem)
        pictures[sample.picture] = None
        for negative in sample.negatives:
            if negative.image:
                pictures[negative.picture] = None
    counts = Counter[str]()
    copies = dict[ImageLocation, CopiedPicture]()
    with atomic(path) as tmp:
        with open(tmp, "wb") as file:
            for picture, small in _scale_all(list(pictures), short_side):
                counts[f"short_side_{small if isinstance(small, str) else 'scaled'}"] += 1
                if isinstance(small, SmallPicture):
                    name = names.get(picture, f"{len(copies):06d}")
                    copies[picture] = _append(file, f"{name}.jpg", small)
                    counts["short_side_bytes_before"] += picture.length or os.path.getsize(picture.path)
                    counts["short_side_bytes_after"] += len(small.content)
            file.write(bytes(2 * BLOCK))
        with open(tmp, "rb") as file:
            name = f"{hashlib.file_digest(file, 'sha256').hexdigest()[:32]}.tar"
    if not copies:
        path.unlink()
        return list(samples), "", counts
    return [_move(sample, copies, str(folder / name)) for sample in samples], name, counts


def _scale_all(
    pictures: Sequence[ImageLocation], short_side: int
) -> Iterator[tuple[ImageLocation, SmallPicture | str]]:
    """Give each picture with its copy, or with why there is none; a few are scaled ahead, side by side."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(pictures), AHEAD):
            block = pictures[start : start + AHEAD]
            yield from zip(block, pool.map(partial(scale_picture, short_side=short_side), block), strict=True)


def scale_picture(picture: ImageLocation, short_side: int) -> SmallPicture | str:
    """Return a picture's copy whose shorter side is `short_side` pixels; "fits" for a small one, or "unreadable"."""
    try:
        if min(images.read_size(picture)) <= short_side:
            return "fits"
        full = images.load_image(picture)
    except images.ImageError:
        return UNREADABLE
    factor = short_side / min(full.size)
    if factor >= 1:  # a very large JPEG is decoded at a reduced scale
        return "fits"
    small = full.resize([round(side * factor) for side in full.size], KERNEL, reducing_gap=None)
    small.info.clear()  # comments and profiles are Pillow's to write otherwise
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY)
    return SmallPicture(buffer.getvalue(), *small.size)


def _append(tar: IO[bytes], name: str, picture: SmallPicture) -> CopiedPicture:
    """Append a member to a tar. Equal members give equal bytes: they have no owner and no time."""
    header = tarfile.TarInfo(name)
    header.size = len(picture.content)
    tar.write(header.tobuf(tarfile.PAX_FORMAT))
    offset = tar.tell()
    tar.write(picture.content + bytes(-len(picture.content) % BLOCK))
    return CopiedPicture(offset, len(picture.content), picture.width, picture.height)


def _move(sample: Sample, copies: Mapping[ImageLocation, CopiedPicture], tar: str) -> Sample:
    """Return a sample whose picture and negative images are the copies, where there are any."""
    negatives = []
    for negative in sample.negatives:
        copy = copies.get(negative.picture)
        negatives.append(replace(negative, image=tar, offset=copy.offset, length=copy.length) if copy else negative)
    copy = copies.get(sample.picture)
    return replace(sample, negatives=tuple(negatives), **({"image": tar} | vars(copy) if copy else {}))
