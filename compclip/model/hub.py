"""The hub that weights and tokenizers come from: its cache, and what to tell a person where it cannot be reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants, get_session

PROBE_S = 5.0


@contextlib.contextmanager
def asked() -> Iterator[None]:
    """Ask the hub inside; where it does not answer a first short request, its cache alone is looked at.

    Otherwise every file is asked for six times over half a minute, with a line each time.
    """
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _answers()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _answers() -> bool:
    try:
        get_session().head(constants.ENDPOINT, timeout=PROBE_S)
    except Exception:  # the clients that it may use share no base
        return False
    return True


def address(repository: str) -> str:
    """The page of a repository."""
    return f"{constants.ENDPOINT}/{repository}"


def cached(repository: str, file: str = "") -> Path:
    """Where the cache keeps a repository, or one of its files."""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    return folder / "snapshots" / "<commit>" / file if file else folder
