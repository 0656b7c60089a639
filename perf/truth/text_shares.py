"""What each rule changes: of 400 captions of photographs, how often the first word that it touches is a noun, a verb …

    python -m perf.truth.text_shares [captions file] [--limit 400] [--draws 5]
    python -m perf.truth.text_shares --prepositions   # the counts of compclip/text/scene_graph.py, from both files

Captions are those of `perf/speed/text_rules.py`; without a file COCO's.

Takes half a minute; needs captions (COCO's).
"""

from __future__ import annotations

import argparse
import bisect
import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace as replaced

import numpy as np

from compclip.base.errors import entry
from compclip.text import negate, replace, scene_graph, swap, wordlists
from compclip.text import spacy_parser as stage
from compclip.text.annotation import Annotation
from perf.speed import text_rules

RULES = {
    "replace: wordnet": replace.wordnet,
    "replace: clove": replace.RULES["clove"],
    "word lists": wordlists.default_lists().rule,
    "swap: negclip": swap.negclip,
    "swap: single": swap.single,
    "swap: atoms": swap.atoms,
    "negate: crepe": negate.crepe,
    "negate: conclip": negate.conclip,
}
SHOWN = ("NOUN", "ADP", "ADJ", "VERB")


def touched(a: Annotation, changed_text: str) -> str:
    """The part of speech of the first token that a rule changed."""
    offset = len(os.path.commonprefix([a.text.casefold(), changed_text.casefold()]))
    return a.pos[max(0, bisect.bisect_right(a.starts, offset) - 1)]


def shares(annotations: list[Annotation], draws: int) -> dict[str, dict[str, float]]:
    """For each rule the share of captions that it covers, and of its texts those that touch a part of speech first."""
    rows = {}
    for name, rule in RULES.items():
        rewrites = [
            (a, rule(a, np.random.default_rng((i, d)))) for i, a in enumerate(annotations) for d in range(draws)
        ]
        touched_counts = Counter(touched(a, text) for a, text in rewrites if text is not None)
        total = sum(touched_counts.values())
        rows[name] = {"covered": total / len(rewrites)} | {pos: touched_counts[pos] / max(total, 1) for pos in SHOWN}
        rows[name]["other"] = 1 - sum(rows[name][pos] for pos in SHOWN)
    return rows


def counted(annotations: Iterable[Annotation]) -> Counter[str]:
    """How often each preposition relates two entities."""
    counts = Counter[str]()
    for a in annotations:
        phrases = (a.text[slice(*a.chars(e.span))] for e in scene_graph.read_scene(a) if a.pos[e.root] == "ADP")
        counts.update(" ".join(words.lower().split()) for words in phrases)
    return Counter({name: counts[name] for name in scene_graph.COUNTS})


def table(rows: dict[str, dict[str, float]], count: int) -> str:
    """The shares as text."""
    heads = list(next(iter(rows.values())))
    lines = [f"{count} captions", f"{'':20}" + "".join(f"{head:>9}" for head in heads)]
    return "\n".join(lines + [f"{name:20}" + "".join(f"{row[h]:9.3f}" for h in heads) for name, row in rows.items()])


def main(argv: list[str]) -> int:
    """Print the shares, or the counts."""
    parser = argparse.ArgumentParser(prog="python -m perf.truth.text_shares", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--prepositions", action="store_true")
    args = parser.parse_args(argv)
    if args.prepositions:
        counts = counted(stage.annotate(text_rules.captions(args.file, sys.maxsize), replacements=False))
        print(", ".join(f"{name} {number}" for name, number in sorted(counts.items())))
        return 0
    coco = text_rules.shared() / "coco/annotations/captions_val2017.json"
    annotations = stage.annotate(text_rules.captions(args.file or str(coco), args.limit))
    annotations = [replaced(a, relatives=stage.find_relatives(a)) for a in annotations]
    print(table(shares(annotations, args.draws), len(annotations)))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
