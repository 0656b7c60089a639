"""A copy of the project's own files in another folder, where a grid can run undisturbed by edits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Places that a user keeps for others: what is measured here stays in its folder.
OUTSIDE = ("COMPCLIP_STORE", "MLFLOW_TRACKING_URI")
TREE = ("compclip", "experiments", "slurm", "dvc.yaml", ".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore")


def copy(root: Path, params: str) -> Path:
    """A repository at `root` with the project's code and stages, and `params` as its params.yaml."""
    for name in TREE:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (root / "params.yaml").write_text(params)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def environment(root: Path) -> dict[str, str]:
    """For commands with the copy's own code, this Python's programs and one thread."""
    inherited = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return inherited | {"PATH": path, "PYTHONPATH": str(root.resolve()), "OMP_NUM_THREADS": "1"}
