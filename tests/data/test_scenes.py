"""The scenes world: what it says is true, its sides do not mix, and it is the same every time it is made."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json
from compclip.config.sections import Data, World
from compclip.data.sample import Sample
from compclip.prepare.captioners import scenes as scenes_captioner
from compclip.scenes import generate, grammar, layout, world_benchmarks
from compclip.scenes.layout import COLOURS, SYMBOLS
from compclip.scenes.render import SIDE, paint
from tests.data import reading
from tests.data.scene_truth import ANCHOR, PAIR, UMBRELLA, false_sentences

SMALL = World(train=40, retrieval=6, records=4, per_class=1, processes=1)


def test_relations_follow_the_cells():
    """Cell 0 is top left, 1 top right, 2 bottom left, 3 bottom right."""
    at = [replace(UMBRELLA, cell=c) for c in range(4)]
    assert [layout.relation(at[0], at[c]) for c in (1, 2, 3)] == ["left", "above", None]
    assert [layout.relation(at[3], at[c]) for c in (1, 2, 0)] == ["below", "right", None]


def test_every_training_pair_is_seen_and_held_out_pairs_never():
    """Training scenes have none of the pairs kept for test; the hash of a layout decides its side."""
    rng = np.random.default_rng(0)
    train = {t.pair for _ in range(2000) for t in layout.sample(rng, 3, test=False).things}
    test = {t.pair for _ in range(800) for t in layout.sample(rng, 3, test=True).things}
    assert train == {(c, s) for c in COLOURS for s in SYMBOLS} - layout.HELD_OUT
    assert test >= layout.HELD_OUT
    assert len(layout.HELD_OUT) == len(SYMBOLS)
    rng = np.random.default_rng(1)
    sides = {test: {layout.sample(rng, 1, test).key() for _ in range(1500)} for test in (True, False)}
    assert not sides[True] & sides[False]
    assert all(layout.is_test(layout.sample(rng, 2, True)) for _ in range(20))


def test_picture_shows_each_symbol_in_its_cell_and_colour():
    """Reddest pixels lie in the top left quarter, bluest in the top right one; the bottom is empty."""
    canvas = np.full((SIDE, SIDE, 3), PAIR.background, np.float32)
    paint(canvas, PAIR)
    picture = canvas.astype(np.uint8).astype(int)
    red = (picture[..., 0] - picture[..., 1:].max(-1)) > 100
    blue = (picture[..., 2] - picture[..., :2].max(-1)) > 60
    assert picture.shape == (SIDE, SIDE, 3)
    assert red[:32, :32].sum() == red.sum() > 20
    assert blue[:32, 32:].sum() == blue.sum() > 20
    assert (picture[32:] == PAIR.background).all()


def test_questions_by_hand():
    """Each kind of record for one scene, against sentences written by hand."""
    statement = grammar.Statement(UMBRELLA, ANCHOR, "left")
    form, bare = "There is {a} {r} {b}.", "There is an {} to the left of an {}."
    whole = "There is a red umbrella to the left of a blue anchor."
    expected = {
        "swap_att": (whole, "There is a blue umbrella to the left of a red anchor."),
        "swap_obj": (bare.format("umbrella", "anchor"), bare.format("anchor", "umbrella")),
        "replace_rel": (whole, "There is a red umbrella to the right of a blue anchor."),
        "replace_att": (whole, "There is a blue umbrella to the left of a blue anchor."),
    }
    for kind, (true, false) in expected.items():
        statements = world_benchmarks.word_statement(np.random.default_rng(0), kind, PAIR, statement)
        assert (statements[0].text(form), statements[1].text(form)) == (true, false)


@pytest.mark.parametrize("kind", ["replace_obj", "add_obj", "add_att"])
def test_negatives_name_what_is_not_there(kind):
    """Replaced and added words are in no thing of the scene."""
    statement = grammar.Statement(UMBRELLA, ANCHOR, "left")
    item = world_benchmarks.make_item(np.random.default_rng(3), kind, PAIR, statement)
    new = set(item.negative.lower().strip(".").split()) - set(item.caption.lower().strip(".").split())
    new -= {"a", "an", "with"}
    assert len(new) == 1
    assert new <= (set(SYMBOLS) | set(COLOURS)) - {"umbrella", "anchor", "red", "blue"}


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_as_many_replaced_relations_as_asked_are_of_the_other_axis(share):
    """An umbrella to the left of an anchor is said to be to its right, or so often above or below it."""
    rng, statement = np.random.default_rng(0), grammar.Statement(UMBRELLA, ANCHOR, "left")
    drawn = [world_benchmarks.word_statement(rng, "replace_rel", PAIR, statement, share)[1] for _ in range(400)]
    counts = Counter(false.relation for false in drawn)
    assert counts["left"] == 0
    assert counts["right"] == pytest.approx(400 * (1 - share), abs=40 * (0 < share < 1))
    assert counts["above"] == pytest.approx(200 * share, abs=60)
    texts = [world_benchmarks.hard_positive(rng, "replace_relations", PAIR, statement, 1.0) for _ in range(20)]
    assert {text.negative for text in texts} == {f"A red umbrella {r} a blue anchor" for r in ("above", "below")}


def test_first_sentences_join_where_asked():
    """Each has an "and" between two things or two looks, all are true, and nothing behind them changes its kind."""
    kinds = Counter()
    for i in range(200):
        scene = layout.sample(np.random.default_rng(i), 3, test=False)
        joined = grammar.dense_caption(str(i), scene, joined=True)
        assert not false_sentences(grammar.join_sentences(joined), scene)
        (first, statement), plain = joined[0], grammar.dense_caption(str(i), scene)
        assert " and " in first and " and " not in plain[0][0]
        assert {statement.a, statement.b} == {plain[0][1].a, plain[0][1].b}
        kinds[statement.directed] += 1
    assert 30 < kinds[True] < 75


def test_so_many_captions_begin_with_a_joined_sentence(tmp_path):
    """The layouts say which; the captioner follows, and the layouts themselves are those of a world without."""
    for share in (0.0, 0.5):
        generate.generate(replace(SMALL, train=60, joined=share), tmp_path / str(share))
    paths = {share: tmp_path / str(share) / generate.LAYOUTS for share in (0.0, 0.5)}
    assert generate.read_joined(paths[0.0]) == frozenset()
    joined, layouts = generate.read_joined(paths[0.5]), generate.read_layouts(paths[0.5])
    assert 18 <= len(joined) <= 42 and layouts == generate.read_layouts(paths[0.0])
    samples = [Sample(id=name, image=f"{name}.png", captions=("",)) for name in layouts]
    data = Data(source="karpathy", path=str(paths[0.5].with_name("train.json")), images="", captioner="scenes")
    with scenes_captioner.opened(data, None) as caption:
        captioned, counts = caption(samples, "00000")
    firsts = {sample.id: sample.captions[0].split(".")[0] for sample in captioned}
    assert not counts and {name for name, first in firsts.items() if " and " in first} == joined


def test_alt_text_rarely_binds_a_colour_to_a_symbol():
    """Without pairing, no colour stands right before the symbol it belongs to more often than before another."""
    rng, own_colour, other_colour = np.random.default_rng(2), 0, 0
    for _ in range(3000):
        scene = layout.sample(rng, 2, test=False)
        words = grammar.alt_text(rng, scene, paired=0.0).replace(",", "").split()
        a, b = scene.things
        for colour, noun in zip(words, words[1:], strict=False):
            for thing, stranger in ((a, b), (b, a)):
                own_colour += colour in COLOURS[thing.colour][1] and noun in SYMBOLS[thing.symbol][1]
                other_colour += colour in COLOURS[thing.colour][1] and noun in SYMBOLS[stranger.symbol][1]
    assert own_colour + other_colour > 100
    assert abs(own_colour - other_colour) < 4 * np.sqrt(own_colour + other_colour)


def test_same_bytes_again_and_in_parallel(tmp_path):
    """The world is byte-identical made twice, by one process or by two."""
    for name, processes in (("a", 1), ("b", 2)):
        generate.generate(replace(SMALL, processes=processes, beside=True), tmp_path / name / "world")
    assert fingerprint(tmp_path / "a" / "world") == fingerprint(tmp_path / "b" / "world")
    generate.generate(replace(SMALL, seed=1, beside=True), tmp_path / "c" / "world")
    assert fingerprint(tmp_path / "c" / "world") != fingerprint(tmp_path / "a" / "world")


def test_files_have_the_official_form(tmp_path):
    """SugarCrepe objects, SugarCrepe++ lists, and groups that split each subset in two."""
    generate.generate(SMALL, tmp_path / "world")
    record = read_json(tmp_path / "world" / "sugarcrepe" / "swap_att.json")["0"]
    assert set(record) == {"filename", "caption", "negative_caption"}
    assert (tmp_path / "world" / "test" / record["filename"]).is_file()
    assert len(read_json(tmp_path / "world" / "sugarcrepe_pp" / "swap_obj.json")) == SMALL.records
    groups = read_json(tmp_path / "world" / "sugarcrepe" / "groups.json")
    assert groups["swap_att"] == {"seen_pairs": ["0", "2"], "unseen_pairs": ["1", "3"]}
    layouts = generate.read_layouts(tmp_path / "world" / "layouts.jsonl")
    assert len(layouts) == SMALL.train
    assert not any(layout.is_test(scene) for scene in layouts.values())


def test_what_is_no_world_is_not_replaced(tmp_path, monkeypatch):
    """A folder of other things, the one that one stands in, a file and a link; another world is, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    mine = [reading.put(tmp_path / name, "mine") for name in ("mine/notes.txt", "README.md")]
    Path("link").symlink_to(tmp_path / "elsewhere")
    for out, culprit in (("README.md", "README.md"), ("README.md/world", "README.md"), ("link", "link")):
        with pytest.raises(UserError, match=f"^--out {out}: {culprit} is a file or a link; give a folder"):
            generate.generate(SMALL, Path(out))
    for out in ("mine", "."):
        with pytest.raises(UserError, match=f"^--out {out}: the folder holds other files than a world's; give a new"):
            generate.generate(SMALL, Path(out))
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "README.md", "link"}
    (tmp_path / "world").mkdir()
    assert generate.generate(SMALL, tmp_path / "world") == generate.generate(SMALL, tmp_path / "world")
