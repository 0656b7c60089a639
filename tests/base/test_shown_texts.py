"""Texts of others on a terminal and on a page: no escape sequence, no turned direction, no forged line."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import Environment
from markupsafe import Markup

import compclip
from compclip.audit import rule_audit
from compclip.base import errors, messages
from compclip.base.errors import UserError
from compclip.begin import data_section
from compclip.items import __main__ as items_command
from compclip.report import escape
from compclip.runs import status
from tests.data import reading, tar_files

HOSTILE = "A dog\x1b]0;owned\x07\x9b2J \u202efdp.exe\u2028x\r\nerror: forged"
PAGES = ("field/field_page.py", "report/report_page.py", "sweep/study_page.py")


def show_items(folder):
    item = {"item": f"itt/{HOSTILE}", "ours": 1.0, "theirs": 0.0, "texts": [HOSTILE], "retrieved": {}}
    document = {"benchmark": "x", "items": 1, "ours": "a", "theirs": "b", "tried": 0, "left_out": 0, "slices": []}
    means = {"ours": 1.0, "theirs": 0.0, "difference": 1.0}
    return items_command.format_table(document | {"means": means, "won": [item], "lost": []})


def show_data(folder):
    reading.put_lines(folder / "x.jsonl", [{"image": "a.jpg", "caption": HOSTILE, "id": HOSTILE}])
    reading.put(folder / "a.jpg", tar_files.picture())
    section = data_section.find_section(str(folder / "x.jsonl"), "")
    return "\n".join(data_section.survey_data(section, lambda sample: None).describe())


def show_audit(folder):
    rule = rule_audit.RuleAudit("m", "negative", "r", 1, 1.0, 0.5, 0.0, 0.0, [(HOSTILE, HOSTILE)])
    return rule_audit.format_audit(rule_audit.Audit("d", 1, 1, [rule]))


def show_page(folder):
    """Where markup is escaped, and of markup itself."""
    page = Environment(autoescape=True, finalize=escape.hide_in_page).from_string("{{ a }} {{ b }} {{ 1 }}")
    shown = page.render(a=HOSTILE, b=Markup("<b>{}</b>").format(HOSTILE))
    assert "<b>A dog" in shown
    return shown


SHOWN = {
    "items": show_items,
    "init --data": show_data,
    "audit": show_audit,
    "status": lambda folder: status.align_columns(["name", "error"], [["x", HOSTILE]], 80),
    "a page": show_page,
    "an error": lambda folder: str(UserError(HOSTILE)),
}


@pytest.mark.parametrize("where", SHOWN)
def test_a_hostile_text_is_shown_as_text(tmp_path, where):
    shown = SHOWN[where](tmp_path)
    assert "A dog" in shown and "fdp.exe" in shown
    assert shown.replace("\n", "").isprintable()
    if where != "a page":  # whose lines mean nothing
        assert not [line for line in shown.splitlines() if line.startswith("error:")]


def test_notes_and_tracebacks(capsys):
    messages.note(HOSTILE)
    errors._print_traceback(ValueError, ValueError(HOSTILE), None)
    shown = capsys.readouterr().err
    assert shown.replace("\n", "").isprintable()
    assert shown.startswith("note: A dog") and shown.splitlines()[0].endswith("error: forged")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_hides_what_is_invisible(path):
    tree = ast.parse((Path(compclip.__file__).parent / path).read_text())
    makers = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Environment"
    ]
    assert [[k.value.id for k in call.keywords if k.arg == "finalize"] for call in makers] == [["hide_in_page"]]


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp1252"])
def test_a_terminal_that_is_not_utf8(encoding):
    """What it lacks is printed as an escape, by every command."""
    program = "import sys; from compclip.base.errors import entry; sys.exit(entry(lambda argv: print('Ein Hündchen 犬') or 0))"
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode(encoding).strip().endswith("ndchen \\u72ac")
