"""Runs and shards as jobs of a SLURM cluster; the only importer of submitit.

All that one command sends goes out as one array, cut where the cluster's MaxArraySize asks for it. Jobs run the code as
it was at submission, a copy in .work/code/; their own output is in store/<run key>/job.log, or beside the shards'
task.json, SLURM's in .work/slurm/.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from compclip.base import calm
from compclip.base.errors import UserError, one_line
from compclip.base.files import fingerprint, read_json, write_json
from compclip.base.shared import open_plain
from compclip.launch.profiles import Profile
from compclip.runs import cluster, jobs, tasks
from compclip.runs.sent import Sent, folder_of
from compclip.runs.store import StoredRun

PACKAGE = Path(__file__).resolve().parent.parent
POLL_S = 0.2


@dataclass
class Remote:
    """What a job runs: a module as a child, so that a signal reaches it and an end by any cause is told apart."""

    key: str
    module: str = jobs.SCORES
    notify: str = ""
    _pid: int = field(default=0, init=False)

    def __call__(self) -> None:
        """Bring the run to its results, make the shards. Raises RuntimeError where the child fails."""
        rank = int(os.environ.get("SLURM_PROCID", 0))
        log_file = folder_of(self.key).log_of(rank)
        with open_plain(log_file, "ab") as log:
            calmly = {**os.environ, **calm.settings(os.environ)}
            child = subprocess.Popen([sys.executable, "-m", self.module, self.key], stdout=log, stderr=log, env=calmly)
        self._pid = child.pid
        signal.signal(signal.SIGTERM, self._stop)  # after submitit, which only notes it
        while (code := child.poll()) is None:
            time.sleep(POLL_S)
        if code and not rank:
            jobs.tell(folder_of(self.key), self.notify, _own_label(), f"exit code {code}")
        if code:
            raise RuntimeError(f"{self.key}: exit code {code}; see {log_file}")

    def _stop(self, *_: Any) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Called by submitit in the first task at the cluster's warning: its child saves, then it is requeued.

        Between two steps the other tasks' children leave with it.
        """
        self._stop()
        while self._pid and jobs.started(self._pid):
            time.sleep(POLL_S)
        return submitit.helpers.DelayedSubmission(Remote(self.key, self.module, self.notify))


@dataclass(frozen=True)
class Slurm:
    """Sends runs, or with another module shards, to the cluster of a profile."""

    profile: Profile
    root: Path = Path(".")
    module: str = jobs.SCORES

    def submit(self, stored: StoredRun, params: str | Path) -> jobs.Job:
        """Send one run."""
        return self.submit_all([stored], params)[0]

    def attach(self, stored: StoredRun) -> jobs.Job | None:
        """The live job of a run, wherever it runs."""
        return jobs.attach(stored.folder)

    def submit_all(self, runs: Sequence[StoredRun], params: str | Path) -> list[jobs.SlurmJob]:
        """Send runs as arrays. Raises UserError with what SLURM says where it refuses."""
        for stored in runs:
            jobs.write_inputs(stored, params)
        return self.send(runs)

    def send(self, ready: Sequence[Sent]) -> list[jobs.SlurmJob]:
        """Send as arrays whatever has what its jobs read. Raises UserError as `submit_all`."""
        code, size = snapshot(self.root), max_array_size()
        sent: list[jobs.SlurmJob] = []
        for start in range(0, len(ready), size):
            sent += self._submit_array(ready[start : start + size], code)
        return sent

    def _submit_array(self, ready: Sequence[Sent], code: Path) -> list[jobs.SlurmJob]:
        keys = [one.key for one in ready]
        folder = (self.root / ".work" / "slurm").resolve()
        with _noted(folder, keys) as name, _refusals(self.profile):
            executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=self.profile.requeues)
            executor.update_parameters(job_name=name, **parameters(self.profile, ready, code, self.root))
            with executor.batch():
                sent = [executor.submit(Remote(key, self.module, self.profile.notify)) for key in keys]
            return [
                _record(self.root, key, job.job_id, self.profile.notify) for key, job in zip(keys, sent, strict=True)
            ]

    def recover(self) -> int:
        """Note the jobs of a command that died between SLURM's answer and its own note; how many."""
        found = 0
        for note in sorted((self.root / ".work" / "slurm").glob("compclip-*.json")):
            if _being_sent(note):
                continue
            keys = read_json(note)
            for job_id in _ids_named(note.stem):
                _record(self.root, keys[int(job_id.partition("_")[2] or 0)], job_id, self.profile.notify)
                found += 1
            note.unlink(missing_ok=True)
        return found


