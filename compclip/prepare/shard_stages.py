"""Run `recaption`, `rewrite` or `annotate` for one data set: `--data NAME [--rewrite|--annotate]`.

Each works shard by shard, and makes what is missing:

    data/<name>/samples/*.arrow samples/manifest.json counts.json              recaption
    data/<name>/rewrites/*.arrow rewrites/manifest.json rewrite_counts.json    rewrite
    data/<name>/shards/*.arrow manifest.json nouns.arrow annotation_counts.json, data/fingerprints/<name>.json,
    data/overlaps/<name>.json                                                  annotate
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from compclip.base import names
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import write_json
from compclip.base.names import Name
from compclip.config import grid, plan, read, released_lists
from compclip.config.asked import ANNOTATE, FOLDER, RECAPTION, REWRITE
from compclip.config.sections import Data
from compclip.data import noun_index, shard_files
from compclip.data.shard_files import MANIFEST, SAMPLES, SHARDS, Manifest
from compclip.prepare import (
    annotate_shards,
    benchmark_overlap,
    caption_join,
    negative_images,
    recaption_shards,
    released_texts,
    rewrite_shards,
)
from compclip.prepare.shard_work import BLOCKS, ShardWork

FINGERPRINTS = "fingerprints"  # beside the data sets' folders: one file each


def plan_work(stage: str, name: Name, cfg: Data, root: Path = Path()) -> ShardWork:
    """What a stage is to make of a data set; written down, so that other processes find it.

    Raises UserError where an earlier stage has not been run, and for what is wrong with the data set itself.
    """
    folder, place = root / "data" / name, root / FOLDER / stage / name
    counts: Counter = Counter()
    if stage == RECAPTION:
        options = grid.captioner_config(cfg)
        items, counts = recaption_shards.recaption_tasks(cfg, options, plan.data_code(RECAPTION, cfg), place / BLOCKS)
    elif stage == REWRITE:
        found = shard_files.read_manifest(folder / SAMPLES / MANIFEST, RECAPTION)
        code = plan.data_code(REWRITE, cfg)
        items = rewrite_shards.rewrite_tasks(
            folder, found, grid.writer_config(cfg), code, released_lists.masked_config(cfg)
        )
    else:
        found = shard_files.read_manifest(folder / SAMPLES / MANIFEST, RECAPTION)
        written = _rewritten(folder, cfg)
        code, texts = plan.data_code(ANNOTATE, cfg), released_lists.texts_config(cfg)
        items = annotate_shards.annotation_tasks(folder, found, written, code, cfg.exclude, texts, cfg.relatives)
    made = ShardWork(stage, cfg, place, tuple(items), counts)
    made.save()
    return made


def _rewritten(folder: Path, cfg: Data) -> Manifest:
    written = cfg.rewriter or cfg.rewrites or cfg.masked
    return shard_files.read_manifest(folder / rewrite_shards.FOLDER / MANIFEST, REWRITE) if written else Manifest(())


def publish(made: ShardWork, folder: Path) -> dict:
    """Link the shards of a finished stage into data/<name>/, with their manifest and counts, which are given."""
    if made.stage == RECAPTION:
        manifest, counts = made.published(folder / SAMPLES)
        counts.update(
            caption_join.count_rows(released_lists.captions_config(made.section), map(made.shard, made.items))
        )
        counts.update(negative_images.count_rows(released_lists.negative_images_config(made.section)))
        told = recaption_shards.summarize_counts(made.section, counts)
        return _written(folder / SAMPLES / MANIFEST, manifest, folder / "counts.json", told)
    if made.stage == REWRITE:
        manifest, counts = made.published(folder / rewrite_shards.FOLDER)
        told = rewrite_shards.summarize_counts(manifest.captions, counts)
        return _written(folder / rewrite_shards.FOLDER / MANIFEST, manifest, folder / "rewrite_counts.json", told)
    manifest, counts = made.published(folder / SHARDS)
    if not manifest.samples:
        raise UserError(f"{folder}: no sample is left after exclude={made.section.exclude}; exclude fewer benchmarks")
    benchmark_overlap.write_overlap(folder, [Path(item.given["samples"]) for item in made.items], made.section.exclude)
    counts.update(released_texts.count_rows(released_lists.texts_config(made.section), map(made.shard, made.items)))
    noun_index.write_noun_index(
        folder / noun_index.FILE, [folder / SHARDS / f"{shard.name}.arrow" for shard in manifest.shards]
    )
    told = _written(folder / MANIFEST, manifest, folder / "annotation_counts.json", dict(counts))
    write_json(folder.parent / FINGERPRINTS / f"{folder.name}.json", {"prepared": manifest.fingerprint})
    return told


def _written(path: Path, manifest: Manifest, counts: Path, told: dict) -> dict:
    shard_files.write_manifest(path, manifest)
    write_json(counts, told)
    return told


def _nothing(work: ShardWork) -> None:
    """Nobody else makes shards."""


def run_stage(
    stage: str,
    name: Name,
    cfg: Data,
    root: Path = Path(),
    before: Callable[[ShardWork], None] = _nothing,
    after: Callable[[ShardWork], None] = _nothing,
) -> dict:
    """Make a stage's shards here, as many at a time as the machine has cores, and collect them; gives the counts.

    `before` is called when it is known which are missing, `after` when all are collected.
    """
    made = plan_work(stage, name, cfg, root)
    before(made)
    made.complete(os.cpu_count() or 1)
    counts = publish(made, root / "data" / name)
    after(made)
    return counts


def main(argv: list[str], bring: Callable[[str, Name, Data], dict] = run_stage) -> int:
    """Prepare one data set of params.yaml."""
    parser = argparse.ArgumentParser(
        prog="python -m compclip.prepare.shard_stages", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", required=True)
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--rewrite", dest="stage", action="store_const", const=REWRITE, default=RECAPTION)
    stage.add_argument("--annotate", dest="stage", action="store_const", const=ANNOTATE)
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    args = parser.parse_args(argv)
    name = names.given(args.data, "--data")
    params = read.load(args.params, args.overrides)
    if name not in params.data:
        raise unknown("data", name, params.data)
    print(json.dumps(bring(args.stage, name, params.data[name])))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
