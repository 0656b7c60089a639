"""The web of the scenes world: pictures and captions fit, nothing of the test is in them, shares are as asked."""

import re
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compclip.scenes import layout
from compclip.scenes.layout import EVERY_COLOUR, EVERY_SYMBOL, RARE_COLOURS, RARE_SYMBOLS, Scene
from tests.pretrain_script import pretrain

CFG = pretrain.Pretrain()
TRUE = replace(CFG, noise=0.0)
SEEDS = st.integers(0, 2**32 - 1)
NAMED = {word: name for names in (EVERY_COLOUR, EVERY_SYMBOL) for name, (_, words) in names.items() for word in words}
DRAWS = 600


def usual_names(caption: str) -> set[str]:
    """The symbols and colours of a caption, by their usual names."""
    return {NAMED[word] for word in re.findall(r"[a-z]+", caption.lower()) if word in NAMED}


def shows(scenes: list[Scene]) -> set[str]:
    return {word for scene in scenes for thing in scene.things for word in thing.pair}


def draw_samples(cfg: pretrain.Pretrain, count: int = DRAWS) -> list[tuple[list[Scene], str]]:
    """Scenes and captions without their pixels, for what is counted."""
    samples = []
    for i in range(count):
        generator = np.random.default_rng((7, i))
        scenes = pretrain.draw_picture(generator, cfg)[1]
        samples.append((scenes, pretrain.draw_caption(generator, cfg, scenes)))
    return samples


@given(SEEDS)
def test_captions_name_only_what_is_shown(seed):
    """Whether of one scene or of a collage; synonyms are names too."""
    for cfg in (replace(TRUE, collages=0.0), replace(TRUE, collages=1.0)):
        generator = np.random.default_rng(seed)
        scenes = pretrain.draw_picture(generator, cfg)[1]
        caption = pretrain.draw_caption(generator, cfg, scenes)
        assert usual_names(caption) <= shows(scenes), caption


def test_nothing_of_the_test_is_shown():
    """No layout of the test's side and no pair that is kept for it; the web's own symbols and colours occur."""
    scenes = [scene for drawn_scenes, _ in draw_samples(replace(TRUE, collages=0.5)) for scene in drawn_scenes]
    assert not any(layout.is_test(scene) for scene in scenes)
    pairs = {thing.pair for scene in scenes for thing in scene.things}
    assert not pairs & layout.HELD_OUT
    assert {colour for colour, _ in pairs} >= RARE_COLOURS.keys()
    assert {symbol for _, symbol in pairs} >= RARE_SYMBOLS.keys()
