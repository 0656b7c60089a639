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
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import write_atomic
from compclip.publish import hub_upload, model_card, transformers_export
from compclip.publish.model_card import SourceRun


def main(argv: Sequence[str]) -> int:
    """Publish a run as the arguments say; 0, or UserError."""
    args = _parser().parse_args(argv)
    if args.licence and not model_card.LICENCE.fullmatch(args.licence):
        raise UserError(f"--licence {args.licence}: must be an identifier of the hub, as apache-2.0, mit or other")
    if args.public and not args.to.startswith(hub_upload.SCHEME):
        raise UserError(f"--public: is for a repository; give --to {hub_upload.SCHEME}OWNER/NAME")
    if args.to.startswith(hub_upload.SCHEME):
        name = hub_upload.parse_repository(args.to)
        hub_upload.check_repository(name)
        source = model_card.find_source_run(args.cell, Path())
        with tempfile.TemporaryDirectory() as folder:
            publish_run(source, Path(folder) / "publication", args.licence)
            message = f"{source.run.cell.name} by compclip {metadata.version('compclip')}"
            target = hub_upload.upload_folder(Path(folder) / "publication", name, message, args.public)
    else:
        model_card.check_target(Path(args.to))
        source = model_card.find_source_run(args.cell, Path())
        publish_run(source, Path(args.to), args.licence)
        target = args.to
    print(f"{target}: {source.run.cell.name}")
    return 0


def publish_run(source: SourceRun, folder: Path, licence: str = "") -> None:
    """Write a run's model in all formats that can express it, and its card; say what is left out.

    Raises UserError for a folder that holds something else, and for a damaged checkpoint.
    """
    from compclip.model import backbone

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
        has_head = model.head is not None
        card = model_card.write_card(source, licence, notes, converted=not obstacle, has_head=has_head)
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
    parser.add_argument(
        "--licence",
        "--license",
        default="",
        metavar="ID",
        help="of the weights, as the hub names it; default: none is stated",
    )
    parser.add_argument("--public", action="store_true", help="a new repository is public instead of private")
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
