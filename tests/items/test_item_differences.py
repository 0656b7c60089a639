"""Items of two rows joined with their texts, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.items import item_differences
from compclip.items.item_differences import JoinedItems
from compclip.prepare import item_slices
from compclip.prepare.benchmark_records import RecordPicture
from compclip.prepare.record_writer import StoredRecord
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import Result


class Texts:
    """Two texts for every item."""

    def find(self, metric: str, item: str) -> tuple[str, ...]:
        return f"true {item}", f"false {item}"


def result(outcomes: dict[str, list[float]], units=(), fingerprint="f") -> Result:
    """Results of metrics whose items are a, b, c …"""
    items = {
        name: Items(tuple("abcdef"[: len(values)]), np.array(values), units=tuple(units))
        for name, values in outcomes.items()
    }
    metrics = {name: float(np.mean(values)) for name, values in outcomes.items()}
    return Result("sugarcrepe", "sugarcrepe", "composition", metrics, items=items, fingerprint=fingerprint)


def test_seeds_are_averaged_and_items_matched():
    """The second row lacks item c; a and b are of one picture."""
    ours = [result({"swap": [1, 0, 1]}, units=[7, 7, 8]), result({"swap": [1, 1, 1]}, units=[7, 7, 8])]
    joined = item_differences.join_rows(ours, [result({"swap": [0, 1]}, units=[7, 7])], Texts())
    assert joined.keys == (("swap", "a"), ("swap", "b"))
    assert joined.texts[1] == ("true b", "false b")
    assert joined.ours_I.tolist() == [1, 0.5] and joined.difference_I.tolist() == [1, -0.5]
    assert joined.unit_I.tolist() == [0, 0]
    assert item_differences.list_decided_items(joined, 5) == ([0], [1])
    assert item_differences.list_decided_items(joined, 0) == ([], [])
    assert item_differences.describe_sides(joined) == {"ours": 0.75, "theirs": 0.5, "difference": 0.25}


def test_groups_of_items_and_other_files():
    """A metric of a part repeats outcomes; a named one is taken; rows of other files are refused."""
    row = [result({"swap": [1, 0], "swap/unseen": [1]})]
    assert len(item_differences.join_rows(row, row, Texts()).keys) == 2
    assert item_differences.join_rows(row, row, Texts(), ["swap/unseen"]).keys == (("swap/unseen", "a"),)
    with pytest.raises(UserError, match="keeps no items of 'add'; give one of swap, swap/unseen"):
        item_differences.join_rows(row, row, Texts(), ["add"])
    with pytest.raises(UserError, match="scored on different files"):
        item_differences.join_rows(row, [result({"swap": [1, 0]}, fingerprint="g")], Texts())


def name_slices(*texts: tuple[str, str]) -> dict[str, list[int]]:
    zeros = np.zeros(len(texts))
    keys = tuple(("swap", str(index)) for index in range(len(texts)))
    return item_differences.list_slices(JoinedItems(keys, texts, np.arange(len(texts)), zeros, zeros))


def test_slices_by_hand():
    """An edit of one word, and the same words in another order."""
    slices = name_slices(
        ("a cup above a hat", "a cup below a hat"), ("a red cup", "a cup red"), ("A cup", "A cup and a hat")
    )
    assert slices["word: cup"] == [0, 1, 2] and slices["word: above"] == [0] and "word: below" not in slices
    assert slices["only in the first text: above"] == slices["only in the other text: below"] == [0]
    assert slices["edit: above -> below"] == [0] and slices["edit: the same words in another order"] == [1]
    assert slices["the other text is as long"] == [0, 1] and slices["the other text is longer"] == [2]
    assert slices["texts part in the second third"] == [0, 1] and slices["texts part in the last third"] == [2]
    assert slices["only in the other text: hat"] == [2]
    lengths = {name: members for name, members in slices.items() if name.startswith("length")}
    assert sorted(sum(lengths.values(), [])) == [0, 1, 2]


def test_metrics_are_slices_where_there_are_several():
    zeros = np.zeros(2)
    items = JoinedItems((("add", "a"), ("swap", "a")), ((), ()), np.arange(2), zeros, zeros)
    assert item_differences.list_slices(items)["metric: add"] == [0]


def test_groups_and_sizes_of_pictures(tmp_path):
    """A wide picture, a square one, and a record whose picture is missing."""
    for name, size in (("wide.png", (90, 30)), ("square.png", (40, 40))):
        Image.new("RGB", size).save(tmp_path / name)
    records = [
        StoredRecord("swap", name, ("x", "y"), ("seen",), (RecordPicture(str(tmp_path / f"{name}.png"), 0, 0, ()),))
        for name in ("wide", "square", "gone")
    ]
    zeros = np.zeros(4)
    keys = (("swap", "wide"), ("swap", "square"), ("swap", "gone"), ("swap", "unknown"))
    items = JoinedItems(keys, ((), (), (), ()), np.arange(4), zeros, zeros)
    slices = item_differences.list_record_slices(items, records)
    assert slices["group: seen"] == [0, 1, 2]
    assert slices["picture: wide"] == [0] and slices["picture: square"] == [1]
    assert slices["picture: 3 thousand pixels"] == [0] and slices["picture: 2 thousand pixels"] == [1]


def test_classes_of_length():
    """Of nine lengths four classes, in which each record stands once; of few different ones a class each."""
    slices = item_slices.list_text_slices([(" ".join("a" * n),) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9)])
    lengths = {name: members for name, members in slices.items() if name.startswith("length")}
    assert list(lengths) == [f"length: {words} words" for words in ("1 to 3", "4 to 5", "6 to 7", "8 to 9")]
    assert sum(lengths.values(), []) == list(range(9))
    few = item_slices.list_text_slices([("a b",), ("a",), ("a b c d",), ("a",)])
    assert few["length: 1 words"] == [1, 3] and few["length: 4 words"] == [2]
