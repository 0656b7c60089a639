"""Which projects a run of a shared store belongs to: those that worked on it, and those that published it."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.runs.folder import Folder


def note(folder: Folder, root: Path) -> None:
    """A project publishes the run; nothing where the store cannot be written."""
    project = str(root.resolve())
    path = folder.users / f"{hashlib.sha256(project.encode()).hexdigest()[:16]}.json"
    if not path.is_file():
        with contextlib.suppress(UserError):
            write_json(path, {"project": project})


def projects(folder: Folder) -> set[str]:
    """Their roots; of a process that did not say whose it was, an empty name."""
    found = set()
    for path in (*folder.users.glob("*.json"), *folder.lives.glob("*.json")):
        try:
            found.add(str(read_mapping(path)["project"]))
        except (UserError, KeyError):
            found.add("")
    return found


def own(folder: Folder, root: Path) -> bool:
    """Whether the run belongs to this project and to no other."""
    return projects(folder) == {str(root.resolve())}
