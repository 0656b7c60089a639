"""TensorBoard: a folder for each run, with an event file of its curves and results (extra `tensorboard`).

The file's name ends with the run's content, so that a run that is there already is seen without reading it. A run that
changed has a new file, and the one before stays: a TensorBoard that is open reads that one to its end, then the
new one, which has it forget the earlier points.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.track.exported_runs import ExportedRun

TARGET = "tensorboard"
PREFIX = "events.out.tfevents."  # by which TensorBoard knows its files
VERSION = "brain.Event:2"


def find_content(name: str, to: str) -> str:
    """Return the content of a run's newest event file; "" where there is none."""
    files = _list_files(Path(to) / name)
    return files[-1].suffix.removeprefix(".") if files else ""


def write_run(run: ExportedRun, to: str) -> None:
    """Write a run's event file, then remove all but the one before. Raises UserError without tensorboard."""
    buffer, folder = BytesIO(), Path(to) / run.name
    writer = _open_writer(buffer)
    for event in _make_events(run):
        writer.write(event.SerializeToString())
    earlier_files = _list_files(folder)
    # Ascending names: TensorBoard goes on with the next one.
    target = folder / f"{PREFIX}{time.time_ns()}.{run.content}"
    write_atomic(target, buffer.getvalue())
    for path in earlier_files[:-1]:
        os.unlink(path)


def _list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*"))


def _open_writer(buffer: BytesIO) -> Any:
    try:
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise UserError(f"tensorboard: {error}; install it with `pip install 'compclip[tensorboard]'`") from error
    return RecordWriter(buffer)


def _make_events(run: ExportedRun) -> Iterator[Any]:
    """Yield the head of an event file, a session's start, then an event for each point, with its own step and time."""
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary

    start = run.points[0].time if run.points else 0.0
    yield Event(wall_time=start, file_version=VERSION)
    yield Event(wall_time=start, step=0, session_log=SessionLog(status=SessionLog.START))
    for point in run.points:
        value = Summary.Value(tag=point.name, simple_value=float(point.value))
        yield Event(wall_time=point.time, step=point.step, summary=Summary(value=[value]))
