"""What language models said, in one SQLite file: a question is not sent twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError


@dataclass(frozen=True)
class Answer:
    """What the model said; `cut_short` where it reached `max_tokens`."""

    text: str
    cut_short: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """The open file of answers; what was written is safe after each answer. Raises UserError for another file."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as cache:
            cache.execute("PRAGMA journal_mode=WAL")
            cache.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, cut_short "
                "INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL)"
            )
            yield cache
    except (sqlite3.Error, OSError) as error:
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
