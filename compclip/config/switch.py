"""Make another grid the current params.yaml, and lose nobody's edits."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, write_atomic
from compclip.config.read import DEFAULT, load_params

GRIDS = Path("experiments/grids")
TRACKED_GRIDS = (
    f"{GRIDS}/*.yaml",
    "studies/*/best.yaml",
)  # a params.yaml that is a copy of one of these holds nobody's edits


def use_grid(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Make `source` the current parameters after checking it; uncommitted edits of `target` are never overwritten."""
    load_params(source)
    raw = read_bytes(source)
    if Path(target).exists() and not force and Path(target).read_bytes() != raw and _has_edits(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit it or save it in {GRIDS}, or give --force")
    write_atomic(target, raw)


def _has_edits(path: Path) -> bool:
    """Whether something would be lost: not as last committed (or unknown to git), and no copy of a kept file."""
    raw, folder = path.read_bytes(), path.resolve().parent
    if any(raw == copy.read_bytes() for pattern in TRACKED_GRIDS for copy in folder.glob(pattern)):
        return False
    try:
        status = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", path.name], cwd=folder, capture_output=True
        )
    except OSError:  # no git on this machine
        return True
    return status.returncode != 0 or bool(status.stdout.strip())
