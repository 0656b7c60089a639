"""Long captions as the single sentences that they consist of: each is a caption of its picture.

Recall@1, 5, 10 both ways over all sentences and pictures of a data set, ties wrong, and `mean_recall_at_<k>`, the mean
of both ways. FLAIR (Xiao et al., CVPR 2025, arXiv:2412.03561) made this of DOCCI and ImageInWords; C2LIP takes it over
and reports Recall@5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from compclip.benchmarks import retrieval
from compclip.benchmarks._files import unique
from compclip.benchmarks._flair import Captioned
from compclip.evaluate.benchmark import Record

ENDS = re.compile(r"[.\n]|</s>")  # FLAIR's rule: "1.5 m" is two pieces, "What? No!" is one
MEANS = {f"mean_recall_at_{k}": (f"i2t_recall_at_{k}", f"t2i_recall_at_{k}") for k in retrieval.KS}
METRICS = (*retrieval.METRICS, *MEANS)


def split(text: str) -> list[str]:
    """The sentences of a caption, without their full stops and the spaces around them."""
    return [piece for piece in (part.strip() for part in ENDS.split(text)) if piece]


def records(file: Path, captioned: Iterable[Captioned]) -> tuple[tuple[Record, ...], dict[str, int]]:
    """A record a picture, and the count of those that are left out because nothing is said about them.

    Raises UserError naming an id that stands twice.
    """
    read = [Record(retrieval.SUBSET, key, (picture,), tuple(t for t in texts if t.strip()))
            for key, picture, texts in captioned]  # fmt: skip
    kept = unique(file, [record for record in read if record.texts])
    return kept, {"image_without_caption": len(read) - len(kept)}
