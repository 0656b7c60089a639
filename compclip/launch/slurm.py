"""Runs and shards as jobs of a SLURM cluster; the only importer of submitit.

All that one command sends goes out as one array, cut where the cluster's MaxArraySize asks for it. Jobs run the code as
it was at submission, a copy in .work/code/; their own output is in store/<run key>/job.log, or beside the shards'
task.json, SLURM's in .work/slurm/.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmJobEnvironment

from compclip.base import environment_variables, worker_processes
from compclip.base.errors import UserError, one_line
from compclip.base.files import fingerprint, write_json
from compclip.base.messages import format_count
from compclip.base.shared_folders import open_plain
from compclip.launch import profiles
from compclip.launch.profiles import Profile
from compclip.runs import cluster, gpus, jobs, notify, run_store, shard_tasks
from compclip.runs.notify import News
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun
from compclip.runs.shard_tasks import Task

PACKAGE = Path(__file__).resolve().parent.parent
POLL_S = 0.2
TRY_AGAIN_S = 60.0  # a queue that took no more jobs
# that other processes wait for the first one, after the warning and after SIGTERM
WARNED_S = 600
STOPPED_S = 20
QUEUE_FULL = re.compile(r"(Assoc|QOS)\w*Submit\w*")  # SLURM's words for a limit of jobs in the queue
WARNING = getattr(signal, f"SIG{SlurmJobEnvironment.USR_SIG}")
JobInput: TypeAlias = StoredRun | Task  # what can be sent as a job


@dataclass
class JobCommand:
    """What a job runs: a module as a child, so that a signal reaches it and an end by any cause is told apart."""

    key: str
    module: str = jobs.SCORES
    notify: str = ""
    _pid: int = field(default=0, init=False)
    _leave_at: float = field(default=0.0, init=False)  # on the monotonic clock, after a signal

    def __call__(self) -> None:
        """Bring the run to its results, make the shards. Raises RuntimeError where the child fails.

        That ends the job's other processes too (`--kill-on-bad-exit`).
        """
        rank = int(os.environ.get("SLURM_PROCID", 0))
        log_file = find_job_folder(self.key).log_of(rank)
        with open_plain(log_file, "ab") as log:
            environment = {**os.environ, **worker_processes.passive_waiting(os.environ)}
            child = subprocess.Popen(
                [sys.executable, "-m", self.module, self.key], stdout=log, stderr=log, env=environment
            )
        self._pid = child.pid
        signal.signal(signal.SIGTERM, self._stop)  # after submitit, which only notes it
        if rank:  # the first process takes the warning: see `checkpoint`
            signal.signal(WARNING, self._note_warning)
        while (code := child.poll()) is None:
            time.sleep(POLL_S)
        if code and not rank:
            array = os.environ.get("SLURM_ARRAY_JOB_ID")
            index = os.environ.get("SLURM_ARRAY_TASK_ID")
            job_id = f"{array}_{index}" if array and index else os.environ.get("SLURM_JOB_ID", "?")
            self._post_failure(f"job {job_id} failed", code)
        if code and rank:
            self._wait_for_first() if self._leave_at else self._report_failure(rank)
        if code:
            raise RuntimeError(f"{self.key}: exit code {code}; see {log_file}")

    def _post_failure(self, what: str, code: int) -> None:
        if self.notify:
            folder = find_job_folder(self.key)
            name = jobs.read_name(folder)
            reason = one_line(f"exit code {code}: {jobs.last_line(folder)}")
            notify.post(self.notify, News(f"{name}: {what}", {"failed": 1}, {name: reason}))

    def _note_warning(self, *_: Any) -> None:
        self._leave_at = time.monotonic() + WARNED_S

    def _wait_for_first(self) -> None:
        """Wait for the first process, which saves: a process that leaves earlier ends the job and takes its time."""
        while time.monotonic() < self._leave_at:
            time.sleep(POLL_S)

    def _report_failure(self, rank: int) -> None:
        """Write to the job's log which process failed, and the last line of its own log."""
        folder = find_job_folder(self.key)
        lines = jobs.last_lines(folder, 1, rank) or ["nothing logged"]
        with open_plain(folder.log, "ab") as log:
            log.write(f"{jobs.PROCESS_FAILED}{rank}: {lines[0].strip()} ({folder.log_of(rank)})\n".encode())

    def _stop(self, *_: Any) -> None:
        self._leave_at = time.monotonic() + (0 if self._leave_at else STOPPED_S)  # the second signal is srun's
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Called by submitit in the first task at the cluster's warning: its child saves, then it is requeued.

        Between two steps the other tasks' children leave with it.
        """
        self._stop()
        while self._pid and jobs.read_start_time(self._pid):
            time.sleep(POLL_S)
        return submitit.helpers.DelayedSubmission(JobCommand(self.key, self.module, self.notify))


@dataclass
class Slurm:
    """Sends runs, or with another module shards, to the cluster of a profile.

    `while_waiting` is called now and then while the queue takes no more.
    """

    profile: Profile
    root: Path = Path(".")
    module: str = jobs.SCORES
    while_waiting: Callable[[], object] = lambda: None

    def submit(self, run: StoredRun, params: str | Path) -> jobs.Worker:
        """Send one run; return who works on it by then."""
        jobs.write_inputs(run, params)
        new_jobs = [job for batch in self.send([run]) for job in batch]
        return new_jobs[0] if new_jobs else jobs.Holder(run.folder, "another process")

    def attach(self, run: StoredRun) -> jobs.Worker | None:
        """Return who works on a run, wherever that is."""
        return jobs.find_worker(run.folder)

    def send(self, work: Sequence[JobInput]) -> Iterator[list[jobs.SlurmJob]]:
        """Send as arrays work whose input files are written, and yield the jobs of each array.

        Waits while the queue takes no more; what others work on or have done by then is not sent. Raises UserError with
        what SLURM says where it refuses.
        """
        code = copy_package(self.root)
        largest = read_max_array_size()
        size = largest
        limit = f"queue_limit={self.profile.queue_limit}"
        shown_limit = ""
        while work:
            count = min(size, self._count_room(len(work)))
            if count:
                try:
                    submitted = self._submit_array(work[:count], code)
                except QueueFull as error:
                    limit = error.limit
                    size = count // 2
                else:
                    yield submitted
                    work = work[count:]
                if size:
                    continue
            if limit != shown_limit:
                why = f"{len(work)} not sent yet, since the queue takes no more for now ({limit})"
                print(f"{why}: sending them as there is room; after Ctrl-C the same command sends the rest", flush=True)
                shown_limit = limit
            self._wait()
            work = [item for item in work if not self._is_taken(item)]
            size = largest

    def _wait(self) -> None:
        try_again_at = time.monotonic() + TRY_AGAIN_S
        while time.monotonic() < try_again_at:
            self.while_waiting()
            time.sleep(POLL_S)

    def _is_taken(self, item: JobInput) -> bool:
        if jobs.find_worker(item.folder) or not item.folder.path.is_dir():
            return True
        return jobs.has_finished(item.folder, {"module": self.module})

    def _count_room(self, count: int) -> int:
        """Return how many jobs the profile's limit lets the user send now."""
        if not self.profile.queue_limit:
            return count
        queued = cluster.run_command("squeue", "--me", "--noheader", "--array", "--format=%i").stdout.split()
        return min(count, max(0, self.profile.queue_limit - len(queued)))

    def _submit_array(self, work: Sequence[JobInput], code: Path) -> list[jobs.SlurmJob]:
        folder = (self.root / ".work" / "slurm").resolve()
        options = submitit_options(self.profile, work, code, self.root)
        names = [*options, *options["additional_parameters"]]
        environment = submission_environment(os.environ, names, self.profile.notify)
        name = f"compclip-{uuid.uuid4().hex[:8]}"
        with _explain_refusals(self.profile):
            executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=self.profile.requeues)
            executor.update_parameters(job_name=name, **options)
            with exchange(environment), executor.batch():
                submitted = [executor.submit(JobCommand(item.key, self.module, self.profile.notify)) for item in work]
            identities = _identify(name, [job.job_id for job in submitted])
            return [_record(self.root, item.key, identity) for item, identity in zip(work, identities, strict=True)]


