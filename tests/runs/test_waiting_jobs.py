"""SLURM's reasons why a job waits: which never end by themselves, and what helps."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from compclip.runs import cluster, jobs
from compclip.runs.run_folder import RunFolder
from tests import fake_slurm

DRAINED = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@pytest.fixture(autouse=True)
def slurm(monkeypatch):
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
def test_what_never_ends_by_itself_has_a_command_that_helps(reason, helps):
    """In one line, with the job, or its whole array, and SLURM's own word."""
    (line,) = cluster.list_advice([(reason, "job 12_3"), (reason, "job 12_4 and 5 more")])
    assert line.startswith(f"job 12 waits, {reason}: ") and helps in line


@pytest.mark.parametrize(
    "reason",
    ["", "None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "QOSMaxJobsPerUserLimit", "PartitionConfig",
     "AssocGrpCPURunMinutesLimit", "AssocGrpCpuLimit", "Dependency", "Reservation"],
)  # fmt: skip
def test_what_time_helps_has_none(reason):
    """Other jobs end, and this one starts."""
    assert cluster.list_advice([(reason, "job 12_3")]) == []


def test_whoever_waits_is_told_once(monkeypatch, capsys):
    """However often the job is looked at."""
    states = [("PENDING", "JobHeldUser")] * 3 + [("RUNNING", "None")]
    answers = iter([fake_slurm.queued(state)._replace(reason=reason) for state, reason in states] + [None])
    monkeypatch.setattr(cluster, "queue", lambda *_: SimpleNamespace(find=lambda *_: next(answers)))
    job = jobs.SlurmJob(RunFolder(Path("k")), fake_slurm.record("12_3"))
    jobs.wait_for_job(job, lambda: None, poll_s=0)
    assert capsys.readouterr().err.count("scontrol release 12") == 1
    assert job.waits_by == ""
