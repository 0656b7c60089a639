"""Score benchmarks without their pictures: what length, word frequency or word pairs of the captions get right.

The captions are those of a data set. Each benchmark's own code counts a blind score as that of picture and text; ties
are wrong. Only benchmarks of composition are scored, without metrics of texts alone and mean scores. Results are
results/_blind/<data>/<row>/<benchmark>.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from compclip.base import links, messages, safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping
from compclip.base.safe_names import SafeName
from compclip.config.plan import reading
from compclip.config.sections import BenchmarkSection as Section
from compclip.config.sections import Scoring
from compclip.data import column_hashes, shard_files
from compclip.evaluate import benchmark_module, metrics
from compclip.evaluate.benchmark_module import LoadedBenchmarks
from compclip.evaluate.embeddings import Embeddings, NoVectorsError
from compclip.runs import run_folder
from compclip.runs.item_outcomes import COMPOSITION
from compclip.text import blind_language
from compclip.text.annotation_columns import StringColumn

PLAN = Path("plan/blind")
AT_MOST = 100_000  # captions that are counted, evenly spaced over all; a minute's work would be ten times as many
STAGE = "annotate"


@dataclass(frozen=True)
class TextScores(Embeddings):
    """Scores of texts in the place of cosines, whatever picture is beside them."""

    score_of: Mapping[str, float] = field(kw_only=True)

    def has(self, refs: Iterable[str]) -> bool:
        """Return True: no picture is looked at."""
        return True

    def images(self, refs: Sequence[str]) -> np.ndarray:
        """Raises NoVectorsError: no picture is looked at."""
        raise NoVectorsError("pictures")

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Raises NoVectorsError: a text has a score and no vector."""
        raise NoVectorsError("texts")

    def matches(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the score of text n, shape N."""
        return np.array([self.score_of[text] for text in texts])

    def similarities(self, texts: Sequence[str], other_texts: Sequence[str]) -> np.ndarray:
        """Return no numbers: what compares texts with texts is blind already, and left out."""
        return np.full(len(texts), np.nan)

    def table(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the score of every text beside every image [len(refs), len(texts)]."""
        return np.tile(self.matches((), texts), (len(refs), 1))

    def blocks(self, refs: Sequence[str], texts: Sequence[str]) -> tuple[metrics.BlockScores, metrics.BlockScores]:
        """Return those of the whole table."""
        return metrics.table_blocks(self.table(refs, texts))


def score_blind(loaded: LoadedBenchmarks, names: Sequence[str], captions: Sequence[str]) -> dict[str, dict[str, dict]]:
    """Return result documents by row and benchmark.

    A benchmark that asks for vectors is left out, with a warning. Raises UserError where there is no caption to count.
    """
    if not captions:
        raise UserError("captions: are none; give a file or a data set that has some")
    counts = blind_language.count_captions(captions)
    benchmarks = {name: b for name, b in loaded.benchmarks.items() if b.kind == COMPOSITION}
    compared = replace(loaded, benchmarks=benchmarks)
    texts = sorted({text for benchmark in benchmarks.values() for text in benchmark.texts})
    rows = {}
    for name in names:
        start = time.perf_counter()
        scores = map(blind_language.make_score(name, counts), texts)
        nothing = np.zeros((0, 0), np.float32)
        targets = TextScores(nothing, nothing, {}, {}, {}, score_of=dict(zip(texts, scores, strict=True)))
        scored = {}
        for benchmark_name, benchmark in benchmarks.items():
            try:
                outcomes = benchmark.score(targets, (*benchmark.texts_alone, *benchmark.scores))
            except NoVectorsError as error:
                messages.warn(f"{benchmark_name}: {name} is left out: {error}")
            else:
                scored[benchmark_name] = outcomes
        made_with = {"blind": name, "captions": str(counts.captions)}
        seconds = round(time.perf_counter() - start, 3)
        rows[name] = benchmark_module.result_documents(scored, compared, made_with, seconds)
    return rows


# --- captions -------------------------------------------------------------------------------------------------


def read_prepared_captions(folder: Path, at_most: int = AT_MOST) -> list[str]:
    """Read captions of an annotated data set, evenly spaced where it has more than `at_most`."""
    column_hashes.check_files(folder)
    manifest = shard_files.read_manifest(folder / shard_files.MANIFEST, STAGE)
    step = max(1, -(-manifest.captions // at_most))
    captions = []
    number = 0
    for shard in manifest.shards:
        batch = shard_files.read_batch(folder / shard_files.SHARDS / f"{shard.name}.arrow", STAGE, mapped=True)
        texts = StringColumn(batch["captions"].values.field("text"))
        for row in range(-number % step, shard.captions, step):
            captions.append(texts[row].decode())
        number += shard.captions
    return captions


# --- the command ----------------------------------------------------------------------------------------------


def write_rows(data: SafeName, root: Path) -> dict[str, dict[str, dict]]:
    """Write the blind rows of a data set as its plan asks, in the place of those before."""
    from compclip.evaluate import result_store

    path = root / PLAN / f"{data}.json"
    out = run_folder.blind_folder(root, data)
    if not path.is_file():
        raise UserError(f"{path}: not there; run `compclip repro plan` first, or `compclip repro blind@{data}`")
    with reading(path):
        document = read_mapping(path)
        sections = {name: Section(**section) for name, section in document["benchmarks"].items()}
        rows = document["rows"]
        how = Scoring(ties=document["ties"])
    links.remove(out)
    out.mkdir(parents=True)
    documents: dict[str, dict[str, dict]] = {}
    if rows:
        captions = read_prepared_captions(root / "data" / data)
        documents = score_blind(benchmark_module.load_benchmarks(sections, list(sections), how), rows, captions)
    for row, row_documents in documents.items():
        result_store.write_documents(row_documents, out / row)
    return documents


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Write the blind rows of a data set."""
    parser = CommandParser(prog="compclip evaluate blind", description=__doc__, example="--data scenes")
    parser.add_argument("--data", required=True, help="a data set of params.yaml")
    data = safe_names.parse_name(parser.parse_args(argv).data, "--data")
    documents = write_rows(data, root)
    print(f"{data}: {len(documents)} blind rows", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
