"""YAML of strangers: a value, or one line, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base import yaml_text
from compclip.base.errors import UserError

WANTED = "must be a mapping"
BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))])


REFUSED = [  # a text, and what the line must name beside the file
    ("[" * 50_000, "nested"),
    ("{a: " * 50_000, "nested"),
    ("- " * 50_000, "nested"),
    ("x" * (1 << 20) + "é", "1 MiB"),
    (BOMB, "expansion"),
    ("a: &a [1, *a]", "recursive aliases"),
    ("- 1\n- 2", WANTED),
    ("3", WANTED),
    ("a: " + "1" * 5000, "Exceeds the limit"),
    ("a: 1\na: 2", "duplicate key a"),
    *((text, "not YAML") for text in (
        "a: " + "[" * 49 + "]" * 48, "null: 1", "{[a]: 1}", "a: !!set {x, y}", "a: {",
        "a: !!python/object/apply:os.system [true]",
    )),
    # values that cannot be: the key is named
    ("a: ${", ""),
    ("a: ${b}", "a: .*'b'"),
    ("a: ???", r"a=\?\?\?"),
    ('a: {b: "x\\0y"}', r"a.b: .*x00"),
    ('a: ["x\\x1by"]', "a: .*x1b"),
    ('"a\\x07": 1', "a key: .*x07"),
    ("a: ${nope:1}", "a: "),
    # interpolations that lead to themselves, and kinds that could hide a variable
    *((text, "") for text in (
        "a: ${b}\nb: ${a}", "a: ${a}", "a: {b: '${a}'}",
        "\n".join([*(f"k{i}: ${{k{i + 1}}}" for i in range(2000)), "k2000: x"]),
    )),
    *((f"a: '{kind}'\nb: x", "") for kind in (
        "${oc.create:{}}", "${a.${b}}", "${oc.select:b}", "${", "${b", "${oc.env:${b}}", "${oc.env:A${oc.env:A}}",
    )),
]  # fmt: skip


@pytest.mark.parametrize("text,names", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(text, names):
    """Depth, size, aliases that grow, what is no YAML, values that cannot be: one line, and no library's traceback."""
    with pytest.raises(UserError, match=f"f.yaml: .*{names}") as error:
        plain(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@given(st.text(st.sampled_from("ab:-[]{}&*!?|>'\"%@`,# \n\t${}0123.~"), max_size=60))
def test_any_text(text):
    """Plain values or one line."""
    try:
        plain_values = yaml_text.to_plain(yaml_text.parse_yaml(text, "f", WANTED), "f")
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert isinstance(plain_values, dict)


@pytest.mark.parametrize("text", [
    "d: {options: {url: 'http://u:${oc.env:SOME_KEY}@h/v1'}}",
    "d: {options: {url: 'http://h/v1?key=${oc.env:SOME_KEY}'}}",
    "key: ${oc.env:SOME_KEY,nothing}\nd: {options: {url: 'http://h/${key}'}}",
    "d: {options: {url: ['${oc.env:SOME_URL}']}}",
    "name: SOME_KEY\nd: {options: {url: 'http://${oc.env:SOME_KEY}/${name}'}}",
])  # fmt: skip
def test_no_variable_is_part_of_a_url(monkeypatch, text):
    """Directly or through another key: it would be written to config.yaml."""
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "SOME_KEY,SOME_URL")
    monkeypatch.setenv("SOME_KEY", "very-secret")
    monkeypatch.setenv("SOME_URL", "https://u:very-secret@host")
    parsed = yaml_text.parse_yaml(text, "f", WANTED)
    with pytest.raises(UserError, match=r"^f: d.options.url: is a URL with something of \$") as error:
        yaml_text.to_plain(parsed, "f")
    assert "very-secret" not in str(error.value)


def test_a_variable_may_be_a_path_or_a_number(monkeypatch):
    """Which are no secrets."""
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "SCRATCH SOME_PORT")
    monkeypatch.setenv("SCRATCH", "/scratch/somebody")
    monkeypatch.setenv("SOME_PORT", "8000")
    text = "a: ${oc.env:SCRATCH}/x\nb: sqlite:///${oc.env:SCRATCH}/s.db\nc: ${oc.decode:${oc.env:SOME_PORT}}\nd: http://h:8000"
    assert plain(text) == {
        "a": "/scratch/somebody/x",
        "b": "sqlite:////scratch/somebody/s.db",
        "c": 8000,
        "d": "http://h:8000",
    }


def plain(text: str) -> dict:
    """A text's values, as a command gets them."""
    return yaml_text.to_plain(yaml_text.parse_yaml(text, "f.yaml", WANTED), "f.yaml")


def test_interpolations_that_people_write(monkeypatch):
    """Names in paths, one of another, of lists and mappings, relative ones, aliases, and the environment."""
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "NO_SUCH")
    plain_values = plain(
        'root: /data\ncoco: "${root}/coco"\nset: {path: "${coco}/a.json", images: "${.path}.d", n: "${seeds[1]}"}\n'
        "seeds: [3, 5]\nagain: ${seeds}\nc: &c {lr: 1e-5}\nd: *c\ne: ${c.lr}\nbatch: ${oc.decode:${oc.env:NO_SUCH,8}}\nplain: $5\n2: {a: '${2.b}', b: 1}"
    )
    assert plain_values["set"] == {"path": "/data/coco/a.json", "images": "/data/coco/a.json.d", "n": 5}
    assert (plain_values["again"], plain_values["batch"], plain_values[2]["a"]) == ([3, 5], 8, 1)
    assert (plain_values["d"], plain_values["e"]) == ({"lr": 1e-5}, 1e-5)


@pytest.mark.parametrize("number", ["0100", "010", "-07", "1:30", "1:30:00", "12:30.5", "0_7"])
def test_a_number_of_another_base_is_refused(number):
    """YAML 1.1 reads octal numbers and such to the base of 60, as a value, a key, and in a list."""
    for text in (f"a: {number}", f"{number}: a", f"a:\n- 1\n- {number}", f"a: {{b: [{number}]}}"):
        with pytest.raises(UserError, match=f"f: line [13]: {number}: YAML takes it for .*; write the number plainly"):
            yaml_text.parse_yaml(text, "f", WANTED)


def test_a_text_and_a_plain_number_are_no_others():
    config = yaml_text.parse_yaml("a: ['010', \"1:30\", 0, 10, 1.05, 0.1, 1e-05, a:30, 0x1f]", "f", WANTED)
    assert list(config.a) == ["010", "1:30", 0, 10, 1.05, 0.1, 1e-05, "a:30", 31]
