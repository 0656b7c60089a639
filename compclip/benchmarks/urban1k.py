"""Urban1k (Zhang et al., ECCV 2024, Long-CLIP, arXiv:2403.15378): a thousand busy scenes, each with one long caption.

Recall@1, 5, 10 both ways as `retrieval` scores it, ties wrong; the authors report Recall@1 and give a tie to the first
(argmax). A caption that is longer than a model's context is cut by its tokenizer, as in the authors' code.

Checklist. Source: hf.co/datasets/BeichenZhang/Urban1k, github.com/beichenzbc/Long-CLIP eval/retrieval/Urban1k.py.
Licence: CC BY-NC 4.0 (pictures of Visual Genome). Compared with the authors' code: the rule, read; it pairs pictures
and captions by their names. FLAIR's file was read: one of its 1,000 captions is empty. Not compared: any picture.
"""

from __future__ import annotations

from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.benchmarks import _flair, retrieval
from compclip.benchmarks._files import check_unique, refuse_split
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import RETRIEVAL

CAPTIONS, PICTURES, UNPACKED = "caption", ("image", "images"), "Urban1k"
FLAIR = "annotations.json"
METRICS = retrieval.METRICS
HEADLINE = retrieval.HEADLINE


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder, or that of its zip: captions are the first lines of `caption/<n>.txt`.

    Their pictures are `image/<n>.jpg`. Or read FLAIR's `annotations/annotations.json`, or its folder, and
    `images/<n>.jpg`. `images` may name the pictures' folder, or the folder of that. There are no splits.

    Raises UserError where there are no captions. A file without a caption is left out and counted.
    """
    refuse_split("urban1k", split)
    folder = Path(path)
    released = [file for file in (folder, folder / FLAIR, folder / _flair.ANNOTATIONS / FLAIR)
                if file.suffix == ".json" and file.is_file()]  # fmt: skip
    files, read = _released(released[0], images) if released else _authors(folder, images)
    records = [Record(retrieval.SUBSET, Path(image).stem, (image,), (caption,)) for image, caption in read]
    captioned = tuple(sorted((record for record in records if record.has_text), key=lambda r: (len(r.id), r.id)))
    dropped = {"image_without_caption": len(records) - len(captioned)}
    return Benchmark(check_unique(folder, captioned), files, retrieval.evaluate, dropped=dropped, kind=RETRIEVAL)


def _released(file: Path, images: str | Path | None) -> tuple[tuple[Path, ...], list[tuple[str, str]]]:
    """Return pictures and captions of FLAIR's file."""
    read = _flair.captioned(file, _pictures(_flair.root(file), images))
    return (file,), [(image, captions[0].strip()) for _, image, captions in read]


def _authors(folder: Path, images: str | Path | None) -> tuple[tuple[Path, ...], list[tuple[str, str]]]:
    """Return pictures and captions in a file each. Raises UserError where there are none."""
    base = next((parent for parent in (folder, folder / UNPACKED) if (parent / CAPTIONS).is_dir()), folder)
    files = tuple(sorted((base / CAPTIONS).glob("*.txt"), key=lambda file: (len(file.stem), file.stem)))
    if not files:
        raise UserError(f"{base / CAPTIONS}: holds no captions (<n>.txt); give the folder of {CAPTIONS}/ and image/")
    pictures = _pictures(base, images)
    return files, [(str(pictures / f"{file.stem}.jpg"), read_text(file).partition("\n")[0].strip()) for file in files]


def _pictures(folder: Path, images: str | Path | None) -> Path:
    base = Path(images) if images else folder
    return next((base / name for name in PICTURES if (base / name).is_dir()), base)
