"""A publication in a repository of the hub: one commit, private unless said otherwise, never over others' files.

`HF_ENDPOINT` names another hub; the token is `HF_TOKEN`'s, or the one that `hf auth login` left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, constants, errors

from compclip.base import environment_variables
from compclip.base.errors import UserError, one_line
from compclip.fetch.catalogue import REPOSITORY
from compclip.model import heads
from compclip.publish import model_card, transformers_export

SCHEME = "hf:"
TOKEN = "HF_TOKEN"
ATTRIBUTES = ".gitattributes"  # a new repository has it
# What an earlier publication may have that this one leaves out.
CONVERTED = (transformers_export.CONFIG, transformers_export.WEIGHTS, transformers_export.PREPROCESSOR)
FOLDERS = ("", f"{transformers_export.TEXT_ENCODER}/", f"{transformers_export.VISION_TOWER}/")
OPTIONAL = [heads.CONFIG, heads.WEIGHTS, *(folder + file for folder in FOLDERS for file in CONVERTED)]


def parse_repository(target: str) -> str:
    """Return the repository of `hf:OWNER/NAME`. Raises UserError for another form."""
    name = target.removeprefix(SCHEME)
    if not REPOSITORY.fullmatch(name) or name.startswith("datasets/"):
        raise UserError(f"--to {target}: must be {SCHEME}OWNER/NAME, as {SCHEME}me/negclip-vit-b-32")
    return name


def check_repository(name: str) -> bool:
    """Return whether a repository is there.

    Raises UserError for one whose files no publication wrote, and for a hub that does not answer.
    """
    with _say_errors(name):
        try:
            files = _make_api().list_repo_files(name)
        except errors.RepositoryNotFoundError:
            return False
    if set(files) - {ATTRIBUTES} and model_card.MARKER not in files:
        raise UserError(f"{_page(name)}: is not empty, and no earlier publication; give another name")
    return True


def upload_folder(folder: Path, name: str, message: str, public: bool = False) -> str:
    """Commit the files of a folder to a repository, which is made where it is not there; return its address.

    Files of an earlier publication that this one leaves out are removed. Raises UserError as `check_repository`.
    """
    is_there = check_repository(name)
    with _say_errors(name):
        api = _make_api()
        if not is_there:
            api.create_repo(name, private=not public, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message=message, delete_patterns=OPTIONAL)
    return _page(name)


def _make_api() -> HfApi:
    return HfApi(token=environment_variables.read_secret(TOKEN) or None)


def _page(name: str) -> str:
    return f"{constants.ENDPOINT}/{name}"


@contextmanager
def _say_errors(name: str) -> Iterator[None]:
    """Raise the errors of a request as a UserError of one line."""
    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise UserError(f"{_page(name)}: the hub is switched off by HF_HUB_OFFLINE; unset it") from error
    except Exception as error:  # its HTTP client, its own errors and the disk's share no base
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403) or isinstance(error, errors.RepositoryNotFoundError):
            raise UserError(f"{_page(name)}: not allowed; set {TOKEN} to a token that may write there") from error
        reason = one_line(str(error).strip().split("\n")[0])[:300]
        raise UserError(f"{_page(name)}: {type(error).__name__}: {reason}; run this again") from error
