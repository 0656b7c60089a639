"""Texts as cells of LaTeX, Markdown and CSV: whatever they hold, they stay text. HTML is escaped by its templates."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from compclip.base.errors import hide_controls, one_line

LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "&": r"\&", "%": r"\%",
    "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "<": "$<$", ">": "$>$", "−": "$-$", "–": "--",
    "‡": r"$\ddagger$", "§": r"\S{}", "⊘": r"$\oslash$", "⊂": r"$\subset$", "‖": r"$\parallel$",
})  # fmt: skip
MARKDOWN = str.maketrans({
    "\\": "\\\\", "|": "\\|", "`": "\\`", "*": "\\*", "[": "\\[", "]": "\\]", "<": "&lt;", "&": "&amp;"
})  # fmt: skip
FORMULA = tuple("=+-@\t\n＝＋－＠")  # what a spreadsheet takes for the beginning of one


def to_latex(text: str) -> str:
    """Return `text` as LaTeX. After a line's end a bracket or star would be an option of it."""
    escaped = one_line(text).translate(LATEX)
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def to_markdown(text: str) -> str:
    """Return `text` for a line or a table of Markdown."""
    return one_line(text).translate(MARKDOWN)


def layout_markdown(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()) -> str:
    """Return a table of Markdown of cells that are Markdown already; columns `numbers` are aligned right."""
    rules = ["---:" if name in numbers else "---" for name in head]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rules, *rows))


def to_code(text: str) -> str:
    """Return `text` as code for a line or a table of Markdown, where only a table's bar can be escaped."""
    return f"`{one_line(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as CSV: numbers to six decimals, None as empty.

    A text that a spreadsheet would compute begins with an apostrophe; numbers stay numbers.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """Return a cell's value. A return without a line feed would begin a row: the library quotes line feeds alone."""
    if isinstance(value, float):
        return f"{value:.6f}"
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    try:
        float(text)
        is_number = text.isascii() and text.isprintable()
    except ValueError:
        is_number = False
    return f"'{text}" if text.startswith(FORMULA) and not is_number else text


def hide_in_page(value: Any) -> Any:
    """Return a value of a page's template, a text without invisible characters: one may turn the line's direction."""
    return hide_controls(value) if isinstance(value, str) else value


def join_counts(counts: Mapping[str, int], skip_zero: bool = True) -> str:
    """Return counts with what they are of: `3 better, 1 worse`."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count or not skip_zero)


# --- names of columns as a paper prints them: `sugarcrepe_pp/swap_itt` is SugarCrepe++ swap ITT

# Words of benchmarks and metrics that are names or abbreviations.
WORDS = {
    "sugarcrepe": "SugarCrepe", "winoground": "Winoground", "crepe": "CREPE", "aro": "ARO", "valse": "VALSE",
    "cola": "Cola", "eqben": "EqBen", "imagecode": "ImageCoDe", "svo": "SVO", "probes": "Probes", "vl": "VL",
    "checklist": "CheckList", "whatsup": "What's Up", "spec": "SPEC", "docci": "DOCCI", "iiw": "IIW", "coco": "COCO",
    "flickr30k": "Flickr30k", "flickr8k": "Flickr8k", "imagenet": "ImageNet", "vismin": "VisMin", "mmvp": "MMVP",
    "vlm": "VLM", "bivlc": "BiVLC", "colorswap": "ColorSwap", "negbench": "NegBench", "urban1k": "Urban1k",
    "sharegpt4v": "ShareGPT4V", "bla": "BLA", "dci": "DCI", "sdci": "sDCI", "nlvr": "NLVR",
    "nlvr2": "NLVR2", "colorfoil": "ColorFoil", "fg": "FG", "ovd": "OVD", "genai": "GenAI",
    "zeroshot": "zero-shot", "itt": "ITT", "tot": "TOT", "i2t": "I2T", "t2i": "T2I",
    "obj": "object", "att": "attribute", "rel": "relation",
}  # fmt: skip
PHRASES = ((r" pp\b", "++"), (r"recall at (\d+)", r"R@\1"), (r"\btop (\d+)", r"top-\1"))


def format_name(name: str) -> str:
    """Return the readable name of a benchmark, a metric, or both with a slash between."""
    words = re.split(r"[_/ ]+", name)
    text = " ".join(WORDS.get(word, word) for word in words)
    for pattern, replacement in PHRASES:
        text = re.sub(pattern, replacement, text)
    return text


def format_tick(value: float, _position: int = 0) -> str:
    """Return a number of at most four digits, with a true minus sign."""
    return f"{value:.4g}".replace("-", "−")
