"""Edits of a params.yaml where it stands: the value that is meant changes, and nothing else does."""

import difflib

import pytest
import yaml

from compclip.base.errors import UserError
from compclip.config import edit_params
from tests.shipped_files import SHIPPED_PARAMS, list_shipped

GRIDS = [*list_shipped("experiments/grids/*.yaml"), SHIPPED_PARAMS]

EDITS = {
    "a value": (edit_params.set_value, "a: 1  # one\nb: 2\n", ["a"], 3, "a: 3  # one\nb: 2\n"),
    "a value below": (edit_params.set_value, "a:\n  b: 1\n  # c\n", ["a", "b"], "x y", "a:\n  b: x y\n  # c\n"),
    "a list": (edit_params.set_value, "a: [1, 2]  # seeds\n", ["a"], [0], "a: [0]  # seeds\n"),
    "no value": (edit_params.set_value, "a:\nb: 1\n", ["a"], 2, "a: 2\nb: 1\n"),
    "an absent value": (edit_params.set_value, "a:\n  b: 1\n# end\n", ["a", "c"], 2, "a:\n  b: 1\n  c: 2\n# end\n"),
    "an absent section": (edit_params.set_value, "a: 1\n", ["b", "c"], 2, "a: 1\n\nb: {c: 2}\n"),
    "into brackets": (edit_params.set_value, "a: {b: 1}  # x\n", ["a", "c"], 2, "a: {b: 1, c: 2}  # x\n"),
    "into empty brackets": (edit_params.set_value, "a: {}\n", ["a", "c"], 2, "a: {c: 2}\n"),
    "a text that YAML would misread": (edit_params.set_value, "a: 1\n", ["a"], "no", "a: 'no'\n"),
    "an item": (edit_params.append_item, "a: [x]\n", ["a"], "y", "a: [x, y]\n"),
    "an item that is there": (edit_params.append_item, "a: [x]\n", ["a"], "x", "a: [x]\n"),
    "an item of lines": (edit_params.append_item, "a:\n  - x  # 1\n# b\n", ["a"], "y", "a:\n  - x  # 1\n  - y\n# b\n"),
    "an item of no list": (edit_params.append_item, "a: {}\n", ["a", "b"], "y", "a: {b: [y]}\n"),
    "without a line's end": (edit_params.append_item, "a:\n- x", ["a"], "y", "a:\n- x\n- y\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_what_is_meant_changes(name):
    edit, text, keys, value, edited = EDITS[name]
    assert edit(text, keys, value) == edited


@pytest.mark.parametrize(("edit", "text"), [
    (edit_params.append_item, "a: x\n"), (lambda text, keys, value: edit_params.insert_entry(text, keys, "b", value), "a: x\n"),
])  # fmt: skip
def test_what_cannot_be_added_is_said(edit, text):
    with pytest.raises(UserError, match=r"a: is not a (list|mapping), so '[by]' cannot be added"):
        edit(text, ["a"], "y")


def test_a_long_entry_has_a_line_for_each_value():
    section = {"source": "table", "path": "p" * 60, "layout": {"captions": ["c" * 60, "d" * 60]}}
    text = edit_params.insert_entry("data:\n  one: {}\n", ["data"], "two", section)
    assert yaml.safe_load(text) == {"data": {"one": {}, "two": section}}
    assert max(map(len, text.splitlines())) <= edit_params.WIDTH


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_shipped_grids_keep_what_is_not_named(path):
    """Values are what they were but for the edited ones, and of the lines no other one changes."""
    text = path.read_text()
    edited = edit_params.set_value(text, ["train", "lr"], 0.25)
    edited = edit_params.append_item(edited, ["evaluate", "benchmarks"], "signs")
    edited = edit_params.insert_entry(edited, ["benchmarks"], "signs", {"path": "signs.csv", "images": "signs"})
    before, after = yaml.safe_load(text), yaml.safe_load(edited)
    assert (after["train"]["lr"], after["benchmarks"]["signs"]["path"]) == (0.25, "signs.csv")
    assert after["evaluate"]["benchmarks"][-1] == "signs"
    after["evaluate"]["benchmarks"].pop()
    for sections in (before, after):
        sections.setdefault("train", {}).pop("lr", None)
        sections.setdefault("benchmarks", {}).pop("signs", None)
        sections.setdefault("evaluate", {}).setdefault("benchmarks", [])
    assert after == before
    removed = [line for line in difflib.ndiff(text.splitlines(), edited.splitlines()) if line.startswith("- ")]
    assert len(removed) <= 3
