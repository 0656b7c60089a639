"""Make the scenes world: pictures for fine-tuning in the Karpathy layout, their layouts beside, and the benchmarks.

A record depends on (seed, split, index) alone, so that the files are the same however many processes work.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import files
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic, write_json
from compclip.config.sections import World
from compclip.scenes import grammar, layout, world_benchmarks
from compclip.scenes.grammar import CaptionSentence, Statement, choose, shuffled
from compclip.scenes.layout import (
    COLOURS,
    NEAR,
    SIZES,
    SYMBOLS,
    TEXTURES,
    Scene,
    Thing,
    article,
    may_train,
    swap_colours,
)
from compclip.scenes.render import locate_things, parallel, write_picture

LAYOUTS = "layouts.jsonl"
TRAIN = 10  # split, before those of the benchmarks
JOINED = 21  # split: which captions begin with a sentence that joins by "and"


def generate(world: World, out: Path) -> dict[str, int]:
    """Write the whole world into a new folder and return the number of pictures of each part.

    Raises UserError where `out` is a file or holds anything but a world.
    """
    _check_target(out)
    new_folder = out.with_name(f".{out.name}.new")
    shutil.rmtree(new_folder, ignore_errors=True)
    counts = {"train": _train(world, new_folder)}
    for name, write_files in world_benchmarks.PARTS.items():
        counts[name] = write_files(world, new_folder)
    if world.beside:
        layouts = new_folder / LAYOUTS
        counts["beside"] = write_companions(world, new_folder, read_layouts(layouts), read_joined(layouts))
    write_json(new_folder / "counts.json", counts)
    shutil.rmtree(out, ignore_errors=True)
    new_folder.rename(out)
    return counts


def _check_target(out: Path) -> None:
    """Raise UserError where `out` is a file, a link, or a folder of other files: a world replaces only a world."""
    for folder in (out, *out.parents):
        if (folder.exists() and not folder.is_dir()) or (folder == out and folder.is_symlink()):
            raise UserError(f"--out {out}: {folder} is a file or a link; give a folder, which may be new")
    if out.is_dir() and any(out.iterdir()) and not (out / LAYOUTS).is_file():
        raise UserError(f"--out {out}: the folder holds other files than a world's; give a new one")


def _train(world: World, out: Path) -> int:
    rows = parallel(world, partial(_train_row, world, out), range(world.train))
    images = []
    layouts = ""
    for index, row in enumerate(rows):
        image = {"filename": f"{row['id']}.png", "filepath": "", "imgid": index, "split": "train"}
        images.append({**image, "sentences": [{"raw": row["alt_text"]}]})
        layouts += json.dumps({"id": row["id"], "scene": asdict(row["scene"])} | row["joined"]) + "\n"
    write_json(out / "train.json", {"dataset": "scenes", "images": images})
    write_atomic(out / LAYOUTS, layouts)
    return len(rows)


def _train_row(world: World, out: Path, index: int) -> dict:
    rng = np.random.default_rng((world.seed, TRAIN, index))
    scene = layout.sample(rng, int(rng.choice((2, 3, 4), p=(0.5, 0.3, 0.2))), test=False)
    name = f"{index:06d}"
    write_picture(out / "train" / f"{name}.png", scene)
    is_joined = np.random.default_rng((world.seed, JOINED, index)).random() < world.joined
    joined = {"joined": True} if is_joined else {}
    return {"id": name, "alt_text": grammar.alt_text(rng, scene), "scene": scene, "joined": joined}


def read_joined(path: Path) -> frozenset[str]:
    """Read the ids of layouts.jsonl whose captions begin with a sentence that joins by "and"."""
    return frozenset(row["id"] for row in _read_rows(path) if row.get("joined"))


def _read_rows(path: Path) -> Iterator[dict]:
    for number, line in enumerate(read_text(path).splitlines(), 1):
        yield files.parse_json(line, str(path), line=number)


def read_layouts(path: Path) -> dict[str, Scene]:
    """Read the scenes of layouts.jsonl, by sample id."""
    scenes = {}
    for row in _read_rows(path):
        things = tuple(Thing(**{**t, "shift": tuple(t["shift"])}) for t in row["scene"]["things"])
        scenes[row["id"]] = Scene(things, row["scene"]["background"])
    return scenes


# --- what methods need beside a picture and its caption -------------------------------------------------------------
# Make what methods need beside a picture and its caption, from the exact layouts.
#
# For each picture for fine-tuning two edited pictures with captions (hard negatives), a caption with a negation and a
# picture of which it is true, one that denies what is absent, three paraphrases, single sentences, and a region for
# each thing with false texts. The caption is that of the captioner `scenes`. A record depends on (seed, split, index)
# alone.
#
# Cost: three PNGs of 2 KiB and 1.3 KB of text a picture; 16,000 pictures take half a minute of two cores, 99 MB of
# pictures (200 MB in blocks of 4 KiB) and 20 MB of text.
#
# Scene and caption are edited together: the new caption is false of the scene and true of the edited one. A scene's
# symbols differ from each other, and so do its colours: where a colour or a symbol passes from one thing to another,
# exchanging their names in the caption says just that. Sizes and textures stay in their cell, as their words stay in
# their sentence.


PICTURES = "train_edits"
EDITS, NEGATIONS, PARAPHRASES, DENSE = range(17, 21)  # splits, beside those of the world
REGIONS = 22  # likewise; 21 is `generate.JOINED`
NEGATIVES = 2  # edits of a picture
OTHERS = 3  # paraphrases of a caption
FALSE_TEXTS = 4  # of a region
Words = Mapping[str, str]


def write_companions(world: World, out: Path, layouts: Mapping[str, Scene], joined: Collection[str] = ()) -> int:
    """Write the pictures into `train_edits` and a JSONL file for each kind; return the number of pictures.

    `joined`: ids of the pictures whose captions begin with a sentence that joins by "and".
    """
    rows = parallel(world, partial(_companion_row, world, out, joined), enumerate(layouts.items()))
    for kind in ("edits", "negations", "paraphrases", "dense", "regions"):
        write_atomic(out / f"train_{kind}.jsonl", "".join(json.dumps(row[kind]) + "\n" for row in rows))
    return sum(len(row["edits"]["negative_image"]) + 1 for row in rows)


def _companion_row(
    world: World, out: Path, joined: Collection[str], job: tuple[int, tuple[str, Scene]]
) -> dict[str, dict]:
    index, (name, scene) = job

    def generator(split: int) -> np.random.Generator:
        return np.random.default_rng((world.seed, split, index))

    sentences = grammar.dense_caption(name, scene, name in joined)
    image = {"image": f"{name}.png"}
    edited_statement = next(statement for _, statement in sentences if statement)
    edited = make_edits(generator(EDITS), scene, edited_statement, NEGATIVES)
    rng = generator(NEGATIONS)
    denial, without = make_denial(rng, scene)
    absent = make_absence(rng, scene)
    negative_images = []
    negative_captions = []
    for number, edit in enumerate(edited):
        negative_images.append(f"{name}_{number}.png")
        negative_captions.append(reword(grammar.join_sentences(sentences), edit.words))
        write_picture(out / PICTURES / negative_images[-1], edit.scene)
    distractor = f"{name}_without.png"
    write_picture(out / PICTURES / distractor, without)
    paraphrases = make_paraphrases(generator(PARAPHRASES), sentences, OTHERS)
    return {
        "edits": {**image, "negative_caption": negative_captions, "negative_image": negative_images},
        "negations": {**image, "negated_caption": denial, "distractor": distractor, "absent_caption": absent},
        "paraphrases": {**image, "paraphrase": paraphrases},
        "dense": {**image, "dense": single_sentences(generator(DENSE), scene)},
        "regions": {**image, "regions": list(make_regions(generator(REGIONS), name, scene))},
    }


# --- edits ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """An edited scene, and the words by which a caption is edited: old to new."""

    scene: Scene
    words: Words


def make_edits(rng: np.random.Generator, scene: Scene, statement: Statement, count: int) -> list[Edit]:
    """Return `count` different edits of the two things of a statement, of as many kinds as possible.

    None shows a layout or a pair that is held out for test. Of a statement that is not directed, the things are not
    exchanged: it would stay true.
    """
    edits_by_kind = []
    for kind in KINDS:
        if statement.directed or kind is not _exchange_things:
            edits = [edit for edit in kind(scene, statement.a, statement.b) if may_train(edit.scene)]
            edits_by_kind.append(shuffled(rng, edits))
    return _take_turns(shuffled(rng, edits_by_kind))[:count]


def _take_turns(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the first items of some lists, then their second ones, and so on."""
    items = itertools.chain.from_iterable(itertools.zip_longest(*lists))
    return [item for item in items if item is not None]


