"""Texts as cells of LaTeX, Markdown and CSV: whatever they hold, they stay text. HTML is escaped by its templates."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

LATEX = {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "&": r"\&", "%": r"\%",
    "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "<": "$<$", ">": "$>$", "−": "$-$", "–": "--",
    "‡": r"$\ddagger$",
}  # fmt: skip
MARKDOWN = {"\\": "\\\\", "|": "\\|", "`": "\\`", "*": "\\*", "[": "\\[", "]": "\\]", "<": "&lt;", "&": "&amp;"}
FORMULA = tuple("=+-@\t\n＝＋－＠")  # what a spreadsheet takes for the beginning of one


def tex(text: str) -> str:
    """`text` in LaTeX. After a line's end a bracket or star would be an option of it."""
    made = "".join(LATEX.get(c, c) for c in _line(text))
    return f"{{}}{made}" if made.startswith(("[", "*")) else made


def md(text: str) -> str:
    """`text` in a line or a table of Markdown."""
    return "".join(MARKDOWN.get(c, c) for c in _line(text))


def md_code(text: str) -> str:
    """`text` as code in a line or a table of Markdown, which knows no escapes in it but that of a table's bar."""
    return f"`{_line(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def table_csv(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV. A text that a spreadsheet would compute begins with an apostrophe; numbers stay numbers."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """A return without a line feed would begin a row: the library quotes line feeds alone."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and text.isprintable()


def _line(text: str) -> str:
    """Without what breaks a line, in any of the formats, or cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
