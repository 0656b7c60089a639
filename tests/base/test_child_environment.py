"""What a process of its own takes from the shell that starts it."""

from compclip.base import environment_variables

PLACE = ("SLURM_MEM_PER_CPU", "SLURM_CPU_BIND", "SLURMD_NODENAME", "SRUN_DEBUG", "SUBMITIT_EXECUTOR", "PMI_RANK", "PMIX_ID",
         "PMI2_X", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
         "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID")  # fmt: skip
OTHERS = ("PATH", "SBATCH_ACCOUNT", "SLURM_CONF", "SLURM_CLUSTERS", "COMPCLIP_STORE", "RANKS", "MY_RANK", "LOCALE")


def test_an_enclosing_job_s_place_is_left_out():
    """Its variables go, all others stay, also those by which the cluster is reached."""
    environment = dict.fromkeys((*PLACE, *OTHERS), "1")
    assert environment_variables.without_place(environment) == dict.fromkeys(OTHERS, "1")


def test_what_a_grid_may_read_stays():
    """A site's LOCAL_SCRATCH is a path that a grid may name."""
    environment = {"LOCAL_SCRATCH": "/s", "LOCAL_RANK": "1", "COMPCLIP_ALLOW_ENV": "LOCAL_SCRATCH"}
    assert set(environment_variables.without_place(environment)) == {"LOCAL_SCRATCH", "COMPCLIP_ALLOW_ENV"}


def test_questions_are_not_filtered():
    """SQUEUE_STATES=RUNNING would hide jobs that wait."""
    environment = dict.fromkeys(("SQUEUE_STATES", "SCANCEL_INTERACTIVE", "SLURM_TIME_FORMAT", "SLURM_CONF"), "1")
    assert environment_variables.without_defaults(environment) == {"SLURM_CONF": "1"}
