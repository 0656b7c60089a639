"""Pictures with captions as on the web, on which the world's model is pretrained.

One thing or several, anywhere and of any size, on backgrounds of all kinds; collages of two or four pictures; captions
that name things in any order and seldom bind attributes, of several sentences or of some of the things only, and
captions that do not describe the picture. No scene has a layout or a pair that is held out for test.

What fine-tuning can teach depends on what the image tower can distinguish. A model that never had to bind attributes
cannot learn it later. If the first texts all bind, the image tower keeps the distinction when later texts seldom do, as
CLIP's does; the last steps have no texts that bind on purpose (docs/scenes.md).

H, W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from compclip.config.sections import Pretrain
from compclip.scenes import grammar, layout
from compclip.scenes.grammar import Statement, choose
from compclip.scenes.layout import NEAR, NUMBERS, RELATIONS, Scene, article
from compclip.scenes.render import SIDE, render_scene

LONG = 0.35  # share of texts of several sentences
HALF, QUARTER = (SIDE, SIDE // 2), (SIDE // 2, SIDE // 2)
# Left and top of each picture of a collage, and its width and height.
COLLAGES = (
    ((0, 0, *HALF), (0, SIDE // 2, *HALF)),
    ((0, 0, *HALF[::-1]), (SIDE // 2, 0, *HALF[::-1])),
    tuple((x, y, *QUARTER) for y in (0, SIDE // 2) for x in (0, SIDE // 2)),
)
SENTENCE_KINDS = ("place", "look", "size", "number", "neighbour", "neighbour")
COLLAGE_SHARES = (0.4, 0.4, 0.2)
NOISE = (
    "IMG {n}",
    "free download no {n}",
    "click to enlarge",
    "page {n}",
    "our new arrivals",
    "photo of the day",
    "untitled {n}",
)


def samples(
    rng: np.random.Generator, cfg: Pretrain, count: int, bound: bool = False
) -> tuple[list[np.ndarray], list[str]]:
    """Draw `count` pictures, uint8 [64, 64, 3], and captions; if `bound`, all bind attributes and relations."""
    batch: list[tuple[np.ndarray, str]] = []
    while len(batch) < count:
        batch += _siblings(rng, cfg) if rng.random() < cfg.siblings else [sample(rng, cfg, bound)]
    pictures, texts = zip(*batch[:count], strict=True)
    return list(pictures), list(texts)


def sample(rng: np.random.Generator, cfg: Pretrain, bound: bool = False) -> tuple[np.ndarray, str]:
    """Draw a picture, uint8 [64, 64, 3], and its caption; see `samples`."""
    picture, scenes = draw_picture(rng, cfg)
    return picture, draw_caption(rng, cfg, scenes, bound)


def draw_picture(rng: np.random.Generator, cfg: Pretrain) -> tuple[np.ndarray, list[Scene]]:
    """Draw a picture, uint8 [64, 64, 3]; return it and its scenes: one, or those of a collage."""
    if rng.random() >= cfg.collages:
        scene = _scene(rng, cfg)
        return render_scene(rng, scene), [scene]
    places = COLLAGES[rng.choice(len(COLLAGES), p=COLLAGE_SHARES)]
    scenes = [_scene(rng, cfg) for _ in places]
    return _collage([render_scene(rng, scene) for scene in scenes], places), scenes


def draw_caption(rng: np.random.Generator, cfg: Pretrain, scenes: list[Scene], bound: bool = False) -> str:
    """Draw the caption of a picture: of all scenes of a collage or one, each in a few words or at length."""
    if rng.random() < cfg.noise:
        return choose(rng, NOISE).format(n=rng.integers(10_000))
    if len(scenes) > 1 and rng.random() < 0.25:
        scenes = [choose(rng, scenes)]
    texts = [_text(rng, scene, cfg.paired, bound) for scene in scenes]
    texts = [texts[i] for i in rng.permutation(len(texts))]
    return choose(rng, (". ", " and ", ", ", " | ")).join(texts)


def _siblings(rng: np.random.Generator, cfg: Pretrain) -> list[tuple[np.ndarray, str]]:
    """Draw two pictures of a series: the second shows the first's things with colours or places exchanged."""
    while True:
        scene = layout.sample(rng, int(rng.integers(2, 4)), test=False, rare=True)
        if not (facts := grammar.statements(scene)):
            continue
        statement, by_colour = choose(rng, facts), bool(rng.random() < 0.5)
        sibling = (layout.swap_colours if by_colour else layout.swap_places)(scene, statement.a, statement.b)
        if layout.may_train(sibling):
            break
    if by_colour:
        return [(render_scene(rng, each), _coloured(rng, each)) for each in (scene, sibling)]
    names = [grammar.noun(rng, thing) for thing in (statement.a, statement.b)]
    words = choose(rng, RELATIONS[statement.relation])
    return [
        (render_scene(rng, scene), _related(words, *names)),
        (render_scene(rng, sibling), _related(words, *names[::-1])),
    ]


