"""Some shards of a stage, in a process of its own: `python -m compclip.launch.task STAGE/DATA/TASK`.

Reads task.json in the task's folder, and makes those of its shards that are missing, each whole or not at all. Killed,
the same command goes on with what is missing. The code is whatever `compclip` this process imports: on a cluster, the
copy made at submission.
"""

from __future__ import annotations

import sys

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.prepare import shard_work
from compclip.runs import shard_tasks


def main(argv: list[str]) -> int:
    """Make a task's shards. Raises UserError where the stage now makes other ones than when the task was sent."""
    parser = CommandParser(prog="python -m compclip.launch.task", description=__doc__.splitlines()[0])
    parser.add_argument("task")
    task = shard_tasks.read_task(shard_tasks.folder(parser.parse_args(argv).task))
    folder = task.folder.path.parents[1]
    current_keys = shard_tasks.read_request(folder)
    for name, key in task.shards.items():
        if current_keys.get(name) != key:
            raise UserError(
                f"{task.name}: code, parameters or data changed since it was submitted (of shard {name}); undo that, "
                "or launch the stage again"
            )
    return shard_work.main([str(folder), *task.shards])


if __name__ == "__main__":
    sys.exit(entry(main))
