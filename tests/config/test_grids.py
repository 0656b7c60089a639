"""The papers' grids: every cell passes the check, every published row of ours has its cell, numbers are the papers'."""

import functools
import re
import shutil
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import NamedTuple

import networkx
import open_clip
import pytest
from dvc.repo import Repo

from compclip.base.errors import UserError
from compclip.config import grid as config_grid
from compclip.config import read
from compclip.config import tuning as config_tuning
from compclip.config.sections import Params
from compclip.fetch import catalogue
from compclip.launch import cost_table
from compclip.report import published_numbers
from compclip.train.throughput import GIB
from tests.conftest import ROOT
from tests.shipped_files import list_shipped

# without ablations, which `config ablate` puts beside them
PATHS = list_shipped("experiments/grids/*.yaml")
GRIDS = {path.stem: path for path in PATHS if not path.stem.startswith("ablate_")}
NUMBERS = published_numbers.read_numbers(ROOT / "experiments" / "published")
TABLES = {
    "clic_table1": ("CLIC", "Table 1", "Table 2", "Table 20"), "clic_table3": ("CLIC", "Table 3"),
    "clic_table6": ("CLIC", "Table 6"), "clic_table10": ("CLIC", "Table 10"), "clic_table11": ("CLIC", "Table 11"),
    "clic_table12": ("CLIC", "Table 12"), "clic_table13": ("CLIC", "Table 13"), "clic_table16": ("CLIC", "Table 16"),
    "clic_table17": ("CLIC", "Table 17"), "clic_table18": ("CLIC", "Table 18", "Table 19"),
    "fsc_clip_main": ("FSC-CLIP", "main", "retrieval", "classification"), "fsc_clip_components": ("FSC-CLIP", "components"),
    "fsc_clip_sensitivity_local": ("FSC-CLIP", "sensitivity: local weight"),
    "fsc_clip_sensitivity_gamma": ("FSC-CLIP", "sensitivity: focal gamma"),
    "fsc_clip_sensitivity_epsilon": ("FSC-CLIP", "sensitivity: label smoothing"),
    "fsc_clip_vit_b_16": ("FSC-CLIP", "ViT-B/16"), "fsc_clip_datacomp": ("FSC-CLIP", "DataComp"),
    "fsc_clip_attention": ("FSC-CLIP", "attention norm"), "c2lip_table2": ("C2LIP", "Table 2", "Table A5", "Table A6"),
    "c2lip_table5": ("C2LIP", "Table 5"), "c2lip_table_a2": ("C2LIP", "Table A2"),
    "hard_positives_table4": ("Hard Positives", "Table 4", "Table 6", "Table 1 of the paper"),
    "hard_positives_table3": ("Hard Positives", "Table 3 of the paper"), "hard_positives_table7": ("Hard Positives", "Table 7"),
}  # fmt: skip
# Authors' own checkpoints, scored and never trained: of these tables the rows on the grid's backbone.
RELEASED = {
    "fsc_clip_checkpoints": TABLES["fsc_clip_main"], "c2lip_checkpoints": TABLES["c2lip_table2"],
    "c2lip_checkpoints_vit_b_16": TABLES["c2lip_table2"], "c2lip_checkpoints_vit_b_16_eva02": TABLES["c2lip_table2"],
    "clic_table1_checkpoints": TABLES["clic_table1"],
    "clic_table3_checkpoints": ("CLIC", "Table 3", "Table 17", "Table 19"), "clic_table16_checkpoints": ("CLIC", "Table 16"),
    "hard_positives_checkpoints": TABLES["hard_positives_table4"],
    "bivlc_checkpoints": ("BiVLC", "training strategies", "results by item"),
    "negbench_checkpoints": ("NegBench", "baselines", "fine-tuned"), "half_truths_checkpoints": ("CS-CLIP", "project page"),
}  # fmt: skip
# Pretrained models alone, each on its backbone.
PRETRAINED = {
    "c2lip_table4": ("C2LIP", "Table 4"), "hard_positives_table5": ("Hard Positives", "Table 5"),
    "clic_table4": ("CLIC", "Table 4"),
}  # fmt: skip
# Rows that a table repeats from their own paper, whose grid, another one, has them (tests/perf/test_published_coverage.py).
REPEATED = {("FSC-CLIP", "MosaiCLIP", "mosaiclip"): "mosaiclip_released"}
# Rows of no table: what a released code does otherwise than its paper says.
BESIDE = {"c2lip_table2": {"c2lip.released"}, "c2lip_table5": {"c2lip.encoded", "c2lip.bf16_weights", "c2lip.released"}}
NO_MODULE = {"overall"}


