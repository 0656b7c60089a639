"""SugarCrepe++: both tasks, and TOT without images."""

import pytest

from compclip.benchmarks import sugarcrepe_pp

# the image likes p1 and p2 more than n; p1 and p2 are alike
TEXTS = {"p1": [1.0, 0.0, 0.1], "p2": [0.9, 0.1, 0.1], "n": [0.2, 0.9, 0.1], "far": [0.0, 1.0, 0.0]}


def record(key: int, *texts: str, image: str = "a.png") -> dict:
    return {"id": key, "filename": image} | dict(zip(sugarcrepe_pp.TEXTS, texts, strict=True))


@pytest.fixture
def folder(dump):
    for subset in sugarcrepe_pp.SUBSETS:
        path = dump(f"pp/{subset}.json", [record(3, "p1", "p2", "n"), record(4, "p1", "far", "n")])
    return path.parent


def test_itt_and_tot(folder, embeddings):
    result = sugarcrepe_pp.load(folder).score(embeddings({folder / "a.png": [1, 0, 0]}, TEXTS))
    # record 4: p2 loses against n with the image, and p1 is nearer to n than to p2
    assert result.items["swap_att_itt"].values.tolist() == [1, 0]
    assert result.items["swap_att_tot"].values.tolist() == [1, 0]
    assert result.items["swap_att_tot"].ids == ("3", "4")
    assert {result.metrics[f"{k}_{t}"] for k in ("replace", "swap") for t in ("itt", "tot")} == {0.5}
    assert result.means["replace_tot"] == ["replace_att_tot", "replace_obj_tot", "replace_rel_tot"]


def test_tot_needs_no_image(folder, embeddings):
    result = sugarcrepe_pp.load(folder).score(embeddings({}, TEXTS, {folder / "a.png": "missing"}))
    assert not any("itt" in name for name in result.metrics)
    assert result.metrics["replace_tot"] == 0.5
    assert result.counts["missing_image"] == 10 and result.counts["scored"] == 0


def test_the_official_files(shared_data):
    benchmark = sugarcrepe_pp.load(shared_data / "sugarcrepe_pp")
    assert len(benchmark) == 4757
    assert sum(record.subset.startswith("swap") for record in benchmark.records) == 666 + 245
    assert all(len(record.texts) == 3 for record in benchmark.records)


def test_each_metric_says_how_many_of_its_subset_s_records_were_scored(tmp_path, dump, embeddings):
    """ITT needs the picture, which one of three records of a subset lacks; TOT looks at texts alone, of which one is empty."""
    rows = [record(i, "p1", "p2" if i else "", "n", image=f"{i}.png") for i in range(4)]
    dump("a/swap_att.json", rows)
    dump("a/swap_obj.json", rows[1:2])
    benchmark = sugarcrepe_pp.load(tmp_path / "a", images="pictures", split="swap_att,swap_obj")
    result = benchmark.score(embeddings({f"pictures/{i}.png": [1.0, 0.0, 0.0] for i in (0, 1, 2)}, TEXTS))
    assert result.coverage == {
        "swap_att_itt": (2, 4), "swap_att_tot": (3, 4), "swap_obj_itt": (1, 1), "swap_obj_tot": (1, 1),
    }  # fmt: skip
