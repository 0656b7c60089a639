"""Who works on a run: a job that is this one and no other, whoever sent it, or a process that holds the run.

And SLURM's reasons why a job waits: which never end by themselves, and what helps.
"""

import os
import subprocess
from types import SimpleNamespace

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.runs import cluster, jobs
from tests import fake_slurm
from tests.fake_slurm import NAME, SUBMITTED, record, row
from tests.runs.machines import claim

DRAINED = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@pytest.mark.parametrize(
    ("queue", "state"),
    [
        (row("5"), jobs.RUNNING),
        (row("5", "PENDING", SUBMITTED + 60), jobs.PENDING),  # a requeue is a submission
        (row("5", name="interactive"), jobs.FAILED),
        (row("5", name=f"{NAME}|5"), jobs.FAILED),
        (row("5", submitted=SUBMITTED - 1), jobs.FAILED),
        (row("5_0"), jobs.FAILED),
    ],
)
def test_a_number_is_not_a_job(run, monkeypatch, queue, state):
    """Name and time of submission tell whether the number is ours still; if not, nobody works on the run."""
    write_json(run.job, record("5"))
    fake_slurm.install(monkeypatch, queue)
    assert jobs.find_job(run).state() == state
    assert (jobs.find_worker(run) is None) == (state == jobs.FAILED)


@pytest.mark.parametrize("change", [
    {"pid": -1}, {"pid": 1}, {"pid": "7"}, {"pid": True}, {"kind": []}, {"kind": "slurm", "id": "7", "log": ""},
    record("--user=x"), record("7", user="--me"), record("7", user="you,me"), record("7", name="another-job"),
    record("7", cluster="all,here"),
])  # fmt: skip
def test_a_job_that_is_none_is_never_stopped(run, change):
    """A process -1 would be every process of the user's."""
    note = {"kind": "local", "host": os.uname().nodename, "pid": 7, "started": "", "module": jobs.SCORES}
    write_json(run.scored, {})
    write_json(run.job, note)
    assert jobs.find_job(run).state() == jobs.DONE
    write_json(run.job, note | change)
    with pytest.raises(UserError, match="job.json: not what was noted of a job; remove it when no such job runs"):
        jobs.find_job(run)


def test_a_colleague_s_job_is_live(run, monkeypatch):
    """The queue is asked for the jobs of whoever sent it, and the label says whose it is."""
    commands = []
    fake_slurm.install(monkeypatch, lambda *words: (0, row("5") if "--user=ann" in words else "", ""), commands)
    write_json(run.job, record("5", user="ann"))
    assert jobs.find_worker(run).label() == "job 5 of ann"
    write_json(run.job, record("5"))
    assert jobs.find_worker(run) is None
    assert [set(words) & {"--me", "--clusters=tiny"} for words in commands] == [set(), set()]


def test_a_cluster_that_shows_nobody_else_s_jobs(run, monkeypatch):
    """A colleague's job that is not to be seen is not taken for dead; one of ours is."""
    fake_slurm.install(monkeypatch)
    monkeypatch.setattr(cluster, "read_config", lambda: {"ClusterName": "tiny", "PrivateData": "jobs,usage"})
    write_json(run.job, record("5", user="ann"))
    assert jobs.find_worker(run).state() == jobs.PENDING
    write_json(run.job, record("5"))
    assert jobs.find_worker(run) is None


@pytest.mark.parametrize(("answer", "state"), [((0, row("5"), ""), jobs.RUNNING), ((1, "", "no such"), jobs.PENDING)])
def test_a_job_of_another_cluster(run, monkeypatch, answer, state):
    """It is asked for there; where that cluster does not answer from here, nothing is known and nothing sent."""
    fake_slurm.install(monkeypatch, lambda *words: answer if "--clusters=big" in words else (0, "", ""))
    write_json(run.job, record("5", cluster="big"))
    assert jobs.find_worker(run).state() == state


def test_scancel_and_sacct_ask_with_the_whole_identity(monkeypatch):
    """A job that took the number a moment ago is not ended, and not given as the reason."""
    commands = []
    fake_slurm.install(monkeypatch, row("5_1"), commands)
    job = cluster.JobIdentity("big", "ann", "5_1", NAME)
    assert cluster.cancel(job) == ""
    cluster.explain_end(job)
    _squeue, scancel, sacct, _scontrol = commands
    for words in (scancel, sacct):
        assert {"--user=ann", f"--name={NAME}", "--clusters=big"} <= set(words)
    assert "5_1" in scancel and "--jobs=5_1" in sacct


