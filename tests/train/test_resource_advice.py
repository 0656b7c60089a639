"""A run says once what holds it back; a GPU that is out of memory is one line with a value to try."""

import os
from types import SimpleNamespace

import pytest
import torch

from compclip.base import worker_processes
from compclip.base.errors import UserError
from compclip.config.sections import Train
from compclip.train import accumulate, recorder, throughput
from compclip.train.throughput import GIB, Adviser
from tests import small_training

CPU = torch.device("cpu")


def test_waiting_for_data_is_said_once_behind_the_first_span(capsys):
    adviser, outputs = Adviser(Train(workers=2), CPU), []
    for share in (0.9, 0.05, 0.3, 0.4):
        adviser.look(share)
        outputs.append(capsys.readouterr().err)
    assert outputs[:2] == ["", ""] and outputs[3] == ""
    assert outputs[2] == (
        "note: data_wait: 30% of the time went by without data; give more train.workers (workers=2) or "
        "train.resize: torch\n"
    )


def test_memory_that_is_nearly_full_is_said_once(monkeypatch, capsys):
    used_bytes = [60 * GIB]
    monkeypatch.setattr(throughput, "read_memory", lambda _: (used_bytes[0], 80 * GIB))
    adviser = Adviser(Train(micro_batch=64), CPU)
    adviser.look(0.0)
    assert capsys.readouterr().err == ""
    used_bytes[0] = 73 * GIB
    adviser.look(0.0)
    advice = capsys.readouterr().err
    assert "note: memory: 73.0 of the GPU's 80.0 GiB are taken" in advice
    assert "train.micro_batch (micro_batch=64) or set train.checkpoint_activations: true" in advice
    adviser.look(0.0)
    assert capsys.readouterr().err == ""


def test_a_run_looks_when_it_logs(here, monkeypatch, capsys):
    """Shares of spans that the recorder measures, in a training."""
    monkeypatch.setattr(recorder.Meter, "span_wait", lambda _: 0.5)
    small_training.train(here, "finetune", here / "work", recorder.do_nothing, "train.log_every_steps=1")
    assert capsys.readouterr().err.count("note: data_wait: 50% of the time") == 1


def test_a_span_has_its_own_share(monkeypatch):
    """Half of the first 10 s, nothing of the next 10 s."""
    clock = iter([0.0, 0.0, 5.0, 10.0, 20.0])
    monkeypatch.setattr(recorder.Meter.__init__.__globals__["time"], "perf_counter", lambda: next(clock))
    meter = recorder.Meter()
    meter.begin_wait()
    meter.end_wait()
    assert [meter.span_wait(), meter.span_wait()] == [0.5, 0.0]


def test_out_of_memory_names_half_of_the_value(here, monkeypatch):
    """Of a training whose second step is out of memory."""
    compute, steps = accumulate.GradientComputer.compute_gradients, []

    def compute_or_fail(*args):
        steps.append(len(steps))
        if len(steps) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity")
        return compute(*args)

    monkeypatch.setattr(accumulate.GradientComputer, "compute_gradients", compute_or_fail)
    monkeypatch.setattr(recorder, "read_memory", lambda _: (0, 16 * GIB))
    with pytest.raises(UserError) as error:
        small_training.train(here, "finetune", here / "work", recorder.do_nothing, "train.micro_batch=4")
    line = str(error.value)
    assert line.startswith("out of memory of the GPU, 16.0 GiB, at train.micro_batch=4 of train.batch_size=8: ")
    assert "set train.micro_batch: 2 (`compclip config cost`" in line
    assert "or train.checkpoint_activations: true" in line and "(CUDA out of memory)" in line


@pytest.fixture
def machine(monkeypatch):
    """Sixteen cores and 8 GB of free shared memory; nothing else says how many cores there are."""
    for name in ("LOCAL_WORLD_SIZE", "SLURM_CPUS_PER_TASK", "COMPCLIP_CORES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=8_000_000, f_frsize=1000))


@pytest.mark.parametrize(("configured", "device", "variables", "batch_bytes", "expected"), [
    (None, "cpu", {}, 1000, 0),
    (3, "cpu", {}, 1000, 3),
    (0, "cuda", {}, 1000, 0),
    (None, "cuda", {}, 1000, 15),
    (None, "cuda", {"LOCAL_WORLD_SIZE": "4"}, 1000, 3),
    (None, "cuda", {"SLURM_CPUS_PER_TASK": "6"}, 1000, 5),
    (None, "cuda", {"COMPCLIP_CORES": "8", "SLURM_CPUS_PER_TASK": "32"}, 1000, 7),
    (None, "cuda", {"SLURM_CPUS_PER_TASK": "1"}, 1000, 1),
    (None, "cuda", {}, 250_000_000, 8),  # two batches each in 4 GB
    (None, "cuda", {}, 9_000_000_000, 1),
])  # fmt: skip
def test_workers_by_default(machine, monkeypatch, tmp_path, configured, device, variables, batch_bytes, expected):
    """A system without a folder of shared memory has no such bound: they follow the cores."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert throughput.count_workers(configured, device, batch_bytes) == expected
    monkeypatch.setattr(worker_processes, "FOLDER", tmp_path / "none")
    assert batch_bytes == 1000 or throughput.count_workers(configured, device, batch_bytes) == 15