def _exchange_colours(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    return [Edit(swap_colours(scene, a, b), _exchange_names(COLOURS, a.colour, b.colour))]


def _exchange_things(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    new = {a: replace(a, colour=b.colour, symbol=b.symbol), b: replace(b, colour=a.colour, symbol=a.symbol)}
    words = {**_exchange_names(COLOURS, a.colour, b.colour), **_exchange_names(SYMBOLS, a.symbol, b.symbol)}
    return [Edit(scene.with_things(new), words)]


def _replace_colour(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    edits = []
    for thing in (a, b):
        for colour in _list_absent(COLOURS, scene.colours):
            new = scene.with_things({thing: replace(thing, colour=colour)})
            edits.append(Edit(new, _renaming(COLOURS, thing.colour, colour)))
    return edits


def _replace_symbol(scene: Scene, *things: Thing) -> list[Edit]:
    edits = []
    for thing in things:
        for symbol in _list_absent(SYMBOLS, scene.symbols):
            new = scene.with_things({thing: replace(thing, symbol=symbol)})
            edits.append(Edit(new, _renaming(SYMBOLS, thing.symbol, symbol)))
    return edits


def _list_absent(names: Collection[str], present: Collection[str]) -> list[str]:
    return [name for name in names if name not in present]


KINDS: tuple[Callable[[Scene, Thing, Thing], list[Edit]], ...] = (
    _exchange_colours,
    _exchange_things,
    _replace_colour,
    _replace_symbol,
)


def _renaming(names: Mapping[str, tuple], old: str, new: str) -> dict[str, str]:
    """Map every name of the old to one of the new, the usual name to the usual name."""
    synonyms = names[new][1]
    return {word: synonyms[min(i, len(synonyms) - 1)] for i, word in enumerate(names[old][1])}


def _exchange_names(names: Mapping[str, tuple], first: str, second: str) -> dict[str, str]:
    return {**_renaming(names, first, second), **_renaming(names, second, first)}


# --- sentences ------------------------------------------------------------------------------------------------


def reword(text: str, words: Words) -> str:
    """Replace words in a text, and fit its articles to the new ones."""
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    text = re.sub(rf"\b({pattern})\b", lambda m: words[m[1]], text)
    return re.sub(r"\b([Aa])n? (\w)", lambda m: f"{m[1]}{'n' if m[2] in 'aeiou' else ''} {m[2]}", text)


def make_paraphrases(rng: np.random.Generator, sentences: Sequence[CaptionSentence], count: int) -> list[str]:
    """Make `count` different paraphrases: sentences in another order and other words, relations from either side."""
    captions = dict.fromkeys([grammar.join_sentences(sentences)])
    while len(captions) <= count:
        texts = []
        for text, statement in sentences:
            texts.append(grammar.sentence(rng, statement) if statement else reword(text, _synonyms(rng)))
        captions.setdefault(" ".join(shuffled(rng, texts)))
    return list(captions)[1:]


def _synonyms(rng: np.random.Generator) -> Words:
    synonyms = {}
    coloured = [names for _, names in (*COLOURS.values(), *SYMBOLS.values())]
    for names in (*coloured, *SIZES.values(), *TEXTURES.values(), NEAR):
        for word in names:
            synonyms[word] = choose(rng, names)
    return synonyms


def single_sentences(rng: np.random.Generator, scene: Scene) -> list[str]:
    """Make one sentence about each thing, and one about each two things in a row or column."""
    details = [grammar.detail(rng, scene, thing) for thing in scene.things]
    return details + [grammar.sentence(rng, s) for s in grammar.statements(scene) if s.a.cell < s.b.cell]


def make_regions(rng: np.random.Generator, name: str, scene: Scene) -> Iterator[dict[str, Any]]:
    """Give for each thing its box in pixels, a short and a long text, and false texts: the short one with one word new.

    What is false has another colour, symbol, size or texture, in turns; a colour or symbol is of no thing of the scene.
    """
    for thing, box in zip(scene.things, locate_things(f"{name}.png", scene), strict=True):
        words = [thing.size, thing.texture, thing.colour, thing.symbol]
        present = ([thing.size], [thing.texture], scene.colours, scene.symbols)
        edits = []
        for i, names in enumerate((list(SIZES), list(TEXTURES), list(COLOURS), list(SYMBOLS))):
            texts = [" ".join([*words[:i], word, *words[i + 1 :]]) for word in _list_absent(names, present[i])]
            edits.append(shuffled(rng, texts))
        long = f"{grammar.size(rng, thing)} {grammar.texture(rng, thing)} {grammar.colour(rng, thing)}"
        false_texts = _take_turns(shuffled(rng, edits))[:FALSE_TEXTS]
        yield {
            "box": box,
            "caption": article(" ".join(words)),
            "long_caption": f"The {long} {grammar.noun(rng, thing)} in the {grammar.PLACES[thing.cell]} corner.",
            "negatives": list(map(article, false_texts)),
        }


def make_denial(rng: np.random.Generator, scene: Scene) -> tuple[str, Scene]:
    """Make a caption that denies one thing of the scene and names the others, and a scene of which it is true.

    That scene lacks the thing or, where this layout is held out, has another symbol in its place.
    """
    denied, without = next(absence for absence in _absences(rng, scene) if may_train(absence[1]))
    return _deny(rng, [t for t in scene.things if t is not denied], denied), without


def make_absence(rng: np.random.Generator, scene: Scene) -> str:
    """Make a caption that names all things of a scene and denies one with a symbol that it lacks."""
    symbol = choose(rng, _list_absent(SYMBOLS, scene.symbols))
    return _deny(rng, scene.things, replace(scene.things[0], symbol=symbol))


def _deny(rng: np.random.Generator, things: Sequence[Thing], denied: Thing) -> str:
    remaining = [article(grammar.phrase(rng, t)) for t in things]
    name = grammar.phrase(rng, denied, detail=0)
    form = choose(rng, _DENIALS)
    text = form.format(rest=grammar.listing(rng, remaining), name=name, a_name=article(name))
    return text[0].upper() + text[1:]


_DENIALS = ("{rest} and no {name}.", "{rest}, but no {name}.", "{rest} without {a_name}.", "{rest}, not {a_name}.")


def _absences(rng: np.random.Generator, scene: Scene) -> Iterator[tuple[Thing, Scene]]:
    things = shuffled(rng, scene.things)
    for thing in things:
        yield thing, replace(scene, things=tuple(t for t in scene.things if t is not thing))
    for thing in things:
        for edit in shuffled(rng, _replace_symbol(scene, thing)):
            yield thing, edit.scene
