"""Names as a paper prints them."""

import pytest

from compclip.report.escape import format_name


@pytest.mark.parametrize(
    ("name", "text"),
    [("sugarcrepe_pp/swap_itt", "SugarCrepe++ swap ITT"), ("sugarcrepe/swap/unseen_pairs", "SugarCrepe swap unseen pairs"),
     ("retrieval_coco/i2t_recall_at_10", "retrieval COCO I2T R@10"), ("zeroshot_imagenet/top_1", "zero-shot ImageNet top-1"),
     ("replace_obj", "replace object"), ("svo_probes", "SVO Probes"), ("a_new_one/stop_10", "a new one stop 10")],
)  # fmt: skip
def test_names(name, text):
    assert format_name(name) == text
