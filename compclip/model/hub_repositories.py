"""Repositories of the hub in open_clip's format, with the head that `compclip publish` may have put there."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from compclip.base.errors import UserError
from compclip.model import heads, hub_cache, weight_files


def fetch_with_head(repository: str) -> Path:
    """Return the folder of a hub's repository in open_clip's format, with its head where it has one.

    Raises UserError where either cannot be fetched. Where the hub does not answer the cache alone tells of a head.
    """
    with hub_cache.reachable_or_offline():
        folder = weight_files.fetch_repository(repository)
        try:
            if not constants.HF_HUB_OFFLINE and HfApi().file_exists(repository, heads.CONFIG):
                for file in (heads.CONFIG, heads.WEIGHTS):
                    hf_hub_download(repository, file)
        except (EntryNotFoundError, OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"hf-hub:{repository}: its head cannot be fetched ({type(error).__name__}), without which it is "
                f"another model; try again, or download {heads.CONFIG} and {heads.WEIGHTS} beside its weights"
            ) from error
    return folder
