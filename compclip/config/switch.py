"""Make another grid the current params.yaml, and lose nobody's edits."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, write_atomic
from compclip.config.read import DEFAULT, load

GRIDS = Path("experiments/grids")
KEPT = (f"{GRIDS}/*.yaml", "studies/*/best.yaml")  # a params.yaml that is a copy of one of these holds nobody's edits


def use(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Make `source` the current parameters after checking it; uncommitted edits of `target` are never overwritten."""
    load(source)
    raw = read_bytes(source)
    if Path(target).exists() and not force and Path(target).read_bytes() != raw and _edited(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit it or save it in {GRIDS}, or give --force")
    write_atomic(target, raw)


def _edited(path: Path) -> bool:
    """Whether something would be lost: not as last committed (or unknown to git), and no copy of a kept file."""
    raw, folder = path.read_bytes(), path.resolve().parent
    if any(raw == kept.read_bytes() for pattern in KEPT for kept in folder.glob(pattern)):
        return False
    try:
        done = subprocess.run(["git", "status", "--porcelain", "--ignored", path.name], cwd=folder, capture_output=True)
    except OSError:  # no git on this machine
        return True
    return done.returncode != 0 or bool(done.stdout.strip())
