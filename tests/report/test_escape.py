"""Cells of LaTeX, Markdown and CSV: whatever a name holds, the table keeps its shape and the name its text."""

import csv
import html
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.report import escape

NASTY = st.text(st.one_of(st.sampled_from("\\^~_&%$#{}|<>`*[]=+-@'\"\t\r\n −–0"), st.characters()), max_size=20)
CHARACTER_OF = {command: chr(code) for code, command in escape.LATEX.items()}


def words(text):
    """What of a text can be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def one_feed(text):
    """A text whose lines all end alike."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_tex(text):
    """What LaTeX prints: each command back to its character; a raw special one is an error."""
    output, text = "", text.removeprefix("{}")
    while text:
        command = next((m for m in sorted(CHARACTER_OF, key=len, reverse=True) if text.startswith(m)), None)
        assert command or ord(text[0]) not in escape.LATEX, text
        output, text = output + CHARACTER_OF.get(command, text[0]), text[len(command or " ") :]
    return output


@given(NASTY)
def test_latex_prints_the_text(text):
    escaped = escape.to_latex(text)
    assert read_tex(escaped).replace("--", "–") == words(text).replace("--", "–")
    assert not escaped.startswith(("[", "*"))  # options of the line's end before it


@given(st.lists(NASTY, min_size=1, max_size=4), st.lists(NASTY, min_size=1, max_size=4))
def test_a_row_of_markdown_keeps_its_cells(texts, codes):
    row = "| " + " | ".join([*map(escape.to_markdown, texts), *map(escape.to_code, codes)]) + " |"
    assert len(row.splitlines()) == 1
    cells = re.split(r"(?<!\\)(?:\\\\)*\|", re.sub(r"\\\\", "", row))[1:-1]
    assert len(cells) == len(texts) + len(codes)


@given(NASTY)
def test_markdown_shows_the_text(text):
    escaped = escape.to_markdown(text)
    assert not re.search(r"<|(?<!\\)[`*\[\]|]", re.sub(r"\\\\", "", escaped))
    assert html.unescape(re.sub(r"\\([\\|`*\[\]])", r"\1", escaped)) == html.unescape(words(text).replace("&", "&amp;"))


@given(NASTY)
def test_code_in_markdown_ends_where_it_should(text):
    escaped = escape.to_code(text)
    assert escaped.count("`") == 2 and escaped[0] == escaped[-1] == "`"


@given(st.lists(st.lists(NASTY, min_size=2, max_size=3), max_size=3))
def test_no_cell_of_csv_is_a_formula(rows):
    parsed_rows = list(csv.reader(io.StringIO(escape.format_csv(rows), newline="")))
    assert len(parsed_rows) == len(rows)
    for text, cell in zip(map(one_feed, sum(rows, [])), sum(parsed_rows, []), strict=True):
        if cell.startswith(escape.FORMULA):
            float(cell)
        assert cell == text or (cell == f"'{text}" and text.startswith(escape.FORMULA))


@given(st.floats(allow_nan=False), st.integers())
def test_numbers_stay_numbers(number, integer):
    line = escape.format_csv([[f"{number:.6f}", f"{integer:+}", number, integer, None, ""]])
    assert line == f"{number:.6f},{integer:+},{number:.6f},{integer},,\n"


def test_each_character_of_latex():
    assert escape.to_latex("a\\b^c~d_e&f%g$h#i{j}k<l>m−1") == (
        r"a\textbackslash{}b\textasciicircum{}c\textasciitilde{}d\_e\&f\%g\$h\#i\{j\}k$<$l$>$m$-$1"
    )
    assert escape.to_latex("[x]") == "{}[x]"


@pytest.mark.parametrize(
    ("name", "text"),
    [("sugarcrepe_pp/swap_itt", "SugarCrepe++ swap ITT"), ("sugarcrepe/swap/unseen_pairs", "SugarCrepe swap unseen pairs"),
     ("retrieval_coco/i2t_recall_at_10", "retrieval COCO I2T R@10"), ("zeroshot_imagenet/top_1", "zero-shot ImageNet top-1"),
     ("replace_obj", "replace object"), ("svo_probes", "SVO Probes"), ("a_new_one/stop_10", "a new one stop 10")],
)  # fmt: skip
def test_names_are_as_a_paper_prints_them(name, text):
    assert escape.format_name(name) == text
