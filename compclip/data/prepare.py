"""The stages `recaption`, `rewrite`, `annotate`: `python -m compclip.data.prepare --data NAME [--rewrite|--annotate]`.

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
from compclip.config import grid, pictures, plan, read
from compclip.config.asked import ANNOTATE, FOLDER, RECAPTION, REWRITE
from compclip.config.sections import Data
from compclip.data import annotate, beside, joined, negatives, overlap, partners, recaption, rewrite, shards
from compclip.data.shards import MANIFEST, SAMPLES, SHARDS, Manifest
from compclip.data.work import BLOCKS, Work

FINGERPRINTS = "fingerprints"  # beside the data sets' folders: one file each


def asked(stage: str, name: Name, cfg: Data, root: Path = Path()) -> Work:
    """What a stage is to make of a data set; written down, so that other processes find it.

    Raises UserError where an earlier stage has not been run, and for what is wrong with the data set itself.
    """
    folder, place = root / "data" / name, root / FOLDER / stage / name
    counts: Counter = Counter()
    if stage == RECAPTION:
        options = grid.captioner_config(cfg)
        items, counts = recaption.items(cfg, options, plan.data_code(RECAPTION, cfg), place / BLOCKS)
    elif stage == REWRITE:
        found = shards.read_manifest(folder / SAMPLES / MANIFEST, RECAPTION)
        code = plan.data_code(REWRITE, cfg)
        items = rewrite.items(folder, found, grid.writer_config(cfg), code, grid.masked_config(cfg))
    else:
        found = shards.read_manifest(folder / SAMPLES / MANIFEST, RECAPTION)
        written = _rewritten(folder, cfg)
        code, texts = plan.data_code(ANNOTATE, cfg), grid.texts_config(cfg)
        items = annotate.items(folder, found, written, code, cfg.exclude, texts, cfg.relatives)
    made = Work(stage, cfg, place, tuple(items), counts)
    made.save()
    return made


def _rewritten(folder: Path, cfg: Data) -> Manifest:
    written = cfg.rewriter or cfg.rewrites or cfg.masked
    return shards.read_manifest(folder / rewrite.FOLDER / MANIFEST, REWRITE) if written else Manifest(())


def collect(made: Work, folder: Path) -> dict:
    """Link the shards of a finished stage into data/<name>/, with their manifest and counts, which are given."""
    if made.stage == RECAPTION:
        manifest, counts = made.published(folder / SAMPLES)
        counts.update(joined.counted(grid.captions_config(made.section), map(made.shard, made.items)))
        counts.update(negatives.counted(pictures.of(made.section)))
        told = recaption.told(made.section, counts)
        return _written(folder / SAMPLES / MANIFEST, manifest, folder / "counts.json", told)
    if made.stage == REWRITE:
        manifest, counts = made.published(folder / rewrite.FOLDER)
        told = rewrite.told(manifest.captions, counts)
        return _written(folder / rewrite.FOLDER / MANIFEST, manifest, folder / "rewrite_counts.json", told)
    manifest, counts = made.published(folder / SHARDS)
    if not manifest.samples:
        raise UserError(f"{folder}: no sample is left after exclude={made.section.exclude}; exclude fewer benchmarks")
    overlap.take(folder, [Path(item.given["samples"]) for item in made.items], made.section.exclude)
    counts.update(beside.counted(grid.texts_config(made.section), map(made.shard, made.items)))
    partners.write(folder / partners.FILE, [folder / SHARDS / f"{shard.name}.arrow" for shard in manifest.shards])
    told = _written(folder / MANIFEST, manifest, folder / "annotation_counts.json", dict(counts))
    write_json(folder.parent / FINGERPRINTS / f"{folder.name}.json", {"prepared": manifest.fingerprint})
    return told


def _written(path: Path, manifest: Manifest, counts: Path, told: dict) -> dict:
    shards.write_manifest(path, manifest)
    write_json(counts, told)
    return told


def _nothing(work: Work) -> None:
    """Nobody else makes shards."""


def run(
    stage: str,
    name: Name,
    cfg: Data,
    root: Path = Path(),
    before: Callable[[Work], None] = _nothing,
    after: Callable[[Work], None] = _nothing,
) -> dict:
    """Make a stage's shards here, as many at a time as the machine has cores, and collect them; gives the counts.

    `before` is called when it is known which are missing, `after` when all are collected.
    """
    made = asked(stage, name, cfg, root)
    before(made)
    made.complete(os.cpu_count() or 1)
    counts = collect(made, root / "data" / name)
    after(made)
    return counts


def main(argv: list[str], bring: Callable[[str, Name, Data], dict] = run) -> int:
    """Prepare one data set of params.yaml."""
    parser = argparse.ArgumentParser(prog="python -m compclip.data.prepare", description=__doc__.splitlines()[0])
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
