"""Send what a launch left for later, as far as the queue has room now: `python -m compclip.launch.unsent KEY...`.

Whoever waits for these runs or tasks of shards starts it, again and again. The profile is that of the launch.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import defaultdict
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import hold_exclusively, read_mapping
from compclip.launch.profiles import Profile
from compclip.launch.slurm import JobInput, Slurm, find_job_folder
from compclip.runs import jobs, run_store, shard_tasks
from compclip.runs.jobs import UnsentJob

LOCK = Path(".work/unsent.lock")


def send(keys: list[str]) -> None:
    """Send what is still left of runs and tasks, those of one profile together."""
    work_by_sender: dict[str, list[JobInput]] = defaultdict(list)
    for key in keys:
        path = jobs.find_unsent_record(find_job_folder(key))
        if path.is_file():
            record = read_mapping(path)
            work_by_sender[json.dumps([record["profile"], record["module"]])].append(load_work(key))
    for sender, work in work_by_sender.items():
        profile, module = json.loads(sender)
        submitted = Slurm(Profile(**profile), module=module).send(work)
        for job in submitted:
            if not isinstance(job, UnsentJob):
                print(f"{job.label()}: sent, left by an earlier launch", flush=True)


def load_work(key: str) -> JobInput:
    """Read a run or task by the files that its launch wrote. Raises UserError where it is another one by now."""
    return shard_tasks.read_task(shard_tasks.folder(key)) if shard_tasks.is_key(key) else run_store.load_sent_run(key)


def main(argv: list[str]) -> int:
    """Send some of what was left; nothing while another process does."""
    parser = CommandParser(prog="python -m compclip.launch.unsent", description=__doc__.splitlines()[0])
    parser.add_argument("keys", nargs="+")
    args = parser.parse_args(argv)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_exclusively(LOCK, "busy"))
        except UserError:
            return 0
        send(args.keys)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
