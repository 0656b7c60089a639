"""Read Flickr8k and Flickr30k: captions.txt (`image,caption`) or the token file (`image.jpg#0<TAB>caption`)."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare.sources import make_ids


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the file. Lines that are not UTF-8 or have no caption are dropped and counted."""
    texts: dict[str, list[str]] = {}
    for name, caption in _parse_rows(_read_lines(cfg.path, counts), cfg.path, counts):
        texts.setdefault(name, []).append(caption)
    for sample_id, (name, captions) in zip(make_ids(list(texts)), texts.items(), strict=True):
        yield Sample(sample_id, str(Path(cfg.images) / name), tuple(captions), cfg.split)


def _read_lines(path: str, counts: Counter) -> list[str]:
    raw, lines = read_bytes(path).removeprefix(codecs.BOM_UTF8).splitlines(), []
    for line in raw:
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            counts["invalid_utf8_lines"] += 1
    return lines


def _parse_rows(lines: list[str], path: str, counts: Counter) -> list[tuple[str, str]]:
    if lines and lines[0].strip() == "image,caption":
        pairs = [pair for line in lines[1:] if (pair := _parse_pair(line))]
        counts["malformed_lines"] += len(lines) - 1 - len(pairs)
        return pairs
    tabbed = [line.split("\t", 1) for line in lines]
    pairs = [(row[0].rpartition("#")[0], row[1]) for row in tabbed if len(row) == 2 and "#" in row[0]]
    if not pairs:
        raise UserError(f"{path}: neither 'image,caption' nor 'image.jpg#0<TAB>caption' lines; is it captions.txt?")
    counts["malformed_lines"] += len(lines) - len(pairs)
    return pairs


def _parse_pair(line: str) -> tuple[str, str] | None:
    """Return picture and caption of one line: an unclosed quote spoils this line alone."""
    row = line.split(",")
    if '"' in line:
        try:
            row = next(csv.reader([line], strict=True))
        except csv.Error:
            return None
    return (row[0], ",".join(row[1:])) if len(row) >= 2 else None
