"""Every method's step, and runs that are stopped and resumed, on a GPU: `pytest -m gpu`; a few of them on the CPU too."""

import contextlib
from pathlib import Path

import pytest
import torch

from compclip.base import plugins
from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import Backbone, Data, Train
from compclip.doctor import gradient_accuracy
from compclip.doctor.check_rows import FAILED
from compclip.interface.method import load_method
from compclip.train import checkpoint, extras, fine_tuning, recorder

BATCH = 8
STEPS = 6
STOP = 3
NEAR = 1e-2  # of the way that the weights went, where kernels may differ from run to run
NEEDS_GPU = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is visible"))
METHODS = [name for name in plugins.list_plugins(plugins.METHODS) if load_method(name).TRAINS]


def on_devices(*cpu_methods: str) -> list:
    """Every method on a GPU, and these on the CPU."""
    on_gpu = [pytest.param(name, "cuda", marks=NEEDS_GPU) for name in METHODS]
    return [*((name, "cpu") for name in cpu_methods), *on_gpu]


@pytest.mark.parametrize(("method", "device"), on_devices("finetune"))
def test_gradients(method, device):
    rows = list(gradient_accuracy.check_gradients((method,), device, gradient_accuracy.SMALL))
    assert [row.result for row in rows if row.state == FAILED] == []


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU is visible")
def test_all_gpus_against_one():
    rows = list(gradient_accuracy.check_processes(tuple(METHODS), "cuda", gradient_accuracy.SMALL))
    assert [row.result for row in rows if row.state == FAILED] == []


class Stopped(Exception):
    """The run is stopped on purpose."""


class DrawnSampler:
    """Batches of drawn samples in the place of `loader.EpochSampler`, of each step the same."""

    batch_size = share = BATCH
    per_epoch = 1000

    def __init__(self, side):
        self.side = side

    def prepare_epoch(self, step):
        """Do nothing: nothing has an order."""

    def batch(self, step, views):
        return gradient_accuracy.draw_views(views, BATCH, self.side, step), {}


def train_drawn(run, device, work, stop=None):
    """Train from the newest checkpoint in `work`; return the weights and the first step. Stopped before `stop`."""
    model = gradient_accuracy.build_model(gradient_accuracy.SMALL)
    model.clip.to(device)
    method = load_method(run.method_name)
    extras.prepare_model(method, run.method, model, 0)
    steps = []

    def stop_run(done, _steps, _model):
        steps.append(done)
        if done == stop:
            raise Stopped

    work.mkdir(exist_ok=True)
    with fine_tuning.set_arithmetic(run.train), recorder.recording(run, work, stop_run) as record:
        fine_tuning.train(run, method, model, DrawnSampler(model.image_size), record)
    return {name: value.cpu().double() for name, value in model.clip.state_dict().items()}, steps[0]


def resume(method: str, device: str, deterministic: bool, folder: Path) -> float:
    """Return how far a resumed run ends from one run through, over how far that went from its start."""
    train = Train(
        batch_size=BATCH, max_steps=STEPS, lr=1e-3, deterministic=deterministic, log_every_steps=STEPS,
        checkpoint_every_steps=STOP, checkpoint_every_min=0, threads=torch.get_num_threads(),
    )  # fmt: skip
    run = Run(Cell(method, "drawn", "drawn", 0), load_method(method).Config(), train, Backbone(), Data())
    through, _ = train_drawn(run, device, folder / "through")
    with contextlib.suppress(Stopped):
        train_drawn(run, device, folder / "stopped", STOP)
    resumed, first_step = train_drawn(run, device, folder / "stopped")
    assert first_step == STOP
    start = gradient_accuracy.build_model(gradient_accuracy.SMALL).clip.state_dict()
    return measure_distance(through, resumed) / measure_distance(through, start)


def measure_distance(weights, other_weights) -> float:
    """Return the root of all squared differences, in the parameters that both have."""
    names = weights.keys() & other_weights.keys()
    return sum((weights[name] - other_weights[name]).square().sum().item() for name in names) ** 0.5


@pytest.mark.parametrize(("method", "device"), on_devices("finetune"))
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_resumed_run_ends_where_one_run_through_does(method, device, deterministic, tmp_path, monkeypatch):
    """With equal bits where kernels are deterministic, as a CPU's are."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    distance = resume(method, device, deterministic, tmp_path)
    assert distance == 0 if deterministic or device == "cpu" else distance <= NEAR


def test_a_resume_without_the_optimisers_state_ends_elsewhere(tmp_path, monkeypatch):
    restore = checkpoint._restore

    def forget_moments(tensors, *arguments):
        restore({name: 0 * value if "exp_avg." in name else value for name, value in tensors.items()}, *arguments)

    monkeypatch.setattr(checkpoint, "_restore", forget_moments)
    assert resume("finetune", "cpu", False, tmp_path) > NEAR
