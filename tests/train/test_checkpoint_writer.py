"""Checkpoints written beside the training: what is in them, when they are on disk, and what an error of them does."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from compclip.base.errors import UserError
from compclip.train import checkpoint, distributed, recorder
from compclip.train.checkpoint import CheckpointWriter
from tests import held_job, small_training
from tests.tiny_project import steps

LONG_S = 60  # longer than any of these waits; only a fault waits so long
write_tensors = checkpoint.write_tensors


def saved_steps(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder."""
    return [int(path.stem.removeprefix("step_")) for path in sorted(folder.glob("step_*"))]


def refuse(folder: Path, step: int, *_: object) -> None:
    """Write nothing, as on a full disk."""
    raise UserError(f"{folder}/{step}: cannot write: No space left on device; free space")


def replace_write(monkeypatch, before: Callable[[int], object], write=write_tensors) -> None:
    """Call something with the step, in the writer's thread, before a checkpoint is written."""

    def write_later(folder, step, tensors, header):
        before(step)
        return write(folder, step, tensors, header)

    monkeypatch.setattr(checkpoint, "write_tensors", write_later)


def test_tensors_that_change_after_the_hand_over_do_not_reach_the_file(tmp_path, monkeypatch):
    """The write is held until they have changed; a second checkpoint of the same tensors has the new values."""
    changed = threading.Event()
    replace_write(monkeypatch, lambda _: changed.wait(LONG_S))
    tensors = {"model.a": torch.arange(6.0).reshape(2, 3).T, "model.b": torch.tensor(3)}
    writer = CheckpointWriter(tmp_path)
    for step in (1, 2):
        writer.save(step, tensors, {"dropped": {}})
        tensors["model.a"].add_(10)
        changed.set()
    writer.finish()
    for step in (1, 2):
        saved = safetensors.torch.load_file(tmp_path / f"step_{step:08d}.safetensors")
        assert torch.equal(saved["model.a"], torch.arange(6.0).reshape(2, 3).T + 10 * (step - 1))


def test_the_next_checkpoint_waits_for_the_last(tmp_path, monkeypatch):
    """At a second hand-over the first file is whole."""
    seen: list[list[int]] = []
    replace_write(monkeypatch, lambda _: seen.append(saved_steps(tmp_path)))
    writer = CheckpointWriter(tmp_path)
    for step in (1, 2, 3):
        writer.save(step, {"model.a": torch.ones(2)}, {})
    writer.close()
    assert seen == [[], [1], [1, 2]] and saved_steps(tmp_path) == [2, 3]


def test_the_file_is_one_of_the_library(tmp_path):
    """Every type, a scalar, an empty and a transposed tensor; safetensors reads what was written, and its header."""
    tensors = {f"model.{i}": torch.arange(12).reshape(3, 4).to(dtype) for i, dtype in enumerate(checkpoint._TYPES)}
    tensors |= {"step.a": torch.tensor(2.5), "beside.e": torch.empty(0, 3), "exp_avg.t": torch.rand(3, 5).T}
    path = checkpoint.write_tensors(tmp_path, 4, tensors, {"dropped": {"é": 1}})
    saved = safetensors.torch.load(path.read_bytes())
    assert saved.keys() == tensors.keys()
    assert all(saved[name].dtype == tensors[name].dtype and torch.equal(saved[name], tensors[name]) for name in saved)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata()["header"] == '{"step": 4, "dropped": {"\\u00e9": 1}}'


@pytest.mark.parametrize("ask", [CheckpointWriter.check, CheckpointWriter.finish, CheckpointWriter.close])
def test_an_error_of_the_writer_is_raised_once(tmp_path, monkeypatch, ask):
    """By whatever is called next; afterwards nothing is left of it."""
    monkeypatch.setattr(checkpoint, "write_tensors", refuse)
    writer = CheckpointWriter(tmp_path)
    writer.save(1, {}, {})
    held_job.join_writers()
    with pytest.raises(UserError, match="No space left on device"):
        ask(writer)
    writer.close()