@functools.cache
def load(name: str) -> Params:
    """A grid, read and checked once for all tests."""
    return read.load_params(GRIDS[name], together=True)


def rows(name: str) -> list[published_numbers.PublishedNumber]:
    """The numbers of a grid's tables whose rows are methods that we train."""
    paper, *tables = TABLES[name]
    numbers = [n for n in NUMBERS if n.paper == paper and n.table in tables and n.method]
    numbers = [n for n in numbers if not n.method.startswith(published_numbers.RELEASED)]
    return [n for n in numbers if (paper, n.row, n.method) not in REPEATED]


def test_every_paper_grid_is_known_here():
    """But for those of what authors ran, which tests/config/test_as_released.py reads."""
    ours = "authors_programs balanced_negatives claims every_benchmark fair_coco fair_scenes field first_hour hybrid"
    ours += " hybrid_front photographs rates scenes_like_clip try"
    known_names = {*TABLES, *RELEASED, *PRETRAINED, *ours.split()}
    assert {name for name in GRIDS if not name.endswith(("_released", "_reduced"))} == known_names


def test_places_are_of_benchmarks_that_there_are():
    """And each place that is not COCO's, Flickr's or Visual Genome's its entry in the catalogue."""
    sections = load("every_benchmark").benchmarks
    modules = {path.stem for path in (ROOT / "compclip" / "benchmarks").glob("[!_]*.py")}
    assert {section.benchmark or name for name, section in sections.items()} <= modules
    folders = {offer.section.folder for offer in catalogue.load_catalogue().values()} | {"data/raw/zeroshot"}
    places = {"/".join(PurePosixPath(section.path).parts[:3]) for name, section in sections.items() if name != "world"}
    assert places <= folders


@pytest.mark.parametrize("name", GRIDS)
def test_every_cell_passes_the_check(name):
    params = load(name)
    for cell in config_grid.list_cells(params):
        assert config_grid.resolve(params, cell.name).cell == cell


@pytest.mark.parametrize("name", TABLES)
def test_every_published_row_of_ours_has_its_cell(name):
    """By method, backbone and data; a table that does not name the data or the backbone asks for neither."""
    params = load(name)
    cells = {(c.method, c.backbone, c.data) for c in config_grid.list_cells(params)}
    expected = {
        (n.method, published_numbers.to_slug(n.backbone), published_numbers.to_slug(n.data)) for n in rows(name)
    }
    missing_cells = [w for w in expected if not any(c[:2] == w[:2] and w[2] in ("", c[2]) for c in cells)]
    assert expected and not missing_cells
    expected_methods = {w[0] for w in expected} | ({"pretrained"} if name in TABLES else set())
    assert set(params.grid.methods) == expected_methods | BESIDE.get(name, set())


@pytest.mark.parametrize("name", RELEASED)
def test_every_published_checkpoint_has_its_cell(name):
    """And each cell's file its entry in the catalogue; nothing in such a grid is trained."""
    params, offers = load(name), catalogue.load_catalogue()
    (backbone,), (paper, *tables) = params.grid.backbones, RELEASED[name]
    numbers = [n for n in NUMBERS if n.paper == paper and n.table in tables]
    methods = {n.method for n in numbers if published_numbers.to_slug(n.backbone) == backbone}
    released_methods = {method for method in methods if method.startswith(published_numbers.RELEASED)}
    assert released_methods <= set(params.grid.methods)
    for method in params.grid.methods[1:]:
        path = PurePosixPath(config_grid.method_config(params, method)[0].path)
        offer = offers[path.parts[2]]
        assert offer.section.folder == "/".join(path.parts[:3])
        inside = str(path.relative_to(offer.section.folder))
        assert inside in offer.files or offer.section.patterns or path.name in offer.section.note


@pytest.mark.parametrize("name", PRETRAINED)
def test_every_pretrained_row_has_its_cell(name):
    """And each cell its row; all that the table prints of it is shown, but for means over benchmarks."""
    params, printed_table = load(name), PRETRAINED[name]
    numbers = [n for n in NUMBERS if (n.paper, n.table) == printed_table and n.method == "pretrained"]
    assert {published_numbers.to_slug(n.backbone) for n in numbers} == set(params.grid.backbones)
    assert {n.column for n in numbers if n.benchmark not in NO_MODULE} <= set(params.report.columns)
    assert params.grid.methods == ["pretrained"] and len(config_grid.list_cells(params)) == len(params.grid.backbones)


