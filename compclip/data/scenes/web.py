"""Pictures with captions as the web has them: what the world's model is pretrained on.

One thing or several, anywhere and of any size, on grounds of all kinds; collages of two or four pictures; captions
that name what is there in any order and seldom bind, of several sentences or of some of the things alone, and captions
that say nothing of the picture. No scene has a layout or a pair that is kept for test.

What fine-tuning can teach hangs on what the image tower has learnt to tell apart. A model that never had to bind stays
blind to it for good; one whose first texts all tell what stands with what has it in its image tower when the texts no
longer do, as CLIP's has. A few that still tell keep it there; the last steps have none of these (docs/scenes.md).

H, W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from compclip.config.sections import Pretrain
from compclip.data.scenes import grammar, layout
from compclip.data.scenes.grammar import choose
from compclip.data.scenes.layout import Scene, Thing
from compclip.data.scenes.render import SIDE, paint
from compclip.data.scenes.words import NEAR, NUMBERS, RELATIONS, article

SMALLEST = 44  # pixels of the square that a scene fills at least
LIGHT = (195, 256)  # of a ground's values
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
    """`count` pictures, uint8 [64, 64, 3], and their captions, all of which tell what stands with what if `bound`."""
    drawn: list[tuple[np.ndarray, str]] = []
    while len(drawn) < count:
        drawn += _siblings(rng, cfg) if rng.random() < cfg.siblings else [sample(rng, cfg, bound)]
    pictures, texts = zip(*drawn[:count], strict=True)
    return list(pictures), list(texts)


def sample(rng: np.random.Generator, cfg: Pretrain, bound: bool = False) -> tuple[np.ndarray, str]:
    """A picture, uint8 [64, 64, 3], and its caption; see `samples`."""
    picture, scenes = pictured(rng, cfg)
    return picture, said(rng, cfg, scenes, bound)


def pictured(rng: np.random.Generator, cfg: Pretrain) -> tuple[np.ndarray, list[Scene]]:
    """A picture, uint8 [64, 64, 3], and the scenes that it shows: one, or those of a collage."""
    if rng.random() >= cfg.collages:
        scene = _scene(rng, cfg)
        return shown(rng, scene), [scene]
    places = COLLAGES[rng.choice(len(COLLAGES), p=COLLAGE_SHARES)]
    scenes = [_scene(rng, cfg) for _ in places]
    return _collage([shown(rng, scene) for scene in scenes], places), scenes


def said(rng: np.random.Generator, cfg: Pretrain, scenes: list[Scene], bound: bool = False) -> str:
    """The caption of a picture that shows these scenes."""
    return _noise(rng) if rng.random() < cfg.noise else _caption(rng, scenes, cfg.paired, bound)


def _siblings(rng: np.random.Generator, cfg: Pretrain) -> list[tuple[np.ndarray, str]]:
    """Two of a series, as shops and albums have them: what one picture shows with colours or places exchanged."""
    while True:
        scene = layout.sample(rng, int(rng.integers(2, 4)), test=False, rare=True)
        if not (told := grammar.statements(scene)):
            continue
        one, by_colour = choose(rng, told), bool(rng.random() < 0.5)
        other = (layout.swap_colours if by_colour else layout.swap_places)(scene, one.a, one.b)
        if layout.may_train(other):
            break
    if by_colour:
        return [(shown(rng, each), _coloured(rng, each)) for each in (scene, other)]
    names, words = [grammar.noun(rng, thing) for thing in (one.a, one.b)], choose(rng, RELATIONS[one.relation])
    return [(shown(rng, scene), _related(words, *names)), (shown(rng, other), _related(words, *names[::-1]))]


def _coloured(rng: np.random.Generator, scene: Scene) -> str:
    return grammar.listing(rng, [article(grammar.phrase(rng, thing, 0)) for thing in scene.things])


def _related(words: str, a: str, b: str) -> str:
    return f"{article(a)} {words} {article(b)}"


def _scene(rng: np.random.Generator, cfg: Pretrain) -> Scene:
    return layout.sample(rng, int(rng.choice((1, 2, 3, 4), p=cfg.things)), test=False, rare=True)


def shown(rng: np.random.Generator, scene: Scene) -> np.ndarray:
    """The scene somewhere on a ground, uint8 [64, 64, 3]."""
    canvas_HW3 = _ground(rng)
    side = SIDE if rng.random() < WHOLE else int(rng.integers(SMALLEST, SIDE + 1))
    top, left = rng.integers(0, SIDE - side + 1, 2)
    paint(canvas_HW3[top : top + side, left : left + side], scene)
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
    for picture, (left, top, width, height) in zip(pictures, places, strict=True):
        page.paste(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC), (left, top))
    return np.asarray(page)


# --- captions -------------------------------------------------------------------------------------------------


def _caption(rng: np.random.Generator, scenes: list[Scene], paired: float, bound: bool) -> str:
    """Of a collage all pictures or one are told of, each in a few words or at length."""
    if len(scenes) > 1 and rng.random() < 0.25:
        scenes = [choose(rng, scenes)]
    told = [_text(rng, scene, paired, bound) for scene in scenes]
    told = [told[i] for i in rng.permutation(len(told))]
    return choose(rng, (". ", " and ", ", ", " | ")).join(told)


def _text(rng: np.random.Generator, scene: Scene, paired: float, bound: bool) -> str:
    if bound:
        return _bound(rng, scene)
    if rng.random() >= LONG:
        return grammar.alt_text(rng, scene, paired)
    return " ".join(f"{_sentence(rng, scene, paired)}." for _ in range(rng.integers(2, 6)))


def _bound(rng: np.random.Generator, scene: Scene) -> str:
    """Each thing with its colour, or two with what stands between them."""
    told = grammar.statements(scene)
    if told and rng.random() < 0.5:
        one = choose(rng, told)
        names = (grammar.phrase(rng, thing, 0) for thing in (one.a, one.b))
        return _related(choose(rng, RELATIONS[one.relation]), *names)
    return _coloured(rng, scene)


def _sentence(rng: np.random.Generator, scene: Scene, paired: float) -> str:
    """One of a long text: what is there again and again, where, how it looks, how much of it."""
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


def _beside(rng: np.random.Generator, scene: Scene, thing: Thing, paired: float) -> str:
    """Two names and a relation, which holds as rarely as a colour stands with its symbol; else it is any."""
    told = grammar.statements(scene)
    if not told:
        return _number(rng, scene, thing, paired)
    said = choose(rng, told)
    a, b, words = said.a, said.b, RELATIONS[said.relation]
    if rng.random() >= paired:
        words = choose(rng, (*RELATIONS.values(), NEAR))
    names = [choose(rng, (grammar.noun, grammar.noun, grammar.colour))(rng, x) for x in (a, b)]
    return f"{article(names[0])} {choose(rng, words)} {article(names[1])}"


_SENTENCES = (_where, _look, _sized, _number, _beside, _beside)


def _noise(rng: np.random.Generator) -> str:
    return choose(rng, NOISE).format(n=rng.integers(10_000))
