"""The command on results of a small grid: means, items with their texts, and wrong calls in one line."""

from __future__ import annotations

import json

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.benchmarks import sugarcrepe
from compclip.items import __main__ as items_command
from tests import fake_runs

WRITTEN = {"swap_att": 10, "swap_obj": 5}  # records of the fake runs' sugarcrepe
PARAMS = """
grid: {{methods: [pretrained, negclip, clic], backbones: [vit], data: [scenes], seeds: [0, 1]}}
methods: {{pretrained: {{}}, negclip: {{}}, clic: {{}}}}
backbones: {{vit: {{model: ViT-B-32}}}}
data: {{scenes: {{source: karpathy, path: a.json, images: a, captioner: scenes}}}}
benchmarks:
  sugarcrepe: {{path: {folder}, images: {folder}, split: "swap_att,swap_obj"}}
  retrieval: {{path: {folder}, images: {folder}}}
evaluate: {{benchmarks: [sugarcrepe]}}
"""


@pytest.fixture
def project(tmp_path):
    """Fake runs scored on SugarCrepe's files of fifteen records."""
    folder = tmp_path / "official"
    for subset, count in WRITTEN.items():
        rows = {
            f"{subset}:{i}": {"filename": f"{i}.png", "caption": f"{subset} {i}", "negative_caption": f"not {i}"}
            for i in range(count)
        }
        write_json(folder / f"{subset}.json", rows)
    (tmp_path / "params.yaml").write_text(PARAMS.format(folder=folder))
    fake_runs.make(tmp_path)
    fingerprint = sugarcrepe.load(str(folder), str(folder), "swap_att,swap_obj").fingerprint()
    for path in tmp_path.glob("results/*/*/sugarcrepe.json"):
        write_json(path, json.loads(path.read_text()) | {"fingerprint": fingerprint})
    return tmp_path


def run(project, *words: str) -> int:
    return items_command.main([*words, "--params", str(project / "params.yaml")], project)


def test_two_rows(project, capsys):
    """NegCLIP's seeds get 8 and 10 of 10, and 3 and 4 of 5; CLIC's 9 and 3 under both seeds."""
    assert run(project, "negclip", "clic", "--benchmark", "sugarcrepe", "--items", "2", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["items"] == 15 and document["means"]["ours"] == pytest.approx((9 + 3.5) / 15)
    assert document["means"]["theirs"] == pytest.approx(12 / 15)
    assert document["slices"] == []  # of ten pictures none can be found
    assert [item["item"] for item in document["won"]] == ["swap_att/swap_att:9", "swap_obj/swap_obj:3"]
    assert document["won"][0] | {"ours": 0.5, "theirs": 0.0} == document["won"][0]
    assert [item["item"] for item in document["lost"]] == ["swap_att/swap_att:8"]
    assert document["won"][0]["texts"] == ["swap_att 9", "not 9"]


def test_a_row_against_the_pretrained_model(project, capsys):
    assert run(project, "clic", "--benchmark", "sugarcrepe", "--metric", "swap_att", "--items", "1") == 0
    out = capsys.readouterr().out
    assert out.startswith("sugarcrepe, 10 items: clic 90.0, pretrained 50.0, difference +40.0")
    assert "clic wins:\n  swap_att/" in out and "    not " in out and "clic loses" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("clic", "--benchmark", "sugarcrep"), "--benchmark: unknown benchmark 'sugarcrep'.*sugarcrepe"),
        (("clik", "--benchmark", "sugarcrepe"), "grid.methods: unknown method 'clik'.*clic"),
        (("clic", "--benchmark", "sugarcrepe", "--data", "coco"), "clic: no result of sugarcrepe on vit and coco; run"),
        (("clic", "--benchmark", "sugarcrepe", "--metric", "add"), "keeps no items of 'add'; give one of swap_att"),
    ],
)
def test_wrong_calls(project, words, message):
    with pytest.raises(UserError, match=message):
        run(project, *words)


def test_other_files_than_those_that_were_scored(project):
    rows = {"swap_obj:0": {"filename": "0.png", "caption": "another", "negative_caption": "not 0"}}
    write_json(project / "official" / "swap_obj.json", rows)
    with pytest.raises(UserError, match="its files are not those that were scored"):
        run(project, "clic", "--benchmark", "sugarcrepe")