@pytest.mark.parametrize("name", TABLES)
def test_every_published_column_is_shown(name):
    """But for benchmarks that have no module here; summary columns are made of the others."""
    params = load(name)
    report_columns = set(params.report.columns)
    columns = {n.column for n in rows(name) if n.benchmark not in {*NO_MODULE, "summary"}}
    assert columns <= report_columns
    for column in report_columns:
        benchmark = column.partition("/")[0]
        assert any(b == benchmark or b.startswith(f"{benchmark}_") for b in params.evaluate.benchmarks), column
    assert set(params.benchmarks) == set(params.evaluate.benchmarks)


@pytest.mark.parametrize(("name", "trials", "part_trials"), [("fair_coco", 16, 4), ("fair_scenes", 6, 1)])
def test_the_fair_grids_search_all_methods_alike(name, trials, part_trials):
    """Rate and averaging with one budget, then own parameters by their number; validation items alone choose."""
    params = load(name)
    requests = [r for places in config_tuning.list_requests(params).values() for r in places.values()]
    assert {request["study"]["method"] for request in requests} == set(params.grid.methods) - {"pretrained"}
    assert {(r["study"]["split"], r["study"]["seed"], r["widenings"]) for r in requests} == {("validation", 1000, 3)}
    for request in requests:
        schedule, *own = request["searches"]
        assert schedule["space"].keys() == {"train.lr", "train.average_alpha"} and schedule["trials"] == trials
        assert all(search["trials"] == part_trials * len(search["space"]) for search in own)
    trained_text = {run.cell.method for run in config_grid.resolve_all(params) if run.train.trainable == "text"}
    assert trained_text == {"clic", "finetune.text"} and params.report.split == "test"
    fsc_clip, _ = config_grid.method_config(params, "fsc_clip")
    assert (fsc_clip.swap, fsc_clip.replace, fsc_clip.shuffle) == ("negclip_released", "clove", "tokens")


def test_the_fair_grid_shows_test_items_alone():
    """Test items are shown; COCO's pictures are left out of training; five epochs have the same snapshots."""
    params = load("fair_coco")
    assert params.grid.seeds == [0, 1, 2] and len(params.grid.backbones) == 2
    shows_coco = {name for name, section in params.benchmarks.items() if "coco" in f"{section.path} {section.images}"}
    assert shows_coco <= set(params.data["coco"].exclude)
    runs = {run.cell.method: run.train for run in config_grid.resolve_all(params)}
    chosen = {method: train.choose for method, train in runs.items() if train.choose}
    assert chosen == {"negclip.best_of_five": "retrieval_coco/mean_recall_at_1"}
    snapshots = {tuple(train.snapshots) for method, train in runs.items() if method != "pretrained"}
    assert snapshots == {(0.2, 0.4, 0.6, 0.8)}


@pytest.mark.parametrize("name", GRIDS)
def test_backbones_are_open_clip_s(name):
    """A model with a tag of its weights, or a repository that brings both; OpenAI's weights with QuickGELU."""
    for backbone in load(name).backbones.values():
        if backbone.model in open_clip.list_models():
            tags = open_clip.list_pretrained_tags_by_model(backbone.model)
            assert backbone.weights in (*tags, "random")  # TripletCLIP: from scratch
            assert backbone.weights != "openai" or backbone.model.endswith("-quickgelu")
        else:
            assert backbone.model.startswith("hf-hub:") or (ROOT / backbone.model).is_file()


