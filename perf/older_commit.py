"""Run in another commit's worktree, by its code: print hashes of its training code, or train its own tiny project.

    PYTHONPATH=/path/to/worktree python perf/older_commit.py hashes negclip fsc_clip
    PYTHONPATH=/path/to/worktree python perf/older_commit.py train negclip fsc_clip   # in an empty folder

Only `perf/carried_commits.py` starts it. The names that it imports are those of the commit.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

OF_ALL_COMMITS = "[pretrained, finetune, fsc_clip]", "{pretrained: {}, finetune: {}, fsc_clip: {}}"


def hash_methods(methods: list[str]) -> str:
    """Return the hashes of the methods' training code, by whatever name the commit's function has."""
    module = importlib.import_module("compclip.config.training_code")
    names = ("hash_training_code", "code_hash", "training_code")
    function = next(getattr(module, name) for name in names if hasattr(module, name))
    return " ".join(function(method) for method in methods)


def train_methods(methods: list[str]) -> None:
    """Make a project in the current folder by the commit's tests/tiny_project.py and train a cell of each method."""
    from compclip.train import __main__ as train_command
    from tests import tiny_project

    text = tiny_project.PARAMS.replace(OF_ALL_COMMITS[0], f"[{', '.join(methods)}]")
    text = text.replace(OF_ALL_COMMITS[1], f"{{{', '.join(f'{name}: {{}}' for name in methods)}}}")
    tiny_project.make(Path(".").resolve(), params=text)
    for method in methods:
        if status := train_command.main(["--cell", tiny_project.cell(method)]):
            sys.exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "hashes":
        print(hash_methods(sys.argv[2:]))
    else:
        train_methods(sys.argv[2:])
