"""All that a grid reads and that is not there is named at once, with the command that brings it, before anything runs."""

import re
import shutil
import socket
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import negbench
from compclip.config import read
from compclip.doctor import __main__ as doctor
from compclip.fetch import missing_inputs
from compclip.fetch.catalogue import load_shipped
from compclip.launch import __main__ as launch
from compclip.launch import grid_check, repro
from compclip.model import hub_cache
from compclip.sweep import __main__ as sweep
from compclip.text import parser_models, wordnet_files
from tests.conftest import ROOT

GRIDS = ROOT / "experiments" / "grids"
NAMED = re.compile(r"\b(?:data/raw|models)/[\w./-]+")  # a path in a grid
HUB = "models--timm--vit_base_patch32_clip_224.openai"
SHIPPED_GRIDS = (
    *("first_hour", "clic_table10", "fair_coco", "hard_positives_table4", "svlc_released"),
    *("read_clip_released", "negbench_checkpoints", "clic_table3"),
)
CLASS_FILES = ("classnames.txt", "zeroshot_classification_templates.txt")
COMPLEXITIES = [
    f"{kind}/prod_vg_hard_negs_{kind}_complexity_{n}" for kind in ("atom", "negate", "swap") for n in range(4, 13)
]
# what no entry of the catalogue brings by its name
BY_HAND = (
    *(f"data/raw/crepe/prod_hard_negatives/{name}.csv" for name in COMPLEXITIES),
    *(f"data/raw/aro/{name}.json" for name in ("coco_order", "flickr30k_order")),
    *(f"data/raw/negbench/{name}" for name in [negbench.FILES[key] for key in negbench.USUAL.split(", ")]),
    "models/distilroberta-base/config.json",
)
OWN = """
grid: {{methods: [pretrained], backbones: [own], data: [photographs], seeds: [0]}}
methods: {{pretrained: {{}}}}
backbones: {{own: {{model: ViT-B-32, weights: models/own.pt}}}}
data:
  photographs:
    source: table
    path: data/raw/{{a,b}}.csv
    images: data/raw/pictures
    captioner: endpoint
    options: {{server: "no_such_program --port {{port}}", model: m}}
    rewriter: {{url: "http://127.0.0.1:{port}/v1", model: m, api_key_env: THEIR_KEY}}
    masked: {{model: models/own_masked}}
benchmarks: {{zeroshot: {{path: data/raw/classes, images: data/raw/classes, split: test.txt}}}}
evaluate: {{benchmarks: [zeroshot]}}
wise_ft: {{methods: []}}
"""


