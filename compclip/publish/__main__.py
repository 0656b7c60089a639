"""A finished run -> open_clip's, transformers' and diffusers' formats, with a model card made of its results.

The image tower alone is in vision_tower/, as LLaVA takes it.

compclip publish CELL --to FOLDER          into a folder, which is empty or an earlier publication
compclip publish CELL --to hf:OWNER/NAME   into a repository of the hub, private unless --public is given

CELL is the name of a published cell (method-backbone-data-seed), or the folder of a run. Nothing is uploaded unless
hf: says so; the token is read from HF_TOKEN, and HF_ENDPOINT names another hub.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from huggingface_hub import HfApi, constants, errors

from compclip.base import environment_variables, messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import write_atomic
from compclip.fetch.catalogue import REPOSITORY
from compclip.model import heads
from compclip.publish import model_card, transformers_export
from compclip.publish.model_card import SourceRun


def main(argv: Sequence[str]) -> int:
    """Publish a run as the arguments say; 0, or UserError."""
    args = _parser().parse_args(argv)
    if args.licence and not model_card.LICENCE.fullmatch(args.licence):
        raise UserError(f"--licence {args.licence}: must be an identifier of the hub, as apache-2.0, mit or other")
    if args.public and not args.to.startswith(SCHEME):
        raise UserError(f"--public: is for a repository; give --to {SCHEME}OWNER/NAME")
    name = parse_repository(args.to) if args.to.startswith(SCHEME) else ""
    if name:
        check_repository(name)
    else:
        model_card.check_target(Path(args.to))
    source = model_card.find_source_run(args.cell, Path())
    if name:
        with tempfile.TemporaryDirectory() as folder:
            publish_run(source, Path(folder) / "publication", args.licence)
            message = f"{source.run.cell.name} by compclip {metadata.version('compclip')}"
            target = upload_folder(Path(folder) / "publication", name, message, args.public)
    else:
        publish_run(source, Path(args.to), args.licence)
        target = args.to
    print(f"{target}: {source.run.cell.name}")
    return 0


def publish_run(source: SourceRun, folder: Path, licence: str = "") -> None:
    """Write a run's model in all formats that can express it, and its card; say what is left out.

    Raises UserError for a folder that holds something else, and for a damaged checkpoint.
    """
    from compclip.model import backbone, clip_model

    run = source.run
    model = backbone.load(run.trained.checkpoint)
    obstacle = transformers_export.find_obstacle(model)
    losses = transformers_export.list_losses(model, obstacle)
    notes = losses if obstacle else [*losses, *transformers_export.DIFFERENCES]

    def write(staging: Path) -> None:
        model.save(staging)
        if not obstacle:
            transformers_export.write_clip_model(model, staging)
        if not transformers_export.find_tower_obstacle(model):
            transformers_export.write_vision_tower(model, staging)
        own_options = clip_model.list_own_options(model.model_cfg)
        card = model_card.write_card(
            source, licence, notes, not obstacle, has_head=model.head is not None, own_options=own_options
        )
        write_atomic(staging / model_card.CARD, card)

    record = {"compclip": metadata.version("compclip"), "cell": run.cell.name, "run_key": run.trained.run_key}
    model_card.write_publication(folder, record, write)
    for loss in losses:
        messages.note(loss)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="compclip publish", description=__doc__, example="fsc_clip-scenes-scenes-0 --to my_model"
    )
    parser.add_argument("cell", metavar="CELL", help="a published cell, or a run's folder")
    parser.add_argument("--to", required=True, metavar="TARGET", help="FOLDER, or hf:OWNER/NAME to upload")
    licence = "of the weights, as the hub names it; default: none is stated"
    parser.add_argument("--licence", "--license", default="", metavar="ID", help=licence)
    parser.add_argument("--public", action="store_true", help="a new repository is public instead of private")
    return parser


# --- a repository of the hub ----------------------------------------------------------------------------------------
# A publication in a repository of the hub: one commit, private unless said otherwise, never over others' files.
#
# `HF_ENDPOINT` names another hub; the token is `HF_TOKEN`'s, or the one that `hf auth login` left.


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


if __name__ == "__main__":
    sys.exit(entry(main))
