"""Make the samples of a data set from a source and a captioner, shard by shard: the stage `recaption`.

A source that lists its pictures in one file is cut into shards here; of a source that comes in tars, each is a shard.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import operator
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.base.path_lists import iterate_files
from compclip.config import released_lists
from compclip.config.sections import Data
from compclip.config.servers import Server
from compclip.data.sample import PictureFinder, Sample, list_captions
from compclip.prepare import caption_join, image_folder, region_lists, sample_cleaning, shard_writer, stored_lists
from compclip.prepare.shard_writer import ShardResult, ShardTask, WriteShard
from compclip.text import sentences
from compclip.text.caption_cleaning import clean_caption

NEW_BLOCK = "new.arrow"
# keys that `recaption` ignores
LATER_STAGES = (
    *("rewriter", "rewrites", "texts", "masked", "exclude"),
    *("relatives", "relative_weights", "replacement_captions", "short_side"),
)


@dataclass(frozen=True)
class SourcePart:
    """The input of one shard: a block of samples that was copied, or a file of the source (`own`)."""

    path: str
    own: bool = False
    limit: int = 0  # samples; 0: all


def recaption_tasks(cfg: Data, options: Any, code: str, blocks: Path) -> tuple[list[ShardTask], Counter]:
    """Return the shards of a data set, and what was counted while it was cut. `options`: the captioner's Config.

    Raises UserError for a picture outside of `cfg.images`, before one is opened.
    """
    source = plugins.load_plugin(plugins.SOURCES, cfg.source)
    counts = Counter[str]()
    paths = source.parts(cfg) if hasattr(source, "parts") else []
    source_parts = _source_files(source, cfg, paths) if paths else _copy_blocks(source, cfg, blocks, counts)
    captioner = plugins.load_plugin(plugins.CAPTIONERS, cfg.captioner)
    inputs = captioner.reads(cfg, options) if hasattr(captioner, "reads") else []
    negatives = cfg.negative_images if "file" in cfg.negative_images else {}
    lists = (cfg.captions.get("file"), negatives.get("file"), negatives.get("images"), cfg.regions.get("file"))
    files = itertools.chain.from_iterable(map(iterate_files, filter(None, lists)))
    decided_by = asdict(cfg) | {"code": code, "reads": _hash_stamps([*inputs, *(file.path for file in files)])}
    # a longer list of files leaves the shards of the others as they are: each has its part's stamp
    for name in (*LATER_STAGES, "path", *getattr(source, "UNREAD", ())):
        decided_by.pop(name)
    if isinstance(options, Server):
        decided_by["options"] = options.deciding
    tasks = []
    for index, (source_part, stamp) in enumerate(source_parts):
        deciding = decided_by | {"part": source_part.limit, "stamp": stamp}
        tasks.append(ShardTask.create(shard_writer.shard_name(index), vars(source_part), deciding))
    return tasks, counts


def _hash_stamps(paths: Iterable[str]) -> str:
    """Return a hash of the names, sizes and times of files."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = os.stat(path)
            digest.update(f"{path}\0{status.st_size} {status.st_mtime_ns}\n".encode())
        except (OSError, ValueError):
            digest.update(f"{path!a} missing\n".encode())
    return digest.hexdigest()


def _source_files(source: Any, cfg: Data, paths: list[str]) -> Iterator[tuple[SourcePart, str]]:
    """Give the source's own files, as many as hold `cfg.limit` samples, the last one in part."""
    remaining = cfg.limit
    if not cfg.images_outside:
        image_folder.check_images(((Path(path).name, path) for path in paths), cfg.images, cfg.path)
    for path in paths:
        if not cfg.limit:
            yield SourcePart(path, own=True), _hash_stamps([path])
        elif remaining > 0:
            yield SourcePart(path, own=True, limit=remaining), _hash_stamps([path])
            remaining -= sum(1 for _ in itertools.islice(source.records(cfg, Counter(), path), remaining))


def _copy_blocks(source: Any, cfg: Data, folder: Path, counts: Counter) -> Iterator[tuple[SourcePart, str]]:
    """Copy the samples of a source into files of `shard_writer.ROWS` samples, and give these.

    A file is named after its content: a running task goes on reading the samples that it was sent for.
    """
    samples = sample_cleaning.clean_captions(itertools.islice(source.records(cfg, counts), cfg.limit or None), counts)
    image_hashes = array("Q")
    finder = PictureFinder(cfg.images, cfg.path)
    while named := list(itertools.islice(samples, shard_writer.ROWS)):
        block = []
        for sample in named:
            image = finder.find(sample.image)
            counts["images_named_otherwise"] += image != sample.image
            image_hashes.frombytes(hashlib.blake2b(image.encode(), digest_size=8).digest())
            block.append(replace(sample, image=image))
        for line in finder.find_shared().values():
            raise UserError(line)
        shard_writer.save_samples(folder / NEW_BLOCK, list(image_folder.check_samples(block, cfg)))
        content = fingerprint(folder / NEW_BLOCK)
        path = os.path.join(folder, f"{content[:32]}.arrow")
        os.replace(folder / NEW_BLOCK, path)
        yield SourcePart(path), content + _hash_stamps(sample.image for sample in block)
    if image_hashes:
        counts["duplicate_images"] += len(image_hashes) - len(np.unique(np.frombuffer(image_hashes, np.uint64)))


