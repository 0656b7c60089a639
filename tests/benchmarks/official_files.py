"""Small official files of the benchmarks, by file: values for JSON, texts as they are; and the split that reads them."""

import csv
import io
import json
from typing import Any

import numpy as np

from compclip.benchmarks import aro
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.embeddings import Embeddings


def table(*rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def alike(benchmark: Benchmark, ties: str = "wrong") -> Embeddings:
    """Embeddings with which all pictures, and all texts, are the same."""
    image_row, text_row = ({key: row for row, key in enumerate(keys)} for keys in (benchmark.images, benchmark.texts))
    vectors = (np.ones((len(rows), 2), np.float32) for rows in (image_row, text_row))
    return Embeddings(*vectors, image_row, text_row, {}, ties)


PAIR = {"filename": "a.png", "caption": "x", "caption2": "y", "negative_caption": "z", "id": 0}
SAMPLE = {"image0": "eqbensd/a.png", "image1": "eqbensd/b.png", "caption0": "x", "caption1": "y"}
WINOGROUND = {"id": 0, "image_0": "a", "image_1": "b", "caption_0": "x", "caption_1": "y"}
FOILED = {"dataset": "d", "image_file": "a.png", "caption": "x", "foil": "y", "mturk": {"caption": 3}}
REWORDED = {"image_path": "a.png", "true_caption": "x", "false_caption": "y"}
SVO = "sentence,pos_image_id,neg_image_id,subj_neg,verb_neg,obj_neg\nx,1,2,True,False,False\n"
BOX = dict.fromkeys(aro.BOX, 1)
REGION = {"image_path": "a.png", **BOX, "true_caption": "x", "false_caption": "y", "relation_name": "riding"}
SHUFFLED = {"image": "a.png", "caption_options": ["x", "y", "z"]}
CHOICES = [{"query": "q.png", "keys": ["x", "y", "z"], "label": label} for label in (0, 1)]
OF_IMAGES = [{"query": "x", "keys": ["a.png", "b.png"], "label": label} for label in (0, 1)]
EDITED = {"type": "swap", "image": "a.png", "negative_image": "b.png", "caption": "x", "negative_caption": "y"}
SWAPPED = {"id": 0, "image_1": "a.png", "image_2": "b.png", "caption_1": "x", "caption_2": "y"}
HALF = {"id": 0, "image": "a.png", "triplet_type": "entity", "anchor": "x", "half_truth": "y", "full_truth": "z"}
NEGATED = ("image_path,caption_0,caption_1,caption_2,caption_3,correct_answer,correct_answer_template\n"
           "a.png,x,y,z,v,0,positive\na.png,x,y,z,v,2,hybrid\n")  # fmt: skip
JUDGED = {"image_id": 1, "caption_group": [{"True1": "x", "True2": "y", "False1": "z", "False2": "v"}]}
COLORED = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "caption": "a red x"}]}
STATEMENT = {"sentence": "x", "directory": "0"}
DRAWN = [STATEMENT | {"identifier": f"7-{n}", "label": label} for n, label in enumerate(("true", "false"))]
PHOTOGRAPHED = [row | {"identifier": f"dev-{row['identifier']}-0"} for row in DRAWN]
STRICT = {  # files, the split, and how many items depend on a tie
    "bla": ({"coordination_captions.json": [JUDGED]}, "coordination", 1),
    "colorfoil": ({"captions_val2017.json": COLORED}, "", 1),
    "nlvr": ({"dev.json": "\n".join(map(json.dumps, DRAWN))}, "", 1),
    "nlvr2": ({"dev.json": "\n".join(map(json.dumps, PHOTOGRAPHED))}, "", 1),
    "sugarcrepe": ({"add_att.json": {"0": PAIR}}, "add_att", 1),
    "sugarcrepe_pp": ({"swap_att.json": [PAIR]}, "swap_att", 1),
    "winoground": ({"examples.jsonl": json.dumps(WINOGROUND)}, "", 1),
    "eqben": ({"eqben.json": [SAMPLE]}, "", 1),
    "bivlc": ({"test.jsonl": json.dumps(EDITED)}, "swap", 1),
    "cola": ({"COLA_multiobjects_matching_benchmark.json": [["a.jpg", "x", "b.jpg", "y"]]}, "", 1),
    "colorswap": ({"test.json": [SWAPPED]}, "", 1),
    "half_truths": ({"coco_qwen.jsonl": json.dumps(HALF)}, "", 1),
    "valse": ({"plurals.json": {"0": FOILED}}, "plurals", 1),
    "hard_positives": ({"swap.json": [REWORDED], "swap_hard_positive.json": [REWORDED | {"true_caption": "z"}]}, "swap", 1),
    "svo_probes": ({"svo_probes.csv": SVO}, "subj_neg", 1),
    "vl_checklist": ({"Relation/vg/spatial.json": [["a.png", {"POS": ["x"], "NEG": ["y"]}]]}, "Relation_spatial", 1),
}  # fmt: skip
PART = {"id": 1, "image_id": 1, "bbox": [0, 0, 1, 1], "category_id": 0, "neg_category_ids": [1]}
PARTS = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": [PART],
         "categories": [{"id": n, "name": name} for n, name in enumerate("xy")]}  # fmt: skip
COLORS = {"objects": ["Cup", "Hat"], "colors": ["red", "blue"], "caption": "a red cup, a blue hat", "image": "a.png"}
TO_THE_FIRST = {  # files, the split, and the outcomes of each metric where ties go to the first
    # among the confused ones the caption is behind some
    "auto_comp": ({"AutoComp-Minimal-N2-C/train.jsonl": json.dumps(COLORS)}, "minimal_color_2",
                  {"minimal_color_2_swap": [1], "minimal_color_2_confusion": [0]}),
    "cc_neg": ({"ccneg.jsonl": json.dumps({"image": "a.png", "caption": "x", "negative": "y"})}, "", {"accuracy": [1]}),
    "fg_ovd": ({"color.json": PARTS}, "color", {"color": [1]}),
    "aro": ({"visual_genome_relation.json": [REGION], "coco_order.json": [SHUFFLED]},
            "visual_genome_relation,coco_order", {"visual_genome_relation": [0], "coco_order": [1]}),
    "spec": ({"count/image2text.json": CHOICES, "count/text2image.json": OF_IMAGES}, "count",
             {"count_i2t": [1, 0], "count_t2i": [1, 0]}),
    "negbench": ({"COCO_val_mcq_llama3.1_rephrased.csv": NEGATED}, "coco_mcq", {"coco_mcq": [1, 0]}),
    "whatsup": ({"coco_qa_one_obj.json": [[1, "x", "y"]]}, "COCO_QA_one_obj", {"COCO_QA_one_obj": [1]}),
    "imagecode": ({"valid_data.json": {"video_1": {"0": "x", "3": "y"}}}, "", {"video": [1, 0]}),
}  # fmt: skip

DESCRIBED = {"example_id": "a", "split": "test", "image_file": "a.jpg", "description": "x"}
OFFICIAL: dict[str, tuple[dict[str, Any], str]] = {
    name: (files, split) for name, (files, split, _) in (STRICT | TO_THE_FIRST).items()
}
OFFICIAL["coco_counterfactuals"] = ({"examples.jsonl": json.dumps(WINOGROUND)}, "")
OFFICIAL["docci"] = ({"docci_descriptions.jsonlines": json.dumps(DESCRIBED)}, "")
