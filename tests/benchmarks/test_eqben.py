"""EqBen: the official formats, Winoground's scores, Kubric as one data set, the cap, arrays made into pictures."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import eqben

SUBSET, FULL = "e/eqben_subset_10percent_final.json", "e/ann_json_finegrained_random.json"
TEXTS = {"x": [1.0, 0.0], "y": [0.0, 1.0], "z": [0.6, 0.8]}
VECTORS = {"x.png": [1.0, 0.0], "y.png": [0.0, 1.0], "z.png": [0.6, 0.8]}


def pair(subset: str, second_image: str = "y.png", caption: str = "y") -> dict:
    """A sample that is all right, unless the second image or caption is another."""
    return {"image0": f"{subset}/x.png", "image1": f"{subset}/{second_image}", "caption0": "x", "caption1": caption}


def crossed(subset: str, number: int, image: int, caption: int, second: str = "y") -> dict:
    return {"image": f"{subset}/{('x', second)[image]}.png", "caption": ("x", second)[caption],
            "private_info": {"dataset": subset, "sample_cnt": number, "name": f"c{caption}i{image}"}}  # fmt: skip


@pytest.fixture
def scored(embeddings):
    def score(file, failed=(), **options):
        places = {file.parent / subset / name: vector for subset in eqben.SUBTASKS for name, vector in VECTORS.items()}
        images = {at: vector for at, vector in places.items() if at not in failed}
        return eqben.load(file, **options).score(embeddings(images, TEXTS, dict.fromkeys(failed, "missing")))

    return score


def test_three_scores_and_their_means_over_five_data_sets(dump, scored):
    samples = [pair(subset) for subset in eqben.SUBTASKS] + [
        pair("eqbensd", second_image="z.png"),  # y is the nearer caption of z.png, and z.png the nearer image of y
        pair("eqbenkubric_cnt", second_image="x.png"), pair("eqbenkubric_cnt", caption="x"),
    ]  # fmt: skip
    result = scored(dump(SUBSET, samples))
    assert result.metrics["eqbensd_group"] == 1.0
    assert result.items["eqbenkubric_cnt_text"].values.tolist() == [1, 0, 0]
    assert result.items["eqbenkubric_group"].values.tolist() == [1, 1, 0, 0, 1]
    assert result.items["eqbenkubric_group"].ids[0] == "eqbenkubric_attr/2"
    assert result.metrics["group"] == pytest.approx((4 + 3 / 5) / 5)


def test_text_and_image_score_differ(dump, scored):
    sample = {"image0": "eqbensd/y.png", "image1": "eqbensd/z.png", "caption0": "y", "caption1": "x"}
    result = scored(dump(SUBSET, [sample, {**sample, "image1": "eqbensd/x.png", "caption1": "z"}]))
    # z.png is nearer to y (0.8) than to its own x (0.6), and z to y.png than to its own x.png
    assert result.items["eqbensd_text"].values.tolist() == [0, 1]
    assert result.items["eqbensd_image"].values.tolist() == [1, 0]
    assert result.items["eqbensd_group"].values.tolist() == [0, 0]


def test_the_shuffled_file_gives_whole_samples_in_their_order(dump, scored):
    places = [(i, c) for i in (1, 0) for c in (1, 0)]
    records = [crossed("eqbensd", n, i, c, second) for n, second in ((9, "z"), (4, "y")) for i, c in places]
    file = dump(FULL, records)
    assert [record.id for record in eqben.load(file.parent).records] == ["4", "9"]
    first = eqben.load(file).records[0]
    assert first.images == (str(file.parent / "eqbensd/x.png"), str(file.parent / "eqbensd/y.png"))
    assert first.texts == ("x", "y")
    assert scored(file).items["eqbensd_group"].values.tolist() == [1, 1]


def test_sub_tasks_by_name_have_no_mean(dump, scored):
    file = dump(SUBSET, [pair(subset) for subset in eqben.SUBTASKS])
    result = scored(file, split="eqbenag, eqbenkubric_cnt")
    assert set(result.metrics) == {f"{s}_{score}" for s in ("eqbenag", "eqbenkubric_cnt") for score in eqben.SCORES}


def test_the_cap_takes_samples_evenly_and_counts_the_rest(dump, scored):
    file = dump(SUBSET, [pair("eqbenag")] * 7 + [pair("eqbensd")] * 2)
    uncapped = scored(file, options=eqben.Config(cap=0))
    assert len(uncapped.items["eqbenag_group"].ids) == 7 and uncapped.counts["over_the_cap"] == 0
    with pytest.raises(UserError, match=r"cap=-1: must be >= 0"):
        eqben.Config(cap=-1)
    result = scored(file, options=eqben.Config(cap=3))
    assert result.items["eqbenag_group"].ids == ("0", "2", "4") and result.items["eqbensd_group"].ids == ("7", "8")
    assert (result.counts["records"], result.counts["over_the_cap"]) == (5, 4)


def test_arrays_are_read_as_the_pictures_made_of_them(dump, picture):
    file = dump(SUBSET, [{**pair("eqbenyoucook2"), "image0": "eqbenyoucook2/a.npy", "image1": "eqbenyoucook2/b.npy"}])
    output = picture("e/eqbenyoucook2/a.jpg")
    assert eqben.load(file).images == [str(output), str(file.parent / "eqbenyoucook2/b.png")]
    picture("e/eqbenyoucook2/a.png")
    assert eqben.load(file).images[0] == str(output.with_suffix(".png"))


def test_the_light_set_names_its_jpegs_png(dump, picture):
    file = dump("e/all_select.json", [pair("eqbengebc")])
    output = picture("e/images/eqbengebc/x.jpg")
    assert eqben.load(file.parent).images == [str(output), str(output.with_name("y.png"))]
    png = picture("e/images/eqbengebc/x.png")
    assert eqben.load(file.parent).images[0] == str(png)


FRAME = {"image0": "v.mp4/1.png", "image1": "v.mp4/2.png", "caption0": ["x", "never"], "caption1": ["y"]}


def test_annotations_by_video_and_subject_in_a_file_each(dump, picture):
    """Sub-tasks by the first folder, or by the file's name where the paths start at the video."""
    dump("e/eqbenag_ann.json", {"v.mp4": {"person": [FRAME, FRAME], "cup": [FRAME]}})
    dump("e/gebc.json", {"v1": [pair("eqbengebc")], "v2": [pair("eqbengebc")]})
    folder = dump("e/sd.json", [pair("eqbensd")]).parent
    at = picture("e/eqbenag/v.mp4/1.jpg")
    benchmark = eqben.load(folder)
    assert [(r.subset, r.id, r.texts) for r in benchmark.records[:5]] == [
        ("eqbenag", "v.mp4/person/0", ("x", "y")), ("eqbenag", "v.mp4/person/1", ("x", "y")),
        ("eqbenag", "v.mp4/cup/0", ("x", "y")), ("eqbengebc", "v1/0", ("x", "y")), ("eqbengebc", "v2/0", ("x", "y")),
    ]  # fmt: skip
    assert [r.subset for r in benchmark.records[5:]] == ["eqbensd"]
    assert benchmark.images[0] == str(at) and len(benchmark.files) == 3
    assert len(eqben.load(folder, split="eqbenag")) == 3
