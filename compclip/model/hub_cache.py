"""The hub that weights and tokenizers come from: its cache, and the addresses that error messages name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants, get_session

PROBE_S = 5.0


@contextlib.contextmanager
def reachable_or_offline() -> Iterator[None]:
    """Use the hub's cache alone inside, if the hub does not answer one short request.

    Otherwise each missing file is requested six times over half a minute, with a line each time.
    """
    was_offline = constants.HF_HUB_OFFLINE
    try:
        if not was_offline:
            get_session().head(constants.ENDPOINT, timeout=PROBE_S)
    except Exception:  # the clients that it may use share no base
        constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was_offline


def page_address(repository: str) -> str:
    """Return the address of a repository's page."""
    return f"{constants.ENDPOINT}/{repository}"


def cache_path(repository: str, file: str = "") -> Path:
    """Return where the cache holds a repository, or one of its files."""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    return folder / "snapshots" / "<commit>" / file if file else folder
