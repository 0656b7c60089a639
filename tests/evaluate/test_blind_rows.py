"""Blind rows: a planted artefact is caught, a balanced benchmark is not; ties are wrong; pictures are never opened."""

import csv
import json
from dataclasses import replace

from compclip.benchmarks import sugarcrepe, sugarcrepe_pp
from compclip.config.sections import BenchmarkSection
from compclip.data.sample import Sample
from compclip.evaluate import benchmark_module, blind_rows
from compclip.evaluate.benchmark_module import LoadedBenchmarks
from compclip.runs.item_outcomes import RETRIEVAL, Items
from compclip.text.annotation import Annotation
from tests.prepared_set import prepared

CAPTIONS = ["a dog runs", "a dog sleeps", "a cat runs", "the cat sleeps on the mat"]
ROWS = ["length", "frequency", "bigram"]
PAIRS = [("a dog runs", "a cat runs on the mat"), ("the cat sleeps", "the dog sleeps on it")]


def write_sugarcrepe(folder, pairs):
    """Write SugarCrepe's files with the same pairs in each; their pictures are nowhere."""
    folder.mkdir()
    rows = {str(i): {"filename": "no.png", "caption": a, "negative_caption": b} for i, (a, b) in enumerate(pairs)}
    for subset in sugarcrepe.SUBSETS:
        (folder / f"{subset}.json").write_text(json.dumps(rows))
    return BenchmarkSection(path=str(folder), images=str(folder), benchmark="sugarcrepe")


def measure(sections, rows=ROWS, captions=CAPTIONS):
    """Return row -> benchmark -> metrics."""
    documents = blind_rows.score_blind(benchmark_module.load_benchmarks(sections, list(sections)), rows, captions)
    return {row: {name: document["metrics"] for name, document in d.items()} for row, d in documents.items()}


def test_a_planted_artefact_is_caught_and_a_balanced_benchmark_is_not(tmp_path):
    """Captions that are shorter are all found without a picture; with each pair both ways round half of them are."""
    planted = write_sugarcrepe(tmp_path / "planted", PAIRS)
    balanced = write_sugarcrepe(tmp_path / "balanced", [*PAIRS, *((b, a) for a, b in PAIRS)])
    sections = {"planted": planted, "balanced": balanced}
    metrics = measure(sections)
    assert metrics["length"]["planted"]["average"] == metrics["bigram"]["planted"]["average"] == 1.0
    assert all(metrics[row]["balanced"]["average"] == 0.5 for row in ROWS)


def test_texts_that_tie_are_wrong(tmp_path):
    sections = {"sugarcrepe": write_sugarcrepe(tmp_path / "s", [("a dog runs", "a cat runs"), ("x", "y")])}
    metrics = measure(sections)
    assert metrics["length"]["sugarcrepe"]["average"] == 0.0
    assert metrics["frequency"]["sugarcrepe"]["average"] == 0.0  # dog and cat are as frequent


def test_winoground_cannot_be_won_without_pictures(tmp_path):
    """The same text wins on both pictures, or they tie; of two pictures with one text none wins."""
    line = {"id": 0, "image_0": "a", "image_1": "b", "caption_0": "a dog runs", "caption_1": "runs dog the a"}
    (tmp_path / "examples.jsonl").write_text(json.dumps(line))
    metrics = measure({"winoground": BenchmarkSection(path=str(tmp_path), images=str(tmp_path))})
    assert all(of_row["winoground"] == {"text": 0, "image": 0, "group": 0} for of_row in metrics.values())


def test_what_compares_texts_alone_and_mean_scores_are_left_out(tmp_path):
    for subset in sugarcrepe_pp.SUBSETS:
        row = {"id": 0, "filename": "no.png", "caption": "a dog", "caption2": "dogs", "negative_caption": "some cats"}
        (tmp_path / f"{subset}.json").write_text(json.dumps([row]))
    section = BenchmarkSection(path=str(tmp_path), images=str(tmp_path))
    metrics = measure({"sugarcrepe_pp": section}, ["length"])["length"]["sugarcrepe_pp"]
    assert metrics["average_itt"] == 1.0 and not any(name.endswith("_tot") for name in metrics)


def test_benchmarks_of_other_kinds_are_left_out(shared_data):
    benchmark = sugarcrepe.load(shared_data / "sugarcrepe", split="swap_obj")
    loaded = LoadedBenchmarks({"other": replace(benchmark, kind=RETRIEVAL)}, {"other": "retrieval"})
    assert blind_rows.score_blind(loaded, ["length"], CAPTIONS) == {"length": {}}


def test_the_official_files(shared_data):
    """What anybody can count in them: the shorter text is right in 99.6 and 98.9 % of what was added."""
    folder = str(shared_data / "sugarcrepe")
    section = BenchmarkSection(path=folder, images=folder, split="add_att,add_obj,replace_rel")
    with open(shared_data / "flickr8k" / "captions.txt", encoding="utf-8", newline="") as file:
        captions = [row["caption"] for row in csv.DictReader(file)]
    assert len(captions) == 5000
    metrics = measure({"sugarcrepe": section}, captions=captions)
    by_length, by_pairs = metrics["length"]["sugarcrepe"], metrics["bigram"]["sugarcrepe"]
    assert round(100 * by_length["add_att"], 1) == 99.6 and round(100 * by_length["add_obj"], 1) == 98.9
    assert round(100 * by_pairs["replace_rel"], 1) == 69.6


def compare_vectors(records, embeddings):
    """A benchmark of a plug-in that multiplies the vectors itself."""
    image_ND = embeddings.images([record.images[0] for record in records])
    text_ND = embeddings.texts([record.texts[0] for record in records])
    return {"right": Items(tuple(record.id for record in records), (image_ND * text_ND).sum(1))}


def test_a_benchmark_that_asks_for_vectors_is_left_out(tmp_path, capfd):
    """With a line that says what it may ask for; the others of the data set have their rows."""
    section = write_sugarcrepe(tmp_path / "s", PAIRS)
    loaded = benchmark_module.load_benchmarks({"sugarcrepe": section}, ["sugarcrepe"])
    vectors = replace(loaded.benchmarks["sugarcrepe"], evaluate=compare_vectors)
    both = LoadedBenchmarks(loaded.benchmarks | {"vectors": vectors}, loaded.module_of | {"vectors": "vectors"})
    assert blind_rows.score_blind(both, ["length"], CAPTIONS)["length"].keys() == {"sugarcrepe"}
    assert "vectors: length is left out: this benchmark asks for vectors of pictures" in capfd.readouterr().err


def test_captions_of_a_data_set_are_evenly_spaced(tmp_path):
    """Over shards of two pictures; every third of seven where at most three are wanted."""
    captions = [[f"caption {i}"] if i else ["caption 0", "caption 0 again"] for i in range(6)]
    samples = [Sample(f"s{i}", f"{i}.png", (), width=8, height=8) for i in range(6)]
    prepared(tmp_path, samples, [[Annotation(text) for text in texts] for texts in captions])
    assert blind_rows.read_prepared_captions(tmp_path) == [text for texts in captions for text in texts]
    assert blind_rows.read_prepared_captions(tmp_path, at_most=3) == ["caption 0", "caption 2", "caption 5"]