def describe_sent(sent: Sequence[jobs.SlurmJob], noun: str) -> str:
    """Say in one line how many jobs an array has, and their numbers."""
    last = f" to {sent[-1].label()}" if sent[1:] else ""
    return f"{format_count(len(sent), noun)} sent: {sent[0].label()}{last}"


def submitit_options(profile: Profile, work: Sequence[JobInput], code: Path, root: Path) -> dict[str, Any]:
    """Return the profile as submitit's options, without empty ones."""
    memory = f"{round(1024 * profile.memory_gb)}M" if profile.memory_gb else ""
    cpus = profile.cpus or max(item.threads for item in work)
    first = shlex.quote(str(code.resolve()))
    exports = export_lines(os.environ, profile.notify)
    setup = [*exports, *profile.setup, f"export PYTHONSAFEPATH=1 PYTHONPATH={first}${{PYTHONPATH:+:$PYTHONPATH}}"]
    if profile.gpus:
        setup.append(f"export {gpus.PROFILE_GPUS}={profile.gpus}")
    if not f"{root.resolve()}{code.resolve()}".isprintable():
        raise UserError(f"{str(root.resolve())!a}: cannot be in a job's script; rename the folder")
    options = {"requeue": True, "chdir": str(root.resolve()), **profile.options}
    settings = {
        "partition": profile.partition, "account": profile.account, "qos": profile.qos,
        "constraint": profile.constraint, "nodes": profile.nodes, "ntasks_per_node": profile.tasks,
        "gpus_per_node": profile.gpus, "cpus_per_task": cpus, "time": profile.time_min,
        "mem": memory, "signal_delay_s": profile.signal_s, "array_parallelism": profile.array_limit,
        "stderr_to_stdout": True, "setup": setup, "additional_parameters": options,
        "srun_args": srun_arguments(profile, cpus),
    }  # fmt: skip
    return {name: value for name, value in settings.items() if value}


