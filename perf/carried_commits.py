"""Which commits' runs does `compclip carry` take over here? `python -m perf.carried_commits --commits 10`.

For each of the last commits that changed a run key of the methods named, a tiny project is trained by that commit's
code in a worktree of its own; then this checkout carries what it finds. A line a commit: cells carried, cells that
part and where, seconds a trial. Commits whose code cannot train the project of today (another params.yaml) say so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compclip.runs import run_store
from tests import tiny_project

ROOT = Path(__file__).resolve().parent.parent
HASHES = (
    "from compclip.config.training_code import hash_training_code as h; print(*(h(name)[:16] for name in {methods!r}))"
)


def run_python(code: Path, project: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a checkout's code in a project."""
    inherited = {name: value for name, value in os.environ.items() if name != run_store.VARIABLE}
    env = {**inherited, "PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *argv], cwd=project, env=env, capture_output=True, text=True)


def list_commits(methods: list[str], count: int, tree: Path) -> Iterator[str]:
    """Yield the last commits, newest first, whose keys differ from those of the commit before and from ours."""
    code = HASHES.format(methods=methods)
    seen = {run_python(ROOT, ROOT, "-c", code).stdout}
    log = subprocess.run(["git", "rev-list", "--first-parent", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    for commit in log.stdout.split():
        subprocess.run(["git", "checkout", "-q", "--force", "--detach", commit], cwd=tree, check=True)
        hashes = run_python(tree, tree, "-c", code).stdout
        if hashes and hashes not in seen:
            seen.add(hashes)
            yield commit
            count -= 1
        if not count:
            return


def carry_commit(tree: Path, project: Path, methods: list[str]) -> str:
    """Train a project's cells by a checkout's code, carry them into ours, and return what was said."""
    for method in methods:
        training = run_python(tree, project, "-m", "compclip.train", "--cell", tiny_project.cell(method))
        if training.returncode:
            return f"{method} cannot be trained: {training.stderr.strip().splitlines()[-1][:150]}"
    carried = run_python(ROOT, project, "-m", "compclip", "carry", *methods)
    parted = [line for line in carried.stderr.splitlines() if line.startswith(("parts", "failed"))]
    return "\n  ".join([carried.stdout.strip().splitlines()[-1] if carried.stdout else carried.stderr[-300:], *parted])


def main(argv: list[str]) -> int:
    """Print a line for each commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--methods", nargs="*", default=["finetune", "negclip", "fsc_clip"])
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        methods, tree = args.methods, Path(folder, "tree")
        grid = tiny_project.PARAMS.replace("[pretrained, finetune, fsc_clip]", f"[{', '.join(methods)}]").replace(
            "{pretrained: {}, finetune: {}, fsc_clip: {}}", f"{{{', '.join(f'{name}: {{}}' for name in methods)}}}"
        )
        made = tiny_project.make(Path(folder, "project"), params=grid)
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree)], cwd=ROOT, check=True)
        try:
            for commit in list_commits(methods, args.commits, tree):
                project = shutil.copytree(made, Path(folder, commit))
                print(f"{commit[:8]}  {carry_commit(tree, project, methods)}", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
