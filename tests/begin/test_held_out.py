"""Test sets that are held out: which pictures, what is written of them, and that none of them is trained on."""

import json

import pytest

from compclip.base.safe_names import SafeName
from compclip.begin import held_out
from compclip.begin.data_section import find_section, survey_data
from compclip.begin.held_out import PictureDraw
from compclip.config.sections import BenchmarkSection, Data
from compclip.data.sample import Sample
from compclip.evaluate.benchmark_module import load_benchmark
from compclip.prepare import benchmark_overlap, shard_stages
from tests.data import reading, tar_files

CAPTION = "A black dog runs beside a small cat."


def put_pictures(folder, count):
    """So many different pictures with a caption each, and their table."""
    rows = ["filepath,title"]
    for number in range(count):
        reading.put(folder / "shots" / f"{number}.jpg", tar_files.picture(colour=40 * number))
        rows.append(f"shots/{number}.jpg,{CAPTION}")
    return reading.put(folder / "my.csv", "\n".join(rows))


def draw_from(path):
    """A table's section, and the pictures that are drawn of it."""
    section, draw = find_section(str(path), ""), PictureDraw()
    survey_data(section, draw.add)
    return section, draw.samples()


@pytest.mark.parametrize(("pictures", "count"), [(1, 0), (2, 1), (150, 75), (999, 100), (4000, 400), (10**6, 1000)])
def test_a_tenth_within_bounds(pictures, count):
    assert held_out.count_held_out(pictures) == count


def test_later_pictures_move_no_other_one():
    """Of a set that grows the drawn ones stay or fall out; none of those that trained before is drawn."""
    small, large = PictureDraw(), PictureDraw()
    for number in range(900):
        sample = Sample(f"{number}", "", ("a",))
        large.add(sample)
        if number < 800:
            small.add(sample)
    before, after = ({sample.id for sample in draw.samples()} for draw in (small, large))
    assert len(before) == len(after) == 100
    assert {key for key in after - before if int(key) < 800} == set()


def test_a_test_set_is_two_benchmarks(tmp_path, monkeypatch):
    """Captions for retrieval, and a pair a rule that made one; both read by their modules."""
    section, samples = draw_from(put_pictures(tmp_path, 6))
    monkeypatch.chdir(tmp_path)
    test_set = held_out.write_test_set(held_out.FOLDER / "my", "", samples)
    assert (test_set.pictures, test_set.captions, dict(test_set.pairs)) == (3, 3, {"swap": 3, "replace": 3})
    sections = held_out.benchmark_sections("my", test_set)
    benchmarks = {name: load_benchmark(name, BenchmarkSection(**values)) for name, values in sections.items()}
    assert {name: len(benchmark) for name, benchmark in benchmarks.items()} == {"my_test": 3, "my_pairs": 6}
    assert set(benchmarks["my_pairs"].groups["accuracy"]) == {"swap", "replace"}
    assert {len(benchmark.images) for benchmark in benchmarks.values()} == {3}
    pairs = [json.loads(line) for line in (held_out.FOLDER / "my/pairs.jsonl").open()]
    assert all(pair["caption"] == CAPTION != pair["negative"] for pair in pairs)


def test_pictures_of_a_tar_are_copied_and_equal_ones_are_one(tmp_path):
    members = [*tar_files.sample("1", "A dog."), *tar_files.sample("2", "A cat sleeps.")]
    members += tar_files.sample("3", "A hen.", b"x")
    section = find_section(str(tar_files.write(tmp_path / "0.tar", members)), "")
    samples = []
    survey_data(section, samples.append)
    test_set = held_out.write_test_set(tmp_path / "held", "", samples)
    (row,) = map(json.loads, (tmp_path / "held/captions.jsonl").open())
    assert row["captions"] == ["A dog.", "A cat sleeps."]
    assert (tmp_path / "held/pictures" / row["image"]).read_bytes() == tar_files.picture()
    assert (test_set.pictures, test_set.unreadable) == (1, 1)


@pytest.mark.parametrize(("source", "layout", "split"), [
    ("karpathy", {}, "test"), ("table", {"split": "split"}, "test"), ("table", {}, ""), ("coco", {}, ""),
])  # fmt: skip
def test_a_split_of_the_data_is_taken(tmp_path, source, layout, split):
    pictures = {f"{number}.jpg": tar_files.picture() for number in range(3)}
    for name, raw in pictures.items():
        reading.put(tmp_path / name, raw)
    splits = dict(zip(pictures, ("train", "val", "test"), strict=True))
    images = [{"filename": n, "split": s, "sentences": [{"raw": "A dog."}]} for n, s in splits.items()]
    table = "filepath,title,split\n" + "".join(f"{name},A dog.,{split}\n" for name, split in splits.items())
    files = {"karpathy": json.dumps({"images": images}), "table": table}
    path = reading.put(tmp_path / f"captions.{'csv' if source == 'table' else 'json'}", files.get(source, ""))
    section = {"source": source, "path": str(path), "images": str(tmp_path), "captioner": "none", "layout": layout}
    name, samples = held_out.read_test_split(section)
    assert (name, [sample.image for sample in samples]) == (split, [str(tmp_path / "2.jpg")] if split else [])


def test_no_held_out_picture_is_trained_on(tmp_path, monkeypatch):
    """Not by another name either: a copy that is planted in the data is left out, and the overlap counts none."""
    path = put_pictures(tmp_path, 6)
    section, samples = draw_from(path)
    monkeypatch.chdir(tmp_path)
    test_set = held_out.write_test_set(held_out.FOLDER / "my", "", samples)
    reading.put(tmp_path / "shots/planted.jpg", (tmp_path / samples[0].image).read_bytes())
    path.write_text(f"{path.read_text()}\nshots/planted.jpg,{CAPTION}\n")
    names = held_out.benchmark_sections("my", test_set)
    for name, values in names.items():
        benchmark = load_benchmark(name, BenchmarkSection(**values))
        benchmark_overlap.write_benchmark_images(tmp_path / f"data/benchmarks/{name}.arrow", benchmark.images)
    cfg = Data(**section, exclude=list(names))
    stages = ("recaption", "rewrite", "annotate")
    counts = [shard_stages.run_stage(stage, SafeName("my", "data"), cfg) for stage in stages][-1]
    assert (counts["captions"], counts["excluded_my_test"]) == (3, 4)
    assert json.loads((tmp_path / "data/overlaps/my.json").read_text()) == {name: {} for name in names}
