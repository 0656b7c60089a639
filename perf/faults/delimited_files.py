"""Delimited files with odd quotes: no row is lost without being counted, and no text holds another row's picture.

    python -m perf.faults.delimited_files --files 200 --seed 0

Takes 1 second; needs nothing.
"""

import random
import sys
from collections import Counter
from pathlib import Path

from compclip.base.errors import UserError
from compclip.data import caption_files, tables
from perf.faults.fuzz import file_programs

WORDS = (
    "a dog",
    "two red cats",
    "the man's hat",
    "a cup, a hat",
    "runs",
    '5" tall',
    'says "hello" twice',
    "in the sun",
)
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def write_file(path: Path, rng: random.Random, rows: int = 40) -> None:
    """Write rows of which some have quotes as nobody should write them."""
    separator = SEPARATORS.get(path.suffix, ",")
    lines = [f"image{separator}caption"]
    lines += [f"{number:04}.jpg{separator}{_quote(rng, separator)}" for number in range(rows)]
    path.write_text("\n".join(lines) + rng.choice(("", "\n")))


def _quote(rng: random.Random, separator: str) -> str:
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 3)))
    kind = rng.random()
    if kind < 0.4 or (kind < 0.5 and separator == ","):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    if separator == ",":
        text = text.replace(",", "")
    odd = {
        0.80: text, 0.86: f'"{text}', 0.90: f'{text}"', 0.93: f'"{text}" and more', 0.96: f'""{text}', 2: f'" {text}',
    }  # fmt: skip
    return next(value for limit, value in odd.items() if kind < limit)


def find_faults(path: Path, rows: int = 40) -> list[str]:
    """Return what is lost without a count, and texts that hold another row's picture."""
    counts: Counter[str] = Counter()
    texts: list[str] = []
    try:
        if path.suffix == ".txt":
            pictures = caption_files.read_lines(path, counts, drops_damaged=True)
            texts = [text for picture in pictures for text in picture.captions]
        else:
            texts = [row.values["caption"] for row in tables.read_rows(path, ["image", "caption"], counts)]
    except UserError:
        return []
    left_out = sum(number for name, number in counts.items() if not name.startswith("open_quotes"))
    faults = [f"{rows} rows, {len(texts)} read, {left_out} left out"] if len(texts) + left_out != rows else []
    return faults + [f"a text holds another row: {text[:80]!r}" for text in texts if ".jpg" in text]


def try_files(files: int, seed: int, folder: Path) -> list[str]:
    """Return a line for each file with a fault."""
    defects = []
    for number in range(files):
        rng = random.Random(f"{seed} {number}")
        path = folder / f"{number}{rng.choice(('.csv', '.tsv', '.txt'))}"
        write_file(path, rng)
        try:
            faults = find_faults(path)
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        defects += [f"{path.name}: {fault}" for fault in faults]
    return defects


if __name__ == "__main__":
    sys.exit(file_programs.try_all(__doc__, 200, try_files))
