"""What does an upgrade train again? `python -m perf.upgrade COMMIT ...`, from commits whose code trains a tiny project.

Each commit's code makes and trains finetune, negclip and fsc_clip in a project of its own. HEAD's code, with one edit
of fsc_clip's loss, then does in that project what an upgrade asks for: `config plan`, `keys`, `carry` and
`train --method`. The two methods that give the same numbers must not be trained; of the third `why` names the cause.
The status is 1 where it is not so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from perf.carried_commits import OLDER, git, run_python

EQUAL, CHANGED = ("finetune", "negclip"), "fsc_clip"
EDITED, OLD, NEW = "compclip/methods/fsc_clip.py", "losses.clip(", "1.01 * losses.clip("
CELL = "{}-tiny-scenes-0"


def run_command(tree: Path, project: Path, *argv: str) -> str:
    """Run a command of the edited code and return what it printed, prefixed by its status where that is not 0."""
    result = run_python(tree, project, "-m", "compclip", *argv)
    return f"status {result.returncode}\n" * bool(result.returncode) + result.stdout + result.stderr


def upgrade(older: Path, edited: Path, project: Path) -> bool:
    """Train a project by the older code, upgrade it, print what was said; return whether it is as it must be."""
    training = run_python(older, project, OLDER, "train", *EQUAL, CHANGED)
    if training.returncode:
        print(training.stderr.strip()[-300:])
        return False
    for argv in (("config", "plan"), ("keys",)):
        run_command(edited, project, *argv)
    started = time.perf_counter()
    carried = run_command(edited, project, "carry")
    print(f"{carried.strip()}\n{time.perf_counter() - started:.0f} s")
    trained = [run_command(edited, project, "train", "--method", method) for method in EQUAL]
    cause = run_command(edited, project, "why", CELL.format(CHANGED))
    print(*map(str.strip, trained), cause.strip(), sep="\n", flush=True)
    return (
        all("1 finished before" in line and "trained now" not in line for line in trained)
        and f"parts    {CELL.format(CHANGED)}" in carried
        and ("compclip.methods.fsc_clip: changed" in cause or "files not recorded" in cause)
    )


def main(argv: Sequence[str]) -> int:
    """Upgrade from each commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="COMMIT")
    names, passed = parser.parse_args(argv).names, []
    with tempfile.TemporaryDirectory() as folder:
        older, edited = Path(folder, "older"), Path(folder, "edited")
        try:
            for tree in (older, edited):
                git("worktree", "add", "-q", "--detach", str(tree))
            source = (edited / EDITED).read_text(encoding="utf-8")
            (edited / EDITED).write_text(source.replace(OLD, NEW, 1), encoding="utf-8")
            for name in names:
                print(f"== from {name}", flush=True)
                git("checkout", "-q", "--force", "--detach", name, folder=older)
                project = Path(folder, f"from-{name}")
                project.mkdir()
                passed.append(upgrade(older, edited, project))
        finally:
            for tree in (older, edited):
                git("worktree", "remove", "--force", str(tree))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
