"""Hard positives that others released, joined to captions: the files `swap_hp.jsonl` and `replace_hp.jsonl` of Hard
Positives, each a line for every annotation of COCO's captions, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from compclip.base import json_text
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_mapping, regular
from compclip.base.surrogates import repaired
from compclip.config.captions import Released
from compclip.config.servers import KINDS
from compclip.data import index
from compclip.data.joined import FOLDER
from compclip.data.lists import LONGEST

Given = Callable[[Sequence[str]], list[dict[str, str]]]  # captions -> for each what there is of it, by kind
NONE = "None"  # their placeholder for a caption that was not asked for


@contextmanager
def opened(cfg: Released, folder: Path = FOLDER) -> Iterator[Given]:
    """Gives what was released of each caption, by kind: of a caption that stands several times the first one.

    Raises UserError for a file that is missing, and for one that has not a line for each caption.
    """
    found = index.opened(index.place(folder, files(cfg), asdict(cfg)), lambda counts: _rows(cfg, counts))

    def given(captions: Sequence[str]) -> list[dict[str, str]]:
        return [dict(reversed([_pair(text) for text in texts])) for texts in found.of(captions).texts]

    yield given


def files(cfg: Released) -> list[str]:
    """All that it is made of."""
    return [cfg.captions, *filter(None, (cfg.swap, cfg.replace))]


def _pair(text: str) -> tuple[str, str]:
    kind, _, written = text.partition(":")
    return kind, written


def _rows(cfg: Released, counts: Counter) -> Iterator[tuple[str, list[str]]]:
    captions = _captions(cfg.captions)
    given = {kind: file for kind in KINDS if (file := getattr(cfg, kind))}
    lines = [chain(_lines(file, counts), repeat(_END)) for file in given.values()]
    for number, (caption, *texts) in enumerate(zip(chain(captions, [_END]), *lines, strict=False)):
        ended = [text is _END for text in (caption, *texts)]
        if any(ended) and not all(ended):
            raise UserError(
                f"{', '.join(given.values())}: not a line for each of {len(captions)} annotations of {cfg.captions}; "
                f"they part at {number + 1}: use the captions that they were written for"
            )
        if caption is not _END:
            yield caption, [f"{kind}:{text}" for kind, text in zip(given, texts, strict=True) if text]


_END: Any = object()


def _captions(file: str) -> list[str]:
    annotations = read_mapping(file).get("annotations")
    try:
        return [repaired(one_line(a["caption"])) for a in annotations or ()]
    except (LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{file}: not COCO's captions: `annotations` with a `caption` each; fetch it again") from error


def _lines(file: str, counts: Counter) -> Iterator[str]:
    """The text of each line; "" for the placeholder and, counted, for one that is no text."""
    try:
        with open(regular(file), encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(LONGEST):
                yield _text(line, file, counts)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; give the path of an existing file") from error


def _text(line: str, file: str, counts: Counter) -> str:
    if line.strip() == NONE:
        return ""
    try:
        found = json_text.value(line, file)
    except UserError:
        found = 0
    if isinstance(found, str):
        text = repaired(one_line(found))
        return "" if text == NONE else text
    counts["damaged"] += found is not None
    return ""
