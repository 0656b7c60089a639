"""A method's step on all GPUs of this machine against one: the same loss and gradients, whoever has which rows.

    python -m compclip.doctor.several_processes '{"methods": ["finetune"], "device": "cuda", "until": [1e9, 1e9], ...}'

is what each process runs, with the variables that torchrun sets; the first one prints a row of errors a method as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from compclip.base import child_environment
from compclip.base.errors import entry
from compclip.doctor.check_rows import FAILED, SKIPPED, STEP_TOLERANCES, CheckRow, TimeBudget, judge_errors
from compclip.doctor.drawn_samples import build_model
from compclip.runs.gpus import PROFILE_GPUS, VISIBLE
from compclip.train.process_group import find_port

CPU_PROCESSES = 2
ROWS_EACH = 4  # of each process
PARTS = (0.5, 0.9)  # of the time, after which no step is begun together, and none by the first process alone
LEAST_S = 60  # in which processes start on a busy machine: without an answer for longer, they wait for each other
EXIT_LOST = 74  # of `train.process_group`: another process ended first
NAME = "all GPUs against one"


def check_processes(
    methods: tuple[str, ...], device: str, model_cfg: Mapping[str, Any], budget: TimeBudget, share: float
) -> Iterator[CheckRow]:
    """Yield a row for each method and precision; on a CPU two processes stand for two GPUs."""
    world = count_processes(device)
    if world < 2:
        yield CheckRow(NAME, state=SKIPPED, reason="one GPU is visible")
        return
    seconds = budget.seconds_left(share)
    if seconds < LEAST_S:
        yield budget.skip_row(NAME)
        return
    job = {
        "methods": methods,
        "device": device,
        "model_cfg": dict(model_cfg),
        "until": [time.monotonic() + fraction * seconds for fraction in PARTS],
    }
    rows = list(run_processes(job, world, seconds))
    yield from rows
    if len(rows) < len(methods) * len(STEP_TOLERANCES) and all(row.state != FAILED for row in rows):
        yield budget.skip_row(f"{world} processes, other methods")


def count_processes(device: str) -> int:
    """Return the number of GPUs that torch sees, or of processes that stand for them."""
    if device == "cpu":
        return CPU_PROCESSES
    import torch

    return torch.cuda.device_count()


def run_processes(job: Mapping[str, Any], world: int, seconds: float) -> Iterator[CheckRow]:
    """Start the processes, wait so long at most, and yield the rows that they tell of."""
    environment = child_environment.without_place(os.environ)
    environment |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
    if job["device"] == "cpu":
        environment |= {VISIBLE: "", PROFILE_GPUS: "0"}
    command = [sys.executable, "-m", "compclip.doctor.several_processes", json.dumps(job)]
    processes = [
        subprocess.Popen(command, env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]  # fmt: skip
    try:
        with ThreadPoolExecutor(world) as readers:  # at once: one whose pipe is full waits, and the others for it
            outputs = list(readers.map(lambda process: process.communicate(timeout=seconds), processes))
    except subprocess.TimeoutExpired:
        reason = f"no answer after {seconds:.0f} s: one process waits for another; look at NCCL_DEBUG=INFO"
        yield CheckRow(NAME, state=FAILED, reason=reason)
        return
    finally:
        for process in processes:
            process.kill()
            process.wait()
    failed = [(p.returncode, e) for p, (_, e) in zip(processes, outputs, strict=True) if p.returncode]
    for code, errors in sorted(failed, key=lambda pair: pair[0] == EXIT_LOST)[
        :1
    ]:  # first who did not only lose another
        last_line = (errors.strip().splitlines() or ["it said nothing"])[-1]
        yield CheckRow(NAME, state=FAILED, reason=f"a process ended with exit code {code}: {last_line}")
    for line in [] if failed else outputs[0][0].splitlines():
        if line.startswith("{"):  # NCCL_DEBUG prints lines of its own
            row = json.loads(line)
            name = f"{world} processes {row['method']}"
            yield judge_errors(name, row["precision"], row["errors"], "differs from one process; report it")


def main(argv: list[str]) -> int:
    """Compute each method's step as one of several processes, and alone; print how far both are apart."""
    from compclip.config.sections import Train
    from compclip.doctor.gradient_accuracy import compute_step, draw_batch, measure_errors
    from compclip.interface.method import load_method
    from compclip.interface.views import Step
    from compclip.train import distributed, fine_tuning, process_group

    job, here = json.loads(argv[0]), process_group.read_process()
    together, alone_until = job["until"]  # by the clock of this machine, which all processes see
    model, first = build_model(job["model_cfg"]), Step(0, 1)
    batches = {name: draw_batch(load_method(name), first, model, ROWS_EACH * here.world) for name in job["methods"]}
    cases = [(name, precision) for name in batches for precision in STEP_TOLERANCES]
    with fine_tuning.set_arithmetic(Train()), process_group.session():
        device = distributed.process_device()
        results = {}
        for name, precision in cases:
            if distributed.broadcast_first(time.monotonic() > together):
                break
            share = len(batches[name]) // here.world
            rows = batches[name].rows(here.rank * share, (here.rank + 1) * share)
            results[name, precision] = compute_step(load_method(name), first, model, device, precision, rows)
    if here.rank == 0:  # alone, after the processes have parted
        for (name, precision), result in results.items():
            if time.monotonic() > alone_until:
                break
            alone = compute_step(load_method(name), first, model, device, precision, batches[name])
            errors = measure_errors(result, alone)
            print(json.dumps({"method": name, "precision": precision, "errors": errors}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