def test_an_error_of_the_writer_ends_the_run_at_the_next_step(here, tmp_path, monkeypatch):
    """With its line: the checkpoint of step 2 fails while step 3 is made, and step 4 is not begun."""
    third_step_begun, begun = threading.Event(), []
    replace_write(monkeypatch, lambda _: third_step_begun.wait(LONG_S), refuse)

    def on_step(step: int, *_: object) -> None:
        begun.append(step)
        if step == 2:
            third_step_begun.set()
            held_job.join_writers()

    with pytest.raises(UserError, match="/2: cannot write: No space left on device"):
        small_training.train(here, "finetune", tmp_path, on_step)
    assert begun == [0, 1, 2]


def test_a_signal_while_a_checkpoint_is_written_loses_nothing(here, tmp_path, monkeypatch):
    """That one and the one that the signal asks for are on disk when the block is left, however long it takes."""
    signalled, leaving, in_time = threading.Event(), threading.Event(), []
    replace_write(monkeypatch, lambda step: in_time.append({2: signalled, 3: leaving}[step].wait(LONG_S)))
    finish = CheckpointWriter.finish

    def finish_noticed(writer: CheckpointWriter) -> None:
        if len(in_time) == 1 and writer._thread and saved_steps(tmp_path) == [2]:
            leaving.set()
        finish(writer)

    def on_step(step: int, *_: object) -> None:
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            signalled.set()

    monkeypatch.setattr(CheckpointWriter, "finish", finish_noticed)
    with pytest.raises(SystemExit, match="after step 3 of 10"):
        small_training.train(here, "finetune", tmp_path, on_step)
    assert in_time == [True, True] and saved_steps(tmp_path) == [2, 3]
    assert not list(tmp_path.glob(".step_*"))


def test_an_exception_leaves_what_was_handed_over_on_disk(here, tmp_path, monkeypatch):
    """As that of a step whose loss fails, while the checkpoint before it is being written."""
    failing = threading.Event()
    replace_write(monkeypatch, lambda _: failing.wait(LONG_S))

    def on_step(step: int, *_: object) -> None:
        if step == 2:
            failing.set()
        small_training.kill_at(2)(step)

    with pytest.raises(small_training.Killed):
        small_training.train(here, "finetune", tmp_path, on_step)
    assert saved_steps(tmp_path) == [2]


@pytest.mark.parametrize(("every_min", "every_steps", "expected"), [
    (10, 0, [3, 6, 9, 10]), (10, 2, [2, 4, 6, 8, 10]), (10, 5, [3, 5, 8, 10]), (0, 0, [10]), (0, 4, [4, 8, 10]),
])  # fmt: skip
def test_saves_by_time_and_by_steps(here, tmp_path, monkeypatch, every_min, every_steps, expected):
    """Steps of four minutes; whichever comes first, and the time runs from the last save."""
    clock, saved = [1000.0], []
    replace_write(monkeypatch, saved.append)
    monkeypatch.setattr(recorder, "read_clock", lambda: clock[0])

    def on_step(_step: int, *_: object) -> None:
        clock[0] += 240

    overrides = f"train.checkpoint_every_min={every_min}", f"train.checkpoint_every_steps={every_steps}"
    small_training.train(here, "finetune", tmp_path, on_step, *overrides)
    assert saved == expected
    assert [row["step"] for row in steps(tmp_path / "metrics.jsonl")] == list(range(1, 11))


@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_process_decides_when_it_is_time(here, tmp_path, monkeypatch, is_first):
    """Another one says no of itself, however late its clock is, and saves where the first is due."""
    flags: list[tuple[bool, ...]] = []
    monkeypatch.setattr(recorder, "read_clock", iter(range(0, 10**6, 1000)).__next__)
    answers = iter([[False, False], [False, True], [False, False]])
    monkeypatch.setattr(distributed, "are_set_anywhere", lambda *values: flags.append(values) or next(answers))
    original = recorder.Recorder.start

    def start(record: recorder.Recorder, *args) -> int:
        record.is_first = is_first
        return original(record, *args)

    monkeypatch.setattr(recorder.Recorder, "start", start)
    overrides = ("train.max_steps=3", "train.checkpoint_every_steps=0")
    small_training.train(here, "finetune", tmp_path, recorder.do_nothing, *overrides)
    assert flags == [(False, is_first)] * 3
    assert saved_steps(tmp_path) == ([2, 3] if is_first else [])