CLIC = {
    "lr": 1e-6, "lr_start": 1e-7, "lr_end": 1e-8, "warmup_fraction": 0.2, "batch_size": 800, "beta1": 0.9,
    "beta2": 0.98, "eps": 1e-8, "weight_decay": 0.1,
}  # fmt: skip
CROPS = {"augment": "random_resized_crop", "augment_scale": [0.9, 1.0]}
FSC = CROPS | {"lr": 5e-6, "epochs": 5, "batch_size": 256, "warmup_steps": 50, "weight_decay": 0.1}
ADAPTER = {"rank": 4, "alpha": 1.0, "targets": ["attention", "mlp", "patch"], "patch": "matrix"}
LORA = {"lr": 5e-5, "lora": ADAPTER}
C2LIP = CROPS | {"lr": 1e-5, "epochs": 5, "batch_size": 768, "warmup_steps": 50, "beta2": 0.98, "eps": 1e-6}
STATED = [  # grid, cell, what the paper (or its code) says of training and of the method; COCO: epochs of pictures, not captions
    ("clic_table1", "clic-vit_b_32-laion-0", CLIC | {"epochs": 1, "trainable": "text", "augment": "none"},
     {"lambda_cont": 0.5, "lambda_s_neg": 0.5, "lambda_uni": 1.0, "positives": 4, "restart": True, "ends": "clic",
      "statistics": "imagenet"}),
    ("clic_table1", "clic-vit_b_32-ms_coco-0", CLIC | {"epochs": 25}, {}),
    ("clic_table3", "negclip.clic_swap-vit_l_14-laion-0", CLIC | {"trainable": "text"}, {"swap": "clic"}),
    ("clic_table10", "clic.b2-vit_b_32-laion-0", CLIC, {"composites": False, "positives": 1, "alternate": False}),
    ("clic_table10", "clic.c1-vit_b_32-laion-0", CLIC, {"lambda_s_neg": 0, "lambda_uni": 0, "alternate": False}),
    ("clic_table11", "clic.epochs3-vit_b_32-ms_coco-0", CLIC | {"epochs": 15}, {}),
    ("clic_table12", "clic.frozen_text-vit_b_32-laion-0", CLIC | {"trainable": "image"}, {}),
    ("clic_table13", "clic.positives5-vit_b_32-laion-0", CLIC, {"positives": 5, "lambda_uni": 1.0}),
    ("clic_table16", "negclip.clic_swap-vit_b_16-redcaps-0", CLIC | {"trainable": "text"}, {"swap": "clic"}),
    ("clic_table18", "clic-vit_l_14_eva02-redcaps-0", CLIC | {"trainable": "text", "epochs": 1}, {"restart": True}),
    ("fsc_clip_main", "fsc_clip-vit_b_32-laion_coco_100k-2", FSC | {"lora": None},
     {"lambda_global": 0.5, "lambda_local": 0.2, "gamma": 2.0, "epsilon": 0.02, "replace": "clove", "shuffle": "tokens"}),
    ("fsc_clip_main", "fsc_clip.lora-vit_b_32-cc3m_100k-0", FSC | LORA, {"lambda_global": 1.0}),
    ("fsc_clip_vit_b_16", "fsc_clip-vit_b_16-laion_coco_100k-0", FSC | {"batch_size": 128}, {"lambda_local": 0.5}),
    ("fsc_clip_attention", "fsc_clip.local_only_softmax-vit_b_32-laion_coco_100k-0", FSC,
     {"lambda_global": 0, "gamma": 0, "epsilon": 0, "attention": "softmax"}),
    ("c2lip_table2", "c2lip-vit_b_16_siglip-cc3m-42", C2LIP, {"lambda_npc": 1.0, "lambda_xac": 0.01}),
    ("c2lip_table5", "c2lip.released-vit_b_16_siglip-cc3m-42", C2LIP | {"precision": "bf16_weights"},
     {"concepts": "encoded", "whole_concept": True}),
    ("c2lip_table2", "c2lip-vit_b_32-cc3m-42", C2LIP, {"init_bias": -27.0}),
    ("c2lip_table_a2", "c2lip.npc_0p5_xac_0p1-vit_b_16_siglip-cc3m-42", C2LIP, {"lambda_npc": 0.5, "lambda_xac": 0.1}),
    ("hard_positives_table4", "hard_positives-vit_b_32-ms_coco-0", CROPS | {"lr": 5e-6, "batch_size": 128, "lora": None},
     {"source": "llm", "hard_positives": "both", "replace": "clove"}),
    ("hard_positives_table4", "hard_positives.hn-vit_b_32-ms_coco-0", {"warmup_steps": 10000},
     {"hard_positives": "none"}),
]  # fmt: skip


@pytest.mark.parametrize("grid,cell,train,method", STATED, ids=[f"{g}-{c}" for g, c, *_ in STATED])
def test_numbers_are_the_papers(grid, cell, train, method):
    run = config_grid.resolve(load(grid), cell)
    train_values, method_values = asdict(run.train), asdict(run.method)
    assert {key: train_values[key] for key in train} == train
    assert {key: method_values[key] for key in method} == method


@pytest.mark.parametrize(("grid", "data", "expected"), [
    ("fsc_clip_main", "ms_coco_100k", {"captions_each": 1, "relatives": True}),
    ("fsc_clip_main", "cc3m_100k", {"captions_each": 0, "relatives": True}),
    ("clic_table1", "redcaps", {"openings": "clic"}),
    ("clic_table1", "laion", {"openings": "usual", "relatives": False}),
])  # fmt: skip
def test_data_are_made_as_the_authors_made_them(grid, data, expected):
    section = asdict(load(grid).data[data])
    assert {key: section[key] for key in expected} == expected