def lay_file(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def lay_grid(folder: Path, grid: str) -> str:
    """A grid as params.yaml, and all that it names; its text."""
    text = read.write_out(GRIDS / f"{grid}.yaml")
    lay_file(folder / "params.yaml", text)
    lay_inputs(folder, text)
    return text


def lay_inputs(folder: Path, text: str) -> None:
    """What a grid's text names, and what `compclip fetch` puts there, as empty files."""
    for name in NAMED.findall(text):
        lay_file(folder / name if Path(name).suffix else folder / name / "something")
    for entry in load_shipped().values():
        if entry.section.cache:
            snapshot = folder / "hub" / f"models--{entry.section.hub.replace('/', '--')}" / "snapshots" / "c0"
            lay_file(snapshot / "open_clip_model.safetensors")
            lay_file(snapshot / "tokenizer.json")
        elif entry.section.folder in text:
            for name, file in entry.files.items():
                for member in file.members if file.unpack else [name]:
                    if not (folder / entry.section.folder / member).exists() and "*" not in member:
                        lay_file(folder / entry.section.folder / member)
    lay_file(folder / "hub/models--bert-base-uncased/snapshots/c0/vocab.txt")
    for path in BY_HAND:
        lay_file(folder / path)
    for path in (folder / "data/raw/zeroshot").glob("*"):
        for name in CLASS_FILES:
            lay_file(path / name)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """An empty project that no hub answers."""
    monkeypatch.setattr(hub_cache.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub_cache.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(missing_inputs, "ANSWER_S", 0.2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def list_lines(folder: Path) -> list[str]:
    return [item.describe() for item in missing_inputs.list_missing(read.load_params(folder / "params.yaml"), folder)]


@pytest.mark.parametrize("grid", SHIPPED_GRIDS)
def test_nothing_is_missing_of_a_grid_that_has_all(grid, project):
    lay_grid(project, grid)
    assert list_lines(project) == []


# grid, what is removed, its key, and what brings it
REMOVED = [
    ("first_hour", "data/raw/coco/annotations/captions_train2017.json", "data.coco_20k.path", "fetch coco_captions2017"),
    ("first_hour", "data/raw/coco/train2017", "data.coco_20k.images", "fetch coco_train2017"),
    ("first_hour", "data/raw/coco/val2017", "benchmarks.sugarcrepe.images, benchmarks.sugarcrepe_pp.images", "fetch coco_val2017"),
    ("first_hour", "data/raw/sugarcrepe", "benchmarks.sugarcrepe.path", "fetch sugarcrepe"),
    ("first_hour", "data/raw/sugarcrepe/swap_obj.json", "benchmarks.sugarcrepe.path", "fetch sugarcrepe"),
    ("first_hour", f"hub/{HUB}", "backbones.vit_b_32.weights: ViT-B-32-quickgelu::openai", "fetch vit_b_32_openai"),
    ("clic_table10", "data/raw/laion", "data.laion.path, data.laion.images", "fetch clic"),
    ("clic_table10", "data/raw/captions/clic", "data.laion.captions.file", "fetch clic"),
    ("clic_table10", "data/raw/zeroshot/imagenet/classnames.txt", "benchmarks.zeroshot_imagenet.path", "README.md says what it is), or correct"),
    ("clic_table3", "hub/models--UCSC-VLAA--ViT-L-14-CLIPA-datacomp1B", "backbones.vit_l_14_clipa.weights", "fetch vit_l_14_clipa"),
    ("clic_table3", "hub/models--bert-base-uncased", "backbones.vit_l_14_clipa.tokenizer", "fetch tokenizer_bert"),
    ("fair_coco", "data/raw/coco/dataset_coco.json", "data.coco.path", "fetch karpathy_coco"),
    ("fair_coco", "data/raw/flickr30k/images", "benchmarks.retrieval_flickr30k.images", "fetch flickr30k_pictures"),
    ("fair_coco", "data/raw/aro/images", "benchmarks.aro.images", "fetch aro"),
    ("fair_coco", "data/raw/hard_positives/swapped_data/vl_checklist_relations.json", "benchmarks.hard_positives.path", "fetch hard_positives"),
    ("hard_positives_table4", "data/raw/visual_genome", "benchmarks.hard_positives.images", "fetch visual_genome"),
    ("hard_positives_table4", "data/raw/captions/hard_positives_ft/swap_hp.jsonl", "data.ms_coco.rewrites.swap", "fetch hard_positives_ft"),
    ("svlc_released", "models/distilroberta-base/config.json", "data.cc3m.masked.model", "fetch distilroberta"),
    ("svlc_released", "data/raw/captions/cc3m_positives", "data.cc3m.texts.paraphrase.file", "README.md says what it is), or correct"),
    ("svlc_released", "data/raw/valse/plurals.json", "benchmarks.valse.path", "fetch valse"),
    ("read_clip_released", "models/t5-v1_1-large", "methods.read_clip", "hf download google/t5-v1_1-large --local-dir models/t5-v1_1-large"),
    ("negbench_checkpoints", "models/released/negclip/negclip.pth", "methods.released.variants.negclip", "fetch negclip"),
    ("negbench_checkpoints", "models/released/negbench_clip/checkpoint.pt", "methods.released.variants.negbench_clip", "fetch negbench_clip`, by hand from"),
]  # fmt: skip


@pytest.mark.parametrize("grid, path, key, fix", REMOVED)
def test_an_input_that_is_not_there_is_named(grid, path, key, fix, project):
    lay_grid(project, grid)
    removed = project / path
    removed.unlink() if removed.is_file() else shutil.rmtree(removed)
    (line,) = list_lines(project)
    assert line.startswith(key) and fix in line
    assert path.startswith("hub/") or path.removesuffix("/config.json") in line


@pytest.fixture
def own_project(project, monkeypatch) -> Path:
    """A grid with a server of its own to start, one that listens, a masked model and a table of two files."""
    monkeypatch.setenv("COMPCLIP_ALLOW_SERVER", "1")
    monkeypatch.setenv("THEIR_KEY", "secret-key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("COMPCLIP_ALLOW_ENV", f"THEIR_KEY@http://127.0.0.1:{port}")
        (project / "params.yaml").write_text(OWN.format(port=port))
        names = ["models/own.pt", "models/own_masked/config.json"]
        names += [f"data/raw/{name}" for name in ("a.csv", "b.csv", "pictures/1.jpg")]
        for name in (*names, *(f"data/raw/classes/{name}" for name in (*CLASS_FILES, "test.txt"))):
            lay_file(project / name)
        program = project / "bin" / "no_such_program"
        lay_file(program)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        missing_inputs._takes_connections.cache_clear()
        assert list_lines(project) == []
        yield project


@pytest.mark.parametrize("path, start, fix", [
    ("models/own.pt", "backbones.own.weights: models/own.pt: missing", "correct backbones.own.weights"),
    ("data/raw/b.csv", "data.photographs.path: data/raw/b.csv: missing", "correct data.photographs.path"),
    ("data/raw/classes/test.txt", "benchmarks.zeroshot.path: data/raw/classes/test.txt: missing", "put it there"),
    ("bin/no_such_program", "data.photographs.options.server: no_such_program: no such program", "install it"),
])  # fmt: skip
def test_a_file_of_ones_own(path, start, fix, own_project):
    """No entry of the catalogue brings it: the key is named that is to be corrected."""
    (own_project / path).unlink()
    (line,) = list_lines(own_project)
    assert line.startswith(start) and fix in line
    shutil.rmtree(own_project / "data/raw/pictures")  # what a cut download left is no data
    lay_file(own_project / "data/raw/pictures/.fetch/1.part")
    assert "data.photographs.images: data/raw/pictures: missing" in "\n".join(list_lines(own_project))


@pytest.mark.parametrize("variable, start", [
    ("THEIR_KEY", "data.photographs.rewriter.api_key_env: $THEIR_KEY: not set"),
    ("COMPCLIP_ALLOW_SERVER", "data.photographs.options.server: $COMPCLIP_ALLOW_SERVER: not set"),
])  # fmt: skip
def test_a_variable_that_is_not_set(variable, start, own_project, monkeypatch):
    monkeypatch.delenv(variable)
    (line,) = list_lines(own_project)
    assert line.startswith(start)


def test_a_server_that_does_not_answer(own_project, monkeypatch):
    """It is asked for until it has answered all: what it said stays, whatever becomes of it."""
    monkeypatch.setattr(missing_inputs, "_takes_connections", lambda url: False)
    (line,) = list_lines(own_project)
    assert re.match(r"data.photographs.rewriter.url: http://127.0.0.1:\d+/v1: does not answer; start the server", line)
    params = read.load_params("params.yaml")
    missing_inputs.plan.write_plan(params, Path("plan"))
    assert len(list_lines(own_project)) == 1
    manifest = own_project / "data/photographs/rewrites/manifest.json"
    lay_file(manifest)
    assert list_lines(own_project) == []
    manifest.unlink()  # jobs of a cluster ask it, neither when they are sent nor while they are at work from here
    assert missing_inputs.list_missing(params, here=False) == []
    lay_file(own_project / ".work/shards/rewrite/photographs/jobs/0/task.json")
    assert list_lines(own_project) == []


def test_word_lists(own_project, monkeypatch):
    def refuse() -> str:
        raise UserError("no English model for spaCy; run `pip install it`")

    monkeypatch.setattr(parser_models, "model_name", refuse)
    monkeypatch.setattr(wordnet_files, "is_installed", lambda: False)
    assert list_lines(own_project) == [
        "spaCy's model: missing; run `pip install it`",
        f"WordNet: missing; {wordnet_files.ADVICE.removeprefix('no WordNet: ')}",
    ]


def test_a_backbone_that_is_made_needs_its_weights_no_more(project):
    """Unless its section is another one by now."""
    text = lay_grid(project, "first_hour")
    shutil.rmtree(project / "hub")
    missing_inputs.plan.write_plan(read.load_params("params.yaml"), Path("plan"))
    lay_file(project / "models/vit_b_32/open_clip_model.safetensors")
    assert list_lines(project) == []
    text = text.replace("ViT-B-32-quickgelu, weights: openai", "ViT-B-32, weights: datacomp_xl_s13b_b90k")
    (project / "params.yaml").write_text(text)
    (line,) = list_lines(project)
    assert "fetch vit_b_32_datacomp_xl" in line


COMMANDS = {
    "config check": lambda: grid_check.main([]),
    "doctor": lambda: doctor.main([]),
    "doctor --grid": lambda: doctor.main(["--grid"]),
    "repro": lambda: repro.main([]),
    "launch": lambda: launch.main(["slurm/local.yaml"]),
    "launch --dry-run": lambda: launch.main(["slurm/local.yaml", "--dry-run"]),
    "launch --stage": lambda: launch.main(["slurm/local.yaml", "--stage", "annotate"]),
    "sweep": lambda: sweep.main(["--study", "study"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_all_of_it_and_runs_nothing(command, project, monkeypatch, capsys):
    """Exit code 2, a line each, and one command for what can be fetched; no stage was begun."""
    lay_file(project / "params.yaml", read.write_out(GRIDS / "first_hour.yaml"))
    for name in ("dvc.yaml", "slurm/local.yaml"):
        lay_file(project / name, (ROOT / name).read_text())
    for name in ("backbones/x", "claims.yaml", "published/x"):
        lay_file(project / "experiments" / name)
    study = "method: fsc_clip\nbackbone: vit_b_32\ndata: coco_20k\nspace: {gamma: {float: [0, 5]}}\ntrials: 2\n"
    objective = "objectives: [{column: sugarcrepe/swap, direction: maximize}]\n"
    lay_file(project / "experiments/studies/study.yaml", study + objective)
    try:
        code = COMMANDS[command]()
    except SystemExit as left:
        code = left.code
    assert code == 2
    printed = "".join(capsys.readouterr())
    names = "coco_captions2017 coco_train2017 vit_b_32_openai sugarcrepe coco_val2017 sugarcrepe_pp"
    assert f"7 inputs are missing; `compclip fetch {names}` brings" in printed
    assert "data.coco_20k.images" in printed and "benchmarks.retrieval_coco.path" in printed
    assert not {"plan", "data", "models", "runs"} & {path.name for path in project.iterdir()}
