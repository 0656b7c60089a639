"""WiSE-FT: exact at both ends, linear between them, a scaled adapter for LoRA; the command, its file, its errors."""

import re
import shutil
from dataclasses import asdict

import open_clip
import pytest
import torch
import yaml

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json, write_json
from compclip.config import __main__ as config_command
from compclip.config import read
from compclip.config.cell import Cell
from compclip.config.sections import BenchmarkSection as Section
from compclip.config.sections import Lora, Scoring, Train
from compclip.evaluate import benchmark_module, score, wise_ft
from compclip.model import backbone, clip_model, lora
from compclip.runs.run_folder import Published
from tests import tiny_project
from tests.benchmarks.official_files import REGION
from tests.model.test_lora import fit
from tests.model.test_towers import TEXTS, TINY
from tests.shipped_files import SHIPPED_PARAMS, list_shipped

CELLS = {name: Cell(name, "tiny", "scenes", 0) for name in ("fsc_clip", "fsc_clip.lora")}
ALPHAS = [0.0, 0.25, 1.0]


@pytest.fixture(scope="module")
def two_runs(project, tmp_path_factory):
    """A pretrained model, and two cells trained a little: one with an adapter."""
    root = tiny_project.other(project, tmp_path_factory.mktemp("wise") / "project")
    settings = {"fsc_clip": Train(lr=1e-2), "fsc_clip.lora": Train(lr=0.05, lora=Lora(rank=2))}
    for name, cell in CELLS.items():
        model = backbone.load(root / "models" / "tiny")
        torch.manual_seed(0)
        fit(model.clip, (torch.randn(3, 3, 64, 64), model.tokenize(TEXTS)), settings[name])
        lora.save_and_merge(model.clip, root / "adapter")
        model.save(Published(root, cell).trained.checkpoint)
    return root


@pytest.fixture
def here(two_runs, tmp_path, monkeypatch):
    """A fresh copy of that project, and the current folder in it."""
    monkeypatch.chdir(shutil.copytree(two_runs, tmp_path / "p"))
    return tmp_path / "p"


def planned(root, method, **changes):
    """The plan of a method's lines, as the planner writes it."""
    section = {"benchmark": "", "path": "world/sugarcrepe", "images": "world/test", "split": ""}
    cells = {"tiny-scenes-0": {"cell": Cell(method, "tiny", "scenes", 0).plain}}
    plan = {"cells": cells, "alphas": ALPHAS, "benchmarks": {"sugarcrepe": section}, "how": asdict(Scoring(threads=1))}
    write_json(root / wise_ft.PLAN / f"{method}.json", plan | changes)


def scores(folder):
    """Every metric of a checkpoint on SugarCrepe, scored by itself."""
    section = Section("sugarcrepe", "world/sugarcrepe", "world/test", "")
    benchmarks = benchmark_module.load_benchmarks({"sugarcrepe": section}, ["sugarcrepe"]).benchmarks
    scored = score.score_model(backbone.load(folder), benchmarks)
    return {f"sugarcrepe/{metric}": value for metric, value in scored["sugarcrepe"].metrics.items()}


