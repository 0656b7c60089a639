"""Files of a repository of the hub, through its own library: it resumes, and counts the bytes of what it writes.

`HF_ENDPOINT` names another hub, `HF_TOKEN` holds the token of a gated repository.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from compclip.base import secret
from compclip.base.errors import UserError, one_line
from compclip.data.fetch.catalogue import Section, relative

TOKEN = "HF_TOKEN"
PROBE_S = 10.0
MOST_FILES = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True)
class Listed:
    """A file of a repository, its size in bytes, and its SHA-256 where the hub says it."""

    name: str
    size: int
    sha256: str


def repository(section: Section) -> tuple[str, str]:
    """A repository's type and its OWNER/NAME, as the library wants them."""
    kind, _, rest = section.hub.partition("/")
    return ("dataset", rest) if kind == "datasets" else ("model", section.hub)


def address(section: Section, name: str = "") -> str:
    """Where a person finds the repository, or one of its files."""
    from huggingface_hub import constants

    page = f"{constants.ENDPOINT}/{section.hub}"
    return f"{page}/resolve/{section.revision or 'main'}/{name}" if name else page


def listed(section: Section, patterns: list[str]) -> list[Listed]:
    """The files of a repository that fit one of the patterns, by name.

    Raises UserError where the hub cannot be reached or does not tell them.
    """
    from huggingface_hub import HfApi

    kind, name = repository(section)
    api = HfApi(token=secret.resolve(TOKEN) or None)

    def asked() -> list[Any]:
        tree = api.list_repo_tree(name, recursive=True, revision=section.revision or None, repo_type=kind)
        return list(islice(tree, MOST_FILES))

    files = [found for found in _call(asked, section) if hasattr(found, "size")]
    named = [file for file in files if any(fnmatchcase(file.path, pattern) for pattern in patterns)]
    return sorted((_listed(file, section) for file in named if not _hidden(file.path)), key=lambda file: file.name)


def _hidden(path: str) -> bool:
    return any(part.startswith(".") and part != ".." for part in path.split("/"))


def _listed(file: Any, section: Section) -> Listed:
    """Raises UserError for a name that leads out of its folder."""
    relative(file.path, f"{section.hub}: file")
    return Listed(file.path, int(file.size), str(file.lfs.sha256) if file.lfs else "")


def download(section: Section, files: list[Listed], folder: Path | None) -> Path:
    """Bring files of a repository below `folder`, or into the hub's cache; gives the folder that they are in.

    Raises UserError as `listed` does, and where not all of a file came.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    kind, name = repository(section)
    if not sys.stderr.isatty():
        disable_progress_bars()

    def asked() -> str:
        return snapshot_download(
            name, repo_type=kind, revision=section.revision or None, local_dir=folder,
            allow_patterns=[file.name for file in files], token=secret.resolve(TOKEN) or None,
        )  # fmt: skip

    found = Path(_call(asked, section))
    for file in files:
        if not (found / file.name).is_file() or (found / file.name).stat().st_size != file.size:
            raise UserError(f"{address(section, file.name)}: {file.size:,} bytes did not come; run this again")
    return found


def _call(asked: Callable[[], T], section: Section) -> T:
    from huggingface_hub import constants

    if not _answers():
        raise UserError(f"cannot reach {constants.ENDPOINT}")
    try:
        return asked()
    except Exception as error:  # its HTTP client, its own errors and the disk's share no base
        raise _told(error, section) from error


def _answers() -> bool:
    """Without this each file is asked for again and again, for half a minute."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=PROBE_S)
    except Exception:  # the clients that it may use share no base
        return False
    return True


def _told(error: Exception, section: Section) -> Exception:
    from huggingface_hub import errors

    page = address(section)
    if isinstance(error, errors.GatedRepoError):
        return UserError(f"{page}: gated: accept its terms there, and set {TOKEN} to a token of yours")
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(f"{page}: no such repository, or it is private: set {TOKEN} to a token that may read it")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"{page}: no revision {section.revision!r}; correct the catalogue")
    if isinstance(error, OSError) and error.errno and not isinstance(error, ConnectionError):
        return error  # the disk's
    first = one_line(str(error).strip().split("\n")[0])[:300]
    return UserError(f"{page}: {type(error).__name__}: {first}; what came is kept, run this again to go on")
