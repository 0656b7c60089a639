"""Urban1k (Zhang et al., ECCV 2024, Long-CLIP, arXiv:2403.15378): a thousand busy scenes, each with one long caption.

Recall@1, 5, 10 both ways as `retrieval` scores it, ties wrong; the authors report Recall@1 and give a tie to the first.
A caption that is longer than a model's context is cut by its tokenizer, as in the authors' code.

Checklist. Source: hf.co/datasets/BeichenZhang/Urban1k, github.com/beichenzbc/Long-CLIP eval/retrieval/Urban1k.py.
Licence: none is named (pictures of Visual Genome). Compared with the authors' code: the rule, read; it pairs pictures
and captions by their names. Not compared: any real file.
"""

from __future__ import annotations

from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.benchmarks import retrieval
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.items import RETRIEVAL

CAPTIONS, PICTURES = "caption", "image"
METRICS = retrieval.METRICS


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The authors' folder: `caption/<n>.txt`, whose first line is the caption, and `image/<n>.jpg`, or that picture in
    `images`. There are no splits.

    Raises UserError where there are no captions. A file without a caption is left out and counted.
    """
    if split:
        raise UserError(f"benchmark urban1k: split={split!r}: it has no splits; leave split out")
    folder = Path(path) / CAPTIONS
    files = tuple(sorted(folder.glob("*.txt"), key=lambda file: (len(file.stem), file.stem)))
    if not files:
        raise UserError(f"{folder}: holds no captions (<n>.txt); give the folder of {CAPTIONS}/ and {PICTURES}/")
    pictures = _pictures(Path(path), images)
    found = [_record(file, pictures) for file in files]
    kept = tuple(record for record in found if record.has_text)
    dropped = {"image_without_caption": len(found) - len(kept)}
    return Benchmark(kept, files, retrieval.evaluate, dropped=dropped, kind=RETRIEVAL)


def _pictures(folder: Path, images: str | Path | None) -> Path:
    base = Path(images) if images else folder
    return base / PICTURES if (base / PICTURES).is_dir() else base


def _record(file: Path, pictures: Path) -> Record:
    caption = read_text(file).partition("\n")[0].strip()
    return Record(retrieval.SUBSET, file.stem, (str(pictures / f"{file.stem}.jpg"),), (caption,))
