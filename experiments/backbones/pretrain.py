"""Make the scenes world's pretrained models again, from random weights.

python experiments/backbones/pretrain.py                   make the model `scenes` again, and replace its weights
python experiments/backbones/pretrain.py scenes_like_clip  the same of others of MODELS, one after another
python experiments/backbones/pretrain.py --missing NAME    a backbone of params.yaml, if its weights are one of MODELS'
                                                           and not there: the stage `backbone`

A small ViT trained contrastively on pictures and alt-text as the web has them, which name what is there and bind next
to nothing, so that it retrieves and names well and is near chance on swaps, as CLIP is. It takes an hour or two;
one that is stopped goes on from its last save.

What fine-tuning can teach depends on what the image tower can distinguish. A model that never had to bind attributes
cannot learn it later. If the first texts all bind, the image tower keeps the distinction when later texts seldom do, as
CLIP's does; the last steps have no texts that bind on purpose (docs/scenes.md).

B pictures, H, W pixels.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save
from torch import Tensor

from compclip.base import messages, safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import write_atomic
from compclip.config import read
from compclip.model import backbone, towers
from compclip.model.clip_model import ClipModel
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
from compclip.train import losses

SAMPLES_PER_SECOND = 450  # of one core, a model of the shipped width
PARTS = 6  # of a step's texts, by length
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


@dataclass(frozen=True)
class Pretrain:
    """How the world's own pretrained model is trained, on freshly drawn pictures; rates rise, stay and fall."""

    steps: int = 8000
    lr: float = 1.5e-3
    things: tuple[float, ...] = (0.5, 0.25, 0.15, 0.1)  # shares of 1 to 4
    collages: float = 0.15  # share of pictures that are made of two or four
    noise: float = 0.05  # share of captions that say nothing of their picture
    bound_steps: int = 600  # first steps, in which every text tells what stands with what
    paired: float = 0.25  # share of short texts that name one symbol with its colour, and of true relations
    siblings: float = 0.06  # share of draws that give two pictures with colours or places exchanged, each told as it is
    sibling_places: float = 0.5  # share of these pairs that differ in places; the others differ in colours
    bound_siblings: float = 0.06  # the same share in the first steps, whose texts all bind
    bound_places: float = 0.0  # share of the first texts that say in which corner each thing is
    restated: float = 0.0  # share of texts in whole sentences of many forms, half of the words synonyms, none binding
    relations: float = 0.0  # share of these sentences whose relation is right but for its direction; others have any
    extra: float = 0.0  # share of texts that name one thing more than the picture shows
    batch_size: int = 256
    warmup_steps: int = 100
    cooldown: float = 0.25  # share of steps, the last, in which the rate falls to nothing
    unbound_steps: int = 400  # a training of its own after these: no text tells what stands with what
    unbound_lr: float = 1.0e-3
    save_every_steps: int = 250  # what a training that was stopped goes on from
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    grad_clip_norm: float = 1.0
    threads: int = 2


@dataclass(frozen=True)
class WorldModel:
    """A pretrained model of the world: its architecture's file, its weights, its seed and its numbers."""

    model: str
    weights: str
    seed: int = 0
    numbers: Pretrain = field(default_factory=Pretrain)


SHIPPED = "scenes"  # its weights are in git
HERE = "experiments/backbones"
MODELS = {
    SHIPPED: WorldModel(f"{HERE}/scenes.json", f"{HERE}/scenes.fp16.safetensors"),
    # A start that is like CLIP where the shipped one is not (experiments/grids/scenes_like_clip.yaml).
    "scenes_like_clip": WorldModel(
        f"{HERE}/scenes.json",
        f"{HERE}/scenes_like_clip.fp16.safetensors",
        numbers=Pretrain(
            steps=1200,  # short: experiments/log/2026-11.md has its profile (2026-11-25)
            bound_steps=600,
            unbound_steps=250,
            siblings=0.25,
            sibling_places=0.75,
            bound_siblings=0.4,
            bound_places=0.3,
            restated=0.5,
            relations=0.8,
            extra=0.4,
            threads=1,
        ),
    ),
}


