"""JSON of strangers: a value, or one line naming the place."""

import pytest

from compclip.base import files
from compclip.base.errors import UserError


@pytest.mark.parametrize(
    "text,message",
    [
        ("[" * 50_000, "f.json: nested too deeply; fix or fetch"),
        ('{"a":' * 50_000, "f.json: nested too deeply; fix or fetch"),
        ("1" * 5000, "f.json: has a number of thousands of digits; fix"),
        ('{\n"a": }', "f.json: not JSON at line 2: Expecting value; fix"),
        ("", "f.json: not JSON at line 1: "),
    ],
    ids=lambda value: value[:30],
)
def test_what_is_refused(text, message):
    """Depth and digits end in a line as a missing bracket does."""
    with pytest.raises(UserError, match=message):
        files.parse_json(text, "f.json")


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "."])
def test_names_that_no_file_has(tmp_path, name):
    """A NUL, a name beyond the file system's, a folder."""
    with pytest.raises(UserError, match="give the path of an existing file"):
        files.read_bytes(tmp_path / name)


def test_two_writers_of_one_file(tmp_path):
    """Their temporary files are different ones, and stand beside the file under its name."""
    with files.atomic(tmp_path / "a.json") as one, files.atomic(tmp_path / "a.json") as other:
        one.write_text("1")
        other.write_text("2")
        assert one != other
        assert one.name.startswith(".a.json.")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "1"
