"""Names of params.yaml become paths and words of shell commands: one rule, before anything is done."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName
from compclip.config import __main__ as config_command
from compclip.config import read
from compclip.config.cell import Cell
from compclip.config.grid import parse_cell
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import wise_ft
from compclip.model import __main__ as model_command
from compclip.prepare import shard_stages
from compclip.runs import __main__ as runs_command
from compclip.runs import run_store
from compclip.runs.run_folder import RunFolder, Trained
from compclip.sweep import __main__ as sweep_command
from compclip.train import __main__ as train_command
from compclip.train import job as train_job
from tests.conftest import ROOT
from tests.tiny_project import PARAMS, environment

BAD = "y$(touch X)"
TABLES = {
    "data": "{source: karpathy, path: a, images: b, captioner: none}", "backbones": "{model: tiny.json}",
    "benchmarks": "{benchmark: sugarcrepe, path: a, images: b}", "methods": "{}",
}  # fmt: skip
RULE = "must be letters, digits and _ . [+] -, begin with none of"


@pytest.fixture
def params(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS.replace("STEPS", "10"))
    return Path("params.yaml")


def add(params: Path, section: str, text: str) -> None:
    """Write another entry into a table."""
    original = params.read_text()
    assert f"\n{section}: {{" in original
    params.write_text(original.replace(f"\n{section}: {{", f"\n{section}: {{{text}, "))


@pytest.mark.parametrize("section", TABLES)
def test_the_tables(params, section):
    """Refused as they are read, in one line, with nothing written; which names are: tests/base/test_safe_names.py."""
    add(params, section, f"{json.dumps(BAD)}: {TABLES[section]}")
    with pytest.raises(UserError, match=f"params.yaml: {section.removesuffix('s')} .*{RULE}") as error:
        config_command.main(["plan"])
    assert "\n" not in str(error.value)
    assert os.listdir() == ["params.yaml"]


@pytest.mark.parametrize(("section", "name"), [("data", "fingerprints"), ("data", "benchmarks"),
                                               ("data", "scenes_world"), ("benchmarks", "summary")])  # fmt: skip
def test_names_of_the_project_s_own(params, section, name):
    """Their files would be overwritten by others of the project's."""
    add(params, section, f"{name}: {TABLES[section]}")
    with pytest.raises(UserError, match=f"'{name}': is reserved for files of the project; choose another name"):
        read.load_params(params)


@pytest.mark.parametrize(("text", "fault"), [
    ("_wise_ft: {}", "unknown method '_wise_ft'"),  # results/_wise_ft: a method's name begins with a letter
    (f"clic: {{variants: {{{json.dumps(BAD)}: {{}}}}}}", f"variant of clic .*{RULE}"),
])  # fmt: skip
def test_methods_and_variants(params, text, fault):
    add(params, "methods", text)
    with pytest.raises(UserError, match=fault):
        read.load_params(params)


@pytest.mark.parametrize(
    "text", ['["${oc.env:NO_SUCH,finetune}"]', "'${evaluate.benchmarks}'", '["x${grid.seeds[0]}"]']
)
def test_what_dvc_hands_to_a_shell_stands_in_the_file(params, text, monkeypatch):
    """DVC reads the same file and resolves nothing: a shell would get the text as it stands."""
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "NO_SUCH")
    params.write_text(re.sub(r"methods: \[.*?\]", lambda _: f"methods: {text}", params.read_text(), count=1))
    with pytest.raises(UserError, match=r"grid.methods=.*: DVC resolves no interpolations; write it out"):
        read.load_params(params)


@pytest.mark.parametrize("text", [
    "{benchmark: sugarcrepe, path: '${oc.env:ROOT}/x', images: i}",
    "{benchmark: sugarcrepe, path: p, images: '${data.scenes.images}'}", "'${benchmarks.sugarcrepe}'",
])  # fmt: skip
def test_what_dvc_takes_for_a_path_stands_in_the_file(params, text, monkeypatch):
    """DVC would look for a file of the name `${oc.env:ROOT}/x`."""
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "ROOT")
    monkeypatch.setenv("ROOT", "/somewhere")
    add(params, "benchmarks", f"y: {text}")
    with pytest.raises(UserError, match=r"benchmarks.y.*=.*: DVC resolves no interpolations; write it out"):
        read.load_params(params)


