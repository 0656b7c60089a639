"""Pictures that a data set shares with a benchmark: by which criterion, counted and left out."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base.safe_names import SafeName
from compclip.config.sections import BenchmarkSection, Data
from compclip.data.sample import Sample
from compclip.evaluate import result_store
from compclip.prepare import benchmark_overlap
from compclip.prepare.benchmark_overlap import ImageIdentity
from tests.data import reading, tar_files


def sample(image: str, **fields) -> Sample:
    return Sample(fields.pop("id", Path(image).stem), image, ("A dog.",), **fields)


@pytest.mark.parametrize("name,number", [
    ("COCO_val2014_000000123456.jpg", 123456),
    ("COCO_train2014_000000000009.png", 9),
    ("000000123456.jpg", 123456),
    ("000000123456", 123456),
    ("000123456.jpg", -1),  # nine digits: a counter of img2dataset
    *((name, -1) for name in ("0000000123456.jpg", "x000000123456.jpg", "123456.jpg", "COCO_val2014_123456.jpg")),
    ("٠٠٠٠٠٠١٢٣٤٥٦.jpg", -1),
])  # fmt: skip
def test_coco_numbers(name, number):
    assert benchmark_overlap.coco_number(name) == number


def test_what_a_sample_is_known_by():
    """In a tar twelve digits are a counter, unless COCO's own name or address stands there."""
    url = "http://images.cocodataset.org/train2017/000000391895.jpg"
    for given_sample, expected in (
        (sample("coco/000000123456.jpg", head=5), ImageIdentity(123456, 5, "")),
        (sample("x.tar", id="x/000000123456", length=9, sha256="AB"), ImageIdentity(-1, 0, "ab")),
        (sample("x.tar", id="x/COCO_val2014_000000123456", length=9), ImageIdentity(123456, 0, "")),
        (sample("x.tar", id="x/000000123", length=9, url=url), ImageIdentity(391895, 0, "")),
        (sample("x.tar", id="x/000000123", length=9, url="http://a/000000391895.jpg"), ImageIdentity(-1, 0, "")),
        (sample("x.tar", id="x/1", length=9, url="http://[cocodataset.org"), ImageIdentity(-1, 0, "")),
    ):
        assert benchmark_overlap.identify_sample(given_sample) == expected
    benchmark_images = benchmark_overlap.BenchmarkImages(frozenset({7}), frozenset({5}), frozenset({"ab"}))
    identities = ((7, 5, "ab"), (7, 5, ""), (7, 0, "cd"), (-1, 0, ""))  # the first criterion that holds
    assert [benchmark_images.criterion(ImageIdentity(*identity)) for identity in identities] == [
        "sha256",
        "bytes",
        "coco_id",
        "",
    ]


def put_picture(path: Path, colour: int) -> None:
    reading.put(path, tar_files.picture(8, 6, "PNG", colour))


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Two benchmarks, and a data set that has two of one's pictures and none of the other's but for their names."""
    monkeypatch.chdir(tmp_path)
    for n in range(3):
        put_picture(tmp_path / f"coco/00000000000{n}.png", 40 * n)
        put_picture(tmp_path / f"other/{n}.png", 100 + n)
    row = {"caption": "a dog", "negative_caption": "a cat"}  # of 9, a picture that is not there, the name is known
    rows = {str(n): {"filename": f"{n:012}.png"} | row for n in (0, 1, 2, 9)}
    for subset in ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"):
        reading.put(tmp_path / f"sugarcrepe/{subset}.json", json.dumps(rows))
    reading.put_karpathy(tmp_path / "other.json", {f"{n}.png": ["A dog."] for n in range(3)}, "test")
    for section in (("sugarcrepe", "sugarcrepe", "coco"), ("retrieval", "other.json", "other", "test")):
        result_store.write_census(SafeName(section[0], "benchmark"), BenchmarkSection(*section))
    train = tmp_path / "train"
    shutil.copytree(tmp_path / "coco", train)
    (train / "000000000001.png").rename(train / "renamed.png")  # equal bytes
    put_picture(train / "000000000002.png", 250)  # another picture: COCO's number alone
    put_picture(train / "000000000009.png", 251)
    for n in range(3):
        put_picture(train / f"{n}.png", 200 + n)  # a benchmark's names
    names = sorted(path.name for path in train.iterdir())
    reading.put_karpathy(tmp_path / "train.json", {name: [f"A dog and {name}."] for name in names})
    return tmp_path


CFG = Data("karpathy", "train.json", "train", captioner="none")


def run_stages(cfg: Data) -> tuple[dict, dict, list[str]]:
    """What the stages count, what is shared, and the pictures that are left."""
    data, counts = reading.prepare(cfg)
    ids = [data.sample(number).id for number in range(len(data))]
    return counts, json.loads(Path("data/overlaps/x.json").read_text()), ids


def test_counted_and_left_out(project):
    counts, shared, ids = run_stages(CFG)
    assert shared == {"retrieval": {}, "sugarcrepe": {"bytes": 2, "coco_id": 2, "pictures": 4}}
    assert len(ids) == 7 and not [name for name in counts if name.startswith("excluded")]
    counts, shared, ids = run_stages(replace(CFG, exclude=["retrieval", "sugarcrepe"]))
    assert shared == {"retrieval": {}, "sugarcrepe": {}}
    assert counts["excluded_sugarcrepe"] == 4 and counts["captions"] == 3
    assert ids == ["0", "1", "2"]
