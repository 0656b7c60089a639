"""All checks of a device, in their order, and the file that tells of them.

Here are also how fast this machine reads a shard, decodes and scales photographs, and copies pictures to its GPU, and a
tiny run that is stopped and resumed from its checkpoint beside the same run through. The rates never fail: they are to
be compared with what a grid needs. At 3,000 samples a second photographs are about 0.5 GB/s, and their pictures of 224²
as uint8 the same.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import platform
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from PIL import Image
from torch import Tensor

from compclip.base.files import write_json
from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import Backbone, Data, Train
from compclip.data.images import load_image
from compclip.doctor import drawn_samples, full_step, gradient_accuracy
from compclip.doctor.check_rows import (
    FAILED,
    HEADS,
    MEASURED,
    SKIPPED,
    CheckRow,
    TimeBudget,
    anonymise,
    catch_errors,
    judge,
)
from compclip.doctor.full_step import StepJob
from compclip.interface.method import load_method
from compclip.model.clip_model import ClipModel
from compclip.runs import gpus
from compclip.train import extras, fine_tuning, job, recorder
from compclip.train.loader import EpochSampler
from compclip.train.picture_views import resize_by_pillow, resize_by_torch

# How much of the time may be over when a check ends; what is not reached then is skipped.
SHARES = {"gradients": 0.5, "resumed": 0.65, "processes": 0.8, "step": 0.95}
BATCHES = {"cuda": 256, "cpu": 8}  # of the whole model's step


@dataclass(frozen=True)
class DeviceSettings:
    """What is checked, where and for how long. `resumed`: methods whose run is stopped and resumed."""

    device: str
    methods: tuple[str, ...]
    minutes: float = 3.0
    model: str = "ViT-B-32"
    resumed: tuple[str, ...] = ("finetune", "degla")
    folder: Path = Path(".")
    small: Mapping[str, Any] = field(default_factory=lambda: drawn_samples.SMALL)

    @property
    def step_job(self) -> StepJob:
        """The whole model's step."""
        precision = "float32" if self.device == "cpu" else "bf16"
        return StepJob("finetune", self.model, BATCHES[self.device], precision, torch.get_num_threads())


def run_checks(settings: DeviceSettings) -> Iterator[CheckRow]:
    """Yield the rows of all checks; one that fails by an error leaves the others alone."""
    budget = TimeBudget(60 * settings.minutes)
    device = settings.device
    small = settings.small
    checks: dict[str, Callable[..., Iterable[CheckRow]]] = {
        "reading": functools.partial(check_reading, settings.folder),
        "decoding": check_decoding,
        "copying to the device": functools.partial(check_copying, device),
        "gradients": functools.partial(
            gradient_accuracy.check_gradients, settings.methods, device, small, budget, SHARES["gradients"]
        ),
        "resumed": functools.partial(check_resumed, settings.resumed, device, small, budget, SHARES["resumed"]),
        "processes": functools.partial(
            gradient_accuracy.check_processes, settings.methods, device, small, budget, SHARES["processes"]
        ),
        "step": functools.partial(full_step.check_step, settings.step_job, device, budget, SHARES["step"]),
    }
    for name, check in checks.items():
        yield from catch_errors(name, check)


def describe_machine(device: str) -> dict[str, Any]:
    """Return versions, driver and cards: nothing of the user."""
    facts = job.describe_environment(device)
    cards = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    facts |= {
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cudnn": torch.backends.cudnn.version(),
        "architectures": torch.cuda.get_arch_list(),
        "visible": os.environ.get(gpus.VISIBLE),
        "cards": [
            {"name": c.name, "memory_gib": round(c.total_memory / 2**30, 1), "capability": f"{c.major}.{c.minor}"}
            for c in cards
        ],
    }
    return _map_texts(facts)


def _map_texts(value: Any) -> Any:
    if isinstance(value, str):
        return anonymise(value)
    if isinstance(value, dict):
        return {key: _map_texts(entry) for key, entry in value.items()}
    return [_map_texts(entry) for entry in value] if isinstance(value, list) else value


