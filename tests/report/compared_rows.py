"""A table of three methods over one benchmark of eighty records, two metrics and one picture each, made in memory."""

from pathlib import Path

import numpy as np

from compclip.config.cell import Cell
from compclip.prepare import record_writer
from compclip.prepare.record_writer import BenchmarkRecords, RecordPicture, StoredRecord
from compclip.report.tables import MethodRow, ResultTable
from compclip.runs.item_outcomes import COMPOSITION, Items
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Trained

RECORDS = 80
METHODS = ("pretrained", "finetune", "negclip")
METRICS = ("itt", "tot")


def is_above(number: int) -> bool:
    """Whether a record's first text says above; the second then says below, and else the other way round."""
    return number % 4 == 0


def write_records(tmp_path: Path, picture: str = "gone.png") -> BenchmarkRecords:
    """Write and read the records."""
    file = record_writer.records_file(tmp_path, "made")
    records = []
    pictures = (RecordPicture(picture, 0, 0, ()),)
    for number in range(RECORDS):
        texts = ("cup above hat", "cup below hat")
        texts = texts if is_above(number) else texts[::-1]
        records.append(StoredRecord("made", str(number), texts, (f"part {number % 2}",), pictures))
    record_writer.write_records(file, records, ["f"])
    return record_writer.read_records(file)


def make_table(outcomes: dict[str, np.ndarray], seeds: tuple[int, ...] = (0,), fingerprint: str = "f") -> ResultTable:
    """A table whose rows have these outcomes, of shape metrics x records, under every seed."""
    rows = []
    for method, outcome_MR in outcomes.items():
        runs = tuple(_make_run(method, seed, outcome_MR, fingerprint) for seed in seeds)
        rows.append(MethodRow(method, runs, {}))
    return ResultTable("vit", "scenes", (), tuple(rows))


def _make_run(method: str, seed: int, outcome_MR: np.ndarray, fingerprint: str) -> FinishedRun:
    ids = tuple(map(str, range(RECORDS)))
    items = {
        name: Items(ids, values, units=tuple(range(RECORDS))) for name, values in zip(METRICS, outcome_MR, strict=True)
    }
    items["mean_score"] = Items(ids, np.linspace(0, 9, RECORDS))
    metrics = {name: float(of_metric.values.mean()) for name, of_metric in items.items()}
    scores = frozenset(("mean_score",))
    result = Result("made", "made", COMPOSITION, metrics, scores=scores, items=items, fingerprint=fingerprint)
    return FinishedRun(Trained(Path()), Path(), Cell(method, "vit", "scenes", seed), {}, [], {}, {"made": result})
