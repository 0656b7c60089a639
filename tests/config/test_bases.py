"""Grids that are laid over others by `base`: what they have of it, what is refused, and `config use` of one."""

import os
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.config import __main__ as config_command
from compclip.config import read
from tests.shipped_files import SHIPPED_PARAMS

GRID = """# Half of it. And more.
base: whole
grid: {methods: [pretrained, negclip, clic.c4], seeds: [7]}
methods:
  clic: {variants: {c4: {alternate: false}, unused: {}}}
train: {lr: 1.0e-3}
report: {columns: [winoground/text]}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of grids: the default one as `whole`, and `half` over it."""
    monkeypatch.chdir(tmp_path)
    read.GRIDS.mkdir(parents=True)
    (read.GRIDS / "whole.yaml").write_text(SHIPPED_PARAMS.read_text())
    (read.GRIDS / "half.yaml").write_text(GRID)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = read.GRIDS / f"{name}.yaml"
    path.write_text(text)
    return path


def test_values_are_laid_over_the_base(project):
    """Lists replace; of methods and their variants there are those that the grid names, and its own."""
    whole, half = (read.load_params(read.GRIDS / f"{name}.yaml") for name in ("whole", "half"))
    assert half.grid.methods == ["pretrained", "negclip", "clic.c4"] and half.grid.backbones == ["scenes"]
    assert (half.grid.seeds, half.report.columns) == ([7], ["winoground/text"])
    assert (half.train.lr, half.train.batch_size) == (1e-3, whole.train.batch_size)
    assert half.methods.keys() == {"pretrained", "negclip", "clic", "fsc_clip"}  # wise_ft.methods names the last
    assert half.methods["clic"] == whole.methods["clic"] | {"variants": {"c4": {"alternate": False}, "unused": {}}}
    assert half.benchmarks == whole.benchmarks


def test_a_base_may_have_one(project):
    """Of three layers the uppermost names what there is: also what the middle one left out."""
    write("quarter", "base: half\nevaluate: {benchmarks: [winoground]}\ngrid: {methods: [c2lip, clic]}\n")
    params = read.load_params(read.GRIDS / "quarter.yaml", ["wise_ft.methods=[]"])
    assert params.methods.keys() == {"c2lip", "clic"} and params.benchmarks.keys() == {"winoground"}
    assert params.methods["clic"]["variants"] == {} and params.grid.seeds == [7]


def test_a_base_is_looked_for_beside_the_grid_first(project):
    Path("mine.yaml").write_text("base: half\ngrid: {seeds: [3]}\n")
    assert read.load_params("mine.yaml").grid.seeds == [3]
    Path("half.yaml").write_text("base: whole\ntrain: {lr: 0.5}\n")
    assert read.load_params("mine.yaml").train.lr == 0.5


def test_a_group_of_benchmarks_keeps_them_all(project):
    path = write("zero", "base: whole\nevaluate: {benchmarks: [zeroshot]}\nreport: {columns: []}\n")
    assert read.load_params(path).evaluate.benchmarks == ["zeroshot_symbols", "zeroshot_colours"]


REFUSED = {  # the key's value, and what the line names
    "nobody": ("nobody", "no file nobody.yaml beside it"),
    "itself": ("grid", "circle"),
    "each other": ("other", "circle"),
    "folder above": ("../whole", "must be letters"),
    "absolute": ("/etc/passwd", "must be letters"),
    "link": ("linked", "no file linked.yaml beside it"),
    "list": ("[whole]", "must be letters"),
    "variable": ("${oc.env:HOME}", "must be letters"),
    "other kinds": ("mixed", "Cannot merge"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_base_is_one_line_that_names_the_file(project, case):
    value, fault = REFUSED[case]
    path = write("grid", f"base: {value}\ngrid: {{seeds: [1]}}\n")
    write("other", "base: grid\n")
    write("mixed", "grid: [1]\n")
    Path("elsewhere").write_text("secret: [1]\n")
    os.symlink("../../elsewhere", read.GRIDS / "linked.yaml")
    with pytest.raises(UserError, match=fault) as error:
        read.load_params(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_params_yaml_is_whole(project):
    """DVC reads it as it stands."""
    Path("params.yaml").write_text("base: whole\n")
    with pytest.raises(UserError, match="^params.yaml: base=whole: .*config use"):
        read.load_params()


def test_use_writes_it_out(project, capsys):
    """With its head and all values; a copy of it is nobody's edit."""
    half = read.GRIDS / "half.yaml"
    assert config_command.main(["use", str(half)]) == 0
    assert read.load_params() == read.load_params(half)
    text = Path("params.yaml").read_text()
    assert text.startswith("# Half of it. And more.\n#") and "base:" not in text
    assert config_command.main(["use", str(read.GRIDS / "whole.yaml")]) == 0
    assert Path("params.yaml").read_text() == SHIPPED_PARAMS.read_text()
    Path("params.yaml").write_text(text + "tune: {trials: 0}\n")
    with pytest.raises(UserError, match="has uncommitted edits"):
        config_command.main(["use", str(half)])
