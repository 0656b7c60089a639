"""What a cluster's job has in its environment, whatever the shell or the site sets for sbatch and srun.

The script of a job sets what compclip needs, and srun hands all of the script's environment on. So a site that exports
nothing (SBATCH_EXPORT=NONE) is obeyed: nothing else of the shell comes along. What may be secret stands in no script:
where not everything is exported, sbatch hands it on by name.

sbatch takes variables of its own for more than a script's lines. A site's defaults, as SBATCH_ACCOUNT, stay where the
profile says nothing of the kind.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping

from compclip.base import child_environment, environment_variables
from compclip.runs import gpus

PREFIX = "COMPCLIP_"
OTHERS = (
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
OF_SENDER = (gpus.PROFILE_GPUS, gpus.CORES)
DEFAULT, EXPORT = "SBATCH_", "SBATCH_EXPORT"
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
    names = [name for name in environment if name.startswith(PREFIX) or name in OTHERS or name in allowed]
    hidden = {*SECRETS, *OF_SENDER, webhook}
    return [f"export {name}={shlex.quote(environment[name])}" for name in sorted(names) if name not in hidden]


def list_secrets(environment: Mapping[str, str], webhook: str = "") -> list[str]:
    """List the variables with secrets that a job needs: the webhook, tokens, and keys that a grid may send."""
    allowed = environment_variables.list_allowed(environment)
    keys = [name for name, at, _ in (word.partition("@") for word in allowed) if at]
    return sorted(name for name in {*SECRETS, *keys, webhook} if name in environment)


def submission_environment(environment: Mapping[str, str], options: Iterable[str], webhook: str = "") -> dict[str, str]:
    """Return the environment for sbatch; `options` are those that the job's script has, by their names."""
    replaced = [*ALWAYS, *options]
    for option in options:
        replaced += REPLACED.get(option, ())
    hidden = {DEFAULT + name.replace("-", "_").upper() for name in replaced}
    hidden.update(OF_SENDER)
    if "SLURM_JOB_ID" in environment:  # these GPUs are that job's
        hidden.add(gpus.VISIBLE)
    clean = child_environment.without_place(environment)
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
