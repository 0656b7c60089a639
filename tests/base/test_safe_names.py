"""One rule for every name that becomes a path or a word of a command."""

import copy
import pickle
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.safe_names import LONGEST, SafeName, parse_name


@pytest.mark.parametrize("text", ["clic", "fsc_clip.local", "ViT-B-32", "1e-5", "größe", "a+b", "x" * LONGEST])
def test_names(text):
    """Names as grids have them; they are what they were."""
    assert SafeName(text, "data") == text
    assert pickle.loads(pickle.dumps(SafeName(text, "data"))) == copy.copy(SafeName(text, "data")) == text


BAD = ["", ".", "..", "../x", "/abs", "a/b", "a\\b", "-x", "--out", ".hidden", "a b", "a\nb", "y$(touch X)", "a;b", "*",
       "a\0b", "x" * (LONGEST + 1), "é" * LONGEST + "x", "\ud800", "a:b", "~", "%", "a`b`", "'", '"']  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_no_names(text):
    """Whatever a shell or a path would read as more than a name is refused in one line of ASCII."""
    with pytest.raises(UserError, match="data .*: must be letters, digits and _") as error:
        SafeName(text, "data")
    assert str(error.value).isascii()
    assert len(str(error.value)) < 600


@given(st.text(max_size=2 * LONGEST))
def test_a_name_is_one_part_of_a_path_and_one_word(text):
    """Every text that is a name is its own last part of a path, and the same to a shell but for letters it quotes."""
    try:
        name = SafeName(text, "x")
    except UserError:
        return
    assert (Path("data") / name).name == name
    assert Path("data", name).parent == Path("data")
    assert shlex.split(name) == [name]


@pytest.mark.parametrize("text", ["clic", "train@clic"])
def test_a_stage_s_name(text):
    """Alone, or behind its stage as DVC has it."""
    assert parse_name(text, "--method") == "clic"
