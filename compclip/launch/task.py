"""Some shards of a stage, in a process of its own: `python -m compclip.launch.task STAGE/DATA/TASK`.

Reads task.json in the task's folder, and makes those of its shards that are missing, each whole or not at all. Killed,
the same command goes on with what is missing. The code is whatever `compclip` this process imports: on a cluster, the
copy made at submission.
"""

from __future__ import annotations

import argparse
import sys

from compclip.base.errors import UserError, entry
from compclip.config import asked
from compclip.data import work
from compclip.runs import tasks
from compclip.runs.tasks import Task


def check(task: Task) -> None:
    """Raise UserError where the stage now makes other shards than when the task was sent."""
    place = task.folder.path.parents[1]
    wanted = asked.read(place).shards
    for name, key in task.shards.items():
        if wanted.get(name) != key:
            raise UserError(
                f"{task.name}: code, parameters or data changed since it was submitted (of shard {name}); undo that, "
                f"or launch the stage again"
            )


def main(argv: list[str]) -> int:
    """Make a task's shards."""
    parser = argparse.ArgumentParser(prog="python -m compclip.launch.task", description=__doc__.splitlines()[0])
    parser.add_argument("task")
    task = tasks.read(tasks.folder(parser.parse_args(argv).task))
    check(task)
    return work.main([str(task.folder.path.parents[1]), *task.shards])


if __name__ == "__main__":
    sys.exit(entry(main))
