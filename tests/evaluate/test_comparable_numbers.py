"""Published numbers beside a checkpoint's: of its backbone, of official files alone; known by name, towers or file."""

import json
import shutil

import open_clip
import pytest

from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import comparable_numbers, scoring_options
from compclip.report import published_numbers
from tests.conftest import ROOT

OFFICIAL = published_numbers.read_official_benchmarks(ROOT / "experiments/published")
NUMBERS = published_numbers.read_numbers(ROOT / "experiments/published")


def make_document(fingerprint: str = "", scored: int = 7511) -> dict:
    """SugarCrepe's results, one metric of three items of two pictures."""
    items = {"ids": ["1", "2", "3"], "outcomes": [1.0, 0.0, 1.0]}
    return {
        "benchmark": "sugarcrepe", "fingerprint": fingerprint or OFFICIAL.fingerprints["sugarcrepe"][0], "lower": [],
        "scores": [], "counts": {"records": 7511, "scored": scored}, "coverage": {"swap_obj": [scored, 7511]},
        "metrics": {"swap_obj": 2 / 3, "average": 2 / 3}, "means": {"average": ["swap_obj"]},
        "items": {"swap_obj": items}, "units": {"swap_obj": [1, 1, 2]},
    }  # fmt: skip


def printed(backbone: str, metric: str) -> list[tuple[str, float]]:
    """The method and value of what papers print of SugarCrepe on a backbone, scored as it was trained."""
    rows = published_numbers.drop_wrong_activations(NUMBERS)
    return [
        (n.method, float(n.value))
        for n in rows
        if (n.backbone, n.benchmark, n.metric) == (backbone, "sugarcrepe", metric)
    ]


def test_numbers_of_the_backbone_alone():
    """The pretrained model's and the highest of the tuned ones, by hand from the tables."""
    comparable = comparable_numbers.find_comparable("ViT-B-32::openai", "", {"sugarcrepe": make_document()})[
        "sugarcrepe"
    ]
    rows = printed("ViT-B/32", "swap_obj")
    assert {float(n.value) for n in comparable["swap_obj"].pretrained} == {
        v for method, v in rows if method == "pretrained"
    }
    assert float(comparable["swap_obj"].best[0].value) == max(
        v for method, v in rows if method not in ("", "pretrained")
    )
    large = comparable_numbers.find_comparable("ViT-L-14::openai", "", {"sugarcrepe": make_document()})["sugarcrepe"]
    assert {n.backbone for column in large.values() for n in (*column.pretrained, *column.best)} == {"ViT-L/14"}


@pytest.mark.parametrize(
    ("ref", "fingerprint"), [("ViT-B-32::openai", "other files"), ("RN50::openai", ""), ("nowhere", "")]
)
def test_where_nothing_compares(ref, fingerprint):
    """Other files, a backbone that no paper reports, a checkpoint of unknown towers."""
    assert comparable_numbers.find_comparable(ref, "", {"sugarcrepe": make_document(fingerprint)}) == {}


@pytest.mark.parametrize(("model", "backbone"), [
    ("ViT-B-32-quickgelu", "vit_b_32"), ("ViT-L-14", "vit_l_14"), ("ViT-B-16-SigLIP", "vit_b_16_siglip"), ("RN50", ""),
])  # fmt: skip
@pytest.mark.parametrize("subfolder", [".", "checkpoint", "final/checkpoint"])
def test_a_folder_is_known_by_its_towers(model, backbone, subfolder, tmp_path):
    """open_clip's folder, a published run's and one of the store."""
    folder = tmp_path / subfolder
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_cfg": open_clip.get_model_config(model), "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    assert comparable_numbers.find_backbone(str(tmp_path), "") == backbone


def test_a_released_file_has_its_authors_numbers():
    """By the place where `compclip fetch` puts it."""
    ref = "models/released/negclip/negclip.pth"
    (authors_method,) = {n.method for b in comparable_numbers.find_comparable(ref, "ViT-B-32", {"sugarcrepe": make_document()})["sugarcrepe"].values()
              for n in b.released}  # fmt: skip
    assert authors_method in ("negclip", "released.negclip")
    assert "its authors'" in scoring_options.metric_table(
        {"sugarcrepe": make_document()},
        comparable_numbers.find_comparable(ref, "ViT-B-32", {"sugarcrepe": make_document()}),
    )


def test_the_table_has_interval_and_records():
    """Over pictures; a mark where few were scored, and the same numbers as JSON."""
    documents = {"sugarcrepe": make_document(scored=319)}
    published = comparable_numbers.find_comparable("ViT-B-32::openai", "", documents)
    line = next(
        line for line in scoring_options.metric_table(documents, published).splitlines() if " swap_obj " in line
    )
    numbers = scoring_options.numbers_as_json(documents, published)["sugarcrepe"]
    low, high = numbers["intervals"]["swap_obj"]
    assert f"[{100 * low:.2f}, {100 * high:.2f}]" in line and "‡ 319 of 7,511  pretrained 6" in line
    assert numbers["published"]["swap_obj"]["best"][0]["value"] in line and numbers["coverage"] == {
        "swap_obj": [319, 7511]
    }


def test_results_are_a_page(here_finished, tmp_path, capsys):
    """`--out` has an index.html beside the results, that fetches and runs nothing."""
    run = next(here_finished.glob("runs/fsc_clip/*/checkpoint"))
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert (
        evaluate_command.main(["--checkpoint", str(run), "--benchmarks", "sugarcrepe", "--out", str(tmp_path / "out")])
        == 0
    )
    page = (tmp_path / "out/index.html").read_text()
    values = json.loads((tmp_path / "out/sugarcrepe.json").read_text())["metrics"]
    table = capsys.readouterr().out
    assert all(f"<td>{metric}</td>" in page and metric in table for metric in values)
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize(("content", "expected"), [(b"weights", "released.negclip"), (b"another", "")])
def test_a_released_file_is_known_wherever_it_lies(tmp_path, monkeypatch, content, expected):
    """By the bytes of what `compclip fetch` brought; another file of equal size is not that one."""
    monkeypatch.chdir(tmp_path)
    fetched = tmp_path / "models/released/negclip/negclip.pth"
    fetched.parent.mkdir(parents=True)
    fetched.write_bytes(b"weights")
    copy = tmp_path / "mine.pt"
    copy.write_bytes(content)
    assert comparable_numbers._find_released(str(copy)) == expected
