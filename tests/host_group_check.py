"""Two processes whose default group says nothing, as a stand-in for NCCL: `python -m tests.host_group_check`.

What the host decides by must come through all the same. Prints one JSON line, and one of the groups' threads that are
left after the session.
"""

import json
import sys
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401 - registers the backend "fake"

from compclip.train import distributed, process_group

connect = dist.init_process_group


def connect_mutely(backend: str, **options) -> None:
    """Connect a default group whose messages arrive nowhere."""
    assert backend == "nccl" and options["timeout"] == process_group.NCCL_PATIENCE
    connect("fake", **options)


def main() -> int:
    """Flags, a value and objects of two processes, whose default group would deliver none."""
    with (
        mock.patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 1, set_device=lambda _: None),
        mock.patch.object(dist, "init_process_group", connect_mutely),
        process_group.session() as here,
    ):
        is_second = here.rank == 1
        print(json.dumps({
            "flags": distributed.are_set_anywhere(is_second, False, not is_second),
            "first": distributed.broadcast_first(f"of {here.rank}"),
            "objects": distributed.gather_objects({"rank": here.rank}),
            "numbers": distributed._gather_numbers(here.rank, 7),
        }), flush=True)  # fmt: skip
    thread_names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    print(json.dumps(sorted(name for name in thread_names if "gloo" in name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
