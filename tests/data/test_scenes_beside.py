"""What the scenes world makes beside its pictures: edits, negations, paraphrases and single sentences are what they say."""

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from compclip.base.files import read_json
from compclip.config.sections import World
from compclip.scenes import generate, grammar, layout, render
from compclip.scenes.grammar import Statement
from compclip.scenes.layout import Scene
from tests.data.scene_truth import ANCHOR, PAIR, PHRASE, UMBRELLA, false_sentences, meant

SMALL = World(train=30, retrieval=6, records=4, per_class=1, processes=1, beside=True)
CAPTION = "A small crimson parasol is to the left of a blue anchor. The anchor is large and azure."
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A small world with all that it makes beside."""
    out = tmp_path_factory.mktemp("scenes") / "world"
    generate.generate(SMALL, out)
    return out


def lines(path: Path) -> dict[str, dict]:
    """The records of a file by their picture."""
    return {row["image"]: row for row in map(json.loads, path.read_text().splitlines())}


def draw_scene(seed: int) -> tuple[np.random.Generator, Scene]:
    """A training scene and the generator behind it."""
    rng = np.random.default_rng(seed)
    return rng, layout.sample(rng, int(rng.integers(2, 5)), test=False)


def test_changes_by_hand():
    """One change of each kind: what it makes of the picture, and of a caption in synonyms."""
    colours, things, colour, symbol = (kind(PAIR, UMBRELLA, ANCHOR) for kind in generate.KINDS)
    assert colours[0].scene.things == (replace(UMBRELLA, colour="blue"), replace(ANCHOR, colour="red"))
    assert [t.pair for t in things[0].scene.things] == [("blue", "anchor"), ("red", "umbrella")]
    looks = [(t.cell, t.size, t.texture) for t in things[0].scene.things]
    assert looks == [(0, "small", "plain"), (1, "large", "striped")]
    orange = next(e for e in colour if e.scene.things[1].colour == "orange")
    for edit, text in (
        (colours[0], "A small azure parasol is to the left of a red anchor. The anchor is large and crimson."),
        (things[0], "A small azure anchor is to the left of a red umbrella. The umbrella is large and crimson."),
        (orange, "A small crimson parasol is to the left of an orange anchor. The anchor is large and tangerine."),
    ):
        assert generate.reword(CAPTION, edit.words) == text
    plane = next(e for e in symbol if e.scene.things[0].symbol == "plane")
    assert plane.scene.things == (replace(UMBRELLA, symbol="plane"), ANCHOR)
    assert generate.reword(CAPTION, plane.words).startswith("A small crimson aeroplane is")
    assert (len(colour), len(symbol)) == (2 * 4, 2 * 10)


def test_the_checker_reads_words_by_hand():
    """True and false sentences of a picture that a person can draw: a red umbrella left of a blue anchor."""
    true = (
        "A crimson parasol precedes a large azure anchor. An anchor with an umbrella left of it. The anchor looks stripy."
        " A red umbrella is in the top left corner. The anchor is near a red umbrella. There are two symbols on a light"
        " background. The umbrella is little and red."
    )
    assert false_sentences(true, PAIR) == []
    for false in ("A blue umbrella is left of an anchor.", "An umbrella follows an anchor.", "The anchor looks solid."):
        assert len(false_sentences(f"{false} {true}", PAIR)) == 1


@given(SEEDS, st.booleans())
def test_an_edited_caption_is_true_of_the_edited_picture_alone(seed, joined):
    """Of the first picture its first sentence is false; of its own every sentence is true.

    Things that stand side by side either way are not exchanged.
    """
    rng, scene = draw_scene(seed)
    sentences = grammar.describe_scene(rng, scene, joined)
    caption, statement = grammar.join_sentences(sentences), sentences[0][1]
    assert false_sentences(caption, scene) == []
    edits = generate.make_edits(rng, scene, statement, 99)
    exchanged = generate._exchange_things(scene, statement.a, statement.b)[0].scene
    assert statement.directed or exchanged not in {e.scene for e in edits}
    for edit in edits:
        text = generate.reword(caption, edit.words)
        assert false_sentences(text, edit.scene) == []
        assert false_sentences(text, scene)[:1] == [text.rstrip(".").split(". ")[0]]
        assert false_sentences(caption, edit.scene)


@given(SEEDS)
def test_edits_stay_on_the_training_side(seed):
    """Two of different kinds and no other thing changed; no layout and no pair that is kept for test."""
    rng, scene = draw_scene(seed)
    statement = grammar.statements(scene)[0]
    edits = generate.make_edits(rng, scene, statement, 2)
    assert len({e.scene.key() for e in edits} | {scene.key()}) == 3
    for edit in edits:
        unchanged = [t for t in scene.things if t not in (statement.a, statement.b)]
        assert [t for t in edit.scene.things if t.cell not in (statement.a.cell, statement.b.cell)] == unchanged
        assert not layout.is_test(edit.scene)
        assert not layout.HELD_OUT & {t.pair for t in edit.scene.things}


def test_every_kind_of_edit_is_drawn():
    """Over 60 pictures each of the four kinds comes often, and none makes both edits of a picture."""
    counts = Counter[int]()
    for seed in range(60):
        rng, scene = draw_scene(seed)
        statement = grammar.statements(scene)[0]
        offered = [{e.scene for e in kind(scene, statement.a, statement.b)} for kind in generate.KINDS]
        edits = [edit.scene for edit in generate.make_edits(rng, scene, statement, 2)]
        kinds = [kind for scene in edits for kind, scenes in enumerate(offered) if scene in scenes]
        assert kinds[0] != kinds[1]
        counts.update(kinds)
    assert sorted(counts) == [0, 1, 2, 3] and min(counts.values()) > 10


@given(SEEDS)
def test_a_denied_thing_is_in_the_picture_and_not_in_the_other(seed):
    """All names before the last are true of both pictures; an absence denies a symbol that the picture lacks."""
    rng, scene = draw_scene(seed)
    text, without = generate.make_denial(rng, scene)
    *affirmed, denied = re.findall(PHRASE, text)
    assert meant(denied, scene)
    assert not meant(denied, without)
    others = set(scene.things) - {meant(denied, scene)}
    assert {meant(p, without) for p in affirmed} == {meant(p, scene) for p in affirmed} == others
    assert layout.may_train(without)
    rng, scene = draw_scene(seed)
    *affirmed, denied = re.findall(PHRASE, generate.make_absence(rng, scene))
    assert {meant(p, scene) for p in affirmed} == set(scene.things)
    assert not meant(denied, scene)


def test_where_no_layout_without_a_thing_is_left_another_symbol_stands_there():
    """Of a picture whose things alone are both of the test side, one is exchanged."""
    pairs = filter(lambda scene: len(scene.things) == 2, (draw_scene(seed)[1] for seed in range(2000)))
    alone = next(s for s in pairs if not any(layout.may_train(replace(s, things=(t,))) for t in s.things))
    text, without = generate.make_denial(np.random.default_rng(0), alone)
    (denied,) = set(alone.things) - set(without.things)
    (new,) = set(without.things) - set(alone.things)
    assert replace(new, symbol=denied.symbol) == denied
    assert meant(re.findall(PHRASE, text)[-1], alone) == denied


@given(SEEDS)
def test_paraphrases_and_single_sentences_are_true(seed):
    """As many sentences as the caption, none of them false, all texts different; one for each thing and relation."""
    rng, scene = draw_scene(seed)
    sentences = grammar.describe_scene(rng, scene)
    paraphrases = generate.make_paraphrases(rng, sentences, 3)
    assert len({grammar.join_sentences(sentences), *paraphrases}) == 4
    for text in paraphrases:
        assert text.count(".") == len(sentences)
        assert false_sentences(text, scene) == []
    single = generate.single_sentences(rng, scene)
    assert [false_sentences(text, scene) for text in single] == [[]] * {2: 3, 3: 5, 4: 8}[len(scene.things)]


def test_a_paraphrase_makes_the_same_statements():
    """By hand: one statement from either side, in five verbs and forms, and its detail in all four wordings."""
    sentences = [("A red umbrella is left of a blue anchor.", Statement(UMBRELLA, ANCHOR, "left")), (
        "The umbrella is small and red.", None)]  # fmt: skip
    paraphrases = " ".join(generate.make_paraphrases(np.random.default_rng(0), sentences, 60))
    for words in ("precedes a", "is followed by a", "anchor is right of a", "with a", "left of it."):
        assert words in paraphrases
    details = {sentence for sentence in paraphrases.split(". ") if sentence.startswith("The ")}
    words = itertools.product(("umbrella", "parasol"), ("small", "little"), ("red", "crimson"))
    assert {d.rstrip(".") for d in details} <= {f"The {n} is {s} and {c}" for n, s, c in words}


def test_files_say_what_the_pictures_show(world):
    """Captions are those of the captioner; each file that is named is there and is the picture of its caption."""
    layouts = generate.read_layouts(world / "layouts.jsonl")
    edited, denied = (lines(world / f"train_{kind}.jsonl") for kind in ("edits", "negations"))
    paraphrased, dense = (lines(world / f"train_{kind}.jsonl") for kind in ("paraphrases", "dense"))
    assert set(edited) == set(denied) == set(paraphrased) == set(dense) == {f"{name}.png" for name in layouts}
    file_names = [file for row in edited.values() for file in row["negative_image"]]
    file_names += [row["distractor"] for row in denied.values()]
    assert {path.name for path in (world / "train_edits").iterdir()} == set(file_names)
    assert read_json(world / "counts.json")["beside"] == len(file_names) == 3 * SMALL.train
    name, scene = "000003", layouts["000003"]
    sentences = grammar.dense_caption(name, scene)
    caption, statement = grammar.join_sentences(sentences), sentences[0][1]
    edits = [edit for kind in generate.KINDS for edit in kind(scene, statement.a, statement.b)]
    scene_by_caption = {generate.reword(caption, edit.words): edit.scene for edit in edits}
    row = edited[f"{name}.png"]
    for text, file in zip(row["negative_caption"], row["negative_image"], strict=True):
        picture = np.asarray(Image.open(world / "train_edits" / file))
        assert (picture == render.render_named(file, scene_by_caption[text])).all()


def test_nothing_else_changes(world, tmp_path):
    """The files of a world without them are the same, and more are beside."""
    generate.generate(replace(SMALL, beside=False), tmp_path / "plain")
    plain = {p.relative_to(tmp_path / "plain"): p for p in (tmp_path / "plain").rglob("*") if p.is_file()}
    with_beside = {p.relative_to(world): p for p in world.rglob("*") if p.is_file() and "train_" not in str(p)}
    assert set(plain) == set(with_beside)
    assert [p for p in plain if plain[p].read_bytes() != with_beside[p].read_bytes()] == [Path("counts.json")]


def test_no_text_is_a_benchmarks(world):
    """Captions of the benchmarks that ask for composition are none of the texts for training."""
    training_texts = {t for kind in ("edits", "negations", "paraphrases", "dense") for row in lines(
        world / f"train_{kind}.jsonl").values() for value in row.values() for t in np.atleast_1d(value)}  # fmt: skip
    benchmark_texts = set()
    for path in (*world.glob("sugarcrepe*/*.json"), *world.glob("hard_positives/*.json")):
        rows = read_json(path)
        for row in rows.values() if isinstance(rows, dict) else rows:
            benchmark_texts |= {text for key, text in row.items() if "caption" in key}
    assert len(benchmark_texts) > 60
    assert not training_texts & benchmark_texts
