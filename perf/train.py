"""Training speed of each method on this machine, as ratios to plain fine-tuning in the same run.

    python perf/train.py [--steps 12] [--params params.yaml]

Needs the stages `annotate` and `backbone` (`dvc repro annotate backbone`). One process, the grid's batch size and
threads; the first steps of each method are not counted. `data` is the share of the time spent on making views.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from compclip.base import plugins
from compclip.base.errors import entry
from compclip.config import grid, read
from compclip.model import backbone
from compclip.runs import store
from compclip.runs.folder import Inputs
from compclip.runs.store import StoredRun
from compclip.train import encode, finish, optimiser
from compclip.train.collate import collate
from compclip.train.views import Maker, Rows

WARM = 2


def measure(stored: StoredRun, steps: int) -> tuple[float, float]:
    """Samples a second and the share of time for data, over `steps` steps behind the first two."""
    run, given = stored.run, Inputs(stored.root, stored.cell)
    method = plugins.find(plugins.METHODS, run.method_name)
    model = backbone.load(given.backbone)
    if needs := getattr(method, "needs_bias", None):
        model.add_bias(run.method.init_bias) if needs(run.method) else None
    frozen = optimiser.freeze(model.clip, run.train)
    adamw = optimiser.adamw(model.clip, run.train)
    rows = Rows(Maker(finish.train_set(given), 0, model.image_size), run.train.batch_size)
    started, data = 0.0, 0.0
    for step in range(WARM + steps):
        if step == WARM:
            started, data = time.perf_counter(), 0.0
        before = time.perf_counter()
        views = method.views(run.method, step)
        batch = collate(*_views(rows, step, views), model=model)
        data += time.perf_counter() - before
        loss = sum(method.loss(encode.features(model.clip, batch, views, frozen), run.method, step).values())
        adamw.zero_grad()
        loss.backward()
        adamw.step()
    seconds = time.perf_counter() - started
    return steps * run.train.batch_size / seconds, data / seconds


def _views(rows: Rows, step: int, views) -> tuple:
    made, _ = rows.batch(step, views)
    return made, views


def main(argv: list[str]) -> int:
    """Print one row a method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--params", default="params.yaml")
    args = parser.parse_args(argv)
    params = read.load(args.params)
    torch.set_num_threads(params.train.threads)
    speeds: dict[str, float] = {}
    for cell in grid.cells(params):
        trains = getattr(plugins.find(plugins.METHODS, cell.method.partition(".")[0]), "TRAINS", True)
        if not trains or cell.method in speeds:
            continue
        speeds[cell.method], data = measure(store.of(grid.resolve(params, cell)), args.steps)
        ratio = speeds[cell.method] / speeds.get("finetune", speeds[cell.method])
        print(f"{cell.method:<16} {speeds[cell.method]:7.0f} samples/s  x{ratio:.2f} of finetune  data {data:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
