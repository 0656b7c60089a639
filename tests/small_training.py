"""Training a cell of a small project in this process, without store or stages."""

from pathlib import Path

from compclip.config import grid, read
from compclip.interface.method import load_method
from compclip.model import backbone
from compclip.runs.run_folder import Inputs
from compclip.train import fine_tuning, recorder


def train(root: Path, method: str, work: Path, on_step: recorder.OnStep = recorder.do_nothing, *overrides: str):
    """The trained model of a method's cell, with the head that it keeps."""
    run = grid.resolve(read.load_params(root / "params.yaml", list(overrides)), f"{method}-tiny-scenes-0")
    model = backbone.load(root / "models" / "tiny")
    work.mkdir(exist_ok=True)
    declared = load_method(method)
    rows = fine_tuning.build_sampler(run, declared, model, Inputs(root, run.cell))
    with recorder.recording(run, work, on_step) as record:
        return fine_tuning.train(run, declared, model, rows, record)