def recovered(profile: Profile, root: Path) -> None:
    """Note the jobs of a command that died, where the profile is a cluster's, and say how many."""
    if profile.executor == "slurm" and (found := Slurm(profile, root).recover()):
        print(f"{found} jobs of an interrupted command found in the queue")


def parameters(profile: Profile, ready: Sequence[Sent], code: Path, root: Path) -> dict[str, Any]:
    """The profile as submitit's options; what is empty is left out."""
    memory = f"{round(1024 * profile.memory_gb)}M" if profile.memory_gb else ""
    threads = max(one.threads for one in ready)
    first = shlex.quote(str(code.resolve()))
    setup = [*profile.setup, f"export PYTHONSAFEPATH=1 PYTHONPATH={first}${{PYTHONPATH:+:$PYTHONPATH}}"]
    if not f"{root.resolve()}{code.resolve()}".isprintable():
        raise UserError(f"{str(root.resolve())!a}: cannot stand in a job's script; rename the folder")
    options = {"requeue": True, "chdir": str(root.resolve()), **profile.options}
    given = {
        "partition": profile.partition, "account": profile.account, "qos": profile.qos,
        "constraint": profile.constraint, "nodes": profile.nodes, "ntasks_per_node": profile.tasks,
        "gpus_per_node": profile.gpus, "cpus_per_task": profile.cpus or threads, "time": profile.time_min,
        "mem": memory, "signal_delay_s": profile.signal_s, "array_parallelism": profile.array_limit,
        "stderr_to_stdout": True, "setup": setup, "additional_parameters": options,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value}


def snapshot(root: Path) -> Path:
    """A folder with the package as it is now, made once for each state of the code."""
    files = sorted(p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    names = "".join(str(p.relative_to(PACKAGE)) for p in files)
    target = root / ".work" / "code" / f"{fingerprint(*files)[:12]}{len(names)}"
    if not target.is_dir():
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copytree(PACKAGE, fresh / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        os.replace(fresh, target)
    return target


def max_array_size() -> int:
    """How many jobs an array of this cluster may have. Raises UserError where SLURM does not answer."""
    done = cluster.run("scontrol", "show", "config")
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", done.stdout)
    if done.returncode or not found:
        raise UserError(
            f"scontrol: {one_line(done.stderr) or 'no MaxArraySize'}; run this where SLURM answers, or use "
            "slurm/local.yaml"
        )
    return max(1, int(found[1]))


@contextlib.contextmanager
def _noted(folder: Path, keys: list[str]) -> Iterator[str]:
    """Note the keys under the array's name until every job is recorded: `recover` finds what a kill left between.

    The note is locked meanwhile: a sweep and a launch may send at the same time.
    """
    name = f"compclip-{uuid.uuid4().hex[:8]}"
    note, fresh = folder / f"{name}.json", folder / f".{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    with open(fresh, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(keys))
        file.flush()
        os.replace(fresh, note)
        try:
            yield name
        except UserError:
            note.unlink()
            raise
        note.unlink()


def _being_sent(note: Path) -> bool:
    with open(note, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def _refusals(profile: Profile) -> Iterator[None]:
    try:
        yield
    except (FailedJobError, FailedSubmissionError, RuntimeError) as error:
        lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        said = one_line(" ".join(line.partition("error:")[2] or line for line in lines))
        raise UserError(f"sbatch: {said}{_hint(profile, said)}") from error


def _hint(profile: Profile, said: str) -> str:
    if "partition" not in said.lower():
        return "; correct the profile"
    known = sorted(set(cluster.run("sinfo", "--noheader", "--format=%R").stdout.split()))
    return f"; the profile has partition={profile.partition!r}, the cluster has {', '.join(known) or 'none'}"


def _ids_named(name: str) -> list[str]:
    done = cluster.run("squeue", "--me", "--noheader", "--array", f"--name={name}", "--format=%i")
    if done.returncode:
        raise UserError(f"squeue: {one_line(done.stderr)}; try again when SLURM answers")
    return done.stdout.split()


def _own_label() -> str:
    """This job as `jobs.SlurmJob.label` calls it."""
    array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"job {array}_{index}" if array and index else f"job {os.environ.get('SLURM_JOB_ID', '?')}"


def _record(root: Path, key: str, job_id: str, notify: str) -> jobs.SlurmJob:
    log = (root / ".work" / "slurm").resolve() / f"{job_id}_0_log.out"
    folder, module = folder_of(key, root), jobs.SHARDS if tasks.is_key(key) else jobs.SCORES
    record = {"kind": "slurm", "module": module, "id": job_id, "log": str(log), "sent": time.time()}
    record |= {"notify": notify} if notify else {}
    write_json(folder.job, record)
    return jobs.SlurmJob(folder, record)
