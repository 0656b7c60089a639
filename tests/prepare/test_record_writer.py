"""Slices of records by hand: edits, lengths, groups, sizes of pictures."""

from PIL import Image

from compclip.prepare import record_writer
from compclip.prepare.record_writer import RecordPicture, StoredRecord


def test_slices_by_hand():
    """An edit, the same words in another order; of nine lengths four classes, of few different ones a class each."""
    slices = record_writer.list_text_slices(
        [("a cup above a hat", "a cup below a hat"), ("a red cup", "a cup red"), ("A cup", "A cup and a hat")]
    )
    assert slices["word: cup"] == [0, 1, 2] and slices["word: above"] == [0] and "word: below" not in slices
    assert slices["only in the first text: above"] == slices["only in the other text: below"] == [0]
    assert slices["edit: above -> below"] == [0] and slices["edit: the same words in another order"] == [1]
    assert slices["the other text is as long"] == [0, 1] and slices["the other text is longer"] == [2]
    assert slices["texts part in the second third"] == [0, 1] and slices["texts part in the last third"] == [2]
    assert slices["only in the other text: hat"] == [2]
    lengths = {name: members for name, members in slices.items() if name.startswith("length")}
    assert sorted(sum(lengths.values(), [])) == [0, 1, 2]
    slices = record_writer.list_text_slices([(" ".join("a" * n),) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9)])
    lengths = {name: members for name, members in slices.items() if name.startswith("length")}
    assert list(lengths) == [f"length: {words} words" for words in ("1 to 3", "4 to 5", "6 to 7", "8 to 9")]
    assert sum(lengths.values(), []) == list(range(9))
    few = record_writer.list_text_slices([("a b",), ("a",), ("a b c d",), ("a",)])
    assert few["length: 1 words"] == [1, 3] and few["length: 4 words"] == [2]


def test_groups_and_sizes_of_pictures(tmp_path):
    """A wide picture, a square one, and a record whose picture is missing."""
    for name, size in (("wide.png", (90, 30)), ("square.png", (40, 40))):
        Image.new("RGB", size).save(tmp_path / name)
    records = [
        StoredRecord("swap", name, ("x", "y"), ("seen",), (RecordPicture(str(tmp_path / f"{name}.png"), 0, 0, ()),))
        for name in ("wide", "square", "gone")
    ]
    assert record_writer.list_group_slices(record.groups for record in records)["group: seen"] == [0, 1, 2]
    slices = record_writer.list_size_slices(record_writer.read_sizes(records))
    assert slices["picture: wide"] == [0] and slices["picture: square"] == [1]
    assert slices["picture: 3 thousand pixels"] == [0] and slices["picture: 2 thousand pixels"] == [1]
