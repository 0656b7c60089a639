"""Rewriting rules against parsing again: captions a second of each rule, and ratios to spaCy in the same run.

    python -m perf.speed.text_rules [captions file] [--limit 1000] [--rounds 5]

The file holds one caption a line, or is a COCO captions JSON or a Flickr8k captions.txt. Without one the captions of
the shared data are taken (COMPCLIP_SHARED_DATA, or ../shared/data). Released code parses every caption at every step:
"spaCy" below is what that costs, with the same model and components and in batches.

Takes a minute; needs captions (the shared data's).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError, entry
from compclip.base.files import read_json, read_text
from compclip.text import positives, replace, shuffle, swap
from compclip.text import spacy_parser as stage
from compclip.text.annotation import Annotation
from perf.checkout import ROOT

RULES = {
    "negclip": swap.negclip,
    "replace": replace.wordnet,
    "bigram": shuffle.bigram,
    "single": swap.single,
    "positive replace": positives.replace,
    "positive swap": positives.swap,
}


def read(path: Path) -> list[str]:
    """The captions of a file in one of the three formats."""
    if path.suffix == ".json":
        return [record["caption"] for record in read_json(path)["annotations"]]
    lines = read_text(path).splitlines()
    return [row["caption"] for row in csv.DictReader(lines)] if lines[:1] == ["image,caption"] else lines


def shared() -> Path:
    """Where real data lie, if there are any."""
    return Path(os.environ.get("COMPCLIP_SHARED_DATA", ROOT.parent / "shared" / "data"))


def captions(file: str | None, limit: int) -> list[str]:
    """`limit` captions drawn at random, the same every time."""
    usual = (shared() / "coco/annotations/captions_val2017.json", shared() / "flickr8k/captions.txt")
    files = [Path(file)] if file else [p for p in usual if p.is_file()]
    texts = [text for path in files for text in read(path)]
    if not texts:
        raise UserError(f"no captions in {file or shared()}; give a file with one caption a line")
    return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[:limit]]


def seconds(work: Callable[[], object], rounds: int = 1) -> float:
    """CPU time of the fastest of some rounds: others on the machine do not count."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def rewrite(rule: Any, annotations: list[Annotation], rng: np.random.Generator) -> list[str | None]:
    """Each caption by a rule."""
    return [rule(a, rng) for a in annotations]


def measure(annotations: list[Annotation], rounds: int) -> dict[str, dict[str, float]]:
    """For each rule captions a second and the part of captions it covers; CLIC in pairs."""
    rng = np.random.default_rng(0)
    pairs = list(zip(annotations, annotations[1:] + annotations[:1], strict=True))
    work: dict[str, Callable[[], list[Any]]] = {}
    for name, rule in RULES.items():
        work[name] = partial(rewrite, rule, annotations, rng)
    work["clic (pairs)"] = lambda: [swap.clic(a, b, rng) for a, b in pairs]
    work["concepts"] = lambda: [a.concepts() or None for a in annotations]
    rows = {}
    for name, run in work.items():
        rows[name] = {
            "per_second": len(annotations) / seconds(run, rounds),
            "coverage": float(np.mean([text is not None for text in run()])),
        }
    three = 1 / sum(1 / rows[name]["per_second"] for name in ("negclip", "replace", "bigram"))
    return rows | {"negclip + replace + bigram": {"per_second": three}}


def main(argv: list[str]) -> int:
    """Print one line a rule and, with --json, the same as JSON."""
    parser = argparse.ArgumentParser(prog="python -m perf.speed.text_rules", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    texts = captions(args.file, args.limit)
    stage.annotate(texts[:1])  # loads the model and WordNet
    first = seconds(lambda: stage.annotate(texts))
    parse = seconds(lambda: list(stage._load_model().pipe(texts, batch_size=128)), 2)
    annotations = stage.annotate(texts)
    rows = {
        "spaCy": {"per_second": len(texts) / parse},
        "annotate, words new": {"per_second": len(texts) / first},
        "annotate, words known": {"per_second": len(texts) / seconds(lambda: stage.annotate(texts))},
    }
    rows |= measure(annotations, args.rounds)
    for row in rows.values():
        row["times_spacy"] = row["per_second"] / rows["spaCy"]["per_second"]
    print(json.dumps({"captions": len(texts), "rows": rows}, indent=1) if args.json else table(rows, len(texts)))
    return 0


def table(rows: dict[str, dict[str, float]], count: int) -> str:
    """The measurements as text."""
    lines = [f"{count} captions, one process", f"{'':28}{'a second':>10}{'x spaCy':>10}{'coverage':>10}"]
    for name, row in rows.items():
        coverage = f"{row['coverage']:10.3f}" if "coverage" in row else ""
        lines.append(f"{name:28}{row['per_second']:10,.0f}{row['times_spacy']:10.1f}{coverage}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(entry(main))