def name_report() -> Path:
    """Return the name of today's file about this machine."""
    host = re.sub(r"[^\w.-]", "_", anonymise(socket.gethostname()))
    return Path(f"compclip-doctor-{host}-{time.strftime('%Y-%m-%d')}.json")


def write_report(path: Path, settings: DeviceSettings, rows: Sequence[CheckRow], seconds: float) -> None:
    """Write what was found, and on which machine."""
    write_json(path, {
        "device": settings.device,
        "seconds": round(seconds),
        "environment": describe_machine(settings.device),
        "checks": [dict(zip(HEADS, map(anonymise, row.cells()), strict=True)) for row in rows],
    })  # fmt: skip


READ_BYTES = 256 << 20
BLOCK = 8 << 20
PHOTOGRAPHS = 8
SIDE = 224
DECODE_S = 2.0
COPY_BYTES = 64 << 20
COPIES = 10


def check_reading(folder: Path, size: int = READ_BYTES) -> Iterator[CheckRow]:
    """Yield the rate at which a file in `folder` is read that is not in memory; it is written first, and removed."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        block = os.urandom(min(size, BLOCK))
        for _ in range(size // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started = time.perf_counter()
        with open(file.name, "rb", buffering=0) as reader:
            while reader.read(BLOCK):
                pass
        seconds = time.perf_counter() - started
    yield CheckRow("reading", f"{size / seconds / 1e9:.2f} GB/s, here", MEASURED)


def check_decoding(seconds: float = DECODE_S) -> Iterator[CheckRow]:
    """Yield the milliseconds that a core takes to read, decode and scale a photograph, in each `train.resize`."""
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
        paths = [Path(folder) / f"{number}.jpg" for number in range(PHOTOGRAPHS)]
        for number, path in enumerate(paths):
            path.write_bytes(drawn_samples.encode_photograph(number))
        mean_kib = sum(path.stat().st_size for path in paths) / PHOTOGRAPHS / 1024
        pictures: list[Image.Image] = []
        decoding = _time_each(lambda path: pictures.append(load_image(path)), paths, seconds / 2)
        del pictures[PHOTOGRAPHS:]
        by_pillow = _time_each(lambda picture: resize_by_pillow(picture, (SIDE, SIDE)), pictures, seconds / 4)
        by_torch = _time_each(lambda picture: resize_by_torch(picture, (SIDE, SIDE)), pictures, seconds / 4)
    size = "{}x{}".format(*drawn_samples.PHOTOGRAPH)
    yield CheckRow("decoding", f"{decoding * 1e3:.2f} ms of a core, JPEG {size} of {mean_kib:.0f} KiB", MEASURED)
    yield CheckRow("scaling", f"{by_pillow * 1e3:.2f} ms by pil, {by_torch * 1e3:.2f} ms by torch", MEASURED)


def _time_each(work: Callable[[Any], object], items: Sequence[Any], seconds: float) -> float:
    """Return the CPU seconds that `work` takes for an item, by all items again and again for so long."""
    started = time.process_time()
    count = 0
    while not count or time.process_time() - started < seconds:
        for item in items:
            work(item)
        count += len(items)
    return (time.process_time() - started) / count


def check_copying(device: str) -> Iterator[CheckRow]:
    """Yield the rate of copies from pinned memory to a GPU."""
    if device == "cpu":
        yield CheckRow("copying to the device", state=SKIPPED, reason="a CPU has its pictures already")
        return
    host = torch.empty(COPY_BYTES, dtype=torch.uint8).pin_memory()
    target = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    target.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(COPIES):
        target.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    rate = COPIES * COPY_BYTES / (time.perf_counter() - started) / 1e9
    yield CheckRow("copying to the device", f"{rate:.1f} GB/s from pinned memory", MEASURED)


RUN_BATCH = 8
RUN_STEPS = 6
STOP = 3
TOLERANCE = 1e-2  # of the way that the weights went, where kernels may differ from run to run


class Stopped(Exception):
    """The run is stopped on purpose."""


def check_resumed(
    methods: tuple[str, ...], device: str, model_cfg: Mapping[str, Any], budget: TimeBudget, share: float
) -> Iterator[CheckRow]:
    """Yield two rows a method: with torch's usual kernels, and with `train.deterministic`, when bits must be equal."""
    for method_name in methods:
        for deterministic in (False, True):
            name = f"resumed {method_name}{' deterministic' if deterministic else ''}"
            if budget.seconds_left(share) <= 0:
                yield budget.skip_row(name)
                continue
            run = build_drawn_run(method_name, deterministic)
            yield from catch_errors(name, functools.partial(_compare_resumed, name, run, device, model_cfg))


