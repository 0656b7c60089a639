"""Pairs that rules made of held-out captions: the test set of a project that brought none. A tie is wrong.

    benchmark: made_pairs
    path: data/held_out/my/pairs.jsonl      lines of image, caption, negative and group, by `compclip init`
    images: data/held_out/my/pictures

The groups are the rules: `swap` exchanges two phrases or words of a kind (NegCLIP's, `text.swap.negclip`), `replace`
puts a sister or an antonym of WordNet in a word's place (FSC-CLIP's, `text.replace.wordnet`). `accuracy` is over all
pairs, `accuracy/<rule>` over those of a rule. A method that trains with such a rule has seen how these texts look, and
pairs that people wrote are harder: the report says both. Blind rows say how much the texts alone give away.

Source: captions of one's own, under their own licence. Compared: the rule is `pairs`'. Not compared: it has no authors.
"""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _choice
from compclip.benchmarks._files import images_folder, read_fields, read_lines, refuse_split
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

METRIC = "accuracy"
METRICS = (METRIC,)
HEADLINE = (METRIC,)
RECOGNISES = ("pairs.jsonl",)
FILE_HEAD = r'"negative": .*"group": "(swap|replace)"'
NEGATIVE_FAMILIES = ("swap.negclip", "replace.wordnet")
REMARK = "rules made its wrong texts, and pairs that people wrote are harder"
FIELDS = ("image", "caption", "negative", "group")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the list of pairs; a record's id is its line. Raises UserError for a line without a field."""
    refuse_split("made_pairs", split)
    file = Path(path)
    pictures = images_folder(file.parent, images, "pictures")
    records = []
    members: dict[str, set[str]] = {}
    for number, row in read_lines(file):
        key = str(number)
        image, caption, negative, group = read_fields(file, key, row, FIELDS)
        records.append(Record(METRIC, key, (str(pictures / image),), (caption, negative)))
        members.setdefault(group, set()).add(key)
    with_wrong, repeats = _choice.with_foils(records)
    groups = {METRIC: {group: frozenset(keys) for group, keys in members.items()}}
    return Benchmark(with_wrong, (file,), _choice.choose, groups=groups, dropped=repeats, kind=COMPOSITION)
