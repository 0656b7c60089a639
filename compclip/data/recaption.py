"""The stage `recaption`: from a source and a captioner to data/<name>/samples.parquet and counts.json."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.base.surrogates import repaired
from compclip.data import store, within
from compclip.data.sample import Sample
from compclip.text import sentences

if TYPE_CHECKING:
    from compclip.config.sections import Data


def recaption(cfg: Data, options: Any, folder: Path) -> dict:
    """Read the source, let the captioner rewrite the captions, write the samples; gives the counts.

    Captions enter here, whoever wrote them: halves of surrogate pairs are repaired and counted.
    `options`: the captioner's own Config, None where it has none.
    """
    samples, counts = plugins.find(plugins.SOURCES, cfg.source).read(cfg)
    if not cfg.images_outside:  # a source of another package may not have looked, and captioners send pictures away
        within.check(((s.id, s.image) for s in samples), cfg.images, cfg.path)
    with plugins.find(plugins.CAPTIONERS, cfg.captioner).opened(cfg, options) as caption:
        samples, more = caption(samples, "00000")
    samples, mended = _changed(samples, repaired)
    samples, openings = without_openings(samples)
    if not samples:
        raise UserError(f"data with source {cfg.source!r}: no sample is left after captioner {cfg.captioner!r}")
    kept = several(samples, cfg.min_sentences)
    if not kept:
        raise UserError(f"data with source {cfg.source!r}: no picture has min_sentences={cfg.min_sentences}; lower it")
    counts = dict(sorted((counts + more).items())) | {"openings_dropped": openings}
    if mended:
        counts["repaired_captions"] = mended
    if cfg.min_sentences:
        counts["few_sentences"] = len(samples) - len(kept)
    samples = kept
    store.save(folder / "samples.parquet", samples, pictures(samples))
    write_json(folder / "counts.json", counts)
    return counts


def without_openings(samples: list[Sample]) -> tuple[list[Sample], int]:
    """Captions without openings like "This picture shows:" (CLIC B.1), and how many had one."""
    return _changed(samples, sentences.clean)


def _changed(samples: list[Sample], change: Callable[[str], str]) -> tuple[list[Sample], int]:
    """Samples with other captions, and how many became others."""
    made = [replace(s, captions=tuple(map(change, s.captions))) for s in samples]
    pairs = ((a, b) for s, c in zip(samples, made, strict=True) for a, b in zip(s.captions, c.captions, strict=True))
    return made, sum(a != b for a, b in pairs)


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
