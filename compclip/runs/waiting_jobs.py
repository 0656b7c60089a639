"""Why a job of a cluster waits, and where time alone does not help, the command that does.

A reason is SLURM's word for it, as `squeue --format=%r` prints it and its page on job reason codes explains it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from compclip.base import messages
from compclip.runs import cluster

SEND_AGAIN = "correct the profile, then `compclip launch PROFILE cancel` and send again"
RELEASE = "`scontrol release {id}`"
# What never ends by itself; `{partition}` stands for its name and state, `{id}` for the job or its whole array.
HELP = {
    r"JobHeldUser": f"a user holds it: {RELEASE}",
    r"JobHeldAdmin": f"an administrator holds it, who alone may end that: {RELEASE}",
    r"job requeued in held state|launch failed requeued held|JobHoldMaxRequeue":
        f"SLURM put it back and holds it (`scontrol show job {{id}}`): {RELEASE}",
    r"Partition(Down|Inactive)":
        "{partition}: ask an administrator to set it up, or send to another one (`sinfo --summarize`)",
    r"Nodes required for job are .*|ReqNodeNotAvail.*|NodeDown":
        "{partition}: `sinfo --list-reasons` says why, and an administrator resumes them",
    r"Partition(Time|Node)Limit":
        f"the partition gives no job so much (`scontrol show partition`), see time_min and nodes: {SEND_AGAIN}",
    r"BadConstraints": f"no node is as the profile asks (`sinfo --format='%P %c %m %G %f'`): {SEND_AGAIN}",
    r"(Assoc|QOS)Max\w*Per(Job|Node)(Limit)?|QOSMin\w+":
        f"account or QOS give no job so much (`sacctmgr show qos`, `sacctmgr show assoc user=$USER`): {SEND_AGAIN}",
    r"(Assoc|QOS)Grp\w*?(?<!Run)Minutes(Limit)?|QOSUsageThreshold":
        f"the account's compute time is used up (`sshare`): ask for more, or {SEND_AGAIN}",
    r"(Account|QOS)NotAllowed|Invalid(Account|QOS)":
        f"account or QOS may not be used here (`sacctmgr show assoc user=$USER`): {SEND_AGAIN}",
    r"DependencyNeverSatisfied|ReservationDeleted":
        "what it waits for does not come: `compclip launch PROFILE cancel` and send again",
}  # fmt: skip


@functools.cache
def explain(reason: str, job: str) -> str:
    """Return why `job 12_3` will not start by itself, with the command that helps; "" where time will do."""
    text = next((text for pattern, text in HELP.items() if re.fullmatch(pattern, reason)), "")
    number = "".join(re.findall(r"\d+", job)[:1])  # of the array
    if "{partition}" in text:
        name = cluster.run_command("squeue", "--noheader", f"--jobs={number}", "--format=%P").stdout.split()[:1]
        text = text.replace("{partition}", describe_partition(*name))
    return text and f"job {number} waits, {reason}: {text.replace('{id}', number)}"


def describe_partition(name: str = "") -> str:
    """Say which state a partition and its nodes are in."""
    result = cluster.run_command("sinfo", "--noheader", f"--partition={name}", "--format=%a|%D %T")
    rows = [line.strip().split("|") for line in result.stdout.splitlines() if "|" in line]
    if not rows:
        return f"partition {name} cannot be looked at"
    return f"partition {name} is {rows[0][0]}, its nodes: {', '.join(nodes for _, nodes in rows)}"


def list_advice(waiting: Iterable[tuple[str, str]]) -> list[str]:
    """List what keeps jobs from ever starting, each once, of pairs of a reason and a job."""
    lines = [explain(reason, job) for reason, job in waiting]
    return [line for line in dict.fromkeys(lines) if line]


@functools.cache
def warn(reason: str, job: str) -> None:
    """Say of a job that is waited for why it will not start by itself, once for each array and reason."""
    for line in list_advice([(reason, job)]):
        _warn_once(line)


_warn_once = functools.cache(messages.warn)
