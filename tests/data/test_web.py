"""The web of the scenes world: pictures and captions fit, nothing of the test is in them, shares are as asked."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.scenes import layout
from compclip.scenes.layout import (
    EVERY_COLOUR,
    EVERY_SYMBOL,
    NUMBERS,
    RARE_COLOURS,
    RARE_SYMBOLS,
    RELATIONS,
    SIZES,
    Scene,
    Thing,
)
from tests.pretrain_script import pretrain

CFG = pretrain.Pretrain()
TRUE = replace(CFG, noise=0.0)
SEEDS = st.integers(0, 2**32 - 1)
NAMED = {word: name for names in (EVERY_COLOUR, EVERY_SYMBOL) for name, (_, words) in names.items() for word in words}
COLOUR, SYMBOL = ("|".join(w for _, ws in names.values() for w in ws) for names in (EVERY_COLOUR, EVERY_SYMBOL))
BOUND = re.compile(rf"\ban? (?:{COLOUR}) (?:{SYMBOL})\b")  # which colour is which symbol's
SOME = "|".join(NAMED)
RELATION = {word: name for name, words in RELATIONS.items() for word in words}
FORMS = [re.compile(re.escape(form).replace(r"\{n\}", r"\d+")) for form in pretrain.NOISE]
DRAWS = 600


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def usual_names(caption: str) -> set[str]:
    """The symbols and colours of a caption, by their usual names."""
    return {NAMED[word] for word in re.findall(r"[a-z]+", caption.lower()) if word in NAMED}


def shows(scenes: list[Scene]) -> set[str]:
    """The symbols and colours of scenes."""
    return {word for scene in scenes for thing in scene.things for word in thing.pair}


def draw_samples(cfg: pretrain.Pretrain, count: int = DRAWS) -> list[tuple[list[Scene], str]]:
    """Scenes and captions without their pixels, for what is counted."""
    samples = []
    for i in range(count):
        generator = rng(7, i)
        scenes = pretrain.draw_picture(generator, cfg)[1]
        samples.append((scenes, pretrain.draw_caption(generator, cfg, scenes)))
    return samples


def is_share(measured: float, share: float, count: int = DRAWS) -> bool:
    """Whether a share of draws is what it should be, within four standard deviations."""
    return abs(measured - share) <= 4 * np.sqrt(share * (1 - share) / count)


@given(SEEDS)
def test_a_sample_is_a_function_of_the_generator(seed):
    """And nothing is drawn between its picture and its caption."""
    first, second, apart = (rng(seed) for _ in range(3))
    picture, caption = pretrain.sample(first, CFG)
    again, second_caption = pretrain.sample(second, CFG)
    assert (picture == again).all() and caption == second_caption
    picture_alone, scenes = pretrain.draw_picture(apart, CFG)
    assert (picture_alone == picture).all() and pretrain.draw_caption(apart, CFG, scenes) == caption
    assert first.bit_generator.state == second.bit_generator.state == apart.bit_generator.state


@given(SEEDS)
def test_captions_name_only_what_is_shown(seed):
    """Whether of one scene or of a collage; synonyms are names too."""
    for cfg in (replace(TRUE, collages=0.0), replace(TRUE, collages=1.0)):
        generator = rng(seed)
        scenes = pretrain.draw_picture(generator, cfg)[1]
        caption = pretrain.draw_caption(generator, cfg, scenes)
        assert usual_names(caption) <= shows(scenes), caption


def test_noise_names_nothing():
    """Whatever its form."""
    captions = [pretrain.draw_caption(rng(i), replace(CFG, noise=1.0), []) for i in range(300)]
    assert not any(map(usual_names, captions))
    assert all(sum(bool(form.fullmatch(c)) for c in captions) > 10 for form in FORMS)


def test_long_texts_are_true_of_place_size_and_number():
    """And of relations and colours where all are paired."""
    checked = dict.fromkeys(TRUTHS, 0)
    for (scene, *_), caption in draw_samples(replace(TRUE, collages=0.0, paired=1.0)):
        for text in caption.lower().removesuffix(".").split(". "):
            for sentence, is_true in TRUTHS.items():
                if match := re.fullmatch(sentence, text):
                    checked[sentence] += 1
                    assert is_true(scene, *match.groups()), (text, scene)
    assert min(checked.values()) > 15


def thing(scene: Scene, word: str) -> Thing:
    """The scene's only thing of a symbol or a colour."""
    (thing_of_word,) = [t for t in scene.things if NAMED[word] in t.pair]
    return thing_of_word


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
    scenes = [scene for drawn_scenes, _ in draw_samples(replace(TRUE, collages=0.5)) for scene in drawn_scenes]
    assert not any(layout.is_test(scene) for scene in scenes)
    pairs = {thing.pair for scene in scenes for thing in scene.things}
    assert not pairs & layout.HELD_OUT
    assert {colour for colour, _ in pairs} >= RARE_COLOURS.keys()
    assert {symbol for _, symbol in pairs} >= RARE_SYMBOLS.keys()


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_collages_and_noise_are_as_many_as_asked(share):
    """One scene is no collage; a collage is of two or four."""
    counts = [len(scenes) for scenes, _ in draw_samples(replace(TRUE, collages=share))]
    assert set(counts) <= {1, 2, 4}
    assert is_share(np.mean([count > 1 for count in counts]), share)
    captions = [caption for _, caption in draw_samples(replace(CFG, noise=share))]
    is_noise = [any(form.fullmatch(caption) for form in FORMS) for caption in captions]
    assert is_share(np.mean(is_noise), share)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_pairs_and_long_texts_are_as_many_as_asked(share):
    """A long text ends with a full stop; of the others so many bind a colour to its symbol."""
    captions = [caption for _, caption in draw_samples(replace(TRUE, collages=0.0, paired=share))]
    short = [caption for caption in captions if not caption.endswith(".")]
    assert is_share(1 - len(short) / len(captions), pretrain.LONG)
    assert is_share(np.mean([bool(BOUND.search(caption)) for caption in short]), share, len(short))


