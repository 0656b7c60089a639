"""Run `recaption`, `rewrite` or `annotate` for one data set: `--data NAME [--rewrite|--annotate]`.

Each stage works shard by shard and writes what is missing:

    data/<name>/samples/*.arrow samples/manifest.json counts.json              recaption
    data/<name>/rewrites/*.arrow rewrites/manifest.json rewrite_counts.json    rewrite
    data/<name>/shards/*.arrow *.tar manifest.json nouns.arrow annotation_counts.json, data/fingerprints/<name>.json,
    data/overlaps/<name>.json                                                  annotate
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from compclip.base import messages, safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import write_json
from compclip.base.safe_names import SafeName
from compclip.config import grid, plan, read, released_lists
from compclip.config.sections import Data
from compclip.data import column_hashes
from compclip.data.prepared_dataset import NOUNS_FILE
from compclip.data.shard_files import MANIFEST, SAMPLES, SHARDS, Manifest, read_manifest
from compclip.prepare import (
    annotate_shards,
    benchmark_overlap,
    recaption_shards,
    rewrite_shards,
    shard_writer,
    stored_lists,
)
from compclip.prepare.shard_work import BLOCKS, ShardWork
from compclip.runs.shard_tasks import ANNOTATE, FOLDER, RECAPTION, REWRITE


class PublishedNames(NamedTuple):
    """What a stage writes below data/<name>/: its folder of shards, their manifest, and what was counted."""

    shards: str
    manifest: str
    counts: str


PUBLISHED_NAMES = {
    RECAPTION: PublishedNames(SAMPLES, f"{SAMPLES}/{MANIFEST}", "counts.json"),
    REWRITE: PublishedNames(rewrite_shards.FOLDER, f"{rewrite_shards.FOLDER}/{MANIFEST}", "rewrite_counts.json"),
    ANNOTATE: PublishedNames(SHARDS, MANIFEST, "annotation_counts.json"),
}


def plan_work(stage: str, name: SafeName, cfg: Data, root: Path = Path()) -> ShardWork:
    """Return the shards that a stage is to write for a data set, and save them for other processes.

    Raises UserError where an earlier stage has not been run, and for what is wrong with the data set itself.
    """
    folder = root / "data" / name
    work_folder = root / FOLDER / stage / name
    code = plan.hash_data_code(stage, cfg)
    counts = Counter[str]()
    if stage == RECAPTION:
        tasks, counts = recaption_shards.recaption_tasks(cfg, grid.captioner_config(cfg), code, work_folder / BLOCKS)
    else:
        samples = read_manifest(folder / SAMPLES / MANIFEST, RECAPTION)
        if stage == REWRITE:
            tasks = rewrite_shards.rewrite_tasks(folder, samples, cfg, code)
        else:
            rewrites_path = folder / rewrite_shards.FOLDER / MANIFEST
            rewrites = read_manifest(rewrites_path, REWRITE) if cfg.is_rewritten else Manifest(())
            tasks = annotate_shards.annotation_tasks(folder, samples, rewrites, code, cfg)
    work = ShardWork(stage, cfg, work_folder, tuple(tasks), counts)
    work.save()
    return work


def publish(work: ShardWork, folder: Path) -> dict:
    """Link the shards of a finished stage into data/<name>/, write manifest and counts, and return the counts."""
    cfg = work.section
    names = PUBLISHED_NAMES[work.stage]
    manifest, counts = work.publish(folder / names.shards)
    summary: dict
    if work.stage == RECAPTION:
        summary = recaption_shards.summarize_counts(cfg, counts + recaption_shards.count_list_rows(cfg))
    elif work.stage == REWRITE:
        summary = rewrite_shards.summarize_counts(manifest.captions, counts)
    else:
        if not manifest.samples:
            raise UserError(f"{folder}: no sample is left after exclude={cfg.exclude}; exclude fewer benchmarks")
        benchmark_overlap.write_overlap(folder, [Path(task.inputs["samples"]) for task in work.items], cfg.exclude)
        counts.update(stored_lists.count_text_rows(released_lists.texts_config(cfg)))
        summary = dict(counts)
        shards = [folder / SHARDS / f"{shard.name}.arrow" for shard in manifest.shards]
        shard_writer.write_noun_index(folder / NOUNS_FILE, shards)
    shard_writer.write_manifest(folder / names.manifest, manifest)
    write_json(folder / names.counts, summary)
    if work.stage == ANNOTATE:
        column_hashes.write_columns(folder, manifest, work.read_column_hashes())
    return summary


def _do_nothing(work: ShardWork) -> None:
    """Do nothing (default callback): no other machine writes shards."""


def run_stage(
    stage: str,
    name: SafeName,
    cfg: Data,
    root: Path = Path(),
    before: Callable[[ShardWork], None] = _do_nothing,
    after: Callable[[ShardWork], None] = _do_nothing,
) -> dict:
    """Write a stage's missing shards, a process for each core of this job, publish all, and return the counts.

    `before` is called once the missing shards are known, `after` once all are published.
    """
    work = plan_work(stage, name, cfg, root)
    before(work)
    work.complete(len(os.sched_getaffinity(0)))
    counts = publish(work, root / "data" / name)
    after(work)
    return counts


def main(argv: list[str], run: Callable[[str, SafeName, Data], dict] = run_stage) -> int:
    """Prepare one data set of params.yaml."""
    description = __doc__.splitlines()[0]
    parser = CommandParser(prog="compclip stage prepare", description=description, example="--data scenes --annotate")
    parser.add_argument("--data", required=True, help="a name of the section data")
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--rewrite", action="store_true", help="have captions rewritten, after they were read")
    stage.add_argument("--annotate", action="store_true", help="annotate the captions, the last step")
    parser.add_grid("parameters to override")
    args = parser.parse_args(argv)
    name = safe_names.parse_name(args.data, "--data")
    params = read.load_params(args.params, args.overrides)
    if name not in params.data:
        raise unknown("data", name, params.data)
    written = REWRITE if args.rewrite else ANNOTATE if args.annotate else RECAPTION
    messages.print_counts(run(written, name, params.data[name]))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
