"""Several paths in one text."""

import pytest

from compclip.base.errors import UserError
from compclip.base.path_lists import expand_paths, join_paths


@pytest.mark.parametrize("text, paths", [
    ("data/x.csv", ["data/x.csv"]), ("{08..11}.tar", ["08.tar", "09.tar", "10.tar", "11.tar"]),
    ("{8..11}.tar", ["8.tar", "9.tar", "10.tar", "11.tar"]), ("{a,b}/{0..1}", ["a/0", "a/1", "b/0", "b/1"]),
    ("a::b::a", ["a", "b"]), ("none/*.csv", ["none/*.csv"]), ("odd {name} {}", ["odd {name} {}"]),
])  # fmt: skip
def test_what_a_text_means(text, paths):
    assert expand_paths(text) == paths


def test_patterns_and_names_that_look_like_one(tmp_path):
    """A pattern is what fits it, sorted; a file of that very name is itself."""
    for name in ("b.csv", "a.csv", "{1,2}.csv", "x::y"):
        (tmp_path / name).touch()
    assert expand_paths(f"{tmp_path}/?.csv") == [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    for name in ("{1,2}.csv", "x::y"):
        assert expand_paths(f"{tmp_path}/{name}") == [f"{tmp_path}/{name}"]
    assert join_paths(["a", "b"]) == "a::b"


@pytest.mark.parametrize("text", ["{9..0}.tar", "{0..1000000}.tar", "a/{0..99999999999}"])
def test_numbers_that_fall_or_never_end_are_refused(text):
    with pytest.raises(UserError, match="must rise, by less than 1,000,000"):
        expand_paths(text)