@pytest.fixture
def pair(tmp_path):
    """A tiny model, and the same one trained a little with an adapter."""
    write_json(tmp_path / "tiny.json", TINY)
    model = backbone.create(str(tmp_path / "tiny.json"), seed=3)
    model.save(tmp_path / "a")
    torch.manual_seed(0)
    fit(model.clip, (torch.randn(3, 3, 32, 32), model.tokenize(TEXTS)), Train(lr=1e-2, lora=Lora()))
    lora.save_and_merge(model.clip, tmp_path / "b" / lora.FOLDER)
    model.save(tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def states(*folders):
    return [backbone.load(folder).clip.state_dict() for folder in folders]


def test_the_line_by_hand():
    """A quarter of the way; the ends, what did not move and integers to the bit."""
    third = torch.tensor([1 / 3, -0.1])
    start = {"w": torch.tensor([1.0, 0.1]), "still": third, "count": torch.tensor(3)}
    end = {"w": torch.tensor([3.0, 0.7]), "still": third.clone(), "count": torch.tensor(5)}
    end["logit_bias"] = torch.tensor(-9.0)
    quarter = clip_model.interpolate(start, end, 0.25)
    torch.testing.assert_close(quarter["w"], torch.tensor([1.5, 0.25]))
    assert all(torch.equal(clip_model.interpolate(start, end, i / 10)["still"], third) for i in range(11))
    assert torch.equal(clip_model.interpolate(start, end, 0.0)["w"], start["w"])
    assert torch.equal(clip_model.interpolate(start, end, 1.0)["w"], end["w"])
    assert (quarter["count"], quarter["logit_bias"]) == (5, -9.0)


@pytest.mark.parametrize("change", [{"w": torch.zeros(3)}, {"more": torch.zeros(1)}, {"w": None}])
def test_another_architecture_is_refused(change):
    """A shape, a tensor too many, one too few."""
    start = {"w": torch.zeros(2)}
    end = {k: v for k, v in (start | change).items() if v is not None}
    with pytest.raises(UserError, match="two architectures: 1 tensors differ"):
        clip_model.interpolate(start, end, 0.5)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_lora_scales_the_adapter(pair, tmp_path, alpha):
    """The line between the weights is the pretrained model with alpha times the adapter's update."""
    a, b = pair
    plain = wise_ft.model_between(str(a), str(b), alpha).clip.state_dict()
    scaled = wise_ft.model_between(str(a), str(b / lora.FOLDER), alpha).clip.state_dict()
    assert plain.keys() == scaled.keys()
    for name in plain:
        torch.testing.assert_close(plain[name], scaled[name], rtol=0, atol=1e-6)


def test_paths(pair, tmp_path, capsys):
    """--out is a plain open_clip checkpoint with the mean weights; at 0 and 1 the ends' own bits."""
    a, b = map(str, pair)
    for alpha in ("0", "0.5", "1"):
        assert wise_ft.main(["--pretrained", a, "--tuned", b, "--alpha", alpha, "--out", str(tmp_path / alpha)]) == 0
    start, end, none, half, full = states(a, b, tmp_path / "0", tmp_path / "0.5", tmp_path / "1")
    assert all(torch.equal(start[k], none[k]) and torch.equal(end[k], full[k]) for k in start)
    for k in start:
        torch.testing.assert_close(half[k], (start[k].double() + end[k].double()).div(2).float())
    assert not torch.equal(half["visual.conv1.weight"], start["visual.conv1.weight"])
    plain = open_clip.create_model(f"local-dir:{tmp_path / '0.5'}").state_dict()
    assert all(torch.equal(half[k], plain[k]) for k in half)
    assert "alpha 0.5 between" in capsys.readouterr().out


@pytest.fixture
def unlike(pair, tmp_path):
    """Models of another activation function and of another architecture."""
    for name, cfg in (("quick", TINY | {"quick_gelu": True}), ("wide", TINY | {"embed_dim": 8})):
        write_json(tmp_path / f"{name}.json", cfg)
        backbone.create(str(tmp_path / f"{name}.json")).save(tmp_path / name)
    return tmp_path


AT_HALF = ["--alpha", "0.5"]


@pytest.mark.parametrize(
    ("start", "options", "names"),
    [
        ("quick", AT_HALF, "quick_gelu"), ("wide", AT_HALF, "two architectures"), ("a", [*AT_HALF, "--device", "foo"], "'foo'"),
        *(("a", [f"--alpha={alpha}"], re.escape(f"--alpha {alpha}")) for alpha in ("nan", "-inf", "1e+99")),
    ],
)  # fmt: skip
def test_paths_that_do_not_fit(unlike, start, options, names):
    """One line each, and nothing is written."""
    paths = ["--pretrained", str(unlike / start), "--tuned", str(unlike / "b"), "--out", str(unlike / "out")]
    with pytest.raises(UserError, match=names):
        wise_ft.main([*paths, *options])
    assert not (unlike / "out").exists()


@pytest.mark.parametrize("option", [("--alpha", "0"), ("--out", "x"), ("--tuned", "b"), ("--model", "ViT-B-32")])
def test_a_method_s_lines_take_no_path(option):
    with pytest.raises(UserError, match=f"--method c: .*{option[0]}"):
        wise_ft.main(["--method", "c", *option])


def test_options_that_are_missing():
    with pytest.raises(UserError, match="--tuned, --alpha and --out"):
        wise_ft.main(["--pretrained", "a"])


@pytest.mark.parametrize("method", CELLS)
def test_a_cell_at_eleven_points(here, method):
    """alpha 0 has the pretrained model's scores and alpha 1 the cell's own, exactly and for every metric."""
    cell_checkpoint, base = Published(here, CELLS[method]).trained.checkpoint, here / "models" / "tiny"
    before = fingerprint(cell_checkpoint, base)
    planned(here, method, alphas=[i / 10 for i in range(11)])
    assert wise_ft.main(["--method", method]) == 0
    points = read_json(Published(here, CELLS[method]).line)["points"]
    assert [p["alpha"] for p in points] == [i / 10 for i in range(11)]
    assert points[0]["metrics"] == scores(base)
    assert points[-1]["metrics"] == scores(cell_checkpoint)
    assert before == fingerprint(cell_checkpoint, base)


def test_ends_that_were_scored_are_taken_from_their_results(here_finished, monkeypatch):
    """Of three points one is scored; by other weights, benchmarks or scoring all three are, to the same numbers."""
    alphas, score_line = [], score.score_line

    def note_alphas(a, b, unscored_alphas, *how, **more):
        alphas.append(list(unscored_alphas))
        return score_line(a, b, unscored_alphas, *how, **more)

    monkeypatch.setattr(score, "score_line", note_alphas)
    cell = Cell("finetune", "tiny", "scenes", 0)
    lines = []
    for overrides in ([], ["evaluate.batch_size=5"]):
        params = read.load_params("params.yaml", overrides)
        sections = {name: params.benchmarks[name] for name in params.evaluate.benchmarks}
        task = wise_ft.LineTask([0.0, 0.5, 1.0], sections, params.evaluate.scoring)
        lines.append(wise_ft.bring_line(cell, task, here_finished, "cpu")[0]["points"])
    assert alphas == [[0.5], [0.0, 0.5, 1.0]]
    assert [point["alpha"] for point in lines[0]] == [0.0, 0.5, 1.0]
    for ours, scored in zip(*lines, strict=True):
        assert ours["metrics"] == pytest.approx(scored["metrics"], abs=1e-6)
    assert lines[0][0]["metrics"] == read_json(here_finished / "results/pretrained/tiny-scenes-0/summary.json")


def test_models_on_a_line_share_the_pictures_within_the_budget(here, monkeypatch, opened):
    """Five points: one pass where memory holds all, three where it holds two, five where it holds one; equal numbers.

    Whatever the passes, a picture is read once.
    """
    alphas, encode, shared = [0.0, 0.1, 0.5, 0.9, 1.0], score.embed.encode_all, []
    monkeypatch.setattr(score.embed, "encode_all", lambda m, *arguments: shared.append(len(m)) or encode(m, *arguments))
    folders = (here / "models" / "tiny", Published(here, CELLS["fsc_clip"]).trained.checkpoint)
    sections = {"sugarcrepe": Section("", "world/sugarcrepe", "world/test", "")}
    benchmarks = benchmark_module.load_benchmarks(sections, ["sugarcrepe"]).benchmarks
    size, lines = sum(t.nbytes for t in states(folders[0])[0].values()), []
    for models, passes in ((5, 1), (2, 3), (0, 5)):
        opened.clear()
        shared.clear()
        ends = map(backbone.load, folders)
        lines.append(list(score.score_line(*ends, alphas, benchmarks, Scoring(4, 1), budget=models * size)))
        assert set(opened.values()) == {1} and sum(shared) == 5 and len(shared) == passes
    assert lines[0] == lines[1] == lines[2] and [p["alpha"] for p in lines[0]] == alphas


def test_every_line_of_a_method(here, capsys):
    """As the plan asks; a second time nothing is scored, until what the line is made of changes."""
    planned(here, "fsc_clip")
    assert wise_ft.main(["--method", "fsc_clip"]) == 0
    out = Published(here, CELLS["fsc_clip"]).line
    document, when = read_json(out), out.stat().st_mtime_ns
    assert [p["alpha"] for p in document["points"]] == ALPHAS
    assert document["points"][0]["metrics"] == scores(here / "models" / "tiny")
    assert list(document["checkpoints"]) == ["models/tiny", "runs/fsc_clip/tiny-scenes-0/checkpoint"]
    assert wise_ft.main(["--method", "fsc_clip"]) == 0
    assert out.stat().st_mtime_ns == when and "made of the same before" in capsys.readouterr().out
    planned(here, "fsc_clip", alphas=[0.0, 1.0])
    assert wise_ft.main(["--method", "fsc_clip"]) == 0
    assert [p["alpha"] for p in read_json(out)["points"]] == [0.0, 1.0]
    model = backbone.load(here / "models" / "tiny")
    model.save(Published(here, CELLS["fsc_clip"]).trained.checkpoint)
    assert wise_ft.main(["--method", "fsc_clip"]) == 0
    rescored = read_json(out)
    assert rescored["points"][0]["metrics"] == rescored["points"][1]["metrics"]
    assert rescored["checkpoints"] != document["checkpoints"]


def test_lines_of_other_methods_are_made_in_the_same_pass(here_finished, opened):
    """Each picture is read once for both, and the other method's own stage finds its line."""
    tiny_project.plan()
    lines = {}
    for method in ("finetune", "fsc_clip"):
        planned(here_finished, method)
        lines[method] = Published(here_finished, Cell(method, "tiny", "scenes", 0)).line
    wise_ft.main(["--method", "finetune"])
    assert lines["finetune"].is_file() and set(opened.values()) == {1}
    opened_once, first_line = dict(opened), lines["fsc_clip"].read_bytes()
    wise_ft.main(["--method", "fsc_clip"])
    assert opened == opened_once and lines["fsc_clip"].read_bytes() == first_line


@pytest.mark.parametrize("change", ["alphas", "key", "untrained"])
def test_what_is_due_otherwise_is_left_to_its_own_stage(here_finished, change):
    """Other points, weights of an earlier key, none: the method's own lines are made."""
    fsc_clip = Cell("fsc_clip", "tiny", "scenes", 0)
    tiny_project.plan()
    planned(here_finished, "finetune")
    planned(here_finished, "fsc_clip", alphas=[0.0, 1.0] if change == "alphas" else ALPHAS)
    keys = here_finished / "keys" / "fsc_clip.json"
    if change == "key":
        keys.write_text(keys.read_text().replace(tiny_project.at(fsc_clip.name).key, "0" * 16))
    if change == "untrained":
        shutil.rmtree(Published(here_finished, fsc_clip).trained.path)
    wise_ft.main(["--method", "finetune"])
    assert Published(here_finished, Cell("finetune", "tiny", "scenes", 0)).line.is_file()
    assert not Published(here_finished, fsc_clip).line.exists()


def test_a_line_has_the_records_of_the_evaluation(tmp_path):
    """Where ties go to the first, those whose foil is the caption are among them."""
    write_json(tmp_path / "visual_genome_relation.json", [REGION, REGION | {"false_caption": "X "}])
    sections = {"aro": Section("aro", str(tmp_path), str(tmp_path), "visual_genome_relation")}
    tasks = [wise_ft.LineTask([], sections, Scoring(ties=ties)) for ties in ("wrong", "first")]
    assert [len(task.loaded.benchmarks["aro"]) for task in tasks] == [1, 2]


def test_a_line_that_fails_is_named_and_the_others_are_made(here, capsys):
    """A cell that was not trained; a method without a plan."""
    cells = {f"tiny-scenes-{seed}": {"cell": Cell("fsc_clip", "tiny", "scenes", seed).plain} for seed in (7, 0)}
    planned(here, "fsc_clip", cells=cells)
    with pytest.raises(UserError, match="1 of 2 lines failed .*: fsc_clip-tiny-scenes-7"):
        wise_ft.main(["--method", "fsc_clip"])
    assert "run `compclip repro train@fsc_clip` first" in capsys.readouterr().err
    assert Published(here, CELLS["fsc_clip"]).line.is_file()
    with pytest.raises(UserError, match="fsc_clp.json: no such plan; name the method in wise_ft.methods"):
        wise_ft.main(["--method", "fsc_clp"])


@pytest.mark.parametrize("alphas", ["[0,0.5]", "[]", "[0,nan,1]", "[0,0.5,0.5,1]"])
def test_places_of_a_line_rise_from_0_to_1(here, alphas):
    with pytest.raises(UserError, match="wise_ft.alphas"):
        read.load_params("params.yaml", [f"wise_ft.alphas={alphas}"])


@pytest.mark.parametrize("key,value", [("methods", "fsc_clp"), ("methods", "pretrained"), ("benchmarks", "sugarcrep")])
def test_names_of_a_line_are_the_grid_s(here, key, value):
    with pytest.raises(UserError, match=f"wise_ft.{key}: .*'{value}'"):
        read.load_params("params.yaml", [f"wise_ft.{key}=[{value}]"])


def test_a_line_of_no_run_is_said_before_any_training(here, tmp_path):
    """The plan, which comes before training, names a run that the grid lacks; a pretrained cell has no line."""
    with pytest.raises(UserError, match="wise_ft.methods: fsc_clip is not in grid.methods; add it there or remove it"):
        config_command.main(["plan", "--out", str(tmp_path), "grid.methods=[finetune]", "wise_ft.methods=[fsc_clip]"])
    with pytest.raises(UserError, match="is the pretrained model"):
        wise_ft.bring_line(Cell("pretrained", "tiny", "scenes", 0), wise_ft.LineTask([], {}, Scoring()), here, "cpu")


def test_dvc_finds_the_keys_of_its_stage():
    """dvc.yaml cannot be read where a grid lacks the key that it names: every committed grid has it, or its base."""
    paths = [SHIPPED_PARAMS, *list_shipped("experiments/grids/*.yaml")]
    grids = {path.name: yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in paths}
    lacking = [name for name, raw in grids.items() if "base" not in raw and "methods" not in raw.get("wise_ft", {})]
    assert not lacking, f"add wise_ft: {{methods: []}} to {lacking}"
