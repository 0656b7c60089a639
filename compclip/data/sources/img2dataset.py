"""Web data as img2dataset writes it with `--output_format files`: 00000/000000000.jpg, its caption in a .txt beside it.

What `--caption_col` chose is the caption: PixelProse's vlm_caption, LAION-COCO's top_caption, CC3M's rewritten ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.sources._common import finish

SUFFIXES = (".jpg", ".png", ".webp", ".jpeg")


def read(cfg: Data) -> tuple[list[Sample], Counter]:
    """Samples in the order of the files' names. Captions that are not UTF-8, or no files, are dropped and counted.

    Raises UserError for a folder without captions.
    """
    counts: Counter = Counter()
    files = sorted(Path(cfg.path).rglob("*.txt"))
    if not files:
        raise UserError(f"{cfg.path}: no .txt files there; download with img2dataset --output_format files")
    samples, more = finish(_found(files, cfg, counts), cfg)
    return samples, counts + more


def _found(files: list[Path], cfg: Data, counts: Counter) -> Iterator[tuple[str, Path, list[str]]]:
    for file in files:
        name = file.relative_to(cfg.path).with_suffix("")
        yield str(name), _picture(Path(cfg.images) / name), _captions(file, counts)


def _picture(stem: Path) -> Path:
    paths = [stem.with_name(stem.name + suffix) for suffix in SUFFIXES]
    return next((path for path in paths if path.is_file()), paths[0])


def _captions(file: Path, counts: Counter) -> list[str]:
    try:
        return [read_bytes(file).decode("utf-8")]
    except UnicodeDecodeError:
        counts["invalid_utf8_captions"] += 1
    except UserError:  # no file, but a folder, a pipe or a link to nowhere
        counts["unreadable_captions"] += 1
    return []