@contextlib.contextmanager
def open_captioner(cfg: Data, options: Any) -> Iterator[WriteShard]:
    """Give the function that writes a shard; the captioner is opened once for all shards.

    A list's captions replace the samples' before the captioner sees them.
    """
    source = plugins.load_plugin(plugins.SOURCES, cfg.source)
    captions = released_lists.captions_config(cfg)
    caption_list = caption_join.open_list(captions) if captions else None
    join_negatives = stored_lists.open_joiner(released_lists.negative_images_config(cfg))
    join_regions = region_lists.open_joiner(released_lists.regions_config(cfg))
    with plugins.load_plugin(plugins.CAPTIONERS, cfg.captioner).opened(cfg, options) as caption:

        def write(task: ShardTask, path: Path) -> ShardResult:
            source_part = SourcePart(**task.inputs)
            counts = Counter[str]()
            samples: Iterable[Sample]
            if source_part.own:
                records = itertools.islice(source.records(cfg, counts, source_part.path), source_part.limit or None)
                samples = image_folder.check_samples(sample_cleaning.clean_captions(records, counts), cfg)
            else:
                samples = shard_writer.load_samples(Path(source_part.path))
            if caption_list:
                samples, join_counts = caption_list.replace_captions(samples)
                counts.update(join_counts)
            measured = sample_cleaning.measure_images(samples, counts)
            captioned = join_negatives(_caption(measured, caption, task.name, cfg, counts), counts)
            captioned = join_regions(captioned, counts)
            shard_writer.save_samples(path, captioned)
            return ShardResult(len(captioned), len(list_captions(captioned)), dict(counts))

        yield write


def _caption(samples: list[Sample], caption: Any, shard: str, cfg: Data, counts: Counter) -> list[Sample]:
    """Return samples with the captioner's captions, without openings like "This picture shows:" (CLIC B.1)."""
    if samples:
        samples, caption_counts = caption(samples, shard)
        counts.update(caption_counts)
    samples, _ = _map_captions(samples, partial(clean_caption, counts=counts))
    samples, openings_dropped = _map_captions(samples, sentences.CLEAN[cfg.openings])
    if cfg.captions_each:
        total = len(list_captions(samples))
        samples = [replace(sample, captions=sample.captions[: cfg.captions_each]) for sample in samples]
        counts["captions_left_out"] += total - len(list_captions(samples))
    long_enough = []
    for sample in samples:  # sentences of 4 to 34 words, in all captions together (CLIC B.1)
        captions = sample.captions if cfg.min_sentences else ()
        if sum(len(sentences.training_sentences(caption)) for caption in captions) >= cfg.min_sentences:
            long_enough.append(sample)
    counts.update(captioned=len(samples), kept=len(long_enough))
    counts["openings_dropped"] += openings_dropped
    return long_enough


def _map_captions(samples: list[Sample], change: Callable[[str], str]) -> tuple[list[Sample], int]:
    """Return samples with changed captions, and how many of these differ."""
    changed = []
    different = 0
    for sample in samples:
        captions = tuple(map(change, sample.captions))
        different += sum(map(operator.ne, sample.captions, captions))
        changed.append(replace(sample, captions=captions))
    return changed, different


def count_list_rows(cfg: Data) -> Counter:
    """Return the numbers of rows of the section's lists, and of the unusable ones by reason."""
    captions = released_lists.captions_config(cfg)
    counts = Counter(caption_join.open_list(captions).counts if captions else {})
    counts += stored_lists.count_rows(released_lists.negative_images_config(cfg))
    return counts + region_lists.count_rows(released_lists.regions_config(cfg))


def summarize_counts(cfg: Data, counts: Counter) -> dict[str, int]:
    """Return the counts as counts.json has them. Raises UserError where no sample is left, with the reason."""
    counts = Counter(counts)
    captioned = counts.pop("captioned", 0)
    long_enough = counts.pop("kept", 0)
    if not long_enough:
        fault = f"no picture has min_sentences={cfg.min_sentences}; lower it"
        if not counts["samples"]:
            dropped = [f"{n} {name}" for name, n in sorted(counts.items()) if n and name != "images"]
            reasons = ", ".join(dropped) or "no records"
            fault = f"no sample is left of {counts['images']} ({reasons}); check this data's path, images and split"
        elif not captioned:
            fault = f"no sample is left after captioner {cfg.captioner!r}"
        raise UserError(f"data with source {cfg.source!r}: {fault}")
    summary = {name: n for name, n in sorted(counts.items()) if n} | {"openings_dropped": counts["openings_dropped"]}
    return summary | ({"few_sentences": captioned - long_enough} if cfg.min_sentences else {})
