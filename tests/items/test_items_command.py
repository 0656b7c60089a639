"""The command on results of a small grid: means, items with their texts, and wrong calls in one line."""

import json

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import read
from compclip.evaluate import benchmark_module, result_store
from compclip.evaluate.embeddings import Embeddings, number_keys
from compclip.items import __main__ as items_command
from compclip.report import __main__ as report_command
from tests import fake_runs

WRITTEN = {"swap_att": 10, "swap_obj": 5}  # records of the fake runs' sugarcrepe
PARAMS = """
grid: {{methods: [pretrained, negclip, clic], backbones: [vit], data: [scenes], seeds: [0, 1]}}
methods: {{pretrained: {{}}, negclip: {{}}, clic: {{}}}}
backbones: {{vit: {{model: ViT-B-32}}}}
data: {{scenes: {{source: karpathy, path: a.json, images: a, captioner: scenes}}}}
benchmarks:
  sugarcrepe: {{path: {folder}, images: {folder}, split: "swap_att,swap_obj"}}
  counterfactuals: {{benchmark: coco_counterfactuals, path: {folder}, images: {folder}}}
evaluate: {{benchmarks: [sugarcrepe, counterfactuals]}}
"""


@pytest.fixture
def project(tmp_path):
    """Fake runs scored on SugarCrepe's files of fifteen records."""
    folder = tmp_path / "official"
    for subset, count in WRITTEN.items():
        rows = {}
        for i in range(count):
            record = {"filename": f"{i}.png", "caption": f"{subset} {i}", "negative_caption": f"not {i}"}
            rows[f"{subset}:{i}"] = record
        write_json(folder / f"{subset}.json", rows)
    (tmp_path / "params.yaml").write_text(PARAMS.format(folder=folder))
    fake_runs.make(tmp_path)
    section = read.load_params(str(tmp_path / "params.yaml")).benchmarks["sugarcrepe"]
    fingerprint = result_store.write_census("sugarcrepe", section, tmp_path)["fingerprint"]
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
    won = {item["item"]: item for item in document["won"]}
    assert won.keys() == {"swap_att/swap_att:9", "swap_obj/swap_obj:3"}
    assert won["swap_att/swap_att:9"] | {"ours": 0.5, "theirs": 0.0} == won["swap_att/swap_att:9"]
    assert [item["item"] for item in document["lost"]] == ["swap_att/swap_att:8"]
    assert won["swap_att/swap_att:9"]["texts"] == ["swap_att 9", "not 9"]


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
        (
            ("clic", "--benchmark", "sugarcrepe", "--metric", "add"),
            "--metric: sugarcrepe: unknown metric 'add'.*swap_att",
        ),
    ],
)
def test_wrong_calls(project, words, message):
    with pytest.raises(UserError, match=message):
        run(project, *words)


def test_other_files_than_those_that_were_scored(project):
    rows = {"swap_obj:0": {"filename": "0.png", "caption": "another", "negative_caption": "not 0"}}
    write_json(project / "official" / "swap_obj.json", rows)
    section = read.load_params(str(project / "params.yaml")).benchmarks["sugarcrepe"]
    result_store.write_census("sugarcrepe", section, project)
    with pytest.raises(UserError, match="its files are not those that were scored"):
        run(project, "clic", "--benchmark", "sugarcrepe")


CAPTIONS = ("a dog on grass", "a cat on grass", "a red car", "a red bus")


@pytest.fixture
def counterfactuals(project):
    """The project, scored on two pairs too: CLIC sees dog and cat aright, the pretrained model the other way round."""
    pairs = [{"id": str(p), "image_0": f"{p}_0", "image_1": f"{p}_1", "caption_0": CAPTIONS[2 * p], "caption_1": CAPTIONS[2 * p + 1]}
             for p in (0, 1)]  # fmt: skip
    (project / "official" / "examples.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    sections = read.load_params(str(project / "params.yaml")).benchmarks
    result_store.write_census("counterfactuals", sections["counterfactuals"], project)
    loaded = benchmark_module.load_benchmarks(sections, ["counterfactuals"])
    benchmark = loaded.benchmarks["counterfactuals"]
    text_TD = np.eye(4, dtype=np.float32)
    image_row, text_row = number_keys(benchmark.images), number_keys(benchmark.texts)
    for folder in project.glob("results/*/*"):
        order = [1, 0, 2, 3] if folder.parent.name == "pretrained" else [0, 1, 2, 3]
        image_ID = 0.8 * text_TD[order] + 0.25 * text_TD[[1, 0, 3, 2]]
        outcomes = {"counterfactuals": benchmark.score(Embeddings(image_ID, text_TD, image_row, text_row, {}))}
        (document,) = benchmark_module.result_documents(outcomes, loaded, {}, 1.0).values()
        write_json(folder / "counterfactuals.json", document)
    return project


def test_the_captions_that_both_rows_put_first(counterfactuals, capsys):
    """A picture's own caption is marked; the scores are those that the metric was counted from."""
    words = ("clic", "--benchmark", "counterfactuals", "--metric", "i2t_recall_at_1", "--retrieved", "2")
    assert run(counterfactuals, *words, "--json") == 0
    won = {item["item"]: item["retrieved"] for item in json.loads(capsys.readouterr().out)["won"]}
    assert won.keys() == {"i2t_recall_at_1/0_0", "i2t_recall_at_1/0_1"}
    first, second = won["i2t_recall_at_1/0_0"]["clic"]
    assert first == {"text": "a dog on grass", "score": 0.8, "is_right": True}
    assert second == {"text": "a cat on grass", "score": 0.25, "is_right": False}
    assert won["i2t_recall_at_1/0_0"]["pretrained"][0] == {"text": "a cat on grass", "score": 1.05, "is_right": False}
    assert run(counterfactuals, *words) == 0
    assert "clic retrieves:\n      ✓ 0.800 a dog on grass\n      ✗ 0.250 a cat on grass" in capsys.readouterr().out


def test_the_report_shows_them_beside_the_picture(counterfactuals, monkeypatch):
    """A picture that CLIC wins, with the first captions of both."""
    monkeypatch.chdir(counterfactuals)
    assert report_command.main(["--partial"]) == 0
    html = (counterfactuals / "reports" / "index.html").read_text()
    first, second = "<span>✓ 0.800</span> a dog on grass", "<span>✗ 0.250</span> a cat on grass"
    assert f'<li class="right">{first}</li><li>{second}</li>' in html
    assert "pretrained puts first" in html and "counterfactuals/i2t_recall_at_1/0_0" in html
