"""params.yaml: every mistake is one line with key, value and fix, and nothing is written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip import config
from compclip.errors import UserError, entry
from tests.conftest import ROOT

PARAMS = ROOT / "params.yaml"


def test_the_shipped_grid():
    """Seven methods, two seeds; every grid file of experiments/ is valid too."""
    params = config.load(PARAMS)
    assert len(config.cells(params)) == 14
    assert config.cells(params)[0].name == "pretrained-scenes-scenes-0"
    for grid in sorted((ROOT / "experiments" / "grids").glob("*.yaml")):
        assert config.cells(config.load(grid)), grid


@pytest.mark.parametrize("override,message", [
    ("train.lrr=3", r"train: unknown key 'lrr'; did you mean 'lr'"),
    ("trian.lr=3", r"unknown section 'trian'; did you mean 'train'\?"),
    ("train.lr=fast", r"train.lr='fast': must be float"),
    ("train.lr=-1", r"train.lr=-1.0: must be > 0"),
    ("train.lr=nan", r"train.lr=nan: must be > 0"),
    ("train.epochs=0", r"train.epochs=0.0: must be > 0"),
    ("train.batch_size=1", r"train.batch_size=1: must be >= 2"),
    ("train.beta2=1", r"train.beta2=1.0: must be < 1"),
    ("train.trainable=txet", r"unknown trainable 'txet'; did you mean 'text'\?"),
    ("methods.fsc_clip.gama=1", r"methods.fsc_clip: unknown key 'gama'; did you mean 'gamma'\?"),
    ("methods.fsc_clip.gamma=-1", r"methods.fsc_clip.gamma=-1.0: must be >= 0"),
    ("methods.fsc_clip.train.lr=0", r"methods.fsc_clip.train.lr=0.0: must be > 0"),
    ("methods.clip_fsc={}", r"unknown method 'clip_fsc'; did you mean"),
    ("grid.methods=[negclp]", r"grid.methods: unknown method 'negclp'; did you mean 'negclip'"),
    ("grid.methods=[fsc_clip.local]", r"methods.fsc_clip.variants: unknown variant 'local'"),
    ("grid.methods=[]", r"grid.methods=\[\]: must name at least one"),
    ("grid.seeds=[0,0]", r"grid.seeds=\[0, 0\]: a value stands twice"),
    ("grid.seeds=[-1]", r"seeds must be >= 0"),
    ("grid.data=[scene]", r"grid.data: unknown data 'scene'; did you mean 'scenes'\?"),
    ("grid.backbones=[vit]", r"grid.backbones: unknown backbone 'vit'; known: scenes"),
    ("evaluate.benchmarks=[sugarcrap]", r"unknown benchmark 'sugarcrap'; did you mean 'sugarcrepe'"),
    ("benchmarks.retrieval.benchmark=retreival", r"unknown benchmark 'retreival'; did you mean 'retrieval'\?"),
    ("data.scenes.source=karpaty", r"unknown source 'karpaty'; did you mean 'karpathy'\?"),
    ("data.scenes.captioner=blip", r"'blip'; known: none, scenes"),
    ("data.scenes.path=''", r"data.scenes.path: must be given"),
    ("scenes.records=0", r"scenes.records=0: must be at least 1"),
    ("train", r"override 'train': must be key=value"),
])
def test_mistakes(override, message):
    """Each mistake names the key, the value and what would be right."""
    with pytest.raises(UserError, match=message):
        config.load(PARAMS, [override])


def test_code_two_and_one_line(monkeypatch, capsys):
    """The command ends with exit code 2 and one line on stderr."""
    monkeypatch.setattr("sys.argv", ["config", "check", "--params", str(PARAMS), "train.lrr=1"])
    assert entry(config.main) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text,message", [
    ("grid: [", "not YAML"),
    ("- a\n- b\n", "must be a mapping"),
])
def test_broken_files(tmp_path, text, message):
    """YAML errors name the file."""
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(UserError, match=f"p.yaml: .*{message}"):
        config.load(tmp_path / "p.yaml")


def test_invalid_utf8_and_missing_file(tmp_path):
    """Bytes that are no text, and a file that is not there."""
    (tmp_path / "p.yaml").write_bytes(b"grid: \xff\xfe")
    with pytest.raises(UserError, match="p.yaml: not YAML"):
        config.load(tmp_path / "p.yaml")
    with pytest.raises(UserError, match="none.yaml: no such file"):
        config.load(tmp_path / "none.yaml")


def test_scientific_numbers_are_numbers():
    """1e-6 without a dot is a float, as OmegaConf's reader has it and PyYAML's does not."""
    assert config.load(PARAMS, ["train.lr=1e-6"]).train.lr == 1e-6


def test_variants_overlay_their_method():
    """A variant changes what it names, in parameters and in training, and keeps the rest."""
    overrides = ["methods.fsc_clip.variants.local.lambda_global=0", "methods.fsc_clip.variants.local.train.lr=1e-3",
                 "grid.methods=[fsc_clip,fsc_clip.local]"]
    params = config.load(PARAMS, overrides)
    plain, local = (config.resolve(params, f"{m}-scenes-scenes-0") for m in params.grid.methods)
    assert (plain.method.lambda_global, local.method.lambda_global) == (0.5, 0.0)
    assert local.method.lambda_local == plain.method.lambda_local
    assert (plain.train.lr, local.train.lr) == (params.train.lr, 1e-3)


@settings(max_examples=10)
@given(lr=st.floats(1e-8, 1.0), epochs=st.floats(0.1, 30.0), gamma=st.floats(0, 10), seed=st.integers(0, 2**31))
def test_config_yaml_reproduces_the_run(tmp_path_factory, lr, epochs, gamma, seed):
    """Written and read again, a run is equal in every number."""
    overrides = [f"train.lr={lr!r}", f"train.epochs={epochs!r}", f"methods.fsc_clip.gamma={gamma!r}",
                 f"grid.seeds=[{seed}]"]
    run = config.resolve(config.load(PARAMS, overrides), f"fsc_clip-scenes-scenes-{seed}")
    path = tmp_path_factory.mktemp("c") / "config.yaml"
    path.write_text(config.to_yaml(run))
    assert config.from_yaml(path) == run


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git repository with params.yaml committed and another grid beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PARAMS, tmp_path / "params.yaml")
    other = (tmp_path / "params.yaml").read_text().replace("seeds: [0, 1]", "seeds: [7]")
    (tmp_path / "other.yaml").write_text(other)
    for command in (["init", "-q"], ["add", "params.yaml"],
                    ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "params"]):
        subprocess.run(["git", *command], check=True)
    return tmp_path


def test_use_switches_the_grid(repository, capsys):
    """A committed params.yaml is replaced by the bytes of the other file."""
    assert config.main(["use", "other.yaml"]) == 0
    assert (repository / "params.yaml").read_bytes() == (repository / "other.yaml").read_bytes()
    assert config.load("params.yaml").grid.seeds == [7]


def test_use_refuses_to_overwrite_edits(repository):
    """Uncommitted edits stay, unless --force."""
    edited = (repository / "params.yaml").read_text() + "# mine\n"
    (repository / "params.yaml").write_text(edited)
    with pytest.raises(UserError, match="params.yaml: has uncommitted edits"):
        config.main(["use", "other.yaml"])
    assert (repository / "params.yaml").read_text() == edited
    assert config.main(["use", "other.yaml", "--force"]) == 0


def test_use_checks_first(repository):
    """An invalid grid leaves params.yaml as it is."""
    before = (repository / "params.yaml").read_bytes()
    Path("bad.yaml").write_text("grid: {methods: [x]}\n")
    with pytest.raises(UserError):
        config.main(["use", "bad.yaml"])
    assert (repository / "params.yaml").read_bytes() == before
