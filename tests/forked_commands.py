"""Python commands as copies of the test's process: what a new process imports first is there, which takes seconds."""

import logging
import os
import runpy
import shlex
import signal
import string
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn

MODULES = ("compclip.", "tests.", "dvc")  # what such a command runs; other commands are processes as always
PYTHON = [sys.executable, "-m"]


class ForkedPopen(subprocess.Popen):
    """`subprocess.Popen`, but that `python -m compclip...` is a copy of this process, also where a stage of DVC runs it.

    The copy has the environment, folder, streams and session that the process would have, none of the open files and
    locks, and the modules that are imported here.
    """

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
        start_new_session, *others,
    ) -> None:  # fmt: skip
        command = _read_command(args, env)
        if command is None:
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
                start_new_session, *others,
            )  # fmt: skip
            return
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(command, cwd, env, (p2cread, c2pwrite, errwrite), start_new_session)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def _read_command(command: object, environment: Mapping[str, str] | None) -> list[str] | None:
    """The words of a Python command that can be a copy; None for all others."""
    if not isinstance(command, Sequence) or len(command) < 3:
        return None
    if command[-2] == "-c" and command[-1].startswith("python -m "):  # DVC runs its stages by a shell
        line = string.Template(command[-1]).safe_substitute(environment or os.environ)
        command = [*PYTHON, *shlex.split(line)[2:]]
    is_ours = list(command[:2]) == PYTHON and command[2].startswith(MODULES)
    return list(command) if is_ours else None


def _become(
    command: Sequence[str],
    folder: object,
    environment: Mapping[str, str] | None,
    streams: Sequence[int],
    has_session: bool,
) -> NoReturn:
    """Run a module as Python does; never returns, and runs nothing of what the test's process does at its end."""
    status = 1
    try:
        if has_session:
            os.setsid()
        _take_streams(streams)
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        if folder is not None:
            os.chdir(folder)
        sys.argv = list(command[2:])
        status = _run_module(command[2])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _take_streams(streams: Sequence[int]) -> None:
    """The first three files are the command's; all others are nobody's, so that no lock and no pipe lives on here."""
    for number, stream in enumerate(streams):
        if stream != -1:
            os.dup2(stream, number)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != nowhere:
            os.dup2(nowhere, int(name), inheritable=False)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    for handler in logging.getLogger("dvc").handlers:  # opened when DVC was imported
        handler.setStream(sys.stderr if handler.level >= logging.WARNING else sys.stdout)


def _run_module(name: str) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*found in sys.modules", category=RuntimeWarning)
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
