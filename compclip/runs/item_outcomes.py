"""What a benchmark measures, and a metric's outcomes item by item: result files keep both and the report reads them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

COCO = re.compile(r"(COCO_[a-z]+20\d\d_)?(?P<number>\d{12})\.[A-Za-z]{3,4}", re.ASCII)
CAPTION = re.compile(r"(.+)#\d+")  # an item that is one of a picture's captions
COMPOSITION, CLASSIFICATION, RETRIEVAL = KINDS = ("composition", "classification", "retrieval")
PARTIAL = "‡"  # marks a number of which less than nine tenths of the records were scored
LOST_NAMES = "name_without_caption"  # count of a result: pictures of a split's file that have no caption
CUT_TEXTS = "cut_texts"  # likewise: texts that are longer than the model reads
SPECIAL_TOKENS = "special_tokens"  # likewise: texts that spell a mark of a tokenizer
RETRIEVED = ("i2t_recall_at_1", "t2i_recall_at_1")  # pictures' items, and those of the captions that they retrieve
SMALLER = "⊂"  # marks a number of a retrieval whose gallery lacks these


def is_partial(scored: int, records: int) -> bool:
    """Whether less than nine tenths of the records were scored: the number is of another benchmark."""
    return 10 * scored < 9 * records


def hash_picture(file: str, offset: int | None = None, subset: str = "") -> int:
    """Return a picture's number, which is the same in every benchmark that shows it; 48 bits of a hash.

    A picture goes by its file's name, one of COCO by COCO's number in it, one in an archive by its place there too;
    with `subset`, that of a benchmark, by the names of subset, folder and file.
    """
    path = PurePath(file)
    name = f"{subset}/{path.parent.name}/{path.name}" if subset else path.name
    match = COCO.fullmatch(name)
    if match:
        name = f"COCO {match['number']}"
    if offset is not None:
        name += f" {offset}"
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6], "big")


@dataclass(frozen=True, eq=False)
class Retrieved:
    """The K candidates that a model puts first for each of N queries, the best first: numbers of ids, and scores."""

    candidates: tuple[str, ...]
    number_NK: np.ndarray
    score_NK: np.ndarray


@dataclass(frozen=True)
class Items:
    """The outcomes of one metric, whose value is their mean, in the order of `ids`.

    `units` are what an interval draws at once, a picture with all that is asked about it: its number, which is the same
    in all benchmarks (while a benchmark is scored, its own), or a text that is its name in this benchmark alone. They
    are empty where the ids say it. `pictures` are the same for splits (`runs.picture_splits`), also where each item has
    a picture to itself; empty where items show none, as the classes of a mean average precision. `subset` tells a
    benchmark which of its groups apply, and `tied` are the ids whose outcome depends on equal scores; neither is kept
    with the results. `retrieved` says which candidates stand first, where items are queries.
    """

    ids: tuple[str, ...]
    values: np.ndarray
    subset: str = ""
    tied: tuple[str, ...] = ()
    units: tuple[int | str, ...] = ()
    pictures: tuple[int | str, ...] = ()
    retrieved: Retrieved | None = None

    def at(self, indices: Sequence[int]) -> Items:
        """Return the items at these indices."""
        rows = list(indices)
        first = self.retrieved
        if first:
            first = Retrieved(first.candidates, first.number_NK[rows], first.score_NK[rows])
        return Items(
            _pick(self.ids, rows),
            self.values[rows],
            self.subset,
            units=_pick(self.units, rows),
            pictures=_pick(self.pictures, rows),
            retrieved=first,
        )


def _pick(names: tuple[Any, ...], rows: list[int]) -> tuple[Any, ...]:
    """Return the names at these indices; none of an empty list, which stands for what the ids say."""
    return tuple([names[row] for row in rows]) if names else ()
