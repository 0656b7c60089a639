"""One run from its backbone to its finished files.

This module and all that it imports, with the method's, is the code that a run key stands for.
"""

from __future__ import annotations

import filecmp
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from compclip.base import links, plugins
from compclip.base.files import write_atomic, write_json
from compclip.config import wanted
from compclip.data import near
from compclip.data.prepared import Prepared
from compclip.model import architecture, backbone, context, lora, mixture, weights
from compclip.runs import lives
from compclip.runs.folder import Inputs
from compclip.train import distributed, environment, optimiser, view_shares
from compclip.train.crops import RandomResizedCrop
from compclip.train.distributed import Process
from compclip.train.loop import Counts, OnStep, nothing, train
from compclip.train.views import Maker, Rows

if TYPE_CHECKING:
    import numpy as np

    from compclip.config.sections import Run, Train
    from compclip.model.backbone import Model
    from compclip.runs.store import StoredRun


def complete(stored: StoredRun, on_step: OnStep = nothing) -> None:
    """Train and write the finished files, unless the run is finished; `on_step` looks at the model on the way.

    Every process of the run calls this; the first one holds its lock.
    """
    first = distributed.current().rank == 0
    if not distributed.agreed(stored.finished if first else False):
        _train_and_finish(stored, on_step)


def _train_and_finish(stored: StoredRun, on_step: OnStep) -> None:
    started, run, given = time.time(), stored.run, Inputs(stored.root, stored.cell)
    torch.set_num_threads(run.train.threads)
    device, here = distributed.device(), distributed.current()
    method = plugins.find(plugins.METHODS, run.method_name)
    model = _started(stored, method, device)
    counts: Counts = {"dropped": {}, "asked": {}, "had": {}}
    trains = getattr(method, "TRAINS", True)
    if trains:
        counts = train(run, model, rows(run, model, given, here), stored.folder.path, on_step)
    facts = {"processes": here.world, "dropped": counts["dropped"], "seconds": round(time.time() - started, 3)}
    facts["view_shares"] = view_shares.shares(counts)
    if here.rank == 0:
        trained = {} if trains else {"trained_parameters": 0}
        _finish(stored, model, optimiser.counts(model.clip) | trained | environment.facts(device) | facts)


def _started(stored: StoredRun, method: Any, device: str) -> Model:
    """The backbone; or what a method gives that trains nothing, which says itself whether it belongs to it."""
    folder = Inputs(stored.root, stored.cell).backbone
    if make := getattr(method, "model", None):
        return make(stored.run, stored.root, architecture.read(folder / weights.CONFIG)["model_cfg"], device)
    return _pretrained(folder, stored.run.train, device)


def _pretrained(folder: Path, cfg: Train, device: str = "cpu") -> Model:
    """The backbone as training starts from it."""
    model = backbone.load(folder, device=device)
    return context.cut(model, cfg.context_length) if cfg.context_length else model


def rows(run: Run, model: Model, given: Inputs, here: Process = Process()) -> Rows:  # noqa: B008 (frozen)
    """The samples a process of a run trains on; a softmax model is given the bias that its method's losses need."""
    method = plugins.find(plugins.METHODS, run.method_name)
    if needs := getattr(method, "needs_bias", None):
        model.add_bias(run.method.init_bias) if needs(run.method) else None
    data = Prepared(given.data)
    maker = Maker(data, run.cell.seed, model.image_size, crop=_crop(run.train), near=_near(run, given, len(data)))
    return Rows(maker, run.train.batch_size, here.rank, here.world, run.train.shuffle)


def _near(run: Run, given: Inputs, samples: int) -> Sequence | np.ndarray:
    """Of each sample those that its neighbours are drawn from; nothing where the method shows none."""
    if not wanted.neighbours(run.method_name, run.method):
        return ()
    return near.opened(given.near, samples)[:, : wanted.nearest(run.method_name, run.method)]


def _crop(cfg: Train) -> RandomResizedCrop | None:
    return RandomResizedCrop(*cfg.augment_scale) if cfg.augment == "random_resized_crop" else None


def _finish(stored: StoredRun, model: Model, facts: dict) -> None:
    """Write the run's files; environment.json comes last and marks them complete."""
    folder, final = stored.folder, stored.folder.final
    folder.check()  # once more: training takes hours
    lora.finish(model.clip, final.checkpoint / lora.FOLDER)
    if facts["trained_parameters"]:
        _average(model, Inputs(stored.root, stored.cell).backbone, stored.run.train)
    model.save(final.checkpoint)
    _share(Inputs(stored.root, stored.cell).backbone, final.checkpoint)
    write_atomic(final.config, stored.config_text())
    write_atomic(final.metrics, folder.metrics.read_bytes() if folder.metrics.exists() else b"")
    known = {"run_key": stored.key, "data_fingerprint": stored.data_fingerprint}
    known["weights_fingerprint"] = backbone.weights_fingerprint(final.checkpoint)
    spent = {"device_seconds": lives.device_seconds(folder)}
    write_json(final.environment, {**known, **facts, **spent})
    for path in folder.checkpoints():
        path.unlink()


def _average(model: Model, pretrained: Path, cfg: Train) -> None:
    """Take the weights back towards the backbone's: (1 - alpha) of these and alpha of the trained ones."""
    if cfg.average_alpha < 1:
        start = _pretrained(pretrained, cfg).clip.state_dict()
        own = {name: value.cpu() for name, value in model.clip.state_dict().items()}
        model.clip.load_state_dict(mixture.interpolate(start, own, cfg.average_alpha))


def _share(backbone_folder: Path, checkpoint: Path) -> None:
    """What training left as the backbone has it is one file on the disk with the backbone's."""
    for file in checkpoint.iterdir():
        twin = backbone_folder / file.name
        if twin.is_file() and filecmp.cmp(twin, file, shallow=False):
            links.place(twin, file)
