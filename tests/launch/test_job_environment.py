"""What a job takes from the shell that starts it, on a cluster and on this machine, and what is in its script."""

import os

from compclip.base import environment_variables
from compclip.launch import slurm

SHELL = {
    "PATH": "/bin", "COMPCLIP_STORE": "/a store", "COMPCLIP_GPUS": "1",
    "COMPCLIP_STORAGE": "postgresql://me:word@host/db", "COMPCLIP_ALLOW_ENV": "DATA_ROOT,KEY@https://k",
    "DATA_ROOT": "/data", "KEY": "sk-1", "CHAT": "https://chat/secret", "PYTHONPATH": "/mine", "RANK": "1",
}  # fmt: skip
PLACE = ("SLURM_MEM_PER_CPU", "SLURM_CPU_BIND", "SLURMD_NODENAME", "SRUN_DEBUG", "SUBMITIT_EXECUTOR", "PMI_RANK", "PMIX_ID",
         "PMI2_X", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
         "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID")  # fmt: skip
OTHERS = ("PATH", "SBATCH_ACCOUNT", "SLURM_CONF", "SLURM_CLUSTERS", "COMPCLIP_STORE", "RANKS", "MY_RANK", "LOCALE")


def test_the_script_sets_what_a_job_needs_and_no_secret():
    """Quoted; neither keys nor the webhook, nor what is of the machine that submits."""
    lines = slurm.export_lines(SHELL, "CHAT")
    assert lines == [
        "export COMPCLIP_ALLOW_ENV=DATA_ROOT,KEY@https://k",
        "export COMPCLIP_STORE='/a store'",
        "export DATA_ROOT=/data",
        "export PYTHONPATH=/mine",
    ]


def test_a_site_that_exports_nothing_hands_on_secrets_by_name():
    """In front of them what a shell lists itself; where all is exported nothing changes."""
    for exported, names in (("NONE", []), ("NIL", []), ("FOO,BAR", ["FOO", "BAR"])):
        environment = slurm.submission_environment({**SHELL, "SBATCH_EXPORT": exported}, (), "CHAT")
        assert environment["SBATCH_EXPORT"].split(",") == [*names, "CHAT", "COMPCLIP_STORAGE", "KEY"]
        assert environment["CHAT"] == SHELL["CHAT"]
    assert slurm.submission_environment({"SBATCH_EXPORT": "NONE"}, ()) == {"SBATCH_EXPORT": "NONE"}
    for all_exported in ({}, {"SBATCH_EXPORT": "ALL"}, {"SBATCH_EXPORT": "ALL,X=1"}):
        submitted = slurm.submission_environment({"A": "1", **all_exported}, ())
        assert submitted == {"A": "1", **all_exported}


def test_a_site_s_defaults_stand_where_the_profile_says_nothing():
    """sbatch takes its variables for more than the lines of a script."""
    site = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_MEM_PER_CPU", "SBATCH_TIMELIMIT", "SBATCH_JOB_NAME",
            "SBATCH_RESERVATION", "SBATCH_WAIT", "SBATCH_GPUS", "SBATCH_MAIL_TYPE")  # fmt: skip
    options = ("partition", "mem", "time", "gpus_per_node", "mail-type")
    submitted = slurm.submission_environment(dict.fromkeys(site, "1"), options)
    assert set(submitted) == {"SBATCH_ACCOUNT", "SBATCH_RESERVATION"}


def test_the_gpus_of_the_allocation_are_not_those_of_the_job():
    """Outside of one the user's choice stays."""
    environment = {"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "1"}
    assert slurm.submission_environment(environment, ()) == {}
    assert slurm.submission_environment({"CUDA_VISIBLE_DEVICES": "0"}, ()) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_the_process_has_its_own_environment_again(monkeypatch):
    """Changed, added and removed variables, also after an error."""
    monkeypatch.setenv("STAYS", "1")
    monkeypatch.setenv("GOES", "1")
    before = dict(os.environ)
    other = {**before, "STAYS": "2", "NEW": "1"}
    del other["GOES"]
    with slurm.exchange(other):
        assert dict(os.environ) == other
    assert dict(os.environ) == before


def test_an_enclosing_job_s_place_is_left_out():
    """Its variables go, all others stay, also those by which the cluster is reached, and what a grid may read."""
    environment = dict.fromkeys((*PLACE, *OTHERS), "1")
    assert environment_variables.without_place(environment) == dict.fromkeys(OTHERS, "1")
    environment = {"LOCAL_SCRATCH": "/s", "LOCAL_RANK": "1", "COMPCLIP_ALLOW_ENV": "LOCAL_SCRATCH"}
    assert set(environment_variables.without_place(environment)) == {"LOCAL_SCRATCH", "COMPCLIP_ALLOW_ENV"}


def test_questions_are_not_filtered():
    """SQUEUE_STATES=RUNNING would hide jobs that wait."""
    environment = dict.fromkeys(("SQUEUE_STATES", "SCANCEL_INTERACTIVE", "SLURM_TIME_FORMAT", "SLURM_CONF"), "1")
    assert environment_variables.without_defaults(environment) == {"SLURM_CONF": "1"}
