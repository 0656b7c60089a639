"""ColorFoil (Samin et al., 2024, arXiv:2405.11685): a caption against the same with its colours exchanged.

Made from COCO's captions of val2017, as the authors' program makes it: of each picture the first caption with the name
of a colour of CSS (which `snow`, `tan` and `wheat` are as well); each such word gives way to one of ten common colours,
drawn at random, wherever its letters stand. The authors' draw has no seed, so that their foils cannot be repeated;
ours has one. Their replacement of letters makes "coveblue" of "covered". Right where the
picture is nearer to its caption; a tie is wrong, as in the authors' code.

Checklist. Source: github.com/samin9796/ColorFoil, zero_shot_evaluation.ipynb; COCO's captions. Licence: none named;
captions CC BY 4.0, pictures each their own. Compared with the authors' code: the choice of captions and the exchange,
run beside its functions with the same draws; the names of colours with webcolors 1.13. Left out as there: four grey
pictures by their places among those chosen (550, 1164, 1752, 2236), of the whole set alone. Not compared: the draw
behind the paper's numbers. The paper's part of Flickr30k is in no program and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from compclip.base.files import read_json
from compclip.benchmarks import _choice
from compclip.benchmarks._files import images_folder, one_file, refuse_split
from compclip.data.caption_files import CaptionedPicture, read_coco
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILES = ("captions_val2017.json", "annotations/captions_val2017.json")
COMMON = ("blue", "black", "red", "pink", "yellow", "grey", "orange", "white", "green", "brown")
_NAMED = """
    aliceblue antiquewhite aqua aquamarine azure beige bisque black blanchedalmond blue blueviolet brown burlywood
    cadetblue chartreuse chocolate coral cornflowerblue cornsilk crimson cyan darkblue darkcyan darkgoldenrod darkgray
    darkgreen darkgrey darkkhaki darkmagenta darkolivegreen darkorange darkorchid darkred darksalmon darkseagreen
    darkslateblue darkslategray darkslategrey darkturquoise darkviolet deeppink deepskyblue dimgray dimgrey dodgerblue
    firebrick floralwhite forestgreen fuchsia gainsboro ghostwhite gold goldenrod gray green greenyellow grey honeydew
    hotpink indianred indigo ivory khaki lavender lavenderblush lawngreen lemonchiffon lightblue lightcoral lightcyan
    lightgoldenrodyellow lightgray lightgreen lightgrey lightpink lightsalmon lightseagreen lightskyblue lightslategray
    lightslategrey lightsteelblue lightyellow lime limegreen linen magenta maroon mediumaquamarine mediumblue
    mediumorchid mediumpurple mediumseagreen mediumslateblue mediumspringgreen mediumturquoise mediumvioletred
    midnightblue mintcream mistyrose moccasin navajowhite navy oldlace olive olivedrab orange orangered orchid
    palegoldenrod palegreen paleturquoise palevioletred papayawhip peachpuff peru pink plum powderblue purple red
    rosybrown royalblue saddlebrown salmon sandybrown seagreen seashell sienna silver skyblue slateblue slategray
    slategrey snow springgreen steelblue tan teal thistle tomato turquoise violet wheat white whitesmoke yellow
    yellowgreen
"""
COLORS = frozenset(_NAMED.split())
GREY_PICTURES = (550, 1164, 1752, 2236)  # places among the pictures chosen from the whole of val2017
PICTURES = 5000  # of val2017
SUBSET = "all"
METRIC = "accuracy"
METRICS = (METRIC,)
HEADLINE = (METRIC,)
RECOGNISES = ()  # COCO's captions are `retrieval`'s: name this one


@dataclass(frozen=True)
class Config:
    """Which draw."""

    seed: ClassVar[int] = 0


def load(
    path: str | Path, images: str | Path | None = None, split: str = "", options: Config | None = None
) -> Benchmark:
    """Read COCO's `captions_val2017.json`, its folder, or the folder above it. There are no splits.

    Pictures are `<file_name>` in `images`. Raises UserError for a missing file or a record without a field.
    """
    refuse_split("colorfoil", split)
    file = one_file(Path(path), *FILES)
    pictures = images_folder(file.parent, images)
    entries = read_coco(file, read_json(file), Counter())
    rng = np.random.default_rng(Config.seed)
    records = []
    for key, name, caption in _choose_captions(entries):
        texts = (caption, make_foil(caption, rng))
        records.append(Record(SUBSET, key, (str(pictures / name),), texts))
    grey = set(GREY_PICTURES) if len(entries) == PICTURES else set()
    coloured = tuple(record for index, record in enumerate(records) if index not in grey)
    dropped = {"without_color": len(entries) - len(records), "grey_picture": len(records) - len(coloured)}
    return Benchmark(coloured, (file,), evaluate, dropped=dropped, kind=COMPOSITION)


def _choose_captions(pictures: Sequence[CaptionedPicture]) -> list[tuple[str, str, str]]:
    """Return id, file name and first caption with a colour of each picture that has one, in the order of pictures."""
    chosen = []
    for key, name, captions in pictures:
        for caption in captions:
            if not COLORS.isdisjoint(caption.split(" ")):
                chosen.append((key, name, caption))
                break
    return chosen


def make_foil(caption: str, rng: np.random.Generator) -> str:
    """Exchange each word of a caption that names a colour for another colour; earlier exchanges may be exchanged."""
    foil = caption
    for word in caption.split(" "):
        if word in COLORS:
            number = int(rng.integers(len(COMMON)))
            color = COMMON[number - 1] if COMMON[number] == word else COMMON[number]
            foil = foil.replace(word, color)
    return foil


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return 1 for each record whose caption wins."""
    by_name = _choice.compare_texts(records, embeddings, metrics.sugarcrepe_outcomes, 2)
    return {metric: items for (_, metric), items in by_name.items()}
