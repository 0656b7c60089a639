"""`config ablate`: a grid that leaves out one part of a method at a time."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.config import __main__ as config_command
from compclip.config import ablate, grid, read, validation
from tests.conftest import ROOT
from tests.shipped_files import SHIPPED_PARAMS

GRIDS = ROOT / "experiments" / "grids"


@pytest.fixture
def project(tmp_path, monkeypatch):
    shutil.copy(SHIPPED_PARAMS, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_ablation(method, source="params.yaml", *overrides):
    """The checked grid of a method's ablation, and its lines."""
    path, ablation, params = ablate.write_grid(method, source, overrides, Path("made.yaml"), force=True)
    assert read.load_params(path, together=True) == params
    return params, ablation


def changed(params, full, variant):
    """What a variant's run has otherwise, method and training together."""
    runs = [asdict(grid.resolve(params, f"{name}-scenes-scenes-0")) for name in (full, variant)]
    flat = [{**run["method"], **{f"train.{k}": v for k, v in run["train"].items()}} for run in runs]
    return {key: value for key, value in flat[1].items() if value != flat[0][key]}


def test_the_command_writes_a_grid_that_passes_its_check(project, capsys):
    assert config_command.main(["ablate", "fsc_clip"]) == 0
    path = Path("experiments/grids/ablate_fsc_clip.yaml")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}: 12 cells" and lines[2] == "  fsc_clip.without_local    lambda_local: 0.0"
    assert lines[-1] == f"Next: `compclip config use {path}`, then `compclip repro report track`"
    assert path.read_text().startswith("# Ablation of fsc_clip: as it is, and with one part left out at a time.\n")
    assert config_command.main(["check", "--params", str(path)]) == 0
    assert config_command.main(["use", str(path), "--force"]) == 0
    assert read.load_params("params.yaml").report.reference == "fsc_clip"


def test_everything_but_the_methods_is_kept(project):
    original, (ablated, ablation) = read.load_params("params.yaml"), write_ablation("fsc_clip")
    names = ["global", "local", "gamma", "epsilon"]
    assert ablation.methods == ["pretrained", "fsc_clip", *(f"fsc_clip.without_{name}" for name in names)]
    assert set(ablated.methods) == {"pretrained", "fsc_clip"}
    lines = replace(original.wise_ft, methods=["fsc_clip"])  # negclip is in the grid no more
    report = replace(original.report, reference="fsc_clip")
    methods = replace(original.grid, methods=ablation.methods)
    assert ablated == replace(original, methods=ablated.methods, grid=methods, wise_ft=lines, report=report)


@pytest.mark.parametrize(
    ("method", "changes_by_part"),
    [
        ("fsc_clip", {"local": {"lambda_local": 0.0}, "gamma": {"gamma": 0.0}}),
        ("c2lip", {"npc": {"lambda_npc": 0.0}, "xac": {"lambda_xac": 0.0}}),
        ("hard_positives", {"hard_positives": {"hard_positives": "none"}}),
        (
            "clic",
            {
                "positives": {"positives": 1, "lambda_uni": 0.0},
                "composites": {"composites": False, "lambda_uni": 0.0},
                "alternate": {"alternate": False},
                "freezing": {"train.trainable": "all"},  # what methods.clic.train says otherwise than train
            },
        ),
    ],
)
def test_a_variant_differs_in_its_part_alone(project, method, changes_by_part):
    params, _ = write_ablation(method)
    for name, values in changes_by_part.items():
        assert changed(params, method, f"{method}.without_{name}") == values


FSC = {"negatives": "negclip+wordnet+bigram", "place": "global+local"}


@pytest.mark.parametrize(
    ("values", "changes_by_part"),
    [
        (FSC, {"negatives": {"place": "none", "negatives": "none"}, "global": {"lambda_global": 0.0},
               "local": {"lambda_local": 0.0}, "gamma": {"gamma": 0.0}, "epsilon": {"epsilon": 0.0}}),
        ({"contrast": "sigmoid", "concepts": "pooled", "lambda_xac": "0.0"},
         {"concepts": {"concepts": "none"}, "npc": {"lambda_npc": 0.0}}),
        ({"negatives": "clic", "place": "contrast", "hard_positives": "both"},
         {"negatives": {"place": "none", "negatives": "none"}, "hard_positives": {"hard_positives": "none"}}),
        ({"steps": "composites+plain", "place": "s_neg"},
         {"negatives": {"place": "none"}, "s_neg": {"lambda_s_neg": 0.0}, "uni": {"lambda_uni": 0.0},
          "positives": {"positives": 1, "lambda_uni": 0.0}, "composites": {"partner": "own", "lambda_uni": 0.0}}),
    ],
)  # fmt: skip
def test_hybrid_is_ablated_by_the_parts_that_are_switched_on(project, values, changes_by_part):
    """A weight whose switch is off is no part, and each variant is a run of the grid."""
    params, ablation = write_ablation(
        "hybrid", "params.yaml", *(f"methods.hybrid.{key}={value}" for key, value in values.items())
    )
    assert {*ablation.variants} == {f"without_{name}" for name in changes_by_part}
    for name, changes in changes_by_part.items():
        assert changed(params, "hybrid", f"hybrid.without_{name}") == changes


def test_what_is_left_out_already_is_no_variant(project):
    off = ["methods.fsc_clip.epsilon=0", "methods.fsc_clip.lambda_local=0"]
    assert config_command.main(["ablate", "fsc_clip", *off, "--out", "made.yaml"]) == 0
    params = read.load_params("made.yaml")
    assert params.grid.methods[2:] == ["fsc_clip.without_global", "fsc_clip.without_gamma"]
    assert params.methods["fsc_clip"]["lambda_local"] == 0
    _, without_uni = write_ablation("clic", "params.yaml", "methods.clic.lambda_uni=0")
    assert without_uni.variants["without_positives"] == {"positives": 1}


