"""What language models said, in SQLite files: a question is not sent twice.

A file a shard, so that hosts that share a folder never write to one file. Whoever writes a shard's answers is alone
with them, and needs no memory shared with others, which a network disk does not have.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from compclip.base.errors import UserError
from compclip.config.sections import Data


@dataclass(frozen=True)
class Answer:
    """What the model said; `cut_short` where it reached `max_tokens`."""

    text: str
    cut_short: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


def of_data(cache: str, data: Data) -> Path:
    """The folder, beside `cache`, of the answers about one data set, which its files tell from others."""
    told = "\0".join((data.source, data.path, data.images))
    return Path(cache).with_suffix(".shards") / hashlib.sha256(told.encode()).hexdigest()[:12]


def of_shard(folder: Path, shard: str) -> str:
    """The file of one shard's answers."""
    return str(folder / f"{shard}.sqlite")


@contextmanager
def opened(path: str, alone: bool = False) -> Iterator[sqlite3.Connection]:
    """The open file of answers; what was written is safe after each answer.

    Raises UserError for another file, and for one that somebody else has `alone` for a minute.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as cache:
            if alone:
                cache.execute("PRAGMA locking_mode=EXCLUSIVE")
            cache.execute("PRAGMA journal_mode=WAL")
            cache.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, cut_short "
                "INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL)"
            )
            yield cache
    except (sqlite3.Error, OSError) as error:
        raise UserError(f"{path}: no usable cache of answers ({error}); remove it or give another path") from error


@contextmanager
def common(path: str, besides: str) -> Iterator[sqlite3.Connection | None]:
    """The answers of all shards in one file, where an earlier run left such a file; to be read alone."""
    if path == besides or not Path(path).is_file():
        yield None
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", timeout=60, uri=True)) as cache:
            yield cache
    except sqlite3.Error as error:
        raise UserError(f"{path}: no usable cache of answers ({error}); remove it or give another path") from error


def recall(cache: sqlite3.Connection, key: str) -> Answer | None:
    """The answer that is kept under a key; None where there is none."""
    row = cache.execute(
        "SELECT text, cut_short, prompt_tokens, completion_tokens FROM answers WHERE key = ?", (key,)
    ).fetchone()
    if not row or not isinstance(row[0], str) or not all(isinstance(number, int) for number in row[1:]):
        return None  # also where another program wrote something else
    return Answer(row[0], bool(row[1]), row[2], row[3])


def remember(cache: sqlite3.Connection, key: str, answer: Answer) -> None:
    """Keep an answer under a key."""
    cache.execute(
        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
        (key, answer.text, int(answer.cut_short), answer.prompt_tokens, answer.completion_tokens),
    )
