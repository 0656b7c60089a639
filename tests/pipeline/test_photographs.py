"""Real photographs end to end: read, annotated, fine-tuned on, evaluated; what is not there is counted."""

import json
import re

import pytest

from compclip.base.files import write_json
from compclip.evaluate import __main__ as evaluate_command
from compclip.model.__main__ import main as pretrain
from compclip.prepare import shard_stages
from compclip.train import __main__ as train_command
from tests.tiny_project import TINY, trained

PARAMS = """
grid: {{methods: [clic, fsc_clip], backbones: [tiny], data: [coco, flickr8k], seeds: [0]}}
train: {{max_steps: 2, batch_size: 4, lr: 1.0e-5, warmup_steps: 1, threads: 1, log_every_steps: 1}}
methods: {{clic: {{train: {{trainable: text}}}}, fsc_clip: {{}}}}
backbones: {{tiny: {{model: tiny.json}}}}
data:
  coco: {{source: coco, path: {at}/coco/annotations/captions_val2017.json, images: {at}/coco/val2017, captioner: none, limit: 40}}
  flickr8k: {{source: flickr8k, path: {at}/flickr8k/captions.txt, images: {at}/flickr8k/Images, captioner: none, limit: 20}}
benchmarks:
  sugarcrepe: {{path: {at}/sugarcrepe, images: {at}/coco/val2017}}
  retrieval_coco: {{benchmark: retrieval, path: {at}/coco/annotations/captions_val2017.json, images: {at}/coco/val2017}}
  valse: {{path: {at}/valse, images: {at}/coco/val2017, split: "plurals,relations"}}
evaluate: {{benchmarks: [sugarcrepe, retrieval_coco, valse], threads: 1}}
"""


@pytest.fixture(scope="module")
def project(shared_data, tmp_path_factory):
    """A folder with both data sets prepared and a tiny random backbone."""
    root = tmp_path_factory.mktemp("photographs")
    (root / "params.yaml").write_text(PARAMS.format(at=shared_data))
    write_json(root / "tiny.json", TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in ("coco", "flickr8k"):
            assert shard_stages.main(["--data", name]) == 0
            assert shard_stages.main(["--data", name, "--annotate"]) == 0
        assert pretrain(["--backbone", "tiny"]) == 0
    return root


@pytest.mark.parametrize("cell", ["clic-tiny-coco-0", "fsc_clip-tiny-flickr8k-0"])
def test_methods_train_on_photographs(project, monkeypatch, cell):
    """Two steps, alone and of composites, on photographs of all shapes; nothing had to be replaced."""
    monkeypatch.chdir(project)
    assert train_command.main(["--cell", cell]) == 0
    assert json.loads((trained(project, cell) / "environment.json").read_text())["dropped"] == {}


def test_evaluation_counts_the_photographs_that_are_not_there(project, monkeypatch, capsys):
    """SugarCrepe has 7,511 records; those of the 65 photographs at hand are scored, the others counted as missing."""
    monkeypatch.chdir(project)
    assert evaluate_command.main(["--checkpoint", "models/tiny", "--out", "results"]) == 0
    counts = json.loads((project / "results" / "sugarcrepe.json").read_text())["counts"]
    assert counts["records"] == 7511
    assert counts["scored"] + counts["missing_image"] == 7511
    assert 0 < counts["scored"] < 1000
    output = capsys.readouterr()
    assert "missing_image" in output.err
    assert re.search(r"valse +plurals +[\d.]+ +\[[\d., ]+\] +‡ 20 of 851\n", output.out)
    assert re.search(r"retrieval_coco +i2t_recall_at_1 +[\d.]+ +\[[\d., ]+\] +154 of 154\n", output.out)
    retrieval = json.loads((project / "results" / "retrieval_coco.json").read_text())
    assert retrieval["counts"]["scored"] == 154
    valse = json.loads((project / "results" / "valse.json").read_text())
    assert (valse["counts"]["records"], valse["counts"]["invalid"], valse["counts"]["scored"]) == (851 + 535, 228, 33)
    assert valse["coverage"] == {"plurals": [20, 851], "relations": [13, 535]}
    assert len(valse["items"]["plurals"]["ids"]) == 20 and len(valse["items"]["relations"]["ids"]) == 13
    assert "average" not in valse["metrics"]
