"""The processes of a run: how they connect, and how they end when one of them is lost or fails.

Two groups on GPUs: NCCL's for features and gradients, and one of the host, by which flags and objects travel. While the
first process scores, the others wait by the host; NCCL's own timeout is shorter, since it ends only a process whose GPU
or network stands still. A dead process is noticed sooner: each counts up a number in the group's store, and reads the
others'. One that fails leaves the line of its error there.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from compclip.base.errors import LONGEST, UserError, one_line, shorten
from compclip.runs import gpus
from compclip.train import distributed
from compclip.train.distributed import Process

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

# Rank 0 alone scores and writes; the others wait for it that long at most, while it gives signs of life.
PATIENCE = timedelta(hours=2)
# What one process may be behind another, by a slow disk for example; what waits longer by design is no message of NCCL.
NCCL_PATIENCE = timedelta(minutes=30)
# below what systems hand out by themselves
FIRST_PORT = 20_000
PORTS = 12_000
BEAT_S = 5.0
PATIENCE_BEATS = 15  # without a sign of life; not in seconds, so that a job that was suspended as a whole goes on
ENDED = 1 << 40  # added to the number of a process that came to its end
FAILED = 1 << 41  # added to that of a process that ends by an error
HEARING_BEATS = 2  # that the first process, which may host the store, waits for others to read of its error
EXIT_LOST = 74  # the exit code of a process whose run lost another one


def read_process() -> Process:
    """Return this process from torchrun's variables or those of a SLURM step with several tasks; else the only one."""
    env = os.environ
    if "RANK" in env and "WORLD_SIZE" in env:
        return Process(int(env["RANK"]), int(env["WORLD_SIZE"]), int(env.get("LOCAL_RANK", 0)))
    if int(env.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        return Process(int(env["SLURM_PROCID"]), int(env["SLURM_STEP_NUM_TASKS"]), int(env["SLURM_LOCALID"]))
    return Process()


@contextlib.contextmanager
def session() -> Iterator[Process]:
    """Connect the processes of a run, if it has several; disconnect them at the end.

    Raises UserError where a GPU is asked for and none is seen.
    """
    gpus.require_requested()
    here = read_process()
    if here.world == 1 or dist.is_initialized():
        yield here
        return
    store, _, _ = next(rendezvous(_rendezvous_address(), here.rank, here.world, timeout=PATIENCE))
    _connect(store, here)
    try:
        with watch_processes(store, here.rank, here.world):
            yield here
    finally:
        distributed.close_host_group()
        dist.destroy_process_group()


def _connect(store: Store, here: Process) -> None:
    """Make the default group: gloo's, or NCCL's with one of the host beside it."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo", store=store, rank=here.rank, world_size=here.world, timeout=PATIENCE)
        return
    torch.cuda.set_device(here.local_rank % torch.cuda.device_count())
    dist.init_process_group("nccl", store=store, rank=here.rank, world_size=here.world, timeout=NCCL_PATIENCE)
    distributed.open_host_group(PATIENCE)


def _rendezvous_address() -> str:
    """Return torchrun's address, or a port of the SLURM step's first node that depends on the job's number."""
    env = os.environ
    if "MASTER_ADDR" in env and "MASTER_PORT" in env:
        return f"tcp://{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    if "SLURM_JOB_ID" not in env:
        raise UserError("RANK and WORLD_SIZE without MASTER_ADDR and MASTER_PORT: start the processes with torchrun")
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    return f"tcp://{_first_host(nodes)}:{FIRST_PORT + int(env['SLURM_JOB_ID']) % PORTS}"


def _first_host(nodes: str) -> str:
    """Return the first of a list of nodes such as `gpu[03-05,9],cpu1`."""
    if "[" not in nodes:
        return nodes.partition(",")[0]
    with contextlib.suppress(OSError):
        listing = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True)
        if listing.returncode == 0 and listing.stdout.split():
            return listing.stdout.split()[0]
    return re.sub(r"\[(\w+)[^\]]*\].*", r"\1", nodes)


