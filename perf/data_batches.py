"""Batches a second: from tars, from loose files, and by open_clip's own loader from the same tars (`data.py batches`).

The same photographs, texts, tokens, decoding and transforms, the same number of batches in each turn. open_clip's own
`get_wds_dataset` needs `webdataset` of at most 0.2.86, which is no dependency here: where it is missing a stand-in
reads the tars one after the other as that does, through torch's IterableDataset.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import itertools
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from compclip.base.files import write_atomic
from compclip.base.names import Name
from compclip.config.sections import Data
from compclip.data import images, prepare
from compclip.data.prepared import Prepared
from compclip.model import backbone
from compclip.train import loader
from compclip.train.batch import Views
from compclip.train.views import Maker, Rows
from perf import annotation, data_made, data_memory, text_rules

BATCH, WORKERS, TARS = 64, 2, 4
FILES, OPEN_CLIP = 0.95, 1.0  # the least that tars may be of each
MODEL = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 224, "patch_size": 32, "width": 64, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1},
}
Batches = Callable[[int], Iterable[Any]]  # so many batches


def photographs(limit: int) -> list[bytes]:
    """Photographs of the shared data; made pictures of their size where there are none."""
    shared = text_rules.shared()
    found = sorted([*shared.glob("coco/val2017/*.jpg"), *shared.glob("flickr8k/Images/*.jpg")])
    rng = np.random.default_rng(0)
    order = rng.permutation(len(found))[:limit].tolist()
    return [found[i].read_bytes() for i in order] or [_noise(rng) for _ in range(limit)]


def _noise(rng: np.random.Generator) -> bytes:
    raw, small = io.BytesIO(), rng.integers(0, 256, (30, 40, 3), np.uint8)
    Image.fromarray(small).resize((500, 375)).save(raw, "JPEG")
    return raw.getvalue()


def written(folder: Path, pictures: list[bytes]) -> tuple[Prepared, Prepared]:
    """The pictures in tars and in loose files, each as a prepared data set."""
    texts = annotation.captions(annotation.lines(None), len(pictures), 0)
    rows = [(f"{i:09d}", raw, text) for i, (raw, text) in enumerate(zip(pictures, texts, strict=True))]
    size = -(-len(rows) // TARS)
    for number, low in enumerate(range(0, len(rows), size)):
        data_made.tar(folder / "tars" / f"{number:05d}.tar", rows[low : low + size])
        for key, raw, text in rows[low : low + size]:
            stem = folder / "files" / f"{number:05d}" / key
            write_atomic(stem.with_suffix(".jpg"), raw)
            write_atomic(stem.with_suffix(".txt"), text)
    return _prepared(folder, "tars", "webdataset"), _prepared(folder, "files", "img2dataset")


def _prepared(folder: Path, name: str, source: str) -> Prepared:
    place = str(folder / name)
    for stage in ("recaption", "annotate"):
        prepare.run(stage, Name(name, "data"), Data(source, place, place, captioner="none"), folder)
    return Prepared(folder / "data" / name)


def ours(data: Prepared, model: backbone.Model) -> Batches:
    """The batches of plain fine-tuning on whole captions."""
    views = Views(caption="full")

    def made(count: int) -> Iterator[Any]:
        rows = Rows(Maker(data, 0, model.image_size), BATCH)
        return loader.batches(rows, lambda _: views, model, range(count), WORKERS)

    return made


def open_clips(folder: Path, model: backbone.Model) -> Batches:
    """open_clip's own loader."""
    from open_clip_train.data import get_wds_dataset

    def made(count: int) -> Iterator[Any]:
        torch.manual_seed(0)
        asked = SimpleNamespace(
            train_data=str(folder / "tars" / f"{{00000..{TARS - 1:05d}}}.tar"), train_num_samples=count * BATCH,
            train_data_upsampling_factors=None, dataset_resampled=False, seed=0, batch_size=BATCH, workers=WORKERS,
            world_size=1,
        )  # fmt: skip
        info = get_wds_dataset(asked, model.transform, True, tokenizer=model.tokenize)
        return itertools.islice(iter(info.dataloader), count)

    return made