HEAD = re.compile(r"^# Card: (\S+), ([\d.]+) GiB of (\S+)\.$", re.MULTILINE)
# of a table, or of what authors ran; all others are ours, or files that are scored alone
PAPERS = sorted(name for name in GRIDS if name in TABLES or name.endswith(("_released", "_reduced")))


class Claim(NamedTuple):
    """What a head says: the card, the GiB of the largest step, and its cell."""

    card: str
    gib: float
    cell: str


def read_claim(name: str) -> Claim:
    match = HEAD.search(read.read_head(GRIDS[name].read_text(encoding="utf-8")))
    assert match, "no line `# Card: CARD, GIB GiB of CELL.`: write what `compclip config cost` predicts"
    return Claim(match[1], float(match[2]), match[3])


@pytest.mark.parametrize("name", PAPERS)
def test_the_step_fits_the_card_that_the_head_names(name):
    """Of a paper's grid; tests/fake_device/test_grid_steps.py predicts the step."""
    claim = read_claim(name)
    assert claim.gib * GIB <= cost_table.find_card(claim.card).usable_bytes
    assert claim.cell in {cell.name for cell in config_grid.list_cells(load(name))}


@pytest.mark.parametrize("name", [f"clic_table{number}" for number in (1, 6, 10, 11, 12, 13, 16)])
def test_no_cell_of_clic_encodes_a_whole_batch_of_composites(name):
    """Four positives of 800 composites at once are 85 GiB; a part at a time leaves the loss that of the whole batch."""
    runs = [run for run in config_grid.resolve_all(load(name)) if run.method_name == "clic"]
    assert {run.train.micro_batch for run in runs} == {400}


WORLD = "data/scenes_world"


@pytest.fixture
def repository(tmp_path):
    Repo.init(str(tmp_path), no_scm=True).close()
    for name in ("dvc.yaml", "experiments/scenes/dvc.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def find_needed(repository, grid):
    """By stage of dvc.yaml, the names of those that `dvc repro` looks at first."""
    (repository / "params.yaml").write_text(read.write_out(grid))
    with Repo(str(repository)) as repo:
        graph = repo.index.graph
        return {
            stage.name: {s.name for s in networkx.descendants(graph, stage)}
            for stage in graph
            if stage.path_in_repo == "dvc.yaml"
        }


def find_places(params) -> tuple[bool, bool]:
    """Whether data lie in the world, and whether benchmarks read of it."""
    tables = (params.data, params.benchmarks)
    places = [[place for section in table.values() for place in (section.path, section.images)] for table in tables]
    has_data, has_benchmarks = (any(WORLD in place for place in of_table) for of_table in places)
    return has_data, has_benchmarks


def test_a_grid_makes_the_world_where_it_has_a_part_in_it(repository):
    """And then before its files are listed: of all grids, one of each kind of places in the world."""
    grids = {find_places(load(name)): path for name, path in GRIDS.items()}
    assert {has_data for has_data, _ in grids} == {True, False}
    for (has_data, _), grid in grids.items():
        stages = find_needed(repository, grid)
        assert ("scenes" in set().union(*stages.values())) == has_data, grid  # `dvc repro` runs these
        assert ("scenes" in stages["look"]) == has_data, grid


def test_data_of_the_world_needs_a_benchmark_of_it(tmp_path):
    """By which DVC knows that the world is to be made: the files of data sets are no dependency of any stage."""
    shutil.copytree(ROOT / "experiments" / "grids", tmp_path, dirs_exist_ok=True)
    grid = tmp_path / "grid.yaml"
    grid.write_text("base: c2lip_checkpoints\n")  # whose `world` it does not name
    message = r"data.scenes: lies in data/scenes_world, .*add benchmarks.world: \{benchmark: "
    with pytest.raises(UserError, match=message):
        read.load_params(grid, together=True)


@pytest.mark.parametrize("section", ["benchmarks.world", "data.world"])
def test_nothing_is_drawn_for_what_nobody_trains_on_or_scores(section):
    """DVC would draw the world for any section of a benchmark in it, and fail for data without one."""
    entry = f"{{source: karpathy, captioner: none, path: {WORLD}/x.json, images: {WORLD}/x}}"
    if section.startswith("benchmarks"):
        entry = f"{{benchmark: retrieval, path: {WORLD}/x.json, images: {WORLD}/x}}"
    with pytest.raises(UserError, match=f"{section}: in {WORLD}, .*remove it"):
        read.load_params(GRIDS["photographs"], [f"{section}={entry}"], together=True)