class LivenessWatch:
    """What one process of a run hears of the others."""

    def __init__(self, store: Store, rank: int, world: int) -> None:
        self._store = store
        self._rank = rank
        self._beats = 0
        self._numbers = {rank_of_other: 0 for rank_of_other in range(world) if rank_of_other != rank}
        self._heard_at = dict.fromkeys(self._numbers, 0.0)  # in beats
        self.failures: dict[int, str] = {}  # by rank, the error's line
        self._is_failing = False

    def exchange_beats(self) -> None:
        """Give a sign of life and read the others'. A store whose host is gone gives none."""
        with contextlib.suppress(RuntimeError):
            self._store.add(f"liveness/{self._rank}", 1)
            for other_rank, last_number in self._numbers.items():
                number = self._store.add(f"liveness/{other_rank}", 0)
                if number != last_number:
                    self._heard_at[other_rank] = math.inf if number >= ENDED else self._beats
                    self._numbers[other_rank] = number
                if number >= FAILED and other_rank not in self.failures:
                    self.failures[other_rank] = self._store.get(f"failure/{other_rank}").decode()
                    self._store.add(f"heard/{other_rank}", 1)

    def silent_ranks(self) -> list[int]:
        """Count a beat; the processes that have given no sign of life for too many."""
        self._beats += 1
        return [other_rank for other_rank, at in self._heard_at.items() if self._beats - at > PATIENCE_BEATS]

    def announce_end(self) -> None:
        """Tell the others that this process has come to its end."""
        with contextlib.suppress(RuntimeError):
            self._store.add(f"liveness/{self._rank}", ENDED)

    def announce_failure(self, line: str) -> None:
        """Tell the others by which error this process ends."""
        self._is_failing = True
        with contextlib.suppress(RuntimeError):
            self._store.set(f"failure/{self._rank}", line)
            self._store.add(f"liveness/{self._rank}", FAILED)

    def is_heard(self) -> bool:
        """Return whether every process that is not at its end has read of this one's error."""
        listeners = sum(at != math.inf for at in self._heard_at.values())
        with contextlib.suppress(RuntimeError):
            return self._store.add(f"heard/{self._rank}", 0) >= listeners
        return True

    def exit_if_lost(self) -> None:
        """End this process if another is lost; its main thread may wait where no exception reaches it."""
        silence = f"gave no sign of life for {PATIENCE_BEATS * BEAT_S:.0f} s"
        lost = {other_rank: f"failed: {line}" for other_rank, line in self.failures.items()}
        lost |= dict.fromkeys(self.silent_ranks(), silence)
        if not lost or self._is_failing:  # its own error says more
            return
        for other_rank, fate in lost.items():
            line = f"error: process {other_rank} of this run {fate}; leaving"
            print(f"{line}; the same command goes on from the last checkpoint", file=sys.stderr, flush=True)
        os._exit(EXIT_LOST)


@contextlib.contextmanager
def watch_processes(store: Store, rank: int, world: int) -> Iterator[None]:
    """Watch the other processes of a run inside; one that ends by an error tells them, and its line has its rank."""
    watch = LivenessWatch(store.clone(), rank, world)
    over = threading.Event()

    def repeat(work: Callable[[], None]) -> None:
        while not over.wait(BEAT_S):
            work()

    # two threads: a call to a store whose host stands still does not come back
    threads = [
        threading.Thread(target=repeat, args=(work,), daemon=True)
        for work in (watch.exchange_beats, watch.exit_if_lost)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
        watch.announce_end()
    except SystemExit:  # a signal asked all of them to stop
        watch.announce_end()
        raise
    except UserError as error:
        _tell_others(watch, rank, str(error))
        raise UserError(f"process {rank} of {world}: {error}") from error
    except Exception as error:
        if _is_of_message(error):
            over.wait(HEARING_BEATS * BEAT_S)  # the other end is gone: what it said ends this process meanwhile
        _tell_others(watch, rank, f"{type(error).__name__}: {error}")
        error.add_note(f"in process {rank} of {world}")
        raise
    finally:
        over.set()
        for thread in threads:
            thread.join(BEAT_S)


def _is_of_message(error: Exception) -> bool:
    """Return whether an error was raised by a message between processes."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__", "").startswith(dist.__name__) for frame, _ in frames)


def _tell_others(watch: LivenessWatch, rank: int, error: str) -> None:
    """Leave the error's line to the others, and stay until they have read it where the store may end with us."""
    watch.announce_failure(shorten(one_line(error), LONGEST // 2))
    polls = 10 * HEARING_BEATS if rank == 0 else 0
    while polls and not watch.is_heard():
        time.sleep(BEAT_S / 10)
        polls -= 1
