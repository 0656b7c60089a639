"""Which commits' runs does `compclip carry` take over here? `python -m perf.carried_commits --commits 40 --log FILE`.

For each of the last commits that changed a run key of the methods named, or for the commits named, the commit's code
makes a tiny project of its own (tests/tiny_project.py of then) and trains it; then this checkout carries what is in
that store: all ten steps and the finished weights, or the first three steps where that does not agree. A line a
method. With --log, lines are also added to a file as JSON, and commits that it has are not tried again.

    python -m perf.carried_commits --methods negclip -- 213fd74 b0fee16   # an upgrade from these, two changes back
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compclip.runs import run_store

ROOT = Path(__file__).resolve().parent.parent
OLDER = str(ROOT / "perf" / "older_commit.py")
ALL_STEPS, FIRST_STEPS = 10, 3
SAID = re.compile(r"^(carried|parts|failed|nothing) +(\S+?)-\S+?(?: from \S+)?(?: to \S+)?: (.*)$", re.MULTILINE)


def run_python(code: Path, project: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a checkout's code in a project."""
    inherited = {name: value for name, value in os.environ.items() if name != run_store.VARIABLE}
    env = {**inherited, "PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *argv], cwd=project, env=env, capture_output=True, text=True)


def git(*argv: str, folder: Path = ROOT) -> list[str]:
    """Run git and return the words that it prints."""
    return subprocess.run(["git", *argv], cwd=folder, check=True, capture_output=True, text=True).stdout.split()


def hash_code(tree: Path, commit: str, methods: Sequence[str]) -> dict[str, str]:
    """Check a commit out and return the hash of each method's training code; empty where it cannot say."""
    git("checkout", "-q", "--force", "--detach", commit, folder=tree)
    return dict(zip(methods, run_python(tree, tree, OLDER, "hashes", *methods).stdout.split(), strict=False))


def hash_current(methods: Sequence[str]) -> dict[str, str]:
    """Return the hash of each method's training code here."""
    return dict(zip(methods, run_python(ROOT, ROOT, OLDER, "hashes", *methods).stdout.split(), strict=True))


def list_commits(methods: Sequence[str], tree: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield commits whose code differs from all newer ones', newest first, each with its hashes.

    Commits that cannot say what their training code is are left out; name them to try them.
    """
    seen = [hash_current(methods)]
    for commit in git("rev-list", "--first-parent", "HEAD", "--", "compclip"):
        hashes = hash_code(tree, commit, methods)
        if hashes and hashes not in seen:
            seen.append(hashes)
            yield commit, hashes


def carry_commit(tree: Path, project: Path, methods: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Train a project of the commit's and carry it by our code; return of each method what became of it, and why."""
    training = run_python(tree, project, OLDER, "train", *methods)
    if training.returncode:
        return dict.fromkeys(methods, ("untrained", (training.stderr.strip().splitlines() or [""])[-1][:150]))
    outcomes: dict[str, tuple[str, str]] = {}
    for steps in (ALL_STEPS, FIRST_STEPS):
        open_methods = [name for name in methods if outcomes.get(name, ("", ""))[0] != "carried"]
        if open_methods:
            trial = run_python(ROOT, project, "-m", "compclip", "carry", *open_methods, "--steps", str(steps))
            verdicts = SAID.findall(trial.stdout + trial.stderr)
            outcomes |= {name: (kind, why) for kind, name, why in verdicts} or dict.fromkeys(
                open_methods, ("failed", trial.stderr.strip()[-200:])
            )
    return outcomes


def read_log(path: Path | None) -> set[str]:
    """Return the commits that a log has."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.is_file() else []
    return {json.loads(line)["commit"] for line in lines}


def write_line(path: Path | None, row: dict[str, Any]) -> None:
    """Print what became of a commit, and add it to the log."""
    for method, (kind, why) in row["outcomes"].items():
        print(f"{row['commit'][:8]}  {kind:<9}  {method:<9}  {row['seconds']:3.0f} s  {why}", flush=True)
    if path:
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")


def try_commits(args: argparse.Namespace, tree: Path, folder: Path) -> None:
    """Try the commits that the log lacks, one after the other."""
    named_commits = ((commit, hash_code(tree, commit, args.methods)) for commit in map(full_name, args.names))
    tried, commits = read_log(args.log), named_commits if args.names else list_commits(args.methods, tree)
    current = hash_current(args.methods)
    for commit, hashes in itertools.islice(commits, args.commits):
        if commit not in tried:
            started, project = time.perf_counter(), folder / commit
            project.mkdir()
            outcomes = carry_commit(tree, project, args.methods)
            seconds = round(time.perf_counter() - started, 1)
            row = {"commit": commit, "code": hashes, "carried_by": current, "outcomes": outcomes, "seconds": seconds}
            write_line(args.log, row)


def full_name(commit: str) -> str:
    """Return a commit's whole name."""
    return git("rev-parse", f"{commit}^{{commit}}")[0]


def main(argv: list[str]) -> int:
    """Print a line for each commit and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="COMMIT", help="these alone")
    parser.add_argument("--commits", type=int, default=10, help="how many of the last that changed a key")
    parser.add_argument("--methods", nargs="*", default=["finetune", "negclip", "fsc_clip"])
    parser.add_argument("--log", type=Path, help="a file of JSON lines, which is added to")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git("worktree", "add", "-q", "--detach", str(tree))
        try:
            try_commits(args, tree, Path(folder))
        finally:
            git("worktree", "remove", "--force", str(tree))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
