"""Read hard positives that others released: the files `swap_hp.jsonl` and `replace_hp.jsonl` of Hard Positives.

Each has a line for every annotation of COCO's captions, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

from compclip.base import json_text
from compclip.base.errors import UserError, one_line
from compclip.base.files import check_regular, read_mapping
from compclip.base.json_text import replace_lone
from compclip.config.released_lists import ReleasedRewrites
from compclip.config.servers import KINDS
from compclip.prepare import text_index
from compclip.prepare.caption_join import FOLDER
from compclip.prepare.caption_lists import LONGEST_LINE

FindRewrites = Callable[[Sequence[str]], list[dict[str, str]]]  # captions -> for each its rewrites, by kind
PLACEHOLDER = "None"  # for a caption that was not rewritten


@contextmanager
def open_rewrites(cfg: ReleasedRewrites, folder: Path = FOLDER) -> Iterator[FindRewrites]:
    """Give the function that finds the rewrites of captions, by kind; of a repeated caption the first ones.

    Raises UserError for a missing file, and for one that has not a line for each caption.
    """
    index_path = text_index.index_folder(folder, input_files(cfg), asdict(cfg))
    index = text_index.open_index(index_path, lambda counts: _read_rows(cfg, counts))

    def find(captions: Sequence[str]) -> list[dict[str, str]]:
        # a row's texts are "kind:text"; reversed, so that the first of a kind stays
        return [{kind: text for kind, _, text in (t.partition(":") for t in reversed(texts))}
                for texts in index.find(captions).texts]  # fmt: skip

    yield find


def input_files(cfg: ReleasedRewrites) -> list[str]:
    """Return all files that the rewrites are read from."""
    return [cfg.captions, *filter(None, (cfg.swap, cfg.replace))]


def _read_rows(cfg: ReleasedRewrites, counts: Counter) -> Iterator[tuple[str, list[str]]]:
    annotations = read_mapping(cfg.captions).get("annotations")
    try:
        captions = [replace_lone(one_line(annotation["caption"])) for annotation in annotations or ()]
    except (LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{cfg.captions}: not COCO's captions: `annotations` with a `caption` each; fetch it again"
        ) from error
    files = {kind: file for kind in KINDS if (file := getattr(cfg, kind))}
    lines = [_read_lines(file, counts) for file in files.values()]
    for number, (caption, *texts) in enumerate(zip_longest(captions, *lines)):
        if caption is None or None in texts:
            raise UserError(
                f"{', '.join(files.values())}: not a line for each of {len(captions)} annotations of {cfg.captions}; "
                f"they part at {number + 1}: use the captions that they were written for"
            )
        yield caption, [f"{kind}:{text}" for kind, text in zip(files, texts, strict=True) if text]


def _read_lines(file: str, counts: Counter) -> Iterator[str]:
    """Give the text of each line; "" for the placeholder and, counted, for a line that holds no text."""
    try:
        with open(check_regular(file), encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(LONGEST_LINE):
                yield _parse_line(line, file, counts)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; give the path of an existing file") from error


def _parse_line(line: str, file: str, counts: Counter) -> str:
    if line.strip() == PLACEHOLDER:
        return ""
    try:
        value = json_text.parse_json(line, file)
    except UserError:
        value = 0
    if isinstance(value, str):
        text = replace_lone(one_line(value))
        return "" if text == PLACEHOLDER else text
    counts["damaged"] += value is not None
    return ""
