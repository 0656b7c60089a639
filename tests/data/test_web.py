"""The web of the scenes world: pictures and captions fit, nothing of the test is in them, shares are as asked."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.config.sections import Pretrain
from compclip.data.scenes import layout, web
from compclip.data.scenes.layout import Scene, Thing
from compclip.data.scenes.render import SIDE
from compclip.data.scenes.words import EVERY_COLOUR, EVERY_SYMBOL, NUMBERS, RARE_COLOURS, RARE_SYMBOLS, RELATIONS, SIZES

CFG = Pretrain()
TRUE = replace(CFG, noise=0.0)
SEEDS = st.integers(0, 2**32 - 1)
NAMED = {word: name for names in (EVERY_COLOUR, EVERY_SYMBOL) for name, (_, words) in names.items() for word in words}
COLOUR, SYMBOL = ("|".join(w for _, ws in names.values() for w in ws) for names in (EVERY_COLOUR, EVERY_SYMBOL))
BOUND = re.compile(rf"\ban? (?:{COLOUR}) (?:{SYMBOL})\b")  # which colour is which symbol's
SOME = "|".join(NAMED)
RELATION = {word: name for name, words in RELATIONS.items() for word in words}
FORMS = [re.compile(re.escape(form).replace(r"\{n\}", r"\d+")) for form in web.NOISE]
DRAWS = 600


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def named(caption: str) -> set[str]:
    """The symbols and colours of a caption, by their usual names."""
    return {NAMED[word] for word in re.findall(r"[a-z]+", caption.lower()) if word in NAMED}


def shows(scenes: list[Scene]) -> set[str]:
    """The symbols and colours of scenes."""
    return {word for scene in scenes for thing in scene.things for word in thing.pair}


def drawn(cfg: Pretrain, count: int = DRAWS) -> list[tuple[list[Scene], str]]:
    """Scenes and captions without their pixels, for what is counted."""
    made = []
    for i in range(count):
        own = rng(7, i)
        scenes = web.pictured(own, cfg)[1]
        made.append((scenes, web.said(own, cfg, scenes)))
    return made


def is_share(found: float, share: float, count: int = DRAWS) -> bool:
    """Whether a share of draws is what it should be, within four standard deviations."""
    return abs(found - share) <= 4 * np.sqrt(share * (1 - share) / count)


@given(SEEDS)
def test_a_sample_is_a_picture_and_a_caption(seed):
    picture, caption = web.sample(rng(seed), CFG)
    assert picture.dtype == np.uint8 and picture.shape == (SIDE, SIDE, 3)
    assert caption.strip() and "{" not in caption


@given(SEEDS)
def test_a_sample_is_a_function_of_the_generator(seed):
    """And nothing is drawn between its picture and its caption."""
    one, other, apart = (rng(seed) for _ in range(3))
    picture, caption = web.sample(one, CFG)
    again, told = web.sample(other, CFG)
    assert (picture == again).all() and caption == told
    shown, scenes = web.pictured(apart, CFG)
    assert (shown == picture).all() and web.said(apart, CFG, scenes) == caption
    assert one.bit_generator.state == other.bit_generator.state == apart.bit_generator.state


def test_other_generators_draw_other_samples():
    assert len({web.sample(rng(i), TRUE)[0].tobytes() for i in range(50)}) == 50


@given(SEEDS)
def test_captions_name_only_what_is_shown(seed):
    """Whether of one scene or of a collage; synonyms are names too."""
    for cfg in (replace(TRUE, collages=0.0), replace(TRUE, collages=1.0)):
        own = rng(seed)
        scenes = web.pictured(own, cfg)[1]
        caption = web.said(own, cfg, scenes)
        assert named(caption) <= shows(scenes), caption


def test_nearly_every_caption_names_something():
    """What counts alone is rare."""
    assert np.mean([bool(named(caption)) for _, caption in drawn(TRUE)]) > 0.97


def test_noise_names_nothing():
    """Whatever its form."""
    captions = [web.said(rng(i), replace(CFG, noise=1.0), []) for i in range(300)]
    assert not any(map(named, captions))
    assert all(sum(bool(form.fullmatch(c)) for c in captions) > 10 for form in FORMS)


def test_long_texts_are_true_of_place_size_and_number():
    """And of relations and colours where all are paired."""
    checked = dict.fromkeys(TRUTHS, 0)
    for (scene, *_), caption in drawn(replace(TRUE, collages=0.0, paired=1.0)):
        for text in caption.lower().removesuffix(".").split(". "):
            for sentence, is_true in TRUTHS.items():
                if found := re.fullmatch(sentence, text):
                    checked[sentence] += 1
                    assert is_true(scene, *found.groups()), (text, scene)
    assert min(checked.values()) > 15


def thing(scene: Scene, word: str) -> Thing:
    """The scene's only thing of a symbol or a colour."""
    (found,) = [t for t in scene.things if NAMED[word] in t.pair]
    return found


TRUTHS = {
    rf"an? ({SYMBOL}) is in the (top|bottom) (left|right) corner": lambda scene, noun, row, column: (
        divmod(thing(scene, noun).cell, 2) == (row == "bottom", column == "right")
    ),
    rf"the ({SYMBOL}) is (\w+)": lambda scene, noun, word: word in SIZES[thing(scene, noun).size],
    r"there (?:is|are) (\w+) symbols? on a light background": lambda scene, word: word == NUMBERS[len(scene.things)],
    rf"an? ({SOME}) ({'|'.join(RELATION)}) an? ({SOME})": lambda scene, a, words, b: (
        layout.relation(thing(scene, a), thing(scene, b)) == RELATION[words]
    ),
    rf"(?:picture of )?an? ({COLOUR}) ({SYMBOL})(?: and more)?": lambda scene, colour, noun: (
        thing(scene, colour) is thing(scene, noun)
    ),
}