def srun_arguments(profile: Profile, cpus: int) -> list[str]:
    """Return the arguments of the srun that starts a run's processes; the profile's `srun` replaces ours.

    Since Slurm 22.05 srun does not take the cores of a process from sbatch. A process that fails ends the others.
    """
    options = {"kill-on-bad-exit": "1", "cpus-per-task": str(cpus), "export": "ALL", **profile.srun}
    return [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]


def copy_package(root: Path) -> Path:
    """Copy the package as it is now, once for each state of the code; return the folder."""
    files = sorted(path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    length = sum(len(str(path.relative_to(PACKAGE))) for path in files)
    target = root / ".work" / "code" / f"{fingerprint(*files)[:12]}{length}"
    if not target.is_dir():
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copytree(PACKAGE, temporary / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        os.replace(temporary, target)
    return target


def read_max_array_size() -> int:
    """Return how many jobs an array of this cluster may have. Raises UserError where SLURM does not answer."""
    try:
        return max(1, int(cluster.read_config()["MaxArraySize"]))
    except cluster.Unreachable as error:
        raise UserError(f"scontrol: {error}; run this where SLURM answers, or use slurm/local.yaml") from error


class QueueFull(UserError):
    """The cluster takes no more jobs of this user for now, by its `limit`."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


@contextlib.contextmanager
def _explain_refusals(profile: Profile) -> Iterator[None]:
    try:
        yield
    except (FailedJobError, FailedSubmissionError, RuntimeError) as error:
        lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        message = one_line(" ".join(line.partition("error:")[2] or line for line in lines))
        limit = QUEUE_FULL.search(message)
        if limit:
            raise QueueFull(f"sbatch: {message}", limit[0]) from error
        fix = "correct the profile"
        if "partition" in message.lower():
            names = sorted(set(cluster.run_command("sinfo", "--noheader", "--format=%R").stdout.split()))
            fix = f"the profile has partition={profile.partition!r}, the cluster has {', '.join(names) or 'none'}"
            if profile.partition in names:
                fix = f"{cluster.describe_partition(profile.partition)}; the cluster has {', '.join(names)}"
        raise UserError(f"sbatch: {message}; {fix}") from error


def _identify(name: str, job_ids: Sequence[str]) -> list[cluster.JobIdentity]:
    """Return what tells the jobs that were sent just now, under this name, from all others."""
    try:
        queued = cluster.identify_sent(name)
    except cluster.Unreachable:  # it took them a moment ago: only the time is not known
        queued = {}
    here = cluster.read_config()["ClusterName"]
    user = cluster.current_user()
    return [queued.get(job_id, cluster.JobIdentity(here, user, job_id, name)) for job_id in job_ids]


def _record(root: Path, key: str, identity: cluster.JobIdentity) -> jobs.SlurmJob:
    log = (root / ".work" / "slurm").resolve() / f"{identity.id}_0_log.out"
    folder = find_job_folder(key, root)
    module = jobs.SHARDS if shard_tasks.is_key(key) else jobs.SCORES
    moved_with = os.path.relpath(log, folder.path.resolve())  # a project may be moved
    record = {"kind": "slurm", "module": module, **asdict(identity), "log": moved_with}
    write_json(folder.job, record)
    return jobs.SlurmJob(folder, record)


def find_job_folder(key: str, root: Path = Path(".")) -> RunFolder:
    """Return the folder of the job with this key. Raises UserError for a text that is no key."""
    return shard_tasks.folder(key, root) if shard_tasks.is_key(key) else run_store.find_folder(key, root)


# What a cluster's job has in its environment, whatever the shell or the site sets for sbatch and srun.
#
# The script of a job sets what compclip needs, and srun hands all of the script's environment on. So a site that
# exports nothing (SBATCH_EXPORT=NONE) is obeyed: nothing else of the shell comes along. What may be secret stands in
# no script: where not everything is exported, sbatch hands it on by name.
#
# sbatch takes variables of its own for more than a script's lines. A site's defaults, as SBATCH_ACCOUNT, stay where
# the profile says nothing of the kind.

OUR_PREFIX = "COMPCLIP_"
PASSED_ON = (
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "NLTK_DATA",
    "PYTHONPATH",
    "SUBMITIT_PREEMPT_SIGNAL",
)
SECRETS = ("COMPCLIP_STORAGE", "COMPCLIP_WEBHOOK", "HF_TOKEN")
# of the machine or job that submits: the job's own are others
OF_SENDER = (gpus.PROFILE_GPUS, gpus.CORES, profiles.VARIABLE)
SBATCH_PREFIX = "SBATCH_"
EXPORT = "SBATCH_EXPORT"
# sbatch's variables whose option a job's script always has, or may have in the place of another one
ALWAYS = ("array_inx", "error", "job_name", "no_requeue", "open_mode", "output", "requeue", "signal", "wait")
REPLACED = {
    "time": ("timelimit",),
    "mem": ("mem_per_cpu", "mem_per_gpu", "mem_per_node"),
    "gpus_per_node": ("gpus", "gpus_per_task"),
}


def export_lines(environment: Mapping[str, str], webhook: str = "") -> list[str]:
    """Return lines of a script that set what a job needs, without secrets, as that in the variable `webhook`."""
    allowed = environment_variables.list_allowed(environment)
    names = [name for name in environment if name.startswith(OUR_PREFIX) or name in PASSED_ON or name in allowed]
    hidden = {*SECRETS, *OF_SENDER, webhook}
    return [f"export {name}={shlex.quote(environment[name])}" for name in sorted(names) if name not in hidden]


def list_secrets(environment: Mapping[str, str], webhook: str = "") -> list[str]:
    """List the variables with secrets that a job needs: the webhook, tokens, and keys that a grid may send."""
    allowed = environment_variables.list_allowed(environment)
    keys = [word.partition("@")[0] for word in allowed if "@" in word]
    return sorted({*SECRETS, *keys, webhook} & environment.keys())


def submission_environment(environment: Mapping[str, str], options: Iterable[str], webhook: str = "") -> dict[str, str]:
    """Return the environment for sbatch; `options` are those that the job's script has, by their names."""
    replaced = [*ALWAYS, *options]
    for option in options:
        replaced += REPLACED.get(option, ())
    hidden = {SBATCH_PREFIX + name.replace("-", "_").upper() for name in replaced}
    hidden.update(OF_SENDER)
    if "SLURM_JOB_ID" in environment:  # these GPUs are that job's
        hidden.add(gpus.VISIBLE)
    clean = environment_variables.without_place(environment)
    submitted = {name: value for name, value in clean.items() if name not in hidden}
    exported = environment.get(EXPORT, "ALL").split(",")
    if "ALL" not in exported:
        names = [name for name in exported if name not in ("NONE", "NIL", "")]
        submitted[EXPORT] = ",".join(names + list_secrets(environment, webhook)) or "NONE"
    return submitted


@contextlib.contextmanager
def exchange(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process's commands have another environment: submitit starts sbatch without a word on it."""
    previous = dict(os.environ)
    os.environ.update(environment)
    for name in previous.keys() - environment.keys():
        del os.environ[name]
    try:
        yield
    finally:
        for name in environment.keys() - previous.keys():
            del os.environ[name]
        os.environ.update(previous)
