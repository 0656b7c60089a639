"""The plan: an edit of a module or of a parameter changes exactly the plan files of what it can change."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from compclip.base import code
from compclip.base.errors import UserError
from compclip.config import plan, read
from compclip.config.sections import Params
from compclip.config.written import plain_yaml
from tests.conftest import ROOT
from tests.test_layers import PACKAGE, imports, modules, own

PARAMS = ROOT / "params.yaml"
EVERY = [  # a stage of each kind, and plug-ins of each kind
    "grid.methods=[pretrained,finetune,negclip,clic,fsc_clip,c2lip,hard_positives]",
    "grid.data=[scenes,other]",
    "data.other={source: flickr8k, path: p, images: i, captioner: endpoint, options: {url: 'http://x', model: m}}",
    "data.other.rewriter={url: 'http://x', model: m}",
    "benchmarks.valse={path: p, images: i}",
    "wise_ft={methods: [fsc_clip], seeds: [0], benchmarks: [valse]}",
    "methods.negclip.hard_images=1",
]


def documents(params: Params) -> dict[str, dict]:
    """Every document of the plan, by stage/item."""
    return {f"{stage}/{item}": document for stage, item, document in plan.documents(params)}


@pytest.fixture(scope="module")
def before() -> dict[str, dict]:
    """Every document of the plan of the parameters above."""
    return documents(read.load(PARAMS, EVERY))


def test_the_text_of_a_run_is_what_would_be_written_of_it(before):
    """As a later stage reads it: JSON keeps neither tuples nor names."""
    plans = [json.loads(json.dumps(document)) for name, document in before.items() if name.startswith("train/")]
    assert len(plans) == 7
    for made in plans:
        assert made["texts"] == {name: plain_yaml(run) for name, run in made["cells"].items()}


def reached(entries: tuple[str, ...]) -> set[str]:
    """The modules of the package that importing these may run, worked out without `compclip.base.code`."""
    known, found = modules(), {"__init__"}
    ahead = [entry.removeprefix("compclip.") for entry in entries]
    while ahead:
        name = ahead.pop()
        if name not in found and name in known:
            found.add(name)
            ahead += [target for i in imports(known[name], types=False) if (target := own(i, known))]
            ahead.append(name.rpartition(".")[0])
    return found


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> dict[str, Path]:
    """A copy of the package, in which the closure of code is looked for: its modules and their files."""
    copy = shutil.copytree(PACKAGE, tmp_path / "compclip", ignore=shutil.ignore_patterns("__pycache__", "*.j2"))
    files = {name: copy / path.relative_to(PACKAGE) for name, path in modules().items()}
    files["__init__"] = copy / "__init__.py"
    by_name = {"compclip" if name == "__init__" else f"compclip.{name}": file for name, file in files.items()}
    monkeypatch.setattr(code, "_file", by_name.get)
    return files


def test_an_edit_of_a_module_changes_what_imports_it(scratch, monkeypatch):
    """Each module in turn, against a transitive analysis of its own: exactly those files, and for most modules not all."""
    with monkeypatch.context() as patch:
        patch.setattr(plan, "_digest", lambda *entries: entries)
        asked = {name: document["code"] for name, document in documents(read.load(PARAMS, EVERY)).items()}
    assert {name.partition("/")[0] for name in asked} == plan.ENTRIES.keys()
    expected = {entries: reached(entries) for entries in set(asked.values())}
    before = {entries: code.digest(*entries) for entries in expected}
    counts = {}
    for name, file in scratch.items():
        text = file.read_bytes()
        file.write_bytes(text + b"\n# edited\n")
        stale = {entries for entries in expected if code.digest(*entries) != before[entries]}
        file.write_bytes(text)
        assert stale == {entries for entries, found in expected.items() if name in found}, name
        counts[name] = sum(entries in stale for entries in asked.values())
    assert counts["__init__"] == counts["base.errors"] == len(asked)
    assert counts["methods.clic"] == 2  # its training, and the report, which judges claims on methods
    assert counts["runs.status"] == counts["launch.slurm"] == counts["__main__"] == 0


def test_the_plan_has_the_digest_of_its_entries(before):
    """What the test above takes for granted."""
    made = before
    assert made["train/clic"]["code"] == code.digest("compclip.train.finish", "compclip.methods.clic")
    assert made["benchmark/valse"]["code"] == code.digest("compclip.evaluate.census", "compclip.benchmarks.valse")
    sources = ("compclip.data.sources.flickr8k", "compclip.data.captioners.endpoint")
    assert made["recaption/other"]["code"] == code.digest("compclip.data.recaption", *sources)


METHODS = [f"train/{m}" for m in ("pretrained", "finetune", "negclip", "clic", "fsc_clip", "c2lip", "hard_positives")]
EVALUATE = [f"evaluate/{name.partition('/')[2]}" for name in METHODS]
EDITS = [
    ("train.lr=1e-4", [m for m in METHODS if m != "train/clic"]),  # which has a rate of its own
    ("methods.clic.lambda_uni=0.5", ["train/clic"]),
    ("methods.fsc_clip.train.epochs=2", ["train/fsc_clip"]),
    ("methods.fsc_clip.variants.x={gamma: 1}", []),
    ("backbones.scenes.activation=gelu", ["backbone/scenes", *METHODS]),
    ("data.other.limit=7", ["recaption/other", *METHODS]),
    ("data.other.options.model=n", ["recaption/other", *METHODS]),
    ("data.other.rewriter.model=n", ["rewrite/other", *METHODS]),
    ("data.scenes.rewriter={url: 'http://x', model: m}", ["rewrite/scenes", "annotate/scenes", *METHODS]),
    ("benchmarks.valse.split=plurals", ["benchmark/valse", "wise_ft/fsc_clip"]),
    ("benchmarks.retrieval.split=train", ["benchmark/retrieval", *EVALUATE]),
    ("evaluate.batch_size=7", [*EVALUATE, "wise_ft/fsc_clip"]),
    ("wise_ft.alphas=[0,0.5,1]", ["wise_ft/fsc_clip"]),
    ("report.reference=negclip", ["report/report", "track/track"]),
    ("scenes.train=7", ["scenes/scenes"]),
    ("grid.seeds=[0]", [*METHODS, *EVALUATE, "report/report", "track/track"]),
    ("methods.negclip.hard_images=2", ["train/negclip"]),
    ("methods.negclip.hard_images=0", ["train/negclip", "neighbours/neighbours"]),
    (
        "grid.data=[scenes]",
        [*METHODS, *EVALUATE, "neighbours/neighbours", "wise_ft/fsc_clip", "report/report", "track/track"],
    ),
]


@pytest.mark.parametrize("override,files", EDITS, ids=[override for override, _ in EDITS])
def test_an_edit_of_a_parameter_changes_what_it_means(before, override, files):
    """By hand for each section; the data set's own section stands in a run's config.yaml."""
    after = documents(read.load(PARAMS, [*EVERY, override]))
    assert after.keys() <= before.keys()
    assert {name for name in before if before[name] != after.get(name)} == set(files)


def test_files_come_and_go_and_stay(before, tmp_path):
    """A method that leaves the grid takes its files along; the same parameters give the same bytes."""
    plan.write(read.load(PARAMS, EVERY), tmp_path)
    first = {p: p.read_bytes() for p in tmp_path.rglob("*.json")}
    assert {str(p.relative_to(tmp_path).with_suffix("")) for p in first} == before.keys()
    plan.write(read.load(PARAMS, EVERY), tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.json")} == first
    plan.write(read.load(PARAMS, [*EVERY, "grid.methods=[pretrained,fsc_clip]"]), tmp_path)
    gone = {str(p.relative_to(tmp_path).with_suffix("")) for p in first.keys() - set(tmp_path.rglob("*.json"))}
    assert gone == {name for name in (*METHODS, *EVALUATE) if name.partition("/")[2] not in ("pretrained", "fsc_clip")}


def test_dvc_yaml_names_no_code():
    """Every stage depends on its own plan file, on keys or on data, and runs a module that reaches what the plan names.

    None depends on runs/: trained/ tells whether one is another.
    """
    stages = OmegaConf.to_container(OmegaConf.load(ROOT / "dvc.yaml"), resolve=False)["stages"]
    assert stages.keys() == plan.ENTRIES.keys() | {"plan", "look", "keys"}
    for name, stage in stages.items():
        told = stage.get("do", stage)
        deps = told["deps"]
        assert not [dep for dep in deps if dep.startswith("compclip") or dep.endswith(".py")], name
        assert not [dep for dep in deps if dep.split("/")[0] == "runs"], f"{name}: DVC would walk all runs for it"
        assert "params" not in told
        if name in plan.ENTRIES:
            wanted = "keys/${item}.json" if name == "train" else f"plan/{name}"
            assert [dep for dep in deps if dep.startswith(wanted)], name
            module = told["cmd"].removeprefix("python -m ").split()[0]
            main = f"{module}.__main__" if (PACKAGE.parent / module.replace(".", "/")).is_dir() else module
            assert plan.ENTRIES[name] in code.closure(main), name


@pytest.mark.parametrize(
    "held", ['{"cells": 3}', '{"cells": {"a": {"cell": {"method": "a/b"}}}}', '{"cells": {"a": {}}}', "{}"]
)
@pytest.mark.parametrize("stage", ["evaluate", "wise_ft"])
def test_a_damaged_plan_is_one_line(tmp_path, monkeypatch, stage, held):
    """Of the stages that take it apart, which write nothing."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "plan" / stage / "clic.json"
    path.parent.mkdir(parents=True)
    path.write_text(held)
    command = importlib.import_module(
        {"evaluate": "compclip.evaluate.__main__"}.get(stage, f"compclip.evaluate.{stage}")
    )
    with pytest.raises(
        UserError, match="clic.json: damaged .*; run `dvc repro plan` again|method 'a/b': must be letters"
    ):
        command.main(["--method", "clic"])
    assert not (tmp_path / "results").exists()
