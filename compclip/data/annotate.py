"""The stage `annotate`: every caption analysed once, data/<name>/annotations.parquet and annotation_counts.json."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from compclip.base.files import fingerprint, write_json
from compclip.data import store
from compclip.data.rewrite import Rewrites
from compclip.text import annotation
from compclip.text.annotate import about
from compclip.text.annotate import annotate as analyse

FINGERPRINTS = "fingerprints"  # beside the data sets' folders: one file each


def annotate(folder: Path, rewritten: dict[str, Rewrites] | None = None) -> dict:
    """Analyse every different caption once and write the annotations in the order of the captions, and the data's
    fingerprint, which the run keys depend on.

    `rewritten` holds what a language model made of them, which is kept beside each.
    """
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
    prepared = [folder / "samples.parquet", folder / "annotations.parquet"]
    write_json(folder.parent / FINGERPRINTS / f"{folder.name}.json", {"prepared": fingerprint(*prepared)})
    return dict(counts)
