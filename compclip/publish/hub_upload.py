"""A publication in a repository of the hub: one commit, private unless said otherwise, never over others' files.

`HF_ENDPOINT` names another hub; the token is `HF_TOKEN`'s, or the one that `hf auth login` left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from compclip.base import environment_variables
from compclip.base.errors import UserError, one_line
from compclip.fetch.catalogue import REPOSITORY
from compclip.model import heads
from compclip.publish import source_run, transformers_export

SCHEME = "hf:"
TOKEN = "HF_TOKEN"
ATTRIBUTES = ".gitattributes"  # a new repository has it
# What an earlier publication may have that this one leaves out.
CONVERTED = (transformers_export.CONFIG, transformers_export.WEIGHTS, transformers_export.PREPROCESSOR)
FOLDERS = ("", f"{transformers_export.TEXT_ENCODER}/", f"{transformers_export.VISION_TOWER}/")
OPTIONAL = (heads.CONFIG, heads.WEIGHTS, *(folder + file for folder in FOLDERS for file in CONVERTED))
T = TypeVar("T")


def parse_repository(target: str) -> str:
    """Return the repository of `hf:OWNER/NAME`. Raises UserError for another form."""
    name = target.removeprefix(SCHEME)
    if not REPOSITORY.fullmatch(name) or name.startswith("datasets/"):
        raise UserError(f"--to {target}: must be {SCHEME}OWNER/NAME, as {SCHEME}me/negclip-vit-b-32")
    return name


def check_repository(name: str) -> list[str]:
    """Return the files that a repository has; none where it is not there yet.

    Raises UserError for one whose files no publication wrote, and for a hub that does not answer.
    """
    from huggingface_hub import errors

    def request() -> list[str]:
        try:
            return list(_make_api().list_repo_files(name))
        except errors.RepositoryNotFoundError:
            return []

    files = _call(request, name)
    if set(files) - {ATTRIBUTES} and source_run.MARKER not in files:
        raise UserError(f"{_page(name)}: is not empty, and no earlier publication; give another name")
    return files


def upload_folder(folder: Path, name: str, message: str, public: bool = False) -> str:
    """Commit the files of a folder to a repository, which is made where it is not there; return its address.

    Files of an earlier publication that this one leaves out are removed. Raises UserError as `check_repository`.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    earlier = check_repository(name)
    files = source_run.list_files(folder)
    operations: list[Any] = [CommitOperationAdd(file, folder / file) for file in files]
    operations += [CommitOperationDelete(file) for file in OPTIONAL if file in earlier and file not in files]
    api = _make_api()
    if not earlier:
        _call(lambda: api.create_repo(name, private=not public, exist_ok=True), name)
    _call(lambda: api.create_commit(name, operations, commit_message=message), name)
    return _page(name)


def _make_api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(token=environment_variables.read_secret(TOKEN) or None)


def _page(name: str) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{name}"


def _call(request: Callable[[], T], name: str) -> T:
    """Return what a request returns; its errors as a UserError of one line."""
    from huggingface_hub import errors

    try:
        return request()
    except errors.OfflineModeIsEnabled as error:
        raise UserError(f"{_page(name)}: the hub is switched off by HF_HUB_OFFLINE; unset it") from error
    except Exception as error:  # its HTTP client, its own errors and the disk's share no base
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403) or isinstance(error, errors.RepositoryNotFoundError):
            raise UserError(f"{_page(name)}: not allowed; set {TOKEN} to a token that may write there") from error
        reason = one_line(str(error).strip().split("\n")[0])[:300]
        raise UserError(f"{_page(name)}: {type(error).__name__}: {reason}; run this again") from error