# --- the training --------------------------------------------------------------------------------------------


def draw_batch(cfg: Pretrain, seed: int, step: int) -> tuple[list[np.ndarray], list[str]]:
    """Draw pictures [H, W, 3] and alt-texts of one step: a function of (seed, step)."""
    rng = np.random.default_rng((seed, 2, step))
    if step >= cfg.steps:
        return samples(rng, replace(cfg, paired=0.0, siblings=0.0), cfg.batch_size)
    return samples(rng, cfg, cfg.batch_size, bound=step < cfg.bound_steps)


def pixels(pictures: list[np.ndarray], model: ClipModel) -> Tensor:
    """Return normalised pictures, float32 [B, 3, H, W]."""
    mean, std = (torch.tensor(model.preprocess_cfg[k])[:, None, None] for k in ("mean", "std"))
    return (torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255 - mean) / std


def learning_rate(cfg: Pretrain, step: int) -> float:
    """Return a step's learning rate: it rises, stays, and falls to 0 in the last share of `steps`; then once more."""
    if step >= cfg.steps:
        cfg, step = replace(cfg, lr=cfg.unbound_lr, steps=cfg.unbound_steps), step - cfg.steps
    rise = (step + 1) / cfg.warmup_steps if cfg.warmup_steps else 1.0
    fall = (cfg.steps - step) / max(1.0, cfg.cooldown * cfg.steps)
    return cfg.lr * min(1.0, rise, fall)


def train(model: ClipModel, cfg: Pretrain, seed: int, weights: Path) -> None:
    """Train from random weights, or go on where a training of the same numbers was stopped.

    The steps whose texts bind nothing begin anew with what half precision keeps of the weights: they can be had again
    from a file of these. A step's rate and samples depend on its number alone. Beside the weights: the log, one JSON
    line every ten steps, and until the end what to go on from. Raises UserError where that is of other numbers.
    """
    torch.set_num_threads(cfg.threads)
    model.clip.train()
    adamw = _build_optimiser(model, cfg)
    start, lines = _resume(model, adamw, state_path(weights), _settings_text(cfg, seed))
    started = time.perf_counter()
    for step in range(start, cfg.steps + cfg.unbound_steps):
        if step == cfg.steps:
            model.clip.load_state_dict(_half_weights(model))
            adamw = _build_optimiser(model, cfg)
        for group in adamw.param_groups:
            group["lr"] = learning_rate(cfg, step)
        loss = _train_step(model, adamw, draw_batch(cfg, seed, step), cfg)
        if (step + 1) % 10 == 0:
            speed = (step + 1 - start) * cfg.batch_size / (time.perf_counter() - started)
            lines.append(json.dumps({"step": step + 1, "loss": round(loss, 4), "samples_per_second": round(speed)}))
            print(lines[-1], flush=True)
        if (step + 1) % cfg.save_every_steps == 0:
            about = {"numbers": _settings_text(cfg, seed), "step": step + 1, "lines": lines}
            buffer = io.BytesIO()
            torch.save({**about, "model": model.clip.state_dict(), "adamw": adamw.state_dict()}, buffer)
            write_atomic(state_path(weights), buffer.getvalue())
    write_atomic(weights.with_suffix(".log.jsonl"), "".join(line + "\n" for line in lines))


def state_path(weights: Path) -> Path:
    """Return what a stopped training goes on from."""
    return weights.with_suffix(".state.pt")


def _resume(model: ClipModel, adamw: torch.optim.AdamW, path: Path, numbers: str) -> tuple[int, list[str]]:
    """Restore the saved state, if any; return the step to go on from and the log until then."""
    if not path.exists():
        return 0, []
    state = torch.load(path, weights_only=True)
    if state["numbers"] != numbers:
        raise UserError(f"{path}: is of a training with other numbers; remove it to begin anew")
    model.clip.load_state_dict(state["model"])
    adamw.load_state_dict(state["adamw"])
    return state["step"], state["lines"]