def test_a_part_of_one_data_set_is_a_part(project):
    world = "data.other={source: karpathy, path: a.json, images: b, captioner: none}"
    overrides = ("grid.data=[scenes,other]", "methods.negclip.per_data.other.hard_images=1", world)
    params, ablation = write_ablation("negclip", "params.yaml", *overrides)
    assert ablation.methods == ["pretrained", "negclip", "negclip.without_hard_images"]
    runs = [grid.resolve(params, f"{method}-scenes-other-0").method.hard_images for method in ablation.methods[1:]]
    assert runs == [1, 0]


def test_a_variant_keeps_what_it_has(project):
    """And its training, where a part of that goes."""
    params, ablation = write_ablation("clic.b4", GRIDS / "clic_table10.yaml")
    assert ablation.methods[1:] == ["clic.b4", *(f"clic.without_{n}" for n in ("s_neg", "positives", "alternate"))]
    run = grid.resolve(params, "clic.without_alternate-vit_b_32-laion-0")
    assert (run.method.composites, run.method.lambda_uni, run.method.alternate) == (False, 0.0, False)
    assert set(params.methods["clic"]["variants"]) == {"b4", "without_s_neg", "without_positives", "without_alternate"}
    params, _ = write_ablation("negclip.clic_swap", GRIDS / "claims.yaml")
    run = grid.resolve(params, "negclip.without_freezing-scenes-scenes-0")
    assert (run.method.swap, run.train.trainable, run.train.lr) == ("clic", "all", 3e-5)


def test_a_method_of_the_schedule_alone(project):
    """CLoVe's third step is its training's: weights averaged with the pretrained ones."""
    params, ablation = write_ablation("clove", GRIDS / "field.yaml")
    assert ablation.variants == {"without_averaging": {"train": {"average_alpha": 1.0}}}
    _, train = grid.method_config(params, "clove.without_averaging")
    assert train.average_alpha == 1.0


def test_values_that_refer_to_others_stand_as_they_are(project, monkeypatch):
    """Of the environment nothing is written down; a method that something refers to stays."""
    monkeypatch.setenv("RATE", "0.003")
    monkeypatch.setenv("COMPCLIP_ALLOW_ENV", "RATE")
    text = Path("params.yaml").read_text().replace("  lr: 1.5e-4", "  lr: ${oc.env:RATE}")
    Path("params.yaml").write_text(text.replace("epsilon: 0.02", "epsilon: ${methods.clic.lambda_s_neg}"))
    params, _ = write_ablation("fsc_clip")
    grid_text = Path("made.yaml").read_text()
    assert "${oc.env:RATE}" in grid_text and "0.003" not in grid_text
    assert set(params.methods) == {"pretrained", "clic", "fsc_clip"} and params.train.lr == 0.003
    assert grid.resolve(params, "fsc_clip-scenes-scenes-0").method.epsilon == 0.5


@pytest.mark.parametrize(("arguments", "message"), [
    (["fsc"], r"unknown method 'fsc'; did you mean '.*fsc_clip'"),
    (["fsc_clip.scr"], r"methods.fsc_clip.variants: unknown variant 'scr'"),
    (["finetune"], r"method 'finetune': has no part to leave out; name another method"),
    (["pretrained"], r"method 'pretrained': has no part"),
    (["negclip"], r"method 'negclip': all its parts are left out already: .*hard_images"),
    (["degla"], r"params.yaml: methods.degla: reads texts.negative, which data.scenes does not have"),
    (["clic", "train.lr"], r"override 'train.lr': must be key=value"),
    (["clic", "--params", "no.yaml"], r"no.yaml: no such file"),
])  # fmt: skip
def test_what_cannot_be_ablated_is_told_and_nothing_written(project, arguments, message):
    with pytest.raises(UserError, match=message):
        config_command.main(["ablate", *arguments])
    assert sorted(path.name for path in project.rglob("*")) == ["params.yaml"]


def test_a_file_that_is_there_stays(project):
    again = ["ablate", "c2lip", "--out", "made.yaml"]
    assert config_command.main(again) == 0
    with pytest.raises(UserError, match="made.yaml: exists already"):
        config_command.main([*again, "train.lr=1e-4"])
    assert config_command.main([*again, "train.lr=1e-4", "--force"]) == 0
    assert read.load_params("made.yaml").train.lr == 1e-4
    for name in ("params.yaml", "."):
        with pytest.raises(UserError, match=name):
            config_command.main(["ablate", "c2lip", "--out", name])


@pytest.mark.parametrize(("reference", "message"), [
    ("clik", r"report.reference, in grid.methods: unknown method 'clik'; did you mean 'clic'"),
    ("pretrained", r"report.reference=pretrained: all are compared with it anyway; name another"),
])  # fmt: skip
def test_a_reference_is_another_method_of_the_grid(project, reference, message):
    with pytest.raises(UserError, match=message):
        config_command.main(["check", f"report.reference={reference}"])
    assert config_command.main(["check", "report.reference=clic"]) == 0


def test_no_reference_may_be_written_as_null(project):
    assert config_command.main(["check", "report.reference=null"]) == 0
    assert read.load_params("params.yaml", ["report.reference=null"]).report.reference == ""


def test_every_declared_part_of_the_schedule_is_a_value_of_it():
    for name, part in ablate.ablation_parts.list_parts(ablate.Train).items():
        assert getattr(validation.load_section(ablate.Train, {name: part.off}, "train"), name) == part.off
