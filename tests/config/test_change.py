"""`config set` and `config vary`: what is named changes where it stands, everything else keeps every byte."""

import difflib
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.config import __main__ as config_command
from compclip.config import change, grid, read
from tests.shipped_files import SHIPPED_PARAMS, SHIPPED_PROJECT, list_shipped

SHARED = "rates"  # a grid that writes its variants once for several methods
# Layouts of a grid: no list of methods, sections in brackets, a method in brackets, one without variants, one with some.
LAYOUTS = ("authors_programs", "every_benchmark", "first_hour", "hybrid", "fair_coco")
GRIDS = [
    pytest.param(path, id=path.stem, marks=() if path.stem in LAYOUTS else pytest.mark.long)
    for path in list_shipped("experiments/grids/*.yaml")
    if path.stem != SHARED
]


@pytest.fixture
def params(tmp_path, monkeypatch):
    """The shipped grid, alone in a project."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHIPPED_PARAMS, tmp_path / "params.yaml")
    (tmp_path / "experiments").symlink_to(SHIPPED_PROJECT / "experiments")
    return tmp_path / "params.yaml"


def list_lines(before: str, after: str) -> list[str]:
    """The lines that are no more, and those that are new."""
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "-+"]


def test_values_are_set_where_they_stand(params, capsys):
    """As they were typed; the command shows the lines, and the grid has the values."""
    before = params.read_text()
    assert config_command.main(["set", "train.lr=1e-5", "grid.seeds=[0,1,2]", "methods.clic.positives=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["-  seeds: [0, 1]", "+  seeds: [0,1,2]", "-  lr: 1.5e-4", "+  lr: 1e-5"]
    assert len(list_lines(before, params.read_text())) == len(lines) == 6
    assert read.load_params(params).train.lr == 1e-5 and len(read.load_params(params).grid.seeds) == 3


def test_variants_are_declared_and_trained(params, capsys):
    """One for each combination, named by its values; the same words again change nothing."""
    assert config_command.main(["vary", "fsc_clip", "gamma=1.5,3", "train.lr=1e-6,1e-5"]) == 0
    names = [f"gamma_{gamma}_lr_{lr}" for gamma in ("1p5", "3") for lr in ("1e-6", "1e-5")]
    assert f"+      {names[0]}: {{gamma: 1.5, train: {{lr: 1e-6}}}}\n" in capsys.readouterr().out
    loaded = read.load_params(params)
    assert loaded.grid.methods[-4:] == [f"fsc_clip.{name}" for name in names]
    method, train = grid.method_config(loaded, f"fsc_clip.{names[1]}")
    assert (method.gamma, train.lr, method.epsilon) == (1.5, 1e-5, 0.02)
    text = params.read_text()
    assert config_command.main(["vary", "fsc_clip", "gamma=3", "train.lr=1e-5"]) == 0
    assert config_command.main(["vary", "fsc_clip", "gamma=3,1.5", "train.lr=1e-5"]) == 0
    assert params.read_text() == text and "nothing changed" in capsys.readouterr().out


@pytest.mark.parametrize("path", GRIDS)
def test_shipped_grids_keep_what_is_not_named(path, tmp_path, monkeypatch):
    """All of their lines but the few that hold what is named, and all of their values; each edit alone for every grid is
    in test_edit_params.py."""
    monkeypatch.chdir(SHIPPED_PROJECT)
    monkeypatch.setattr(read, "GRIDS", path.parent)
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    before, values = path.read_text(), OmegaConf.to_container(OmegaConf.load(path))
    methods = read.read_with_overrides(path, ()).grid.methods
    changed = change.set_values(copy, ["train.lr=2.5e-3", "train.epochs=7"])
    changed += change.vary_method(copy, "finetune", ["train.lr=1e-6,0.5"])
    lines = list_lines(before, copy.read_text())
    assert {line[2:] for line in lines if line[0] == "-"} <= {line[1:] for line in changed if line[0] == "-"}
    assert len([line for line in lines if line[0] == "-"]) <= 5
    after = OmegaConf.to_container(OmegaConf.load(copy))
    assert (after["train"].pop("lr"), after["train"].pop("epochs")) == (2.5e-3, 7)
    assert after["grid"].pop("methods") == [*methods, "finetune.lr_1e-6", "finetune.lr_0p5"]
    values.setdefault("grid", {}).pop("methods", None)
    variants = after["methods"]["finetune"]["variants"]
    assert (variants.pop("lr_1e-6"), variants.pop("lr_0p5")) == ({"train": {"lr": 1e-6}}, {"train": {"lr": 0.5}})
    for sections in (values, after):
        for key in ("lr", "epochs"):
            sections.setdefault("train", {}).pop(key, None)
        finetune = sections.setdefault("methods", {}).setdefault("finetune", {})
        if not finetune.get("variants"):
            finetune.pop("variants", None)
    assert after == values


@pytest.mark.parametrize(("words", "message"), [
    (["set", "train.lrr=1"], r"params.yaml: train: unknown key 'lrr'; did you mean 'lr'"),
    (["set", "train.lr=fast"], r"train.lr='fast': must be float"),
    (["set", "train.lr"], r"train.lr: must be key=value"), (["set", "train.lr="], "train.lr=: must be key=value"),
    (["set", "grid.seeds=0,1"], "grid.seeds=0,1: is not one value; write a list in brackets"),
    (["set", "data.scenes.path=a: b"], "is a mapping; put it into {}, or a text into quotes"),
    (["set", "data.scenes.path=a # b"], "is not valid YAML; put a text into quotes"),
    (["set", "data.scenes.path='a"], "is not valid YAML"),
    (["set", "train.lr.min=1"], "train.lr: is not a mapping, so 'min' cannot be added"),
    (["set", "grid.methods=[negclp]"], "unknown method 'negclp'; did you mean 'negclip'"),
    (["vary", "negclp", "train.lr=1"], "unknown method 'negclp'"),
    (["vary", "negclip", "train.lr=fast,slow"], "train.lr='fast': must be float"),
    (["vary", "negclip.a", "train.lr=1"], "negclip.a: is a variant, which cannot have variants"),
    (["vary", "clic", f"train.lr={'1' * 80}"], "variant of clic .* rename it"),
])  # fmt: skip
def test_what_is_refused_leaves_the_file(params, words, message):
    before = params.read_bytes()
    with pytest.raises(UserError, match=message):
        config_command.main(words)
    assert params.read_bytes() == before and [path.name for path in params.parent.iterdir()].count("params.yaml") == 1


def test_a_value_written_for_two_keys(params):
    """Setting one would set the other; that is said."""
    text = params.read_text().replace("  finetune:\n    caption: first\n", "  finetune: &first\n    caption: first\n")
    params.write_text(
        text.replace("  negclip:  #", "  c2lip: *first\n  negclip:  #", 1).replace("  c2lip:  #", "  degla:  #")
    )
    before = params.read_bytes()
    with pytest.raises(UserError, match="methods.finetune.caption would change as well"):
        change.set_values(params, ["methods.c2lip.caption=all"])
    assert params.read_bytes() == before


def test_variants_that_several_methods_have(params):
    """One more of the first method would be one of the others too."""
    path = next(path for path in list_shipped(f"experiments/grids/{SHARED}.yaml"))
    shutil.copy(path, "mine.yaml")
    with pytest.raises(UserError, match=r"methods.\w+.variants.lr_2.train.lr would change as well"):
        change.vary_method("mine.yaml", "finetune", ["train.lr=2"])


def test_a_grid_over_a_base_keeps_the_methods_of_the_base(params):
    """`vary` adds to the list that holds, not to an empty one."""
    Path("mine.yaml").write_text("base: params\ntrain: {lr: 1.0e-3}\n")
    change.vary_method("mine.yaml", "finetune", ["train.lr=1e-6"])
    methods = read.load_params("mine.yaml").grid.methods
    assert methods == [*read.load_params(params).grid.methods, "finetune.lr_1e-6"]
