"""Published numbers beside a checkpoint's: of its backbone, of official files alone; known by name, towers or file."""

import json

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


def find(ref: str, towers: str = "", **document) -> dict[str, dict]:
    """What compares with SugarCrepe's results of a checkpoint."""
    return comparable_numbers.find_comparable(ref, towers, {"sugarcrepe": make_document(**document)})


def test_numbers_of_the_backbone_alone():
    """The pretrained model's and the highest of the tuned ones, by hand from the tables; scored as it was trained."""
    column = find("ViT-B-32::openai")["sugarcrepe"]["swap_obj"]
    rows = published_numbers.drop_wrong_activations(NUMBERS)
    rows = [n for n in rows if (n.backbone, n.column) == ("ViT-B/32", "sugarcrepe/swap_obj")]
    assert {n.value for n in column.pretrained} == {n.value for n in rows if n.method == "pretrained"}
    tuned = [float(n.value) for n in rows if n.method not in ("", "pretrained")]
    assert float(column.best[0].value) == max(tuned)
    large = find("ViT-L-14::openai")["sugarcrepe"]
    assert {n.backbone for column in large.values() for n in (*column.pretrained, *column.best)} == {"ViT-L/14"}


@pytest.mark.parametrize(
    ("ref", "fingerprint"), [("ViT-B-32::openai", "other files"), ("RN50::openai", ""), ("nowhere", "")]
)
def test_where_nothing_compares(ref, fingerprint):
    """Other files, a backbone that no paper reports, a checkpoint of unknown towers."""
    assert find(ref, fingerprint=fingerprint) == {}


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
    comparable = find("models/released/negclip/negclip.pth", "ViT-B-32")
    (authors_method,) = {n.method for column in comparable["sugarcrepe"].values() for n in column.released}
    assert authors_method in ("negclip", "released.negclip")
    assert "its authors'" in scoring_options.metric_table({"sugarcrepe": make_document()}, comparable)


def test_the_table_has_interval_and_records():
    """Over pictures; a mark where few were scored, and the same numbers as JSON."""
    documents, published = {"sugarcrepe": make_document(scored=319)}, find("ViT-B-32::openai", scored=319)
    (line,) = [line for line in scoring_options.metric_table(documents, published).splitlines() if " swap_obj " in line]
    numbers = scoring_options.numbers_as_json(documents, published)["sugarcrepe"]
    low, high = numbers["intervals"]["swap_obj"]
    assert f"[{100 * low:.2f}, {100 * high:.2f}]" in line and "‡ 319 of 7,511  pretrained 6" in line
    assert numbers["published"]["swap_obj"]["best"][0]["value"] in line
    assert numbers["coverage"] == {"swap_obj": [319, 7511]}


def test_results_are_a_page(here_finished, tmp_path, capsys):
    """`--out` has an index.html beside the results, that fetches and runs nothing."""
    run, out = next(here_finished.glob("runs/fsc_clip/*/checkpoint")), tmp_path / "out"
    command = ["--checkpoint", str(run), "--benchmarks", "sugarcrepe", "--out", str(out)]
    assert evaluate_command.main(command) == 0
    page = (out / "index.html").read_text()
    values = json.loads((out / "sugarcrepe.json").read_text())["metrics"]
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
