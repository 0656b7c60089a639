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
from compclip.benchmarks import _captioned, retrieval
from compclip.benchmarks._files import first_folder, refuse_split
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import RETRIEVAL

CAPTIONS = "caption"
PICTURES = ("image", "images")
UNPACKED = "Urban1k"
FLAIR = "annotations.json"
METRICS = retrieval.METRICS
HEADLINE = retrieval.HEADLINE
BENCHMARK_GROUP = "long"
RECOGNISES = (f"{CAPTIONS}/1.txt",)  # FLAIR's annotations.json is called as many a data set's is


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder, or that of its zip: captions are the first lines of `caption/<n>.txt`.

    Their pictures are `image/<n>.jpg`. Or read FLAIR's `annotations/annotations.json`, or its folder, and
    `images/<n>.jpg`. `images` may name the pictures' folder, or the folder of that. There are no splits.

    Raises UserError where there are no captions. A file without a caption is left out and counted.
    """
    refuse_split("urban1k", split)
    folder = Path(path)
    candidates = (folder, folder / FLAIR, folder / _captioned.FLAIR_FOLDER / FLAIR)
    released = next((file for file in candidates if file.suffix == ".json" and file.is_file()), None)
    if released:
        files: tuple[Path, ...] = (released,)
        flair = _captioned.read_flair(released, _pictures(_captioned.flair_root(released), images))
        captioned: list[_captioned.Captioned] = [(Path(p).stem, p, [texts[0].strip()]) for _, p, texts in flair]
    else:
        files, captioned = _authors(folder, images)
    ordered = sorted(captioned, key=lambda entry: (len(entry[0]), entry[0]))
    records, dropped = _captioned.make_records(folder, ordered)
    return Benchmark(records, files, retrieval.evaluate, dropped=dropped, long_texts=True, kind=RETRIEVAL)


def _authors(folder: Path, images: str | Path | None) -> tuple[tuple[Path, ...], list[_captioned.Captioned]]:
    """Return pictures and captions in a file each. Raises UserError where there are none."""
    base = folder if (folder / CAPTIONS).is_dir() else first_folder(folder, UNPACKED)
    files = tuple(sorted((base / CAPTIONS).glob("*.txt")))
    if not files:
        raise UserError(f"{base / CAPTIONS}: holds no captions (<n>.txt); give the folder of {CAPTIONS}/ and image/")
    pictures = _pictures(base, images)
    captioned: list[_captioned.Captioned] = []
    for file in files:
        first_line = read_text(file).partition("\n")[0].strip()
        captioned.append((file.stem, str(pictures / f"{file.stem}.jpg"), [first_line]))
    return files, captioned


def _pictures(folder: Path, images: str | Path | None) -> Path:
    return first_folder(Path(images or folder), *PICTURES)
