"""Cache answers of language models in SQLite files, so that no question is sent twice.

There is one file per shard, so that hosts that share a folder never write to one file. The writer of a shard's answers
holds its file alone, and needs no shared memory, which a network disk does not have.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError
from compclip.config.sections import Data


@dataclass(frozen=True)
class Answer:
    """A model's answer; `cut_short` where it reached `max_tokens`."""

    text: str
    cut_short: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


def cache_folder(cache: str, data: Data) -> Path:
    """Return the folder beside `cache` for the answers about one data set, named after a hash of its files."""
    section = "\0".join((data.source, data.path, data.images))
    return Path(cache).with_suffix(".shards") / hashlib.sha256(section.encode()).hexdigest()[:12]


def shard_cache(folder: Path, shard: str) -> str:
    """Return the file of one shard's answers."""
    return str(folder / f"{shard}.sqlite")


@contextmanager
def open_cache(path: str, alone: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a file of answers; each answer is safe once it is stored.

    Raises UserError for another file, and for one that another process holds `alone` for a minute.
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


def load_answer(cache: sqlite3.Connection, key: str) -> Answer | None:
    """Return the answer to a key, None where there is none."""
    query = "SELECT text, cut_short, prompt_tokens, completion_tokens FROM answers WHERE key = ?"
    row = cache.execute(query, (key,)).fetchone()
    return Answer(row[0], bool(row[1]), row[2], row[3]) if row else None


def store_answer(cache: sqlite3.Connection, key: str, answer: Answer) -> None:
    """Store the answer to a key."""
    cache.execute(
        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
        (key, answer.text, int(answer.cut_short), answer.prompt_tokens, answer.completion_tokens),
    )
