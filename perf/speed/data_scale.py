"""Measure the start and memory of training, and a `dvc repro` with nothing to do, over data sets of any size.

    python -m perf.speed.data_scale [--samples 10000 100000 1000000] [--folder FOLDER]
    python -m perf.speed.data_scale --shards 1200        # 12 million samples without pictures
    python -m perf.speed.data_scale --shards 2930 --rows 4096 --table     # the same of a CSV that names pictures
    python -m perf.speed.data_scale --regions 10   # ten regions a sample as well, which a fourth kind of views shows

The project lies over tars of 10,000 samples with captions of 70 words. `recaption` (captioner `none`) and `annotate`
run through `dvc repro`; one shard is really analysed, the others are made of its columns with other texts. Then the
same is run with nothing to do. Fresh processes measure the seconds until a first batch for three kinds of views, and
memory above the model. With --shards all shards are links to one. The last line printed is a JSON document; exit code 1
where a bound is broken. `--folder` keeps what is made.

Takes 10 minutes up to 1e6 samples; needs 5 GB of disk for 1e6 samples.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from compclip.base.errors import entry
from compclip.base.files import write_json
from compclip.base.safe_names import SafeName
from compclip.config import read
from compclip.data import shard_files
from compclip.data.prepared_dataset import NOUNS_FILE, PreparedDataset
from compclip.data.sample import Sample
from compclip.prepare import shard_stages, shard_writer
from compclip.prepare.shard_work import ShardWork
from compclip.runs.shard_tasks import ANNOTATE
from perf.checkout import copy
from perf.speed import made_tars, process_memory
from perf.speed.cells import command

PARAMS = """
grid: {methods: [pretrained], backbones: [tiny], data: [big], seeds: [0]}
methods: {pretrained: {}}
backbones: {tiny: {model: tiny.json}}
data: {big: {SOURCE, captioner: none}}
benchmarks: {sugarcrepe: {path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}}
evaluate: {benchmarks: [sugarcrepe], threads: 1}
wise_ft: {methods: [], seeds: [], benchmarks: [], alphas: [0, 1]}
scenes: {seed: 0, train: 8, retrieval: 4, records: 2, per_class: 1, processes: 1}
"""
TARS = "source: webdataset, path: data/tars, images: data/tars"
TABLE = "source: table, path: data/table/t.csv, images: data/table"
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 1, "layers": 1},
}
NAME = "big"
QUIET = ("dvc", "repro", "--quiet")
BATCH, STEPS, WORKERS = 64, 30, 2
MEMORY_MIB, START_S, NOTHING_S = 300.0, 5.0, 10.0
KINDS = ("one", "random", "common_noun")  # views: of one picture, and CLIC's composites by their partner
REGIONS = "regions"


def project(root: Path, count: int, rows: int, regions: int, is_table: bool = False) -> dict[str, Any]:
    """A project whose data stages are finished; what the stages took, in CPU and wall seconds."""
    section = f", regions: {{file: {made_tars.LIST}, on: key, column: regions}}}}}}"
    params = PARAMS.replace("SOURCE", TABLE if is_table else TARS)
    copy(root, params.replace("captioner: none}}", f"captioner: none{section}") if regions else params)
    write_json(root / "tiny.json", TINY)
    if is_table:
        made_tars.table(root / "data" / "table", rows)
    else:
        made_tars.tars(root / "data" / "tars", count, rows)
    if regions:
        made_tars.region_list(root / made_tars.LIST, count * rows, regions)
    figures = {"recaption_s": command(root, *QUIET, f"recaption@{NAME}", f"rewrite@{NAME}", "benchmark")}
    with contextlib.chdir(root):
        work = plan_annotation()
        figures["analyse_a_shard_s"] = command(
            Path(), "compclip.prepare.shard_work", str(work.folder), work.items[0].name
        )
        made_tars.annotated(work, rows)
    figures["collect_annotate_s"] = command(root, *QUIET, f"annotate@{NAME}")
    figures["nothing_s"] = command(root, *QUIET, f"annotate@{NAME}")
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def plan_annotation() -> ShardWork:
    """The work of `annotate`, in the project of the current folder."""
    return shard_stages.plan_work(ANNOTATE, SafeName(NAME, "data"), read.load_params("params.yaml").data[NAME])


def trained(data: Path, kinds: tuple[str, ...] = KINDS, pictures: bool = True) -> dict[str, Any]:
    """How training begins with a data set, for each kind of views, with workers and without."""
    figures = {}
    for kind, workers in itertools.product(kinds, (0, WORKERS)):
        name = f"{kind}, {workers} workers"
        figures[name] = process_memory.call_in_fresh_process(started, str(data), kind, workers, pictures)
        print(json.dumps({name: figures[name]}), file=sys.stderr, flush=True)
    return figures


def scale(folder: Path, samples: int, rows: int, regions: int) -> dict[str, Any]:
    """One size: a project, then training's start."""
    stage_figures = project(folder, -(-samples // rows), rows, regions)
    kinds = (*KINDS, REGIONS) if regions else KINDS
    figures = (
        {"samples": samples, "shards": -(-samples // rows)} | stage_figures | trained(folder / "data" / NAME, kinds)
    )
    return figures | {"broken": list(broken(figures))}


def repeated(folder: Path, rows: int, count: int, is_table: bool) -> dict[str, Any]:
    """Many rows without pictures: `count` shards that are links to one; what they have in common is really written."""
    project(folder, 1, rows, 0, is_table)
    out = folder / "data" / "repeated"
    made_tars.repeated(folder / "data" / NAME, out, count)
    index_figures = process_memory.call_in_fresh_process(joined, str(out))
    figures = {"samples": rows * count, "shards": count, "partners": index_figures} | trained(out, pictures=False)
    return figures | {"broken": list(broken(figures))}


def joined(folder: str) -> dict[str, Any]:
    """What it takes to write which captions share a noun."""
    data = Path(folder)
    names = [shard.name for shard in shard_files.read_manifest(data / shard_files.MANIFEST, "annotate").shards]
    with process_memory.peak() as memory_peak, process_memory.spent() as times:
        shard_writer.write_noun_index(
            data / NOUNS_FILE, [data / shard_files.SHARDS / f"{name}.arrow" for name in names]
        )
    return {"cpu_s": times["cpu_s"], "peak_mib": memory_peak["mib"], "file_mib": _mib(data / NOUNS_FILE)}


def _mib(path: Path) -> float:
    return round(path.stat().st_size / 2**20, 1)


def broken(figures: dict[str, Any]) -> Iterator[str]:
    """The bounds that do not hold: the start's at a million samples and less."""
    for name, figure in figures.items():
        if isinstance(figure, dict) and max([figure.get("peak_mib", 0), *figure.get("workers_mib", [])]) > MEMORY_MIB:
            yield f"{name}: memory"
        if isinstance(figure, dict) and figure.get("first_batch_s", 0) > START_S and figures["samples"] <= 10**6:
            yield f"{name}: start"
    if "nothing_s" in figures and figures["nothing_s"][0] > NOTHING_S:
        yield "nothing_s"


# --- in a fresh process ---------------------------------------------------------------------------------------


def started(data: str, kind: str, workers: int, pictures: bool) -> dict[str, Any]:
    """Seconds from an opened model to the first batch, then memory above the model over some batches."""
    from compclip.train.loader import EpochSampler
    from compclip.train.view_maker import ViewMaker

    os.chdir(Path(data).parent.parent)  # pictures are named from the project's root
    model, views = _model(), _views(kind)
    with process_memory.peak() as memory_peak:
        began, cpu = time.perf_counter(), time.process_time()
        options: dict[str, Any] = {} if pictures else {"load": _blank}
        maker = ViewMaker(PreparedDataset(Path(data)), 0, model.image_size, **options)
        rows = EpochSampler(maker, BATCH)
        with _open_batches(rows, views, model, workers) as batches:
            next(batches)
            first = {"first_batch_s": round(time.perf_counter() - began, 2)}
            first["driver_cpu_s"] = round(time.process_time() - cpu, 2)
            for _ in itertools.islice(batches, STEPS):
                pass
            workers_mib = [process_memory.memory(pid)["own_dirty"] for pid in _children()]
    now = process_memory.memory()
    return first | {"peak_mib": memory_peak["mib"], "mapped_mib": now["mapped"], "workers_mib": workers_mib}


@contextlib.contextmanager
def _open_batches(rows: Any, views: Any, model: Any, workers: int) -> Iterator[Iterator[Any]]:
    """The batches from a step in a later epoch on: two orders are held."""
    from compclip.train import loader

    steps = range(rows.per_epoch - 8, rows.per_epoch + STEPS)
    with loader.open_batches(rows, lambda _: views, model, steps, workers) as batches:
        yield batches


def _model() -> Any:
    """A tiny model, and all that its first batch would import."""
    import torch

    from compclip.model import backbone

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder, "tiny.json"), TINY)
        model = backbone.create(f"{folder}/tiny.json", "", 0)
    model.pixels([_blank(None)])
    model.tokenize(["a dog"])
    return model


def _views(kind: str) -> Any:
    from compclip.interface.views import Regions, Views
    from compclip.methods import clic, negclip

    if kind == REGIONS:
        return Views(regions=Regions(4, negatives=2))
    if kind == "one":
        return negclip.views(negclip.Config(), 0)
    return clic.views(clic.Config(partner=kind), 0)


def _blank(_: Sample | None) -> Image.Image:
    return Image.new("RGB", (made_tars.SIDE, made_tars.SIDE))


def _children() -> list[int]:
    """Processes that this one started and that live."""
    pid = os.getpid()
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- the command ------------------------------------------------------------------------------------------------


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m perf.speed.data_scale", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="an empty folder, which stays; default: a temporary one")
    parser.add_argument("--samples", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--rows", type=int, default=made_tars.ROWS, help="samples of a tar")
    parser.add_argument("--regions", type=int, default=0, help="regions of a sample, in a list")
    parser.add_argument("--table", action="store_true", help="of a CSV that names pictures; with --shards")
    parser.add_argument("--shards", type=int, default=0, help="measure so many links to one shard instead")
    return parser.parse_args(argv)


def measure(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure every size, or many links to one shard."""
    if args.shards:
        return [repeated(folder / "rows", args.rows, args.shards, args.table)]
    return [scale(folder / str(samples), samples, args.rows, args.regions) for samples in args.samples]


def main(argv: list[str]) -> int:
    """Measure, print, and say which bounds are broken."""
    args = parse(argv)
    with tempfile.TemporaryDirectory(prefix="data-") as temporary:
        sizes = measure(Path(args.folder).absolute() if args.folder else Path(temporary), args)
    print(json.dumps(sizes), flush=True)
    return 1 if any(size["broken"] for size in sizes) else 0


if __name__ == "__main__":
    sys.exit(entry(main))
