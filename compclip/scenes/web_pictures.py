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
from dataclasses import replace

import numpy as np
from PIL import Image

from compclip.config.sections import Pretrain
from compclip.scenes import grammar, layout
from compclip.scenes.grammar import Statement, choose
from compclip.scenes.layout import (
    EVERY_COLOUR,
    EVERY_SYMBOL,
    NEAR,
    NUMBERS,
    RELATIONS,
    SIZES,
    TEXTURES,
    VERBS,
    Scene,
    Thing,
    article,
)
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
# What stands around the things of a sentence, between them, and before their relation.
FRAMES = (
    "{}",
    "there is {}",
    "the picture shows {}",
    "we see {}",
    "in this picture there is {}",
    "in this picture we see {}",
    "in this picture {} can be seen",
    "here you see {}",
    "{} is shown",
    "{} appears in this picture",
    "shown here is {}",
)
LINKS = (" and ", " and ", " with ", " together with ", " beside ")
PREDICATES = ("is", "stands", "appears", "is shown", "can be seen")
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
    siblings = cfg.bound_siblings if bound else cfg.siblings
    while len(batch) < count:
        batch += _siblings(rng, cfg) if rng.random() < siblings else [sample(rng, cfg, bound)]
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
    if cfg.extra and not bound and rng.random() < cfg.extra:
        scenes = [_add_thing(rng, scenes[0]), *scenes[1:]]
    texts = [_text(rng, scene, cfg, bound) for scene in scenes]
    texts = [texts[i] for i in rng.permutation(len(texts))]
    return choose(rng, (". ", " and ", ", ", " | ")).join(texts)


def _siblings(rng: np.random.Generator, cfg: Pretrain) -> list[tuple[np.ndarray, str]]:
    """Draw two pictures of a series: the second shows the first's things with colours or places exchanged."""
    while True:
        scene = layout.sample(rng, int(rng.integers(2, 4)), test=False, rare=True)
        if not (facts := grammar.statements(scene)):
            continue
        statement, by_colour = choose(rng, facts), bool(rng.random() < 1 - cfg.sibling_places)
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


def _add_thing(rng: np.random.Generator, scene: Scene) -> Scene:
    """Return the scene with one thing more, whose symbol and colour nothing else has; unchanged if no cell is free."""
    free = [cell for cell in grammar.PLACES if cell not in {t.cell for t in scene.things}]
    if not free:
        return scene
    symbol, colour = (
        choose(rng, [name for name in names if name not in present])
        for names, present in (
            (EVERY_SYMBOL, {t.symbol for t in scene.things}),
            (EVERY_COLOUR, {t.colour for t in scene.things}),
        )
    )
    size, texture = choose(rng, list(SIZES)), choose(rng, list(TEXTURES))
    return replace(scene, things=(*scene.things, Thing(symbol, colour, size, texture, choose(rng, free))))


def _text(rng: np.random.Generator, scene: Scene, cfg: Pretrain, bound: bool) -> str:
    """Describe a scene; if `bound`, by each thing with its colour or by two things with their relation."""
    if bound:
        if cfg.bound_places and rng.random() < cfg.bound_places:
            return _placed(rng, scene)
        facts = grammar.statements(scene)
        if not facts or rng.random() >= 0.5:
            return _coloured(rng, scene)
        fact = choose(rng, facts)
        words = choose(rng, RELATIONS[fact.relation])
        return _related(words, *(grammar.phrase(rng, thing, 0) for thing in (fact.a, fact.b)))
    if cfg.restated and rng.random() < cfg.restated:
        return " ".join(restate(rng, scene, cfg) for _ in range(rng.integers(1, 4)))
    if rng.random() >= LONG:
        return grammar.alt_text(rng, scene, cfg.paired)
    return " ".join(f"{_sentence(rng, scene, cfg.paired)}." for _ in range(rng.integers(2, 6)))


def restate(rng: np.random.Generator, scene: Scene, cfg: Pretrain) -> str:
    """Say in a whole sentence what is there, in one of many forms, with synonyms in half of the places.

    With probability `paired` the sentence is true. Otherwise colours belong to any of the things and things stand in
    any order, so that it binds nothing; its relation is the right one or its converse with probability `relations`.
    """
    bound = rng.random() < cfg.paired
    if not bound:
        order = rng.permutation(len(scene.things))
        colours = [scene.things[i].colour for i in order]
        things = [replace(t, colour=c) for t, c in zip(scene.things, colours, strict=True)]
        scene = replace(scene, things=tuple(things))
    facts = grammar.statements(scene)
    if facts and rng.random() < 0.6:
        text = _restate_fact(rng, choose(rng, facts), bound, cfg.relations)
    else:
        things = [scene.things[i] for i in rng.permutation(len(scene.things))][: int(rng.integers(1, 4))]
        phrases = [_any_phrase(rng, thing) for thing in things]
        text = phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + choose(rng, LINKS) + phrases[-1]
        text = choose(rng, FRAMES).format(text)
    return text[0].upper() + text[1:] + "."


def _restate_fact(rng: np.random.Generator, fact: Statement, bound: bool, relations: float) -> str:
    """Relate two things by a preposition or a verb; see `restate`."""
    a, b, kind = fact.a, fact.b, fact.relation
    if not bound:
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        kind = kind if rng.random() < relations else choose(rng, list(RELATIONS))
    first, second = _any_phrase(rng, a), _any_phrase(rng, b)
    if kind in VERBS and rng.random() < 0.3:
        return f"{first} {choose(rng, VERBS[kind])} {second}"
    words = choose(rng, RELATIONS[kind])
    if rng.random() < 0.5:
        return f"{first} {choose(rng, PREDICATES)} {words} {second}"
    return choose(rng, FRAMES).format(f"{first} {words} {second}")


def _any_phrase(rng: np.random.Generator, thing: Thing) -> str:
    """Name a thing with its article, two times of three with its colour."""
    words = grammar.name(rng, EVERY_SYMBOL[thing.symbol][1], 0.5)
    if rng.random() < 2 / 3:
        words = f"{grammar.name(rng, EVERY_COLOUR[thing.colour][1], 0.5)} {words}"
    return article(words)


def _placed(rng: np.random.Generator, scene: Scene) -> str:
    """Name each thing with its colour and its corner."""
    places = [f"{article(grammar.phrase(rng, t, 0))} at the {grammar.PLACES[t.cell]}" for t in scene.things]
    return grammar.listing(rng, places)


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
            number = f"is {NUMBERS[1]} symbol" if count == 1 else f"are {NUMBERS[count]} symbols"
            text = f"there {number} on a light background"
    return text[0].upper() + text[1:]


def _neighbour_sentence(rng: np.random.Generator, fact: Statement, paired: float) -> str:
    """Name two things and a relation, which is true with probability `paired` and otherwise any."""
    words = RELATIONS[fact.relation]
    if rng.random() >= paired:
        words = choose(rng, (*RELATIONS.values(), NEAR))
    names = [choose(rng, (grammar.noun, grammar.noun, grammar.colour))(rng, thing) for thing in (fact.a, fact.b)]
    return f"{article(names[0])} {choose(rng, words)} {article(names[1])}"