@pytest.mark.parametrize(
    ("queue", "scancel"),
    [
        # with a name, SLURM would end the array's other waiting jobs too
        (row("5_1", "PENDING"), [("scancel", "5_1")]),
        (row("5_1", name="interactive"), []),
        ("", []),
    ],
)
def test_what_is_cancelled_is_looked_at_once_more(monkeypatch, queue, scancel):
    """In the queue as it is in this moment; nothing is ended where the job is gone."""
    commands = []
    fake_slurm.install(monkeypatch, queue, commands)
    assert cluster.cancel(cluster.JobIdentity("tiny", cluster.current_user(), "5_1", NAME)) == ""
    assert [words for words in commands if words[0] == "scancel"] == scancel


def test_an_operator_does_not_end_the_job_of_another_user(run, monkeypatch):
    """SLURM would let them: the user that the store recorded is compared."""
    commands = []
    fake_slurm.install(monkeypatch, row("5"), commands)
    write_json(run.job, record("5", user="ann"))
    with pytest.raises(UserError, match="job 5: belongs to ann; ask them to stop it"):
        jobs.find_worker(run).cancel()
    assert "scancel" not in {words[0] for words in commands}


def test_a_process_that_no_job_is_known_of(run, monkeypatch):
    """By its lease, until it leaves; it cannot be stopped from here."""
    lease = claim(run, "elsewhere")
    assert lease.take()
    worker = jobs.find_worker(run)
    assert worker.state() == jobs.RUNNING and worker.label().startswith("process ")
    with pytest.raises(UserError, match="is running; wait for it"), jobs.hold_idle(run):
        pass
    with pytest.raises(UserError, match="is no job; stop it where it runs"):
        worker.cancel()
    lease.close()
    assert worker.state() == jobs.FAILED
    write_json(run.scored, {})
    assert worker.state() == jobs.DONE
    with jobs.hold_idle(run):
        pass


# --- why a job waits


@pytest.fixture
def down_partition(monkeypatch) -> None:
    """A partition that is down, with three nodes; what was said before is forgotten."""
    answers = {"squeue": "main\n", "sinfo": "down|2 drained\ndown|1 idle\n"}
    monkeypatch.setattr(cluster, "run_command", lambda *c: subprocess.CompletedProcess(c, 0, answers[c[0]], ""))
    cluster.explain_wait.cache_clear()
    cluster._warn_once.cache_clear()


@pytest.mark.parametrize(("reason", "helps"), [
    ("JobHeldUser", "`scontrol release 12`"), ("job requeued in held state", "`scontrol release 12`"),
    ("launch failed requeued held", "`scontrol show job 12`"),
    ("PartitionDown", "partition main is down, its nodes: 2 drained, 1 idle"),
    (DRAINED, "2 drained, 1 idle: `sinfo --list-reasons`"),
    ("ReqNodeNotAvail, UnavailableNodes:n1", "`sinfo --list-reasons`"),
    ("PartitionTimeLimit", "`scontrol show partition`"), ("QOSMaxCpuPerJobLimit", "`sacctmgr show qos`"),
    ("AssocMaxWallDurationPerJobLimit", "`sacctmgr show qos`"), ("AssocGrpCPUMinutesLimit", "`sshare`"),
])  # fmt: skip
def test_what_never_ends_by_itself_has_a_command_that_helps(down_partition, reason, helps):
    """In one line, with the job, or its whole array, and SLURM's own word."""
    (line,) = cluster.list_advice([(reason, "job 12_3"), (reason, "job 12_4 and 5 more")])
    assert line.startswith(f"job 12 waits, {reason}: ") and helps in line


@pytest.mark.parametrize(
    "reason",
    ["", "None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "QOSMaxJobsPerUserLimit", "PartitionConfig",
     "AssocGrpCPURunMinutesLimit", "AssocGrpCpuLimit", "Dependency", "Reservation"],
)  # fmt: skip
def test_what_time_helps_has_none(down_partition, reason):
    """Other jobs end, and this one starts."""
    assert cluster.list_advice([(reason, "job 12_3")]) == []


def test_whoever_waits_is_told_once(down_partition, run, monkeypatch, capsys):
    states = [("PENDING", "JobHeldUser")] * 3 + [("RUNNING", "None")]
    answers = iter([fake_slurm.queued(state)._replace(reason=reason) for state, reason in states] + [None])
    monkeypatch.setattr(cluster, "queue", lambda *_: SimpleNamespace(find=lambda *_: next(answers)))
    job = jobs.SlurmJob(run, record("12_3"))
    jobs.wait_for_job(job, lambda: None, poll_s=0)
    assert capsys.readouterr().err.count("scontrol release 12") == 1
    assert job.waits_by == ""
