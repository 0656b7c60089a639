"""Auto-Comp: captions whose words are exchanged or repeated by the authors' rules."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import auto_comp
from tests.benchmarks import picture_tables

COLORS = "a red chair, and an orange lamp on a white background."
PLACES = "A hat is under a bus, which is above a cup on a white background."


def test_exchanged_colours_with_their_articles():
    assert auto_comp.exchange(COLORS, ["Chair", "Lamp"], ["red", "orange"], "color") == [
        "An orange chair, and a red lamp on a white background."]  # fmt: skip
    pairs = "a pair of red boots, and a blue lamp"
    assert auto_comp.exchange(pairs, ["Boots", "Lamp"], ["red", "blue"], "color") == [
        "A pair of blue boots, and a red lamp"]  # fmt: skip


def test_exchanged_things_of_places():
    """All five other orders of three things; articles stay."""
    texts = auto_comp.exchange(PLACES, ["Hat", "Bus", "Cup"], ["under", "above"], "position")
    assert len(set(texts)) == 5 and texts[0] == "A hat is under a cup, which is above a bus on a white background."


def test_confused_texts_repeat_words():
    """Word by word: an exchange of both gives one word twice. Nine different texts, the caption among them."""
    texts, match = auto_comp.confuse("a red chair and a blue lamp", ["Chair", "Lamp"], ["red", "blue"])
    assert texts[match] == "a red Chair and a blue Lamp" and len(texts) == len(set(texts)) == 9
    assert "a blue Chair and a blue Chair" in texts and "a blue Chair and a red Lamp" not in texts


@pytest.fixture
def write(tmp_path):
    def write_table(name, **columns):
        row = {"num_objects": 2, "objects": ["Chair", "Lamp"], "colors": ["red", "orange"]} | columns
        file = tmp_path / "a" / auto_comp.SETS[name] / "data/train-00000-of-00001.parquet"
        picture_tables.write(file, [row])
        return tmp_path / "a"

    return write_table


def test_the_hubs_tables(write, embeddings):
    folder = write("minimal_color_2", caption=COLORS, image=picture_tables.cell("red"))
    swap, confusion = auto_comp.load(folder, folder).records
    assert (swap.subset, swap.ahead, len(swap.texts)) == ("minimal_color_2_swap", 0, 2) and swap.texts[0] == COLORS
    assert confusion.texts[0] == "a red Chair, and an orange Lamp on a white background." and confusion.ahead == 4
    benchmark = auto_comp.load(folder, folder)
    texts = {text: [0.5, 1] for text in benchmark.texts} | {swap.texts[0]: [1, 0]}
    metrics = benchmark.score(embeddings({swap.images[0]: [1, 0]}, texts)).metrics
    assert metrics == {"minimal_color_2_swap": 1.0, "minimal_color_2_confusion": 0.0}


def test_no_set(tmp_path):
    with pytest.raises(UserError, match="none of AutoComp-Minimal-N2-C, .* is there"):
        auto_comp.load(tmp_path)


THREE = {"num_objects": 3, "objects": ["Hat", "Bus", "Cup"], "relations": ["under"] * 3}


@pytest.mark.parametrize(
    ("name", "columns", "words"),
    [("minimal_color_2", {"colors": []}, r"colors are \[\]"), ("minimal_color_2", {"objects": ["Chair"] * 3}, "objects are .*"),
     ("minimal_position_3", THREE, "relations are .*")],
)  # fmt: skip
def test_more_or_fewer_words_than_the_set_has(write, name, columns, words):
    """The choices among thirty things would be without end (30 ** 30): refused before any is made."""
    folder = write(name, caption=COLORS, image=picture_tables.cell("red"), **columns)
    with pytest.raises(UserError, match=f"record 0: {words}, not 2 words"):
        auto_comp.load(folder, folder, name)


def test_a_paired_set_under_the_names_of_two(write):
    both = {"minimal_caption": COLORS, "contextual_caption": "In a room, a red chair and an orange lamp."}
    pictures = {f"{source}_image": picture_tables.cell("red") for source in ("minimal", "contextual")}
    write("minimal_color_2", **both, **pictures)
    folder = write("contextual_color_2", **both, **pictures)
    assert {record.texts[0] for record in auto_comp.load(folder, folder).records if "swap" in record.subset} == {
        *both.values()}  # fmt: skip
