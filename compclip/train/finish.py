"""One run from its backbone to its finished files."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from compclip.base import plugins
from compclip.config.sections import Run
from compclip.model import backbone
from compclip.model.backbone import Model
from compclip.runs import publish
from compclip.train import distributed, environment
from compclip.train.loop import train
from compclip.train.views import Maker, Rows


def plain_rows(maker: Maker, run: Run, _model: Model) -> Rows:
    """This process's part of the batches of a run."""
    here = distributed.current()
    return Rows(maker, run.train.batch_size, here.rank, here.world)


def complete(publisher: publish.Publisher, rows: Callable[[Maker, Run, Model], Rows] = plain_rows) -> None:
    """Train and write the finished files, unless the run key is finished.

    Every process of the run calls this; the first one holds the key's lock.
    """
    if not distributed.agreed(publisher.finished()):
        _train_and_finish(publisher.run, publisher, rows)


def _train_and_finish(run: Run, publisher: publish.Publisher, rows: Callable[[Maker, Run, Model], Rows]) -> None:
    started = time.time()
    torch.set_num_threads(run.train.threads)
    device = distributed.device()
    method = plugins.find(plugins.METHODS, run.method_name)
    model = backbone.load(publisher.backbone_folder, device=device)
    dropped: dict[str, int] = {}
    if getattr(method, "TRAINS", True):
        if needs := getattr(method, "needs_bias", None):
            model.add_bias(run.method.init_bias) if needs(run.method) else None
        maker = Maker(publisher.train_set(), run.cell.seed, model.image_size)
        dropped = train(run, model, rows(maker, run, model), publisher.work)
    here = distributed.current()
    facts = {"processes": here.world, "dropped": dropped, "seconds": round(time.time() - started, 3)}
    if here.rank == 0:
        publisher.finish(model, environment.facts(device) | facts)