def test_nothing_of_the_test_is_shown():
    """No layout of the test's side and no pair that is kept for it; the web's own symbols and colours occur."""
    scenes = [scene for found, _ in drawn(replace(TRUE, collages=0.5)) for scene in found]
    assert not any(layout.is_test(scene) for scene in scenes)
    pairs = {thing.pair for scene in scenes for thing in scene.things}
    assert not pairs & layout.held_out()
    assert {colour for colour, _ in pairs} >= RARE_COLOURS.keys()
    assert {symbol for _, symbol in pairs} >= RARE_SYMBOLS.keys()


@pytest.mark.parametrize("share", [0.0, 0.15, 0.6, 1.0])
def test_collages_are_as_many_as_asked(share):
    """One scene is no collage; a collage is of two or four."""
    counts = [len(scenes) for scenes, _ in drawn(replace(TRUE, collages=share))]
    assert set(counts) <= {1, 2, 4}
    assert is_share(np.mean([count > 1 for count in counts]), share)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_noise_is_as_much_as_asked(share):
    found = [any(form.fullmatch(caption) for form in FORMS) for _, caption in drawn(replace(CFG, noise=share))]
    assert is_share(np.mean(found), share)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_pairs_and_long_texts_are_as_many_as_asked(share):
    """A long text ends with a full stop; of the others so many bind a colour to its symbol."""
    captions = [caption for _, caption in drawn(replace(TRUE, collages=0.0, paired=share))]
    short = [caption for caption in captions if not caption.endswith(".")]
    assert is_share(1 - len(short) / len(captions), web.LONG)
    assert is_share(np.mean([bool(BOUND.search(caption)) for caption in short]), share, len(short))


def test_scenes_have_as_many_things_as_asked():
    counts = [len(scenes[0].things) for scenes, _ in drawn(replace(TRUE, collages=0.0))]
    for number, share in enumerate(CFG.things, 1):
        assert is_share(np.mean([count == number for count in counts]), share)


def test_some_captions_of_a_collage_tell_of_one_scene_alone():
    """Most tell of something in each."""
    alone = [
        any(not named(caption) & shows([scene]) for scene in scenes)
        for scenes, caption in drawn(replace(TRUE, collages=1.0))
    ]
    assert 0.05 < np.mean(alone) < 0.5


@pytest.mark.parametrize("places", web.COLLAGES)
def test_a_collage_covers_the_page_once(places):
    covered_HW = np.zeros((SIDE, SIDE), int)
    for left, top, width, height in places:
        covered_HW[top : top + height, left : left + width] += 1
    assert (covered_HW == 1).all()


@given(SEEDS)
def test_a_thing_is_seen_on_its_ground(seed):
    """A black plain star is darker than any ground, which is light, with grain or without."""
    scene = Scene((Thing("star", "black", "large", "plain", 0),))
    dark_HW = web.shown(rng(seed), scene).max(-1) < 100
    assert 10 < dark_HW.sum() < SIDE * SIDE / 4


PHRASE = rf"an? ({COLOUR}) ({SYMBOL})"


def test_bound_texts_tell_what_stands_with_what():
    """Each colour before its own symbol; of a relation, which holds, or of all things."""
    related, listed = 0, 0
    for i in range(300):
        own = rng(9, i)
        scenes = web.pictured(own, replace(TRUE, collages=0.0))[1]
        (scene,), caption = scenes, web.said(own, TRUE, scenes, bound=True)
        pairs = [(NAMED[colour], NAMED[noun]) for colour, noun in re.findall(PHRASE, caption)]
        assert set(pairs) <= {thing.pair for thing in scene.things}, caption
        if found := re.fullmatch(rf"{PHRASE} ({'|'.join(RELATION)}) {PHRASE}", caption):
            a, b = (thing(scene, noun) for noun in (found[2], found[5]))
            assert layout.relation(a, b) == RELATION[found[3]], caption
            related += 1
        else:
            assert len(pairs) == len(scene.things), caption
            listed += 1
    assert min(related, listed) > 30


def test_siblings_differ_in_what_stands_with_what_alone():
    """Two captions of the same words in which a colour, or a place, is another's."""
    pictures, texts = web.samples(rng(3), replace(TRUE, siblings=1.0), 200)
    assert len(pictures) == len(texts) == 200
    kinds = {"colours": 0, "places": 0}
    for one, other in zip(texts[::2], texts[1::2], strict=True):
        pairs, others = (sorted((NAMED[c], NAMED[n]) for c, n in re.findall(PHRASE, text)) for text in (one, other))
        assert named(one) == named(other)
        kinds["colours" if pairs else "places"] += 1
        if pairs:
            assert pairs != others and [sorted(x) for x in zip(*pairs, strict=True)] == [
                sorted(x) for x in zip(*others, strict=True)
            ]
        else:
            a, b = (re.fullmatch(rf"an? ({SYMBOL}) (.+) an? ({SYMBOL})", text).groups() for text in (one, other))
            assert a == b[::-1] and a[1] in RELATION
    assert min(kinds.values()) > 30


def test_a_batch_has_as_many_siblings_as_asked():
    """None, and about two in ten where one draw in nine gives two; the count is exact even where two do not fit."""
    for count in (1, 7):
        assert len(web.samples(rng(1), replace(TRUE, siblings=1.0), count)[1]) == count
    alone = web.samples(rng(5), replace(TRUE, siblings=0.0), 40)[1]
    own = rng(5)
    expected = []
    for _ in range(40):
        own.random()
        expected.append(web.sample(own, TRUE)[1])
    assert alone == expected