def _settings_text(cfg: Pretrain, seed: int) -> str:
    """Return all settings that a step depends on, as JSON; threads and the interval of saves are not among them."""
    return json.dumps({**asdict(cfg), "threads": 0, "save_every_steps": 0, "seed": seed}, sort_keys=True)


def _build_optimiser(model: ClipModel, cfg: Pretrain) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in model.clip.parameters() if p.ndim >= 2], "weight_decay": cfg.weight_decay},
        {"params": [p for p in model.clip.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=cfg.lr, betas=(cfg.beta1, cfg.beta2), eps=cfg.eps, fused=True)


def _half_weights(model: ClipModel) -> dict[str, Tensor]:
    return {k: v.half().contiguous() for k, v in model.clip.state_dict().items()}


def _train_step(model: ClipModel, adamw: torch.optim.AdamW, samples: tuple[list, list], cfg: Pretrain) -> float:
    pictures, texts = samples
    image_BD, _ = towers.encode_images(model.clip, pixels(pictures, model))
    text_BD = _embed_texts(model, texts)
    loss = losses.clip(image_BD, text_BD, model.clip.logit_scale.exp())
    adamw.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.clip.parameters(), cfg.grad_clip_norm)
    adamw.step()
    with torch.no_grad():
        model.clip.logit_scale.clamp_(0.0, math.log(100))
    return loss.item()


def _embed_texts(model: ClipModel, texts: list[str]) -> Tensor:
    """Return unit embeddings [B, D]; short texts run apart from long ones, since the tower runs to the longest end."""
    text_BL = model.tokenize(texts)
    order_B = text_BL.argmax(-1).argsort(stable=True)
    vectors = [towers.encode_texts(model.clip, texts_BL)[0] for texts_BL in text_BL[order_B].chunk(PARTS)]
    return torch.cat(vectors)[order_B.argsort()]


def write_half_weights(model: ClipModel, path: Path) -> None:
    """Write the weights in half precision: what is shipped."""
    write_atomic(path, save(_half_weights(model)))


# --- pictures and texts as on the web ------------------------------------------------------------------------


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


# --- the command ----------------------------------------------------------------------------------------------


def make_model(name: str) -> None:
    """Pretrain one of MODELS from random weights and write its weights and log."""
    world_model = MODELS[name]
    weights = Path(world_model.weights)
    messages.note(f"{name}: pretraining {weights}: {describe_cost(world_model.numbers)}")
    weights.parent.mkdir(parents=True, exist_ok=True)
    model = backbone.create(world_model.model, "", world_model.seed)
    train(model, world_model.numbers, world_model.seed, weights)
    write_half_weights(model, weights)
    state_path(weights).unlink(missing_ok=True)
    print(f"{weights}: written; `compclip repro backbone` takes them over")


def describe_cost(cfg: Pretrain) -> str:
    """Describe how long a pretraining takes."""
    steps = cfg.steps + cfg.unbound_steps
    minutes = max(1, round(steps * cfg.batch_size / SAMPLES_PER_SECOND / 60))
    return f"{steps:,} steps of {cfg.batch_size} pictures, about {minutes} CPU minutes"


def make_missing(weights: str) -> None:
    """Pretrain the model whose weights these are, if they are not there; the shipped one's only by its name."""
    for name, world_model in MODELS.items():
        if world_model.weights == weights and name != SHIPPED and not Path(weights).is_file():
            make_model(name)


def main(argv: list[str]) -> int:
    """Make the models that are asked for."""
    parser = CommandParser(
        prog="pretrain.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=[SHIPPED], help=f"models of this file; default: {SHIPPED}")
    parser.add_argument("--missing", metavar="NAME", help="a backbone whose weights may be missing: its stage")
    args = parser.parse_args(argv)
    if args.missing:
        backbones = read.load_params(read.DEFAULT).backbones
        name = safe_names.parse_name(args.missing, "--missing")
        if name not in backbones:
            raise unknown("backbone", name, backbones, "backbones")
        make_missing(backbones[name].weights)
        return 0
    for name in args.names:
        if name not in MODELS:
            raise unknown("model", name, MODELS)
    for name in args.names:
        make_model(name)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
