"""SugarCrepe: official files, means of subsets, ties, missing images, groups."""

import pytest

from compclip.benchmarks import sugarcrepe

RECORD = {"filename": "a.png", "caption": "good", "negative_caption": "bad"}
LOST = {"filename": "a.png", "caption": "bad", "negative_caption": "good"}
TEXTS = {"good": [0.9, 0.1], "bad": [0.1, 0.9]}


@pytest.fixture
def folder(dump):
    for subset in sugarcrepe.SUBSETS:
        path = dump(f"sc/{subset}.json", {"0": RECORD, "7": LOST if subset.startswith("swap") else RECORD})
    return path.parent


def test_metrics_and_their_means(folder, embeddings):
    result = sugarcrepe.load(folder).score(embeddings({folder / "a.png": [1, 0]}, TEXTS))
    assert result.metrics["add_att"] == 1.0
    assert result.metrics["swap_obj"] == 0.5
    assert (result.metrics["add"], result.metrics["replace"], result.metrics["swap"]) == (1.0, 1.0, 0.5)
    assert result.metrics["average"] == pytest.approx(6 / 7)
    assert result.metrics["average_kinds"] == pytest.approx((1 + 1 + 0.5) / 3)
    assert result.items["swap_obj"].ids == ("0", "7")
    assert result.items["swap_obj"].values.tolist() == [1, 0]
    assert result.counts["scored"] == result.counts["records"] == 14


def test_average_kinds_pools_the_records_of_a_kind(folder, dump, embeddings):
    """swap: 1 of 4 and 1 of 2 are 2 of 6, not the mean of 1/4 and 1/2; replace: 2 + 2 + 1 of 8."""
    dump("sc/swap_att.json", {"0": LOST, "1": LOST, "2": LOST, "3": RECORD})
    dump("sc/replace_rel.json", {"0": LOST, "1": LOST, "2": LOST, "3": RECORD})
    result = sugarcrepe.load(folder).score(embeddings({folder / "a.png": [1, 0]}, TEXTS))
    assert (result.metrics["swap"], result.metrics["swap_pooled"]) == (3 / 8, 2 / 6)
    assert (result.metrics["replace"], result.metrics["replace_pooled"]) == (0.75, 5 / 8)
    assert result.metrics["average_kinds"] == pytest.approx((1 + 5 / 8 + 2 / 6) / 3)
    assert result.items["swap_pooled"].ids[0] == "swap_att/0"


def test_records_without_image_are_counted_and_left_out(folder, dump, embeddings):
    dump("sc/swap_att.json", {"0": {**LOST, "filename": "gone.png"}, "1": RECORD, "2": {**RECORD, "caption": "  "}})
    failed = {folder / "gone.png": "missing"}
    result = sugarcrepe.load(folder).score(embeddings({folder / "a.png": [1, 0]}, TEXTS, failed))
    assert result.metrics["swap_att"] == 1.0
    assert result.items["swap_att"].ids == ("1",)
    assert {k: v for k, v in result.counts.items() if v} == {
        "records": 15, "scored": 13, "missing_image": 1, "empty_text": 1}  # fmt: skip


def test_groups_give_metrics_counts_and_means(folder, dump, embeddings):
    dump("sc/groups.json", {"swap_att": {"unseen_pairs": [7]}, "swap_obj": {"unseen_pairs": ["0"], "other": ["0"]}})
    result = sugarcrepe.load(folder).score(embeddings({folder / "a.png": [1, 0]}, TEXTS))
    assert result.metrics["swap_att/unseen_pairs"] == 0.0
    assert result.metrics["swap_obj/unseen_pairs"] == 1.0
    assert result.metrics["swap/unseen_pairs"] == 0.5
    assert result.counts["swap_obj/other"] == 1
    assert result.means["swap/unseen_pairs"] == ["swap_att/unseen_pairs", "swap_obj/unseen_pairs"]
    assert "swap/other" not in result.metrics


def test_the_official_files(shared_data):
    benchmark = sugarcrepe.load(shared_data / "sugarcrepe", images=shared_data / "coco" / "val2017")
    assert len(benchmark) == 7511
    swapped = {record.id for record in benchmark.records if record.subset == "swap_obj"}
    assert len(swapped) == 245 and "107" in swapped and "108" not in swapped and "245" in swapped
    assert all(record.has_text for record in benchmark.records)
