"""The stages `recaption`, `rewrite`, `annotate`: `python -m compclip.data.prepare --data NAME [--rewrite|--annotate]`.

Write data/<name>/: samples.parquet, counts.json; rewrites.parquet, rewrite_counts.json; annotations.parquet and
annotation_counts.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from compclip.base import plugins
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.data import rewrite, store
from compclip.data.sample import Sample
from compclip.text import annotation, sentences


def recaption(cfg, folder: Path) -> dict:
    """Read the source, let the captioner rewrite the captions, write the samples; gives the counts."""
    samples, counts = plugins.find(plugins.SOURCES, cfg.source).read(cfg)
    captioner = plugins.find(plugins.CAPTIONERS, cfg.captioner)
    samples, more = captioner.caption(samples, cfg, grid.captioner_config(cfg))
    samples, openings = without_openings(samples)
    if not samples:
        raise UserError(f"data with source {cfg.source!r}: no sample is left after captioner {cfg.captioner!r}")
    kept = several(samples, cfg.min_sentences)
    if not kept:
        raise UserError(f"data with source {cfg.source!r}: no picture has min_sentences={cfg.min_sentences}; lower it")
    counts = dict(sorted((counts + more).items())) | {"openings_dropped": openings}
    if cfg.min_sentences:
        counts["few_sentences"] = len(samples) - len(kept)
    samples = kept
    store.save(folder / "samples.parquet", samples, pictures(samples))
    write_json(folder / "counts.json", counts)
    return counts


def without_openings(samples: list[Sample]) -> tuple[list[Sample], int]:
    """Captions without openings like "This picture shows:" (CLIC B.1), and how many had one."""
    cleaned = [replace(s, captions=tuple(map(sentences.clean, s.captions))) for s in samples]
    pairs = ((a, b) for s, c in zip(samples, cleaned, strict=True) for a, b in zip(s.captions, c.captions, strict=True))
    return cleaned, sum(a != b for a, b in pairs)


def several(samples: list[Sample], least: int) -> list[Sample]:
    """The samples whose captions have together at least so many sentences of 4 to 34 words (CLIC B.1)."""
    return [s for s in samples if not least or sum(len(sentences.kept(c)) for c in s.captions) >= least]


def pictures(samples: list[Sample]) -> str:
    """A fingerprint of all pictures: name, size and first bytes of each."""
    digest = hashlib.sha256()
    for sample in samples:
        with open(sample.image, "rb") as file:
            digest.update(f"{Path(sample.image).name} {Path(sample.image).stat().st_size} ".encode() + file.read(65536))
    return digest.hexdigest()


def annotate(folder: Path, rewritten: dict[str, rewrite.Rewrites] | None = None) -> dict:
    """Analyse every different caption once and write the annotations in the order of the captions.

    `rewritten` holds what a language model made of them, which is kept beside each.
    """
    from compclip.text.annotate import about
    from compclip.text.annotate import annotate as analyse

    captions = [c for sample in store.load(folder / "samples.parquet") for c in sample.captions]
    different, counts = list(dict.fromkeys(captions)), Counter()
    made = dict(zip(different, analyse(different, processes=os.cpu_count() or 1, counts=counts), strict=True))
    for caption, texts in (rewritten or {}).items():
        made[caption] = replace(made[caption], written_swap=texts.swap, written_replace=texts.replace)
    annotations = [made[c] for c in captions]
    annotation.save(folder / "annotations.parquet", annotations, about())
    counts.update(
        captions=len(captions),
        different=len(different),
        without_noun=sum(not {"NOUN", "PROPN"} & set(a.pos) for a in annotations),
    )
    write_json(folder / "annotation_counts.json", dict(counts))
    return dict(counts)


def main(argv: list[str]) -> int:
    """Prepare one data set of params.yaml."""
    parser = argparse.ArgumentParser(prog="python -m compclip.data.prepare", description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--rewrite", action="store_true")
    stage.add_argument("--annotate", action="store_true")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    args = parser.parse_args(argv)
    params = read.load(args.params, args.overrides)
    if args.data not in params.data:
        raise unknown("data", args.data, params.data)
    print(json.dumps(_stage(args, params.data[args.data], Path("data") / args.data)))
    return 0


def _stage(args: argparse.Namespace, cfg, folder: Path) -> dict:
    if args.rewrite:
        return rewrite.rewrite(grid.rewriter_config(cfg), folder)
    if args.annotate:
        return annotate(folder, rewrite.load(folder) if cfg.rewriter else None)
    return recaption(cfg, folder)


if __name__ == "__main__":
    sys.exit(entry(main))