def _coloured(rng: np.random.Generator, scene: Scene) -> str:
    return grammar.listing(rng, [article(grammar.phrase(rng, thing, 0)) for thing in scene.things])


def _related(words: str, a: str, b: str) -> str:
    return f"{article(a)} {words} {article(b)}"


def _scene(rng: np.random.Generator, cfg: Pretrain) -> Scene:
    return layout.sample(rng, int(rng.choice((1, 2, 3, 4), p=cfg.things)), test=False, rare=True)


def _collage(pictures: Sequence[np.ndarray], places: Sequence[tuple[int, int, int, int]]) -> np.ndarray:
    page = Image.new("RGB", (SIDE, SIDE))
    for picture, (left_edge, top, width, height) in zip(pictures, places, strict=True):
        page.paste(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC), (left_edge, top))
    return np.asarray(page)


# --- captions -------------------------------------------------------------------------------------------------


def _text(rng: np.random.Generator, scene: Scene, paired: float, bound: bool) -> str:
    """Describe a scene; if `bound`, by each thing with its colour or by two things with their relation."""
    if bound:
        facts = grammar.statements(scene)
        if not facts or rng.random() >= 0.5:
            return _coloured(rng, scene)
        fact = choose(rng, facts)
        words = choose(rng, RELATIONS[fact.relation])
        return _related(words, *(grammar.phrase(rng, thing, 0) for thing in (fact.a, fact.b)))
    if rng.random() >= LONG:
        return grammar.alt_text(rng, scene, paired)
    return " ".join(f"{_sentence(rng, scene, paired)}." for _ in range(rng.integers(2, 6)))


def _sentence(rng: np.random.Generator, scene: Scene, paired: float) -> str:
    """Make a sentence of a long text: names again, or a place, a look, a size, a number, a neighbour."""
    if rng.random() < 0.5:
        text = grammar.alt_text(rng, scene, paired)
    else:
        kind, thing = choose(rng, SENTENCE_KINDS), choose(rng, scene.things)
        facts = grammar.statements(scene) if kind == "neighbour" else []
        if kind == "place":
            text = f"{article(grammar.noun(rng, thing))} is in the {grammar.PLACES[thing.cell]} corner"
        elif kind == "look":
            text = f"the {grammar.noun(rng, thing)} looks {grammar.texture(rng, choose(rng, scene.things))}"
        elif kind == "size":
            text = f"the {grammar.noun(rng, thing)} is {grammar.size(rng, thing)}"
        elif facts:
            text = _neighbour_sentence(rng, choose(rng, facts), paired)
        else:
            count = len(scene.things)
            number = f"there {'is' if count == 1 else 'are'} {NUMBERS[count]} symbol{'s' * (count > 1)}"
            text = f"{number} on a light background"
    return text[0].upper() + text[1:]


def _neighbour_sentence(rng: np.random.Generator, fact: Statement, paired: float) -> str:
    """Name two things and a relation, which is true with probability `paired` and otherwise any."""
    words = RELATIONS[fact.relation]
    if rng.random() >= paired:
        words = choose(rng, (*RELATIONS.values(), NEAR))
    names = [choose(rng, (grammar.noun, grammar.noun, grammar.colour))(rng, thing) for thing in (fact.a, fact.b)]
    return f"{article(names[0])} {choose(rng, words)} {article(names[1])}"