def build_drawn_run(method_name: str, deterministic: bool = False) -> Run:
    """Return a run of a few steps, which saves at STOP."""
    train = Train(
        batch_size=RUN_BATCH, max_steps=RUN_STEPS, lr=1e-3, deterministic=deterministic, log_every_steps=RUN_STEPS,
        checkpoint_every_steps=STOP, checkpoint_every_min=0, threads=torch.get_num_threads(),
    )  # fmt: skip
    return Run(Cell(method_name, "drawn", "drawn", 0), load_method(method_name).Config(), train, Backbone(), Data())


def _compare_resumed(name: str, run: Run, device: str, model_cfg: Mapping[str, Any]) -> Iterator[CheckRow]:
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
        through, _ = train_drawn(run, device, model_cfg, Path(folder) / "through")
        with contextlib.suppress(Stopped):
            train_drawn(run, device, model_cfg, Path(folder) / "stopped", stop=STOP)
        resumed, first_step = train_drawn(run, device, model_cfg, Path(folder) / "stopped")
    if first_step != STOP:
        reason = "its checkpoint could not be read back, so that it began anew; report it with this file"
        yield CheckRow(name, f"began at step {first_step}", f"step {STOP}", FAILED, reason)
        return
    start = drawn_samples.build_model(model_cfg).clip.state_dict()
    yield judge_difference(name, through, resumed, start, device == "cpu" or run.train.deterministic)


def train_drawn(
    run: Run, device: str, model_cfg: Mapping[str, Any], work: Path, stop: int | None = None
) -> tuple[dict[str, Tensor], int]:
    """Train on drawn samples in the folder `work`, from its newest checkpoint.

    Return the weights, on the CPU, and the step that was the first. Raises Stopped before step `stop`.
    """
    model = drawn_samples.build_model(model_cfg)
    model.clip.to(device)
    method = load_method(run.method_name)
    sampler = drawn_samples.DrawnSampler(RUN_BATCH, model.image_size)
    extras.prepare_model(method, run.method, model, run.cell.seed)

    steps: list[int] = []

    def stop_run(done: int, _steps: int, _model: ClipModel) -> None:
        steps.append(done)
        if done == stop:
            raise Stopped

    work.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # its progress
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(fine_tuning.set_arithmetic(run.train))
        record = stack.enter_context(recorder.recording(run, work, stop_run))
        fine_tuning.train(run, method, model, cast(EpochSampler, sampler), record)
    return {name: value.cpu() for name, value in model.clip.state_dict().items()}, steps[0]


def judge_difference(
    name: str, through: Mapping[str, Tensor], resumed: Mapping[str, Tensor], start: Mapping[str, Tensor], exact: bool
) -> CheckRow:
    """Return the row of two runs' weights: how far they are apart, over how far they went from the start.

    `exact`: the bits must be equal.
    """
    if all(torch.equal(weights, resumed[name]) for name, weights in through.items()):
        return CheckRow(name, "equal bits", "equal bits" if exact else f"{TOLERANCE:.0e}")
    distance = _measure_distance(through, resumed) / _measure_distance(through, start)
    if exact:
        return judge(name, f"{distance:.1e} apart", "equal bits", False, "report it with this file")
    reason = "a resumed run went another way; report it with this file"
    good = distance <= TOLERANCE
    value = f"{distance:.1e} apart{', expected without train.deterministic' if good else ''}"
    return judge(name, value, f"{TOLERANCE:.0e}", good, reason)


def _measure_distance(weights: Mapping[str, Tensor], other_weights: Mapping[str, Tensor]) -> float:
    """Return the root of all squared differences, in the parameters that both have."""
    names = [name for name in weights if name in other_weights and weights[name].is_floating_point()]
    return sum((weights[n].double() - other_weights[n].double()).square().sum().item() for n in names) ** 0.5
