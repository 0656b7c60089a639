"""Print which methods' runs an edit of the data makes stale, and how long it takes to hash columns of many rows.

    python perf/stale_methods.py [--rows 100000 1000000]

Captions are analysed once, and written again after each edit: of a rule that annotates, of an option, of texts beside
captions. Methods are those of the field's grid (experiments/grids/field.yaml). Before there were hashes of columns,
each of these edits made every method stale. With --rows a shard of 4,096 rows is hashed as often as so many rows
need.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.config import grid, read  # noqa: E402
from compclip.data import column_hashes  # noqa: E402
from compclip.data.sample import NegativeImage, Region, Sample  # noqa: E402
from compclip.interface.method import list_columns, load_method  # noqa: E402
from compclip.prepare import annotate_shards, shard_writer  # noqa: E402
from compclip.text.annotation import Annotation  # noqa: E402
from compclip.text.annotation_columns import AnnotationColumns  # noqa: E402
from compclip.text.spacy_parser import annotate  # noqa: E402

TEXTS = (
    "A small brown dog is chasing a big black cat. It runs quickly through the wet grass.",
    "A man wearing a white hat is holding a red cup in a field near two horses.",
    "Two giraffes stand near trees and bushes.",
)
ROWS = 4096
Edit = Callable[[Sample, Annotation], tuple[Sample, Annotation]]


def of_caption(**change: Callable[[Annotation], object]) -> Edit:
    """Return an edit of fields of the annotation."""
    return lambda sample, a: (sample, replace(a, **dict[str, Any]((name, make(a)) for name, make in change.items())))


def of_texts(kind: str) -> Edit:
    """Return an edit of texts stored beside captions."""
    return lambda sample, a: (sample, replace(a, stored={**a.stored, kind: ("Another text.",)}))


def of_sample(**change: Any) -> Edit:
    """Return an edit of fields of the sample."""
    return lambda sample, a: (replace(sample, **change), a)


def put_word(a: Annotation, word: object) -> tuple:
    """Return a column of words in which a token's are others."""
    return (word, *[()] * (len(a) - 1))


EDITS: dict[str, Edit] = {
    "verb phrases end elsewhere (rule)": of_caption(verbs=lambda a: a.verbs[:-1]),
    "noun chunks end elsewhere (rule)": of_caption(chunks=lambda a: a.chunks[1:]),
    "a lemma is corrected (rule)": of_caption(lemma=lambda a: ("other", *a.lemma[1:])),
    "sentences end elsewhere (rule)": of_caption(sentences=lambda a: ((0, len(a.text)),)),
    "a tag is corrected (rule)": of_caption(tag=lambda a: ("CD", *a.tag[1:])),
    "`replacement_captions: 2`": of_caption(candidates=lambda a: put_word(a, ("other",))),
    "`relatives: true`, or other weights": of_caption(relatives=lambda a: tuple((("x",), (1,)) for _ in a.starts)),
    "`masked`: another model": of_caption(masked=lambda a: put_word(a, ("other",))),
    "`rewriter`: another model": of_caption(written_swap=lambda a: "Other.", written_replace=lambda a: "Another."),
    "`texts.paraphrase`: another list": of_texts("paraphrase"),
    "`texts.dense`: another list": of_texts("dense"),
    "`texts.negative`: another list": of_texts("negative"),
    "`regions`: another list": of_sample(regions=(Region(0.0, 0.0, 0.5, 1.0, ("a dog",)),)),
    "`negative_images`: another list": of_sample(negatives=(NegativeImage("other.jpg"),)),
    "a new column of texts": of_texts("new"),
    "`short_side`: smaller pictures": of_sample(image="small.tar", offset=512, length=9000),
}


def write_shard(folder: Path, edit: Edit | None = None, rows: int = len(TEXTS)) -> Path:
    """Write a shard of captions, of which the first one is edited; columns that the edits add are in it already."""
    annotations = annotate(TEXTS)
    columns = AnnotationColumns()
    samples = []
    added = []
    for row in range(rows):
        sample = Sample(f"{row:06}", f"{row:06}.jpg", (), "train", 640, 480)
        annotation = annotations[row % len(TEXTS)]
        if edit and row == 0:
            sample, annotation = edit(sample, annotation)
        samples.append(sample)
        added.append(annotation)
        columns.add(annotation)
    kinds = {kind for annotation in added for kind in annotation.stored}
    texts = {kind: [annotation.stored.get(kind, ()) for annotation in added] for kind in sorted(kinds)}
    path = folder / "shard.arrow"
    shard_writer.write_batch(path, annotate_shards.build_batch(samples, [1] * rows, columns, texts))
    return path


def list_table(folder: Path) -> list[str]:
    """Return the lines of a table in Markdown: each edit, its columns, and the methods that it makes stale."""
    params = read.load_params(ROOT / "experiments/grids/field.yaml")
    methods = {}
    for name in params.grid.methods:
        config, _ = grid.method_config(params, name, params.grid.data[0])
        methods[name] = list_columns(load_method(name), config)
    lines = ["| edit | columns | before | now | which |", "|---|---|---|---|---|"]
    first = column_hashes.hash_shard(write_shard(folder), folder / "none")
    for title, edit in EDITS.items():
        hashes = column_hashes.hash_shard(write_shard(folder, edit), folder / "none")
        changed = {name for name in hashes if hashes[name] != first.get(name)}
        stale = [name for name, columns in methods.items() if columns & changed]
        named = ", ".join(stale) if len(stale) < len(methods) - 2 else "all that train"
        columns = ", ".join(sorted(changed))
        lines.append(f"| {title} | {columns} | {len(methods)} | {len(stale)} | {named or 'none'} |")
    return lines


def measure(folder: Path, rows: int) -> dict[str, float]:
    """Return the CPU seconds and the further memory that it takes to hash so many rows."""
    path = write_shard(folder, None, ROWS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    column_hashes.join_shards([column_hashes.hash_shard(path, folder / "none") for _ in range(-(-rows // ROWS))])
    seconds = time.process_time() - started
    mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "rows": rows,
        "cpu_seconds": round(seconds, 2),
        "more_mib": round(mib, 1),
        "shard_bytes": path.stat().st_size,
    }


def main(argv: Sequence[str]) -> int:
    """Print the table, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[], help="measure so many rows")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if not args.rows:
            print("\n".join(list_table(Path(folder))))
        for rows in args.rows:
            print(json.dumps(measure(Path(folder), rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
