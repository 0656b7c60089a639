"""The web of the scenes world: pictures and captions fit, nothing of the test is in them, shares are as asked."""

import re
from dataclasses import replace

import numpy as np
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
SOME = "|".join(NAMED)
RELATION = {word: name for name, words in RELATIONS.items() for word in words}
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
