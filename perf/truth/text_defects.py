"""How many texts of each rule no reader believes, as far as a program can tell: `python -m perf.truth.text_defects`.

Of 400 captions of photographs (those of `perf/speed/text_rules.py`), each rule beside the one that it replaces, named
`…_released`. Counted are texts with "a" before a new plural or before a vowel, with a pronoun or determiner that
changed places, with "no" behind a preposition, and texts that name the members of a list in another order ("the same
list").

Takes half a minute; needs captions (the shared data's).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np

from compclip.base.errors import entry
from compclip.text import agreement, negate, positives, replace, swap, true_edits, wordlists
from compclip.text import spacy_parser as stage
from compclip.text.annotation import Annotation
from perf.speed import text_rules

RULES: dict[str, Callable[[Annotation, np.random.Generator], str | None]] = {
    "atoms_released": swap.atoms_released,
    "atoms": swap.atoms,
    "crepe_released": negate.crepe_released,
    "crepe": negate.crepe,
    "conclip_released": negate.conclip_released,
    "conclip": negate.conclip,
    "positive_swap_released": positives.swap_released,
    "positive_swap": positives.swap,
    "lists_any": wordlists.default_lists().rule_any,
    "lists": wordlists.default_lists().rule,
    "negclip_released": swap.negclip_released,
    "negclip": swap.negclip,
    "single": swap.single,
    "nouns_released": swap.nouns_released,
    "nouns": swap.nouns,
    "wordnet": replace.wordnet,
}
MOVED = ("PRON", "DET")


def articles_of_plurals(a: Annotation) -> set[tuple[str, str]]:
    """The pairs of "a" and the plural that it determines."""
    tokens = range(len(a))
    return {
        (a.word(t).lower(), a.word(a.heads[t]).lower())
        for t in tokens
        if a.word(t).lower() in ("a", "an") and a.tag[a.heads[t]] in ("NNS", "NNPS")
    }


def find_defects(a: Annotation, changed: Annotation) -> dict[str, bool]:
    """Say which defects a changed caption has that the caption has not."""
    words, new_words = ([x.word(t).lower() for t in range(len(x))] for x in (a, changed))
    kept = [t for t in range(min(len(words), len(new_words))) if words[t] != new_words[t]]
    moved = len(words) == len(new_words) and any(a.pos[t] in MOVED and words[t] not in ("a", "an", "the") for t in kept)
    denied = any(
        word == "no" and t and changed.pos[t - 1] == "ADP" and new_words[t - 1 : t + 1] not in _pairs(words)
        for t, word in enumerate(new_words)
    )
    return {
        "a + plural": bool(articles_of_plurals(changed) - articles_of_plurals(a)),
        "a + vowel": agreement.fix_articles(changed.text, a.text) != changed.text,
        "pronoun moved": moved,
        "preposition + no": denied,
        "the same list": true_edits.reorders_list(a.text, changed.text),
    }


def _pairs(words: list[str]) -> list[list[str]]:
    return [words[t : t + 2] for t in range(len(words))]


def main(argv: list[str]) -> int:
    """Print a line a rule: the captions that it covers, and of its texts the shares with each defect."""
    parser = argparse.ArgumentParser(prog="python -m perf.truth.text_defects", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--limit", type=int, default=400)
    args = parser.parse_args(argv)
    annotations = stage.annotate(text_rules.captions(args.file, args.limit))
    for name, rule in RULES.items():
        texts = [(i, rule(a, np.random.default_rng(i))) for i, a in enumerate(annotations)]
        made = [(i, text) for i, text in texts if text is not None]
        parsed = stage.annotate([text for _, text in made], replacements=False)
        rows = [find_defects(annotations[i], changed) for (i, _), changed in zip(made, parsed, strict=True)]
        shares = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
        print(f"{name:24}{len(made) / len(annotations):6.3f}  " + "  ".join(f"{k} {v:.3f}" for k, v in shares.items()))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
