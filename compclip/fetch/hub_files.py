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

from compclip.base import environment_variables
from compclip.base.errors import UserError, one_line
from compclip.fetch.catalogue import OfferSection, relative_path

TOKEN = "HF_TOKEN"
PROBE_S = 10.0
MOST_FILES = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True)
class HubFile:
    """A file of a repository, its size in bytes, and its SHA-256 where the hub says it."""

    name: str
    size: int
    sha256: str


def repository_name(section: OfferSection) -> tuple[str, str]:
    """Return a repository's type and its OWNER/NAME, as the library expects them."""
    kind, _, repository_name = section.hub.partition("/")
    return ("dataset", repository_name) if kind == "datasets" else ("model", section.hub)


def page_address(section: OfferSection, name: str = "") -> str:
    """Return the address of the repository's page, or of one of its files."""
    from huggingface_hub import constants

    page = f"{constants.ENDPOINT}/{section.hub}"
    return f"{page}/resolve/{section.revision or 'main'}/{name}" if name else page


def list_files(section: OfferSection, patterns: list[str]) -> list[HubFile]:
    """Return the files of a repository that fit one of the patterns, sorted by name.

    Raises UserError where the hub cannot be reached or refuses, and for a name that leads out of its folder.
    """
    from huggingface_hub import HfApi

    kind, name = repository_name(section)
    api = HfApi(token=environment_variables.read_secret(TOKEN) or None)

    def request() -> list[Any]:
        tree = api.list_repo_tree(name, recursive=True, revision=section.revision or None, repo_type=kind)
        return list(islice(tree, MOST_FILES))

    files = [entry for entry in _call(request, section) if hasattr(entry, "size")]
    matching = [file for file in files if any(fnmatchcase(file.path, pattern) for pattern in patterns)]
    hub_files = []
    for file in sorted(matching, key=lambda file: file.path):
        if not any(folder.startswith(".") and folder != ".." for folder in file.path.split("/")):  # hidden files
            relative_path(file.path, f"{section.hub}: file")
            hub_files.append(HubFile(file.path, int(file.size), str(file.lfs.sha256) if file.lfs else ""))
    return hub_files


def download(section: OfferSection, files: list[HubFile], folder: Path | None) -> Path:
    """Download files of a repository into `folder`, or into the hub's cache; return the folder that they are in.

    Raises UserError as `list_files`, and where a file is incomplete.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    kind, name = repository_name(section)
    if not sys.stderr.isatty():
        disable_progress_bars()

    def request() -> str:
        return snapshot_download(
            name, repo_type=kind, revision=section.revision or None, local_dir=folder,
            allow_patterns=[file.name for file in files], token=environment_variables.read_secret(TOKEN) or None,
        )  # fmt: skip

    target = Path(_call(request, section))
    for file in files:
        if not (target / file.name).is_file() or (target / file.name).stat().st_size != file.size:
            raise UserError(f"{page_address(section, file.name)}: {file.size:,} bytes did not come; run this again")
    return target


def _call(request: Callable[[], T], section: OfferSection) -> T:
    from huggingface_hub import constants, get_session

    reached = not constants.HF_HUB_OFFLINE
    try:  # without an answer the library would retry each file for half a minute
        if reached:
            get_session().head(constants.ENDPOINT, timeout=PROBE_S)
    except Exception:  # the clients that it may use share no base
        reached = False
    if not reached:
        raise UserError(f"cannot reach {constants.ENDPOINT}")
    try:
        return request()
    except Exception as error:  # its HTTP client, its own errors and the disk's share no base
        raise _explain_error(error, section) from error


def _explain_error(error: Exception, section: OfferSection) -> Exception:
    from huggingface_hub import errors

    page = page_address(section)
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
