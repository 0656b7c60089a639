"""Memory and start of training, and a `dvc repro` with nothing to do, over made data of any size (`data.py scale`)."""

from __future__ import annotations

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

from compclip.base.files import write_json
from compclip.base.names import Name
from compclip.config import read
from compclip.data import partners, prepare, shards
from compclip.data.prepared import Prepared
from compclip.data.sample import Sample
from compclip.data.work import ANNOTATE, Work
from perf import data_made, data_memory
from perf.cells import command
from perf.checkout import copy

PARAMS = """
grid: {methods: [pretrained], backbones: [tiny], data: [big], seeds: [0]}
methods: {pretrained: {}}
backbones: {tiny: {model: tiny.json}}
data: {big: {source: webdataset, path: data/tars, images: data/tars, captioner: none}}
benchmarks: {sugarcrepe: {path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}}
evaluate: {benchmarks: [sugarcrepe], threads: 1}
wise_ft: {methods: [], seeds: [], benchmarks: [], alphas: [0, 1]}
scenes: {seed: 0, train: 8, retrieval: 4, records: 2, per_class: 1, processes: 1}
"""
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


def project(root: Path, count: int, rows: int) -> dict[str, Any]:
    """A project whose data stages are finished; what the stages took, in CPU and wall seconds."""
    copy(root, PARAMS)
    write_json(root / "tiny.json", TINY)
    data_made.tars(root / "data" / "tars", count, rows)
    found = {"recaption_s": command(root, *QUIET, f"recaption@{NAME}", f"rewrite@{NAME}", "benchmark")}
    with contextlib.chdir(root):
        made = asked()
        found["analyse_a_shard_s"] = command(Path(), "compclip.data.work", str(made.folder), made.items[0].name)
        data_made.annotated(made, rows)
    found["collect_annotate_s"] = command(root, *QUIET, f"annotate@{NAME}")
    found["nothing_s"] = command(root, *QUIET, f"annotate@{NAME}")
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def asked() -> Work:
    """The work of `annotate`, in the project of the current folder."""
    return prepare.asked(ANNOTATE, Name(NAME, "data"), read.load("params.yaml").data[NAME])


def trained(data: Path, pictures: bool = True) -> dict[str, Any]:
    """How training begins with a data set, for each kind of views, with workers and without."""
    found = {}
    for kind, workers in itertools.product(KINDS, (0, WORKERS)):
        name = f"{kind}, {workers} workers"
        found[name] = data_memory.fresh(started, str(data), kind, workers, pictures)
        print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    return found


def scale(folder: Path, samples: int, rows: int) -> dict[str, Any]:
    """One size: a project, then training's start."""
    made = project(folder, -(-samples // rows), rows)
    found = {"samples": samples, "shards": -(-samples // rows)} | made | trained(folder / "data" / NAME)
    return found | {"broken": list(broken(found))}


def repeated(folder: Path, rows: int, count: int) -> dict[str, Any]:
    """Many rows without pictures: `count` shards that are links to one; what they have in common is really written."""
    project(folder, 1, rows)
    out = folder / "data" / "repeated"
    data_made.repeated(folder / "data" / NAME, out, count)
    written = data_memory.fresh(joined, str(out))
    found = {"samples": rows * count, "shards": count, "partners": written} | trained(out, pictures=False)
    return found | {"broken": list(broken(found))}


def joined(folder: str) -> dict[str, Any]:
    """What it takes to write which captions share a noun."""
    data = Path(folder)
    names = [shard.name for shard in shards.read_manifest(data / shards.MANIFEST, "annotate").shards]
    with data_memory.peak() as found, data_memory.spent() as times:
        partners.write(data / partners.FILE, [data / shards.SHARDS / f"{name}.arrow" for name in names])
    return {"cpu_s": times["cpu_s"], "peak_mib": found["mib"], "file_mib": _mib(data / partners.FILE)}


def _mib(path: Path) -> float:
    return round(path.stat().st_size / 2**20, 1)


def broken(found: dict[str, Any]) -> Iterator[str]:
    """The bounds that do not hold: the start's at a million samples and less."""
    for name, one in found.items():
        if isinstance(one, dict) and max([one.get("peak_mib", 0), *one.get("workers_mib", [])]) > MEMORY_MIB:
            yield f"{name}: memory"
        if isinstance(one, dict) and one.get("first_batch_s", 0) > START_S and found["samples"] <= 10**6:
            yield f"{name}: start"
    if "nothing_s" in found and found["nothing_s"][0] > NOTHING_S:
        yield "nothing_s"


# --- in a fresh process ---------------------------------------------------------------------------------------


def started(data: str, kind: str, workers: int, pictures: bool) -> dict[str, Any]:
    """Seconds from an opened model to the first batch, then memory above the model over some batches."""
    from compclip.train.views import Maker, Rows

    os.chdir(Path(data).parent.parent)  # pictures are named from the project's root
    model, views = _model(), _views(kind)
    with data_memory.peak() as found:
        began, cpu = time.perf_counter(), time.process_time()
        maker = Maker(Prepared(Path(data)), 0, model.image_size, **({} if pictures else {"load": _blank}))
        rows = Rows(maker, BATCH)
        with _made(rows, views, model, workers) as made:
            next(made)
            first = {"first_batch_s": round(time.perf_counter() - began, 2)}
            first["driver_cpu_s"] = round(time.process_time() - cpu, 2)
            for _ in itertools.islice(made, STEPS):
                pass
            others = [data_memory.memory(pid)["own_dirty"] for pid in _children()]
    now = data_memory.memory()
    return first | {"peak_mib": found["mib"], "mapped_mib": now["mapped"], "workers_mib": others}


@contextlib.contextmanager
def _made(rows: Any, views: Any, model: Any, workers: int) -> Iterator[Iterator[Any]]:
    """The batches from a step in a later epoch on: two orders are held."""
    from compclip.train import loader

    made = loader.batches(rows, lambda _: views, model, range(rows.per_epoch - 8, rows.per_epoch + STEPS), workers)
    yield made
    del made


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
    from compclip.methods import clic, negclip

    if kind == "one":
        return negclip.views(negclip.Config(), 0)
    return clic.views(clic.Config(partner=kind), 0)


def _blank(_: Sample | None) -> Image.Image:
    return Image.new("RGB", (data_made.SIDE, data_made.SIDE))


def _children() -> list[int]:
    """Processes that this one started and that live."""
    own = os.getpid()
    return [int(n) for n in Path(f"/proc/{own}/task/{own}/children").read_text().split()]