class _Tars(IterableDataset):
    """What open_clip's loader does with tars, without its shuffling: its own tars for each worker, read in order."""

    def __init__(self, paths: list[Path], model: backbone.Model, count: int) -> None:
        self.paths, self.model, self.count = paths, model, count

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        me = get_worker_info()
        return itertools.islice(self._all(self.paths[me.id :: me.num_workers]), self.count // me.num_workers)

    def _all(self, paths: list[Path]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for path in itertools.cycle(paths):
            with tarfile.open(path) as tar:
                yield from self._samples(tar)

    def _samples(self, tar: tarfile.TarFile) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while group := list(itertools.islice(tar, 3)):
            raw = {Path(m.name).suffix: tar.extractfile(m).read() for m in group}
            json.loads(raw[".json"])
            picture = Image.open(io.BytesIO(raw[".jpg"])).convert("RGB")
            yield self.model.transform(picture), self.model.tokenize([raw[".txt"].decode()])[0]


def stand_in(folder: Path, model: backbone.Model) -> Batches:
    """The equivalent of open_clip's loader where `webdataset` is missing."""
    paths = sorted((folder / "tars").glob("*.tar"))

    def made(count: int) -> Iterator[Any]:
        torch.manual_seed(0)
        read = DataLoader(
            _Tars(paths, model, count * BATCH), BATCH, num_workers=WORKERS, multiprocessing_context="fork"
        )
        return itertools.islice(iter(read), count)

    return made


def timed(batches: Batches, count: int) -> dict[str, float]:
    """Batches a second, by the clock and by the processors' time of this process and of its workers."""
    with data_memory.spent() as found:
        made = sum(1 for _ in batches(count))
        gc.collect()  # workers that stay for another epoch end with their loader
    if made != count:
        raise ValueError(f"{made} batches instead of {count}")
    return {"per_s": count / found["wall_s"], "per_cpu_s": count / found["cpu_s"]}


def alike(data: Prepared, model: backbone.Model) -> bool:
    """Whether open_clip's transform and ours make the same numbers of a picture."""
    raw = io.BytesIO(images.read(data.sample(0).picture))
    own = model.pixels([images.load(data.sample(0).picture)])[0]
    return torch.equal(model.transform(Image.open(raw).convert("RGB")), own)


def measure(folder: Path, limit: int, count: int, rounds: int) -> dict[str, Any]:
    """All three by turns; ratios are medians over the rounds."""
    torch.set_num_threads(1)
    (folder / "tiny224.json").write_text(json.dumps(MODEL))
    model, pictures = backbone.create(str(folder / "tiny224.json"), "", 0), photographs(limit)
    tars, files = written(folder, pictures)
    own = bool(importlib.util.find_spec("webdataset"))
    ways = {"tars": ours(tars, model), "files": ours(files, model)}
    ways["open_clip" if own else "stand_in"] = (open_clips if own else stand_in)(folder, model)
    turns = [{name: timed(way, count) for name, way in ways.items()} for _ in range(rounds)]
    found: dict[str, Any] = {"pictures": len(pictures), "alike": alike(tars, model), "batches": count}
    for name in list(ways):
        found[name] = {k: round(float(np.median([t[name][k] for t in turns])), 3) for k in ("per_s", "per_cpu_s")}
    for name in list(ways)[1:]:
        found[f"tars_times_{name}"] = [_ratio(turns, name, k) for k in ("per_s", "per_cpu_s")]
    return found | {"broken": list(broken(found))}


def _ratio(turns: list[dict], name: str, kind: str) -> float:
    return round(float(np.median([turn["tars"][kind] / turn[name][kind] for turn in turns])), 3)


def broken(found: dict[str, Any]) -> Iterator[str]:
    """The bounds that do not hold, by the clock."""
    if not found["alike"]:
        yield "alike"
    for name, least in (("files", FILES), ("open_clip", OPEN_CLIP), ("stand_in", OPEN_CLIP)):
        if found.get(f"tars_times_{name}", [least])[0] < least:
            yield f"tars_times_{name}"
