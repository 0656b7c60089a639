"""The plan: an edit of a module or of a parameter changes exactly the plan files of what it can change."""

from collections import Counter

import pytest
from omegaconf import OmegaConf

from compclip.base import code_hash
from compclip.config import plan, read, training_code
from compclip.config.sections import Params
from tests.conftest import ROOT
from tests.pipeline.test_layers import PACKAGE
from tests.shipped_files import SHIPPED_PARAMS

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
    return {f"{stage}/{item}": document for stage, item, document in plan.build_documents(params)}


@pytest.fixture(scope="module")
def original_documents() -> dict[str, dict]:
    return documents(read.load_params(SHIPPED_PARAMS, EVERY))


def test_an_edit_of_a_module_changes_what_imports_it(monkeypatch):
    """By the modules of each document's code, which tests/base/test_code_hash.py compares with what importing runs."""
    with monkeypatch.context() as patch:
        patch.setattr(plan, "_hash_entries", lambda *entries: (entries, ()))
        patch.setattr(
            training_code, "hash_training_code", lambda m: (training_code.entries(m), training_code.left_out(m))
        )
        planned = documents(read.load_params(SHIPPED_PARAMS, [*EVERY, "tune.trials=2"]))
    assert {name.partition("/")[0] for name in planned} == plan.ENTRIES.keys()
    counts = Counter()
    for entries, without in (document["code"] for document in planned.values()):
        counts.update(list(code_hash.find_modules(*entries, without=without)))
    assert counts["compclip"] == len(planned) == counts["compclip.base.errors"] + len(METHODS)
    assert counts["compclip.methods.clic"] == 2  # its training, and the report, which judges claims on methods
    assert counts["compclip.launch.slurm"] == 1  # tune, which sends trials
    assert counts["compclip.__main__"] == 0
    assert counts["compclip.runs.run_table"] == 2  # track, which shows runs under way, and tune, whose studies go to it


def test_the_plan_has_the_digest_of_its_entries(original_documents):
    """What the test above takes for granted."""
    assert original_documents["train/clic"]["code"] == training_code.hash_training_code("clic")
    assert original_documents["benchmark/valse"]["code"] == code_hash.hash_code(
        "compclip.evaluate.benchmark_module", "compclip.benchmarks.valse"
    )
    sources = ("compclip.prepare.sources.flickr8k", "compclip.prepare.captioners.endpoint")
    assert original_documents["recaption/other"]["code"] == code_hash.hash_code(
        "compclip.prepare.recaption_shards", *sources
    )


METHODS = [f"train/{m}" for m in ("pretrained", "finetune", "negclip", "clic", "fsc_clip", "c2lip", "hard_positives")]
EVALUATE = [f"evaluate/{name.partition('/')[2]}" for name in METHODS]
BLIND = ["blind/scenes", "blind/other"]
EDITS = [
    ("train.lr=1e-4", [m for m in METHODS if m != "train/clic"]),  # which has a rate of its own
    ("methods.clic.lambda_uni=0.5", ["train/clic"]),
    ("methods.fsc_clip.train.epochs=2", ["train/fsc_clip"]),
    ("methods.clic.per_data.other={lambda_cont: 1.0}", ["train/clic"]),
    ("methods.fsc_clip.variants.x={gamma: 1}", []),
    ("backbones.scenes.activation=gelu", ["backbone/scenes", *METHODS]),
    ("data.other.limit=7", ["recaption/other", *METHODS]),
    ("data.other.options.model=n", ["recaption/other", *METHODS]),
    ("data.other.rewriter.model=n", ["rewrite/other", *METHODS]),
    ("data.scenes.rewriter={url: 'http://x', model: m}", ["rewrite/scenes", "annotate/scenes", *METHODS]),
    ("benchmarks.valse.split=plurals", ["benchmark/valse", "wise_ft/fsc_clip"]),
    ("benchmarks.retrieval.split=train", ["benchmark/retrieval", *EVALUATE, *BLIND]),
    ("evaluate.blind=[length]", BLIND),
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
def test_an_edit_of_a_parameter_changes_what_it_means(original_documents, override, files):
    """By hand for each section; the data set's own section is in a run's config.yaml."""
    changed_documents = documents(read.load_params(SHIPPED_PARAMS, [*EVERY, override]))
    assert changed_documents.keys() <= original_documents.keys()
    assert {name for name in original_documents if original_documents[name] != changed_documents.get(name)} == set(
        files
    )


def test_files_come_and_go_and_stay(original_documents, tmp_path):
    """A method that leaves the grid takes its files along; the same parameters give the same bytes."""
    plan.write_plan(read.load_params(SHIPPED_PARAMS, EVERY), tmp_path)
    first = {p: p.read_bytes() for p in tmp_path.rglob("*.json")}
    assert {str(p.relative_to(tmp_path).with_suffix("")) for p in first} == original_documents.keys()
    plan.write_plan(read.load_params(SHIPPED_PARAMS, EVERY), tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.json")} == first
    plan.write_plan(read.load_params(SHIPPED_PARAMS, [*EVERY, "grid.methods=[pretrained,fsc_clip]"]), tmp_path)
    gone = {str(p.relative_to(tmp_path).with_suffix("")) for p in first.keys() - set(tmp_path.rglob("*.json"))}
    assert gone == {name for name in (*METHODS, *EVALUATE) if name.partition("/")[2] not in ("pretrained", "fsc_clip")}


def test_dvc_yaml_names_no_code():
    """Every stage depends on its own plan file, on keys or on data, and runs a module that reaches what the plan names.

    None depends on runs/: trained/ tells whether one is another.
    """
    files = [OmegaConf.load(ROOT / name) for name in ("dvc.yaml", "experiments/scenes/dvc.yaml")]
    stages = {**files[0].stages, **files[1].stages}
    assert stages.keys() == plan.ENTRIES.keys() | {"plan", "look", "keys"}
    for name, declared in stages.items():
        stage = OmegaConf.to_container(declared, resolve=False)
        definition = stage.get("do", stage)
        deps = definition["deps"]
        assert not [dep for dep in deps if dep.startswith("compclip") or dep.endswith(".py")], name
        assert not [dep for dep in deps if dep.split("/")[0] == "runs"], f"{name}: DVC would walk all runs for it"
        assert "params" not in definition
        if name in plan.ENTRIES:
            prefix = "keys/${item}.json" if name == "train" else f"plan/{name}"
            assert [dep for dep in deps if dep.startswith(prefix)], name
            commands = definition["cmd"] if isinstance(definition["cmd"], list) else [definition["cmd"]]
            module = commands[-1].removeprefix("python -m ").split()[0]
            main = f"{module}.__main__" if (PACKAGE.parent / module.replace(".", "/")).is_dir() else module
            assert plan.ENTRIES[name] in code_hash.find_modules(main), name