@pytest.mark.usefixtures("forked_commands")
def test_no_shell_sees_a_name(params, monkeypatch):
    """`dvc repro` runs `plan` first, which fails; forced past it, a stage's command has no name in it."""
    add(params, "benchmarks", f'"y$(touch X)": {TABLES["benchmarks"]}')
    params.write_text(params.read_text() + "wise_ft: {methods: []}\n")
    shutil.copy(ROOT / "dvc.yaml", ".")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in (["init", "--no-scm", "--quiet"], ["repro", "--force", "--single-item", "benchmark"]):
        process = subprocess.run(
            [sys.executable, "-m", "dvc", *command], capture_output=True, text=True, env=environment() | {"PATH": path}
        )
    assert process.returncode != 0 and "benchmark 'y$(touch X)': must be letters" in process.stderr
    assert not Path("X").exists()


def test_commands_of_dvc_yaml_name_nothing():
    """What DVC writes into a command is in the file."""
    for path in (ROOT / "dvc.yaml", ROOT / "experiments/scenes/dvc.yaml"):
        raw = OmegaConf.to_container(read.yaml_text.read_yaml(path, "stages"))["stages"]
        assert not [name for name, stage in raw.items() if "${" in str(stage.get("do", stage)["cmd"])]


COMMANDS = {
    "--data": shard_stages.main, "--backbone": model_command.main, "--study": sweep_command.main,
}  # fmt: skip


def test_options_that_name_something(params):
    name = "../../x"
    for option, command in COMMANDS.items():
        with pytest.raises(UserError, match=f"{option} .*{RULE}"):
            command([option, name])
    with pytest.raises(UserError, match=f"--method .*{RULE}"):
        wise_ft.main(["--method", name])
    for command in (train_command.main, evaluate_command.main):
        with pytest.raises(UserError, match=f"--method .*{RULE}"):
            command(["--method", name])
        with pytest.raises(UserError, match="grid: unknown cell"):
            command(["--cell", name])
    with pytest.raises(UserError, match=f"--census .*{RULE}"):
        evaluate_command.main(["--census", name])
    with pytest.raises(UserError, match=f"run key .*{RULE}"):
        train_job.main([name])
    with pytest.raises(UserError, match="unknown run"):
        runs_command.main(["keep", name])
    assert os.listdir() == ["params.yaml"]


def test_run_keys_of_files(tmp_path):
    """runs/ and a shared store are others' files as well: their keys and identities lead nowhere else."""
    path = tmp_path / "runs" / "a" / "b-c-0"
    path.mkdir(parents=True)
    (path / "environment.json").write_text('{"run_key": "../../elsewhere"}')
    with pytest.raises(UserError, match=f"run key '../../elsewhere': {RULE}"):
        run_store.find_folder(Trained(path).run_key, tmp_path)
    (path / "scored.json").write_text('{"identity": "../../.."}')
    with pytest.raises(UserError, match=f"scored.json: identity '../../..': {RULE}"):
        _ = RunFolder(path).results


@pytest.mark.parametrize("bad", ["../x", "a/b", "", ["a"], "x" * 65])
def test_a_cell_has_names_or_there_is_none(bad):
    good = {"method": "clic", "backbone": "a", "data": "b", "seed": 0}
    assert parse_cell(good, "f").folder == "clic/a-b-0"
    for kind in ("method", "backbone", "data"):
        with pytest.raises(
            UserError, match=f"f: {kind} .*: must be letters|f.{kind}(: must be given|=.*: must be str)"
        ):
            parse_cell(good | {kind: bad}, "f")
        with pytest.raises(UserError, match=f"f.{kind}: must be given; add it"):
            parse_cell(good | {kind: None}, "f")
    for seed in (-1, 2**32, True, 1.0):
        with pytest.raises(UserError, match="f.seed=.*: must be (int|>= 0|< 4)"):
            parse_cell(good | {"seed": seed}, "f")


def test_a_cell_s_name_fits_a_file_s():
    """Three names of 64 letters of two bytes do not."""
    with pytest.raises(UserError, match="has more than 200 bytes; shorten the names of the grid"):
        Cell(*(SafeName("é" * 64, "x") for _ in range(3)), 0)


@pytest.mark.parametrize("main", [config_command.main, evaluate_command.main])
def test_a_folder_to_write_is_no_file(params, main):
    argv = ["plan"] if main is config_command.main else ["--checkpoint", "x"]
    with pytest.raises(UserError, match="params.yaml: is no folder; give one, or a name that is free"):
        main([*argv, "--out", "params.yaml"])


def test_a_number_of_another_base_in_an_override_is_refused(params):
    """8 steps are not what `010` says."""
    with pytest.raises(UserError, match=r"override 'train.warmup_steps=010': line 1: 010: YAML takes it for 8"):
        read.load_params(params, ["train.warmup_steps=010"])