PHRASE = rf"an? ({COLOUR}) ({SYMBOL})"


def test_bound_texts_tell_what_stands_with_what():
    """Each colour before its own symbol; of a relation, which holds, or of all things."""
    with_relation, with_all_things = 0, 0
    for i in range(300):
        generator = rng(9, i)
        scenes = pretrain.draw_picture(generator, replace(TRUE, collages=0.0))[1]
        (scene,), caption = scenes, pretrain.draw_caption(generator, TRUE, scenes, bound=True)
        pairs = [(NAMED[colour], NAMED[noun]) for colour, noun in re.findall(PHRASE, caption)]
        assert set(pairs) <= {thing.pair for thing in scene.things}, caption
        if match := re.fullmatch(rf"{PHRASE} ({'|'.join(RELATION)}) {PHRASE}", caption):
            a, b = (thing(scene, noun) for noun in (match[2], match[5]))
            assert layout.relation(a, b) == RELATION[match[3]], caption
            with_relation += 1
        else:
            assert len(pairs) == len(scene.things), caption
            with_all_things += 1
    assert min(with_relation, with_all_things) > 30


def test_siblings_differ_in_what_stands_with_what_alone():
    """Two captions of the same words in which a colour, or a place, is another's."""
    pictures, texts = pretrain.samples(rng(3), replace(TRUE, siblings=1.0), 200)
    assert len(pictures) == len(texts) == 200
    kinds = {"colours": 0, "places": 0}
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        pairs, second_pairs = (
            sorted((NAMED[c], NAMED[n]) for c, n in re.findall(PHRASE, text)) for text in (first, second)
        )
        assert usual_names(first) == usual_names(second)
        kinds["colours" if pairs else "places"] += 1
        if pairs:
            assert pairs != second_pairs and [sorted(x) for x in zip(*pairs, strict=True)] == [
                sorted(x) for x in zip(*second_pairs, strict=True)
            ]
        else:
            a, b = (re.fullmatch(rf"an? ({SYMBOL}) (.+) an? ({SYMBOL})", text).groups() for text in (first, second))
            assert a == b[::-1] and a[1] in RELATION
    assert min(kinds.values()) > 30
