"""The hub that weights and tokenizers come from: its cache, and the addresses that error messages name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants, get_session

PROBE_S = 5.0
TOKENIZER_FILES = ("tokenizer.json", "spiece.model", "vocab.txt", "vocab.json")  # one of them is a tokenizer
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.pt")


@contextlib.contextmanager
def reachable_or_offline() -> Iterator[None]:
    """Use the hub's cache alone inside, if the hub does not answer one short request.

    Otherwise each missing file is requested six times over half a minute, with a line each time.
    """
    was_offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = not is_reachable()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was_offline


def is_reachable() -> bool:
    """Return whether the hub may be asked, and answers one short request."""
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=PROBE_S)
    except Exception:  # the clients that it may use share no base
        return False
    return True


def page_address(repository: str) -> str:
    """Return the address of a repository's page."""
    return f"{constants.ENDPOINT}/{repository}"


def cache_path(repository: str, file: str = "") -> Path:
    """Return where the cache holds a repository, or one of its files."""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    return folder / "snapshots" / "<commit>" / file if file else folder


def find_cached(repository: str, *patterns: str) -> Path | None:
    """Return a file of a repository that the cache holds, by the first pattern that fits one; None without any."""
    snapshots = cache_path(repository) / "snapshots"
    files = (path for pattern in patterns for path in sorted(snapshots.glob(f"*/{pattern}")))
    return next(filter(Path.is_file, files), None)
