"""A picture lies below the folder of its section, whatever its name is and wherever links lead."""

import os
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.prepare import image_folder


@pytest.fixture
def link_root(tmp_path):
    """A folder of pictures with a folder in it, one beside it, and links of every kind; the user's own is a link, too."""
    for name in ("disk/in", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.png").touch()
    (tmp_path / "images").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "disk" / "out.png").symlink_to("../other/a.png")
    (tmp_path / "disk" / "in.png").symlink_to("in/a.png")
    (tmp_path / "disk" / "loop").symlink_to("loop")
    return tmp_path


INSIDE = ("in/a.png", "in/missing.png", "missing/missing.png", "in/../in/a.png", "in.png", "in/..a.png",
          "../disk/in/a.png")  # fmt: skip
NO_FILES = ("nul\0.png", "\ud800.png", "x" * 5000)  # which are missing
OUTSIDE = ("..", "../other/a.png", "../disk-2/a.png", "in/../../other/a.png", "out/a.png", "out.png", "/etc/passwd", "/x",
           "loop/../../../etc/passwd")  # fmt: skip


@pytest.mark.parametrize("name", [*INSIDE, *NO_FILES, *OUTSIDE])
def test_names(link_root, monkeypatch, name):
    """With an absolute folder and with one as params.yaml has it."""
    monkeypatch.chdir(link_root)
    for folder in (str(link_root / "images"), "images", "disk", "./images/"):
        assert image_folder.ImageFolder(folder).contains(os.path.join(folder, name)) is (name not in OUTSIDE)


@pytest.mark.parametrize("pattern", ["disk/*", "disk/*/*.png", "disk/**/a.png", "{disk,x}/*/a.png", "x::disk/*"])
def test_a_pattern_stands_for_the_folder_before_it(link_root, monkeypatch, pattern):
    """A link below it leads outside, also where the pattern itself lists it."""
    monkeypatch.chdir(link_root)
    folder = image_folder.ImageFolder(pattern)
    assert folder.contains("disk/in/a.png") and folder.contains("disk/in.png")
    assert not folder.contains("disk/out/a.png") and not folder.contains("disk/out.png")
    assert image_folder.ImageFolder("/").contains("/etc/passwd")  # the root and the working directory are folders
    here = image_folder.ImageFolder(".")
    assert [here.contains(name) for name in ("x.png", "../x.png", "/x.png")] == [True, False, False]


COMPONENTS = st.sampled_from(["..", ".", "in", "out", "x", "in.png", "out.png", ""])


@given(names=st.lists(st.lists(COMPONENTS, min_size=1, max_size=6), max_size=3))
def test_what_is_held_is_below(tmp_path_factory, names):
    """Against the system's own answer, name by name."""
    base = tmp_path_factory.mktemp("w")
    for name in ("images/in", "other"):
        (base / name).mkdir(parents=True)
    (base / "images" / "out").symlink_to(base / "other")
    (base / "images" / "out.png").symlink_to(base / "other" / "x")
    (base / "images" / "in.png").symlink_to(base / "images" / "in" / "x")
    folder, holder = str(base / "images"), image_folder.ImageFolder(str(base / "images"))
    for name_parts in names:
        path = posixpath.join(folder, *name_parts)
        real = os.path.realpath(path)
        assert holder.contains(path) is (real == folder or real.startswith(folder + "/"))
