"""Training speed of each method on this machine, as ratios to plain fine-tuning in the same run.

    python perf/train.py [--steps 12] [--params params.yaml]

Needs the stages `annotate` and `backbone` (`dvc repro annotate backbone`). One process, the grid's batch size, threads
and device; the first steps of each method are not counted. `data` is the share of the time spent on making views. The
runs are trained in a temporary folder; the store stays as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from compclip.base.errors import entry
from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.interface.method import load_method
from compclip.model import backbone
from compclip.model.clip_model import ClipModel
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, fine_tuning, recorder

WARM = 2
OVERRIDES = (
    "train.workers=0",
    "train.log_every_steps=1000000",
    "train.checkpoint_every_steps=0",
    "train.checkpoint_every_min=0",
)


def measure(run: Run, steps: int) -> tuple[float, float]:
    """Samples a second and the share of time for data, over `steps` steps behind the first two."""
    inputs = Inputs(Path("."), run.cell)
    model = backbone.load(inputs.backbone, device=distributed.process_device())
    moments: dict[int, float] = {}

    def note_time(step: int, _steps: int, _model: ClipModel) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        moments[step] = time.perf_counter()

    with tempfile.TemporaryDirectory(prefix="speed-") as folder:
        with contextlib.redirect_stdout(io.StringIO()):  # its own progress
            method = load_method(run.method_name)
            with recorder.recording(run, Path(folder), note_time) as record:
                fine_tuning.train(run, method, model, fine_tuning.build_sampler(run, method, model, inputs), record)
        last_row = json.loads((Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    return steps * run.train.batch_size / (moments[WARM + steps] - moments[WARM]), last_row["data_wait"]


def main(argv: list[str]) -> int:
    """Print one row a method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--params", default="params.yaml")
    args = parser.parse_args(argv)
    params = read.load_params(
        args.params, [*OVERRIDES, f"train.max_steps={WARM + args.steps + 1}"]
    )  # the last step saves
    torch.set_num_threads(params.train.threads)
    speeds: dict[str, float] = {}
    for cell in grid.list_cells(params):
        trains = load_method(cell.method).TRAINS
        if not trains or cell.method in speeds:
            continue
        speeds[cell.method], data = measure(grid.resolve(params, cell), args.steps)
        ratio = speeds[cell.method] / speeds.get("finetune", speeds[cell.method])
        print(f"{cell.method:<16} {speeds[cell.method]:7.0f} samples/s  x{ratio:.2f} of finetune  data {data:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
