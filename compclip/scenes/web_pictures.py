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
from compclip.scenes.grammar import choose
from compclip.scenes.layout import Scene, Thing
from compclip.scenes.render import SIDE, paint
from compclip.scenes.world_words import NEAR, NUMBERS, RELATIONS, article

SMALLEST = 44  # pixels: the least side of the square that a scene fills
LIGHT = (195, 256)  # range of a background's values
WHOLE = 0.4  # share of scenes that fill their picture
GRADIENT, GRAIN, TINT = 0.3, 0.3, 0.5  # shares of grounds
LONG = 0.35  # share of texts of several sentences
HALF, QUARTER = (SIDE, SIDE // 2), (SIDE // 2, SIDE // 2)
# Left and top of each picture of a collage, and its width and height.
COLLAGES = (
    ((0, 0, *HALF), (0, SIDE // 2, *HALF)),
    ((0, 0, *HALF[::-1]), (SIDE // 2, 0, *HALF[::-1])),
    tuple((x, y, *QUARTER) for y in (0, SIDE // 2) for x in (0, SIDE // 2)),
)
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
    """Draw the caption of a picture that shows these scenes."""
    if rng.random() < cfg.noise:
        return choose(rng, NOISE).format(n=rng.integers(10_000))
    return _caption(rng, scenes, cfg.paired, bound)


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


def render_scene(rng: np.random.Generator, scene: Scene) -> np.ndarray:
    """Draw the scene somewhere on a random background, uint8 [64, 64, 3]."""
    canvas_HW3 = _ground(rng)
    side = SIDE if rng.random() < WHOLE else int(rng.integers(SMALLEST, SIDE + 1))
    top, left_edge = rng.integers(0, SIDE - side + 1, 2)
    paint(canvas_HW3[top : top + side, left_edge : left_edge + side], scene)
    return canvas_HW3.clip(0, 255).astype(np.uint8)


def _ground(rng: np.random.Generator) -> np.ndarray:
    ground_HW3 = np.empty((SIDE, SIDE, 3), np.float32)
    ground_HW3[...] = start_3 = _light(rng)
    if rng.random() < GRADIENT:
        ramp_S13 = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None, None] * (_light(rng) - start_3)
        ground_HW3 += ramp_S13 if rng.random() < 0.5 else ramp_S13.transpose(1, 0, 2)
    if rng.random() < GRAIN:
        ground_HW3 += rng.standard_normal(ground_HW3.shape, np.float32) * np.float32(rng.uniform(2, 10))
    return ground_HW3


def _light(rng: np.random.Generator) -> np.ndarray:
    values = rng.integers(*LIGHT, 3) if rng.random() < TINT else np.full(3, rng.integers(*LIGHT))
    return values.astype(np.float32)


def _collage(pictures: Sequence[np.ndarray], places: Sequence[tuple[int, int, int, int]]) -> np.ndarray:
    page = Image.new("RGB", (SIDE, SIDE))
    for picture, (left_edge, top, width, height) in zip(pictures, places, strict=True):
        page.paste(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC), (left_edge, top))
    return np.asarray(page)


# --- captions -------------------------------------------------------------------------------------------------


def _caption(rng: np.random.Generator, scenes: list[Scene], paired: float, bound: bool) -> str:
    """Describe all pictures of a collage or one, each in a few words or at length."""
    if len(scenes) > 1 and rng.random() < 0.25:
        scenes = [choose(rng, scenes)]
    texts = [_text(rng, scene, paired, bound) for scene in scenes]
    texts = [texts[i] for i in rng.permutation(len(texts))]
    return choose(rng, (". ", " and ", ", ", " | ")).join(texts)


def _text(rng: np.random.Generator, scene: Scene, paired: float, bound: bool) -> str:
    if bound:
        return _bound(rng, scene)
    if rng.random() >= LONG:
        return grammar.alt_text(rng, scene, paired)
    return " ".join(f"{_sentence(rng, scene, paired)}." for _ in range(rng.integers(2, 6)))


def _bound(rng: np.random.Generator, scene: Scene) -> str:
    """Name each thing with its colour, or two things with their relation."""
    facts = grammar.statements(scene)
    if facts and rng.random() < 0.5:
        fact = choose(rng, facts)
        names = (grammar.phrase(rng, thing, 0) for thing in (fact.a, fact.b))
        return _related(choose(rng, RELATIONS[fact.relation]), *names)
    return _coloured(rng, scene)


def _sentence(rng: np.random.Generator, scene: Scene, paired: float) -> str:
    """Make a sentence of a long text: names again, or a place, a look, a size, a number, a neighbour."""
    if rng.random() < 0.5:
        text = grammar.alt_text(rng, scene, paired)
    else:
        text = choose(rng, _SENTENCES)(rng, scene, choose(rng, scene.things), paired)
    return text[0].upper() + text[1:]


def _where(rng: np.random.Generator, scene: Scene, thing: Thing, paired: float) -> str:
    return f"{article(grammar.noun(rng, thing))} is in the {grammar.PLACES[thing.cell]} corner"


def _look(rng: np.random.Generator, scene: Scene, thing: Thing, paired: float) -> str:
    return f"the {grammar.noun(rng, thing)} looks {grammar.texture(rng, choose(rng, scene.things))}"


def _sized(rng: np.random.Generator, scene: Scene, thing: Thing, paired: float) -> str:
    return f"the {grammar.noun(rng, thing)} is {grammar.size(rng, thing)}"


def _number(rng: np.random.Generator, scene: Scene, thing: Thing, paired: float) -> str:
    count = len(scene.things)
    return f"there {'is' if count == 1 else 'are'} {NUMBERS[count]} symbol{'s' * (count > 1)} on a light background"


def _neighbour_sentence(rng: np.random.Generator, scene: Scene, thing: Thing, paired: float) -> str:
    """Name two things and a relation, which is true with probability `paired` and otherwise any."""
    facts = grammar.statements(scene)
    if not facts:
        return _number(rng, scene, thing, paired)
    fact = choose(rng, facts)
    a, b, words = fact.a, fact.b, RELATIONS[fact.relation]
    if rng.random() >= paired:
        words = choose(rng, (*RELATIONS.values(), NEAR))
    names = [choose(rng, (grammar.noun, grammar.noun, grammar.colour))(rng, x) for x in (a, b)]
    return f"{article(names[0])} {choose(rng, words)} {article(names[1])}"


_SENTENCES = (_where, _look, _sized, _number, _neighbour_sentence, _neighbour_sentence)
