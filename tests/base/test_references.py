"""Interpolations are worked out as long as what they give is about as large as the file."""

from __future__ import annotations

import pytest

from compclip.base import yaml_text
from compclip.base.errors import UserError

WANTED = "must be a mapping"


def plain(text: str) -> dict:
    """A text's values, as a command gets them."""
    return yaml_text.to_plain(yaml_text.parse_yaml(text, "f.yaml", WANTED), "f.yaml")


def chain(levels: int, line: str) -> str:
    """A text whose keys each refer to the next one, and the last to nothing."""
    return "\n".join([*(f"k{i}: {line.replace('NEXT', f'k{i + 1}')}" for i in range(levels)), f"k{levels}: x"])


TEN = ", ".join(['"${NEXT}"'] * 10)
MANY = ", ".join(['"${b.d}"'] * 100)
BOMBS = {
    "texts": chain(30, '"${NEXT}${NEXT}"'),
    "mappings": chain(9, ", ".join(f'{"{" * (i == 0)}a{i}: "${{NEXT}}"' for i in range(10)) + "}"),
    "lists": chain(9, f"[{TEN}]"),
    "relative": "a:\n" + "\n".join(f"  {line}" for line in chain(30, '"${.NEXT}${.NEXT}"').splitlines()),
    "through a name on the way": f'b: "${{c}}"\nc: {{d: {"x" * 100_000}}}\na: [{MANY}]',
    "one long text": f"a: {'x' * 500_000}\nb: ['${{a}}', '${{a}}', '${{a}}', '${{a}}', '${{a}}']",
}  # fmt: skip


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_before_they_grow(text):
    """Written out, most of these would take all memory."""
    with pytest.raises(UserError, match="f.yaml: .*: its interpolations grow beyond 2 MiB; write the values out"):
        plain(text)


def test_what_people_write_is_worked_out(monkeypatch):
    """Names in paths, one of another, of lists, relative ones, and the environment."""
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "NO_SUCH")
    found = plain(
        'root: /data\ncoco: "${root}/coco"\nset: {path: "${coco}/a.json", images: "${.path}.d", n: "${seeds[1]}"}\n'
        "seeds: [3, 5]\nagain: ${seeds}\nbatch: ${oc.decode:${oc.env:NO_SUCH,8}}\nplain: $5\n2: {a: '${2.b}', b: 1}"
    )
    assert found["set"] == {"path": "/data/coco/a.json", "images": "/data/coco/a.json.d", "n": 5}
    assert (found["again"], found["batch"], found[2]["a"]) == ([3, 5], 8, 1)


@pytest.mark.parametrize(
    "text", ["${oc.create:{}}", "${a.${b}}", "${oc.select:b}", "${", "${b", "${oc.env:${b}}", "${oc.env:A${oc.env:A}}"]
)
def test_other_kinds_are_refused(text):
    """What cannot be measured is not worked out."""
    with pytest.raises(UserError, match=r"f.yaml: (a: )?.*"):
        plain(f"a: '{text}'\nb: x")


@pytest.mark.parametrize("text", ["a: ${b}\nb: ${a}", "a: ${a}", "a: {b: '${a}'}", chain(2000, '"${NEXT}"')])
def test_those_that_lead_to_themselves(text):
    """One line, at once."""
    with pytest.raises(UserError, match="f.yaml: ") as error:
        plain(text)
    assert "\n" not in str(error.value)


def test_a_text_without_any_costs_nothing(monkeypatch):
    """No size is worked out."""
    monkeypatch.setattr(yaml_text, "_Sizes", None)
    assert plain("a: [1, x]") == {"a": [1, "x"]}
