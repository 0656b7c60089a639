"""The weights of a finished run against the fingerprint that it recorded: a disk or a copy may have changed them."""

from __future__ import annotations

from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_mapping

# beside a run's checkpoint folder
RECORD = "environment.json"
NAME = "weights_fingerprint"


def check_recorded(folder: Path) -> None:
    """Compare a run's checkpoint folder with the fingerprint in environment.json beside it; others have none.

    Reads the folder once: a second for a ViT-B/32. Raises UserError where they differ.
    """
    record = folder.parent / RECORD
    recorded = read_mapping(record).get(NAME) if record.is_file() else None
    if recorded and fingerprint(folder) != recorded:
        raise UserError(
            f"{folder}: damaged since its training ({NAME} in {record} is another); `compclip runs check` says how to "
            "get it back"
        )
