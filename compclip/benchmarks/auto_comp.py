"""Auto-Comp (2026, arXiv:2602.02043): made pictures of two or three things, the caption among exchanged ones.

Of each set (`minimal_color_2`: things on a white ground, two colours; `contextual_position_3`: in a scene, three things
in places): `<set>_swap`, the caption against all others in which colours (or things, of places) are exchanged;
`<set>_confusion`, against all in which things and colours (or places) are put in again with repetition. A tie is wrong;
where ties go to the first, it is the first caption's, as the authors choose (argmax).

The wrong captions are made by the authors' rules when the files are read. Exchanged: all words at once, articles before
colours repaired, the first letter alone large. Confused: word by word, so that an exchange gives a repetition, and the
things as the list spells them; equal texts stand once.

Checklist. Source: hf.co/AutoComp (a data set for each set: AutoComp-Minimal-N2-C); the paper's code supplement
(evaluation/hf_benchmark.py). Licence: not known. Compared with the authors' code: both rules run beside its functions,
equal but for what is said here; the columns are those that it reads (`caption` or `<source>_caption`, `image` or
`<source>_image`, `objects`, `colors` or `relations`, `num_objects`). Not compared: any real file. Left out: the hub's
four paired sets (AutoComp-Paired-N2-C), whose rows have both kinds of caption and picture; under the name of a set here
its kind of them is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _choice, _tables
from compclip.benchmarks._files import are_texts, images_folder, read_field, selected_names
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

SOURCES = {"minimal": ("minimal", "handmade"), "contextual": ("contextual", "llm")}  # and how columns call them
KINDS = {"color": "C", "position": "P"}
SETS = {
    f"{source}_{kind}_{count}": f"AutoComp-{source.capitalize()}-N{count}-{letter}"
    for source in SOURCES for kind, letter in KINDS.items() for count in (2, 3)
}  # fmt: skip
TASKS = ("swap", "confusion")
METRICS = tuple(f"{name}_{task}" for name in SETS for task in TASKS)
RECOGNISES = SETS
PAIRS = frozenset({
    "sneakers", "glasses", "gloves", "leather shoes", "boots", "slippers", "sandals", "high heels", "scissors",
    "chopsticks", "headphones", "pliers", "binoculars", "earphone",
})  # fmt: skip  # things of which one says "a pair of"


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read a folder with a folder of the hub's tables for each set, by their names; those that are there.

    `split` names some of SETS. Pictures are inside of the tables, or found in `images` by their names.
    Raises UserError where no set is there, and for a row without a field or with another number of words.
    """
    folder = Path(path)
    names = selected_names(folder, SETS, split)
    existing = [name for name in names if split or (folder / SETS[name]).is_dir()]
    if not existing:
        raise UserError(f"{folder}: none of {', '.join(SETS.values())} is there; fetch one, or give their folder")
    records: list[Record] = []
    files: list[Path] = []
    for name in existing:
        table_files, rows = _tables.read_table(folder / SETS[name], "train")
        files += table_files
        pictures = images_folder(table_files[0].parent, images)
        for key, row in rows:
            records += _read_records(name, table_files[0], key, row, pictures)
    return Benchmark(tuple(records), tuple(files), _choice.choose, kind=COMPOSITION)


def _read_records(name: str, file: Path, key: str, row: Any, pictures: Path) -> list[Record]:
    """Read a row: both choices about its picture. Its id is its position."""
    source, kind, count = name.split("_")
    if isinstance(row, Mapping) and row.get("num_objects", int(count)) != int(count):
        return []
    things = _read_words(file, key, row, ("objects",), int(count))
    if kind == "color":
        attributes = _read_words(file, key, row, ("colors", "attributes"), int(count))
    else:
        attributes = _read_words(file, key, row, ("relations", "attributes"), int(count) - 1)
    caption = read_field(file, key, row, _column(row, source, "caption"))
    picture = _tables.find_picture(pictures, read_field(file, key, row, _column(row, source, "image")))
    swapped = (caption, *exchange(caption, things, attributes, kind))
    confused, match = confuse(caption, things, attributes)
    return [
        Record(f"{name}_swap", key, (picture,), swapped),
        Record(f"{name}_confusion", key, (picture,), _choice.match_first(confused, match), ahead=match),
    ]


def _column(row: Mapping[str, Any], source: str, what: str) -> str:
    """Return the column of a caption or picture: of its source where a row has both, or without."""
    names = [f"{prefix}_{what}" for prefix in SOURCES[source]]
    return next(filter(row.get, names), what)


def _read_words(file: Path, key: str, row: Any, names: Sequence[str], count: int) -> list[str]:
    """Return a row's words under the first of `names` that it has; choices among many of them would be without end."""
    present = [name for name in names if isinstance(row, Mapping) and row.get(name)]
    words = read_field(file, key, row, (*present, *names)[0], list)
    if len(words) != count or not are_texts(words) or "" in words:
        raise UserError(f"{file}: record {key}: {names[0]} are {words!r}, not {count} words; fetch the official file")
    return words


def exchange(caption: str, things: Sequence[str], attributes: Sequence[str], kind: str) -> list[str]:
    """Return the caption with its colours, or things, in every other order."""
    words = tuple(attributes if kind == "color" else things)
    orders = [order for order in permutations(words) if order != words]
    return [_substitute(caption, words, order, kind) for order in orders]


def _substitute(caption: str, words: Sequence[str], new_words: Sequence[str], kind: str) -> str:
    """Put new words for old ones, all at once, the longest first; repair articles before colours."""
    new_of = {word.lower(): new.lower() for word, new in zip(words, new_words, strict=True)}
    longest_first = sorted(new_of, key=len, reverse=True)
    pattern = "|".join(rf"\b{re.escape(word)}\b" for word in longest_first)
    text = re.sub(pattern, lambda match: new_of[match[0].lower()], caption, flags=re.IGNORECASE)
    return (_mend_articles(text) if kind == "color" else text).capitalize()


def _mend_articles(text: str) -> str:
    """Say "an" before a colour that begins with a vowel, "a" before others; "a pair of" is left as it stands."""
    words = text.split()
    for index, (article, color, thing) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if article.lower() in ("a", "an") and thing.strip(".,?!").lower() not in PAIRS:
            words[index] = "an" if color.strip(".,?!").lower().startswith(tuple("aeiou")) else "a"
    return " ".join(words)


def confuse(caption: str, things: Sequence[str], attributes: Sequence[str]) -> tuple[list[str], int]:
    """Return the caption with every choice of its things and of its colours or places, and which is itself."""
    texts: dict[str, None] = {}
    caption_text = ""
    for new_things in product(things, repeat=len(things)):
        for new_attributes in product(attributes, repeat=len(attributes)):
            text = caption
            for old, new in zip((*things, *attributes), (*new_things, *new_attributes), strict=True):
                text = re.sub(rf"\b{re.escape(old)}\b", new.replace("\\", r"\\"), text, flags=re.IGNORECASE)
            texts.setdefault(text)
            if new_things == tuple(things) and new_attributes == tuple(attributes):
                caption_text = text
    return list(texts), list(texts).index(caption_text)
