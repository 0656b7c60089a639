"""Every text rule over captions of 10 to 2,500 words: no traceback, and time that a loader can spare.

    python -m perf.faults.long_captions --words 10 100 1000 2500 --draws 2

Prints each pair of a rule and a caption that took longer than `LONGEST_S` or ended in an error; exit code 1 where there
is one.

Takes half a minute; needs nothing.
"""

import argparse
import functools
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace as replace_fields
from typing import Any

import numpy as np

from compclip.text import masked_words, negate, positives, replace, shuffle, spacy_parser, sub_captions, swap, units
from compclip.text.annotation import Annotation
from compclip.text.caption_cleaning import clean_caption

MODULES = (masked_words, negate, positives, replace, shuffle, sub_captions, swap, units)
LONGEST_S = 10.0
Rule = Callable[[Annotation, np.random.Generator], Any]
# What grows with its length in other ways than prose does; {n} is the number of the repetition.
UNITS = {
    "nouns": "a dog", "pairs": "a red dog and a blue cat,", "list": "dogs, cats, cows and", "different": "word{n} dog",
    "prose": "A small dog runs behind the old man on the left side of the street.",
    "of": "dog of the", "not": "not no without", "brackets": "( [", "numbers": "3 7.5 two",
}  # fmt: skip


def list_rules() -> dict[str, Rule]:
    """Return every function of an annotation and a generator in the rules' modules, by name."""
    rules: dict[str, Rule] = {}
    for module in MODULES:
        for name, function in inspect.getmembers(module, callable):
            is_ours = getattr(function, "__module__", module.__name__) == module.__name__ and not name.startswith("_")
            if is_ours and not isinstance(function, type) and _takes_two(function):
                rules[f"{module.__name__.rpartition('.')[2]}.{name}"] = function
    return rules


def _takes_two(function: Any) -> bool:
    if isinstance(function, functools.partial):
        return True
    return list(inspect.signature(function).parameters) == ["annotation", "rng"]


def make_caption(unit: str, words: int) -> str:
    """Return a caption of so many words, as it is when it has entered."""
    length = len(unit.split())
    text = " ".join(unit.format(n=number) for number in range(words // length + 1))
    return clean_caption(" ".join(text.split()[:words]))


def try_rules(
    words: Sequence[int], draws: int, longest_s: float = LONGEST_S
) -> tuple[int, list[str], dict[int, tuple[float, str]]]:
    """Return how many draws were made, a line for each that failed or took too long, and by size the longest one."""
    count = 0
    defects = []
    longest: dict[int, tuple[float, str]] = {}
    rules = list_rules()
    for name, unit in UNITS.items():
        annotations = spacy_parser.annotate([make_caption(unit, number) for number in words])
        for size, parsed in zip(words, annotations, strict=True):
            annotation = replace_fields(parsed, relatives=spacy_parser.find_relatives(parsed))
            for rule_name, rule in rules.items():
                for seed in range(draws):
                    count += 1
                    seconds, fault = _try_rule(rule, annotation, seed)
                    label = f"{rule_name} of {name}"
                    longest[size] = max(longest.get(size, (0.0, "")), (seconds, label))
                    fault = fault or (f"{seconds:.1f} s" if seconds > longest_s else "")
                    defects += [f"{label}, {len(annotation)} words: {fault}"] if fault else []
    return count, defects, longest


def _try_rule(rule: Rule, annotation: Annotation, seed: int) -> tuple[float, str]:
    """Return the CPU seconds of a draw, and its error."""
    started = time.process_time()
    try:
        rule(annotation, np.random.default_rng(seed))
    except Exception as error:
        return time.process_time() - started, f"{type(error).__name__}: {error}"
    return time.process_time() - started, ""


def main(argv: list[str]) -> int:
    """Try all rules, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[10, 100, 1000, 2500])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--longest-s", type=float, default=LONGEST_S)
    args = parser.parse_args(argv)
    count, defects, longest = try_rules(args.words, args.draws, args.longest_s)
    for size, (seconds, label) in longest.items():
        print(f"{size} words: the longest draw takes {seconds:.3f} CPU s ({label})")
    print(f"{count} draws of {len(list_rules())} rules: {len(defects)} defects", *defects, sep="\n")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
