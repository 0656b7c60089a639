"""What do balanced negatives cost beside the annotation of the same captions, and does it grow with their number?

    python -m perf.speed.balanced_negatives [data/scenes] [--captions 1200 12000] [--rules negclip] [--annotated 1000]

Of each number of captions, taken from the front of a prepared data set: milliseconds of CPU a caption, in all and for
counting words, drawing candidates, and choosing. "annotation" is what spaCy and WordNet take for the first of them, in
the same run; `--annotated 0` leaves it out, so that the peak of memory is that of the balance.

Takes a minute; needs a prepared data set with candidates.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

from compclip.base.errors import entry
from compclip.config.released_lists import BalancedTexts
from compclip.data.sample import Sample
from compclip.data.shard_files import MANIFEST, SAMPLES, SHARDS, read_batch, read_manifest
from compclip.prepare import balanced_negatives, shard_writer
from compclip.prepare.balanced_negatives import ShardBalance
from compclip.text import spacy_parser
from compclip.text.annotation_columns import AnnotationRows


def main(argv: list[str]) -> int:
    """Print a row for each number of captions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=Path("data/scenes"))
    parser.add_argument("--captions", nargs="+", type=int, default=[1200, 12000])
    parser.add_argument("--rules", nargs="+", default=["negclip"])
    parser.add_argument("--annotated", type=int, default=1000)
    args = parser.parse_args(argv)
    annotation = measure_annotation(args.data, args.annotated) if args.annotated else float("nan")
    print(f"annotation: {annotation:.2f} ms of CPU a caption")
    print(f"{'captions':>10}{'ms each':>10}{'words':>8}{'draw':>8}{'choose':>8}{'of annotation':>15}{'peak MiB':>10}")
    for count in args.captions:
        parts = [1000 * seconds / count for seconds in measure_balance(args.data, count, args.rules)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        times = "".join(f"{part:8.3f}" for part in parts)
        print(f"{count:>10}{sum(parts):10.3f}{times}{sum(parts) / annotation:15.2f}{peak:10.0f}")
    return 0


def measure_annotation(data: Path, count: int) -> float:
    """Return milliseconds of CPU a caption, the parser's start left out."""
    first = read_manifest(data / SAMPLES / MANIFEST, "recaption").shards[0]
    samples = shard_writer.load_samples(data / SAMPLES / f"{first.name}.arrow")
    captions = [caption for sample in samples for caption in sample.captions][:count]
    spacy_parser.annotate(captions[:50])
    start = time.process_time()
    spacy_parser.annotate(captions)
    return 1000 * (time.process_time() - start) / len(captions)


def measure_balance(data: Path, count: int, rules: list[str]) -> tuple[float, float, float]:
    """Return seconds of CPU for counting words, drawing candidates and choosing, shard by shard."""
    manifest = read_manifest(data / SAMPLES / MANIFEST, "recaption")
    files = tuple(balanced_negatives.language_files(data, manifest))
    balanced_negatives.count_language.cache_clear()
    start = time.process_time()
    balanced_negatives.count_language(files)
    words, draw, choose = time.process_time() - start, 0.0, 0.0
    for shard in manifest.shards:
        samples = shard_writer.load_samples(data / SAMPLES / f"{shard.name}.arrow")[: max(count, 0)]
        count -= sum(len(sample.captions) for sample in samples)
        drawing, choosing = measure_shard(data / SHARDS / f"{shard.name}.arrow", samples, files, rules)
        draw, choose = draw + drawing, choose + choosing
    return words, draw, choose


def measure_shard(path: Path, samples: list[Sample], files: tuple[str, ...], rules: list[str]) -> tuple[float, float]:
    """Return seconds of CPU for drawing and choosing of one shard's first samples."""
    rows = AnnotationRows(read_batch(path, "annotate", mapped=True)["captions"].values)
    annotations = [rows[index] for index in range(sum(len(sample.captions) for sample in samples))]
    balance = ShardBalance(BalancedTexts(rules=rules), files)  # type: ignore[arg-type]  # names from the command line
    start = time.process_time()
    for annotation in annotations:
        balance.draw(annotation)
    drawn = time.process_time()
    balance.choose(samples)
    return drawn - start, time.process_time() - drawn


if __name__ == "__main__":
    sys.exit(entry(main))
