"""Small valid files of every benchmark and source, in the official formats: {file: value or text}, and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from compclip.benchmarks import (
    aro,
    auto_comp,
    bla,
    cc_neg,
    cola,
    cola_single,
    eqben,
    fg_ovd,
    genai_bench,
    half_truths,
    hard_positives,
    imageinwords,
    mmvp_vlm,
    negbench,
    sharegpt4v,
    sugarcrepe,
    sugarcrepe_pp,
    valse,
    vismin,
    vl_checklist,
    whatsup,
)

Files = Mapping[str, Any]
TWO = ("a red cup on a table", "a table on a red cup")
BOX = {"x": 0, "y": 1, "width": 5, "height": 4}
GENOME_BOX = dict(zip(aro.BOX, BOX.values(), strict=True))
PICTURES = ("a.png", "b.jpg", "1.jpg", "2.jpg")
MASK = "iVBORw0KGgoAAAANSUhEUgAAAlgAAAEs"  # the head of a PNG of 600 x 300


def write(folder: Path, files: Files) -> None:
    """Write the files of a format below a folder: values as JSON or JSON lines, texts as they are."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if name.endswith(".jsonl") else [content]
        path.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, lines)))


def pictures(folder: Path, names: tuple[str, ...] = PICTURES) -> None:
    """Small pictures of different colours."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + number, 6), (40 * number % 256, 90, 20)).save(folder / name)


def _aro() -> Files:
    genome = {"image_path": "a.png", "true_caption": TWO[0], "false_caption": TWO[1], **GENOME_BOX}
    order = [{"image": "b.jpg", "caption_options": [TWO[0], TWO[1], "cup red a"]}] * 2
    return {
        f"{aro.RELATION}.json": [genome | {"relation_name": "on top of"}, genome | {"relation_name": "under"}],
        f"{aro.ATTRIBUTION}.json": [genome | {"attributes": ["red", "grey"]}] * aro.MIN_CASES,
        "flickr30k_order.json": order, "coco_order.json": order,
    }  # fmt: skip


def _auto_comp() -> Files:
    row = {
        "num_objects": 2,
        "objects": ["Cup", "Table"],
        "colors": ["red", "blue"],
        "caption": TWO[0],
        "image": "a.png",
    }
    name = auto_comp.SETS["minimal_color_2"]
    return {f"{name}/train.jsonl": [row, row | {"image": "b.jpg", "caption": "a red cup and a blue table"}]}


def _bla() -> Files:
    group = dict(zip(bla.TEXTS, (*TWO, "a hat", "no hat"), strict=True))
    rows = [{"image_id": n, "caption_group": [group]} for n in (1, "2")]
    return {f"annotations/{file}": rows for file in bla.FILES.values()}


def _cc_neg() -> Files:
    row = {"image": "cc3m/a.png", "caption": TWO[0], "negative": f"no cup, {TWO[1]}"}
    return {cc_neg.FILE: [row, row | {"image": "b.jpg"}]}


def _cola_single() -> Files:
    rows = [["x/a.png", {"cup": ["red"]}, [1, 0], [1, 1]], ["b.jpg", {}, [0, 1], [1, 1]]]
    return {file: {"labels": list(TWO), "data": rows} for file in cola_single.FILES.values()}


def _colorfoil() -> Files:
    images = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.jpg"}]
    annotations = [{"image_id": i, "caption": t} for i in (1, 2) for t in TWO]
    return {"captions_val2017.json": {"images": images, "annotations": annotations}}


def _dci() -> Files:
    rows = [
        {"image": name, "short_caption": TWO[0], "extra_caption": f"{TWO[1]}. A hat."} for name in ("a.png", "b.jpg")
    ]
    splits = {"train": ["0.json"], "valid": [], "test": ["1.json"]}
    return {"splits.json": splits} | {f"annotations/{n}.json": row for n, row in enumerate(rows)}


def _fg_ovd() -> Files:
    annotation = {"image_id": 1, "bbox": [0, 1, 5.5, 4], "category_id": 7, "neg_category_ids": [8]}
    content = {
        "images": [{"id": 1, "file_name": "a.png"}], "annotations": [annotation | {"id": n} for n in range(2)],
        "categories": [{"id": 7 + n, "name": text} for n, text in enumerate(TWO)],
    }  # fmt: skip
    return dict.fromkeys(fg_ovd.FILES.values(), content)


def _genai_bench() -> Files:
    models = {name: [5, 4, n % 5] for n, name in enumerate(genai_bench.MODELS)}
    prompts = {f"{n:05d}": {"prompt": text, "models": models} for n, text in enumerate(TWO)}
    return {genai_bench.FILE: prompts, genai_bench.SKILLS_FILE: {"basic": [0, 1], "counting": [1]}}


def _nlvr() -> Files:
    rows = [{"identifier": f"7-{n}", "sentence": TWO[0], "label": label, "directory": "0"}
            for n, label in enumerate(("true", "false"))]  # fmt: skip
    return {"dev.json": "\n".join(map(json.dumps, rows))}


def _nlvr2() -> Files:
    rows = [
        {"identifier": f"dev-7-{n}-0", "sentence": TWO[0], "label": label} for n, label in enumerate(("True", "False"))
    ]
    return {"dev.json": "\n".join(map(json.dumps, rows))}


def _sdci() -> Files:
    bounds = {"topLeft": {"x": 0, "y": 0}, "bottomRight": {"x": 300, "y": 224}}
    mask = {"idx": 3, "outer_mask": MASK, "bounds": bounds, "label": "a cup", "caption": "it is red"}
    texts = {key: [f"{text} {n}" for n in range(5)] for key, text in zip(("base", "m-3-sc"), TWO, strict=True)}
    row = {
        "image": "a.png", "mask_data": {"3": mask}, "summaries": texts,
        "negatives": {key: {"swaps": ["a hat"], "basic": ["no hat"]} for key in texts},
        "clip_scores": {key: {"swaps_0": 0.5, "basic_0": 1} for key in texts},
    }  # fmt: skip
    return {"splits.json": {"train": [], "valid": [], "test": ["0.json"]}, "complete/0.json": row}


def _bivlc() -> Files:
    row = {"image": "a.png", "negative_image": "b.jpg", "caption": TWO[0], "negative_caption": TWO[1], "subtype": "obj"}
    return {"test.jsonl": [row | {"type": kind} for kind in ("add", "replace", "swap")]}


def _cola() -> Files:
    return {cola.FILE: [["https://x/a.png", TWO[0], "https://x/b.jpg", TWO[1]]] * 2}


def _colorswap() -> Files:
    rows = [{"id": n, "image_1": "images/a.png", "image_2": "b.jpg", "caption_1": TWO[0], "caption_2": TWO[1]}
            for n in range(2)]  # fmt: skip
    return {"test.json": rows}


def _counterfactuals() -> Files:
    return {"examples.jsonl": [{"id": str(n), "image_0": "1", "image_1": "2", "caption_0": TWO[0], "caption_1": TWO[1]}
                               for n in range(2)]}  # fmt: skip


def _crepe() -> Files:
    header = "image_id,caption,hard_negs,x,y,width,height\n"
    row = "1,a red cup,\"['a grey cup', 'a red hat']\",0,0,5,5\n2,a cup,\"{'a hat'}\",1,1,4,4\n"
    return {f"{kind}/prod_vg_hard_negs_{kind}_complexity_{n}.csv": header + row
            for kind in ("atom", "swap", "negate") for n in range(4, 13)}  # fmt: skip


def _docci() -> Files:
    row = {"split": "test", "image_file": "a.png", "description": f"{TWO[0]}. {TWO[1]}."}
    return {"docci_descriptions.jsonlines": "\n".join(json.dumps(row | {"example_id": f"test_{n}"}) for n in range(2))}


def _docci_csv() -> Files:
    lines = (f"test_{n},a.png,{TWO[0]}. {TWO[1]}.,test" for n in range(2))
    return {"docci.csv": "\n".join(["example_id,image_file,description,split", *lines]) + "\n"}


def _flair(file: str) -> Callable[[], Files]:
    rows = [{"image_id": n, "image": f"{n}.jpg", "caption": text} for n, text in enumerate(TWO, 1)]
    return lambda: {file: {"annotations": rows}}


def _eqben() -> Files:
    rows = [{"image0": f"{subset}/a.png", "image1": f"{subset}/b.jpg", "caption0": TWO[0], "caption1": TWO[1]}
            for subset in eqben.SUBTASKS]  # fmt: skip
    return {"eqben_subset_10percent_final.json": rows}


def _half_truths() -> Files:
    row = {"image": "a.png", "anchor": "a cup", "half_truth": TWO[1], "full_truth": TWO[0]}
    return {"coco_qwen.jsonl": [row | {"id": kind, "triplet_type": kind} for kind in half_truths.KINDS]}


def _hard_positives() -> Files:
    row = {"image_path": "a.png", "true_caption": TWO[0], "false_caption": TWO[1], **GENOME_BOX}
    other = {**row, "true_caption": "a crimson cup on a table"}
    return {name: value for kind in hard_positives.KINDS
            for name, value in ((f"{kind}.json", [row] * 2), (f"{kind}_hard_positive.json", [other] * 2))}  # fmt: skip


def _imagecode() -> Files:
    return {"valid_data.json": {"open-images-1": {"0": "the cup", "9": "the table"}, "video-1": {"3": "later"}}}


def _imageinwords() -> Files:
    return {f"{name}/data.jsonl": [{"image": "1", "IIW": f"{TWO[0]}. {TWO[1]}."}] for name in imageinwords.SETS}


def _karpathy(split: str = "test") -> Files:
    sentences = [{"raw": text} for text in TWO]
    images = [{"filename": name, "filepath": "", "split": split, "sentences": sentences} for name in ("a.png", "b.jpg")]
    return {"dataset.json": {"images": images}}


def _coco() -> Files:
    images = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.jpg"}]
    return {
        "captions.json": {"images": images, "annotations": [{"image_id": i, "caption": t} for i in (1, 2) for t in TWO]}
    }


def _flickr() -> Files:
    return {"captions.txt": f"image,caption\na.png,{TWO[0]}\nb.jpg,{TWO[1]}\n"}


def _mmvp_vlm() -> Files:
    kinds = ("Orientation", "Camera Perspective")
    rows = [f"{2 * n + i + 1},{kind},{TWO[i]}" for n, kind in enumerate(kinds) for i in (0, 1)]
    return {mmvp_vlm.FILE: "\n".join([",".join(mmvp_vlm.COLUMNS), *rows]) + "\n"}


def _negbench() -> Files:
    head = ",".join(("image_path", *negbench.CAPTIONS, "correct_answer", "correct_answer_template"))
    choices = "".join(f"data/a.png,{TWO[0]},{TWO[1]},a cup,no cup,{n},hybrid\n" for n in range(2))
    pool = f"filepath,captions\na.png,\"['{TWO[0]}', 'no hat']\"\nb.jpg,\"['{TWO[1]}']\"\n"
    return {file: f"{head}\n{choices}" if name in negbench.CHOICES else pool for name, file in negbench.FILES.items()}


def _sharegpt4v() -> Files:
    turns = [{"from": "human", "value": "Describe."}, {"from": "gpt", "value": TWO[0]}]
    return {sharegpt4v.FILES[0]: [{"image": "sam/images/a.png", "conversations": turns}] * 1000}


def _lavis() -> Files:
    rows = [{"image": "folder/a.png", "caption": list(TWO)}, {"image": "b.jpg", "caption": TWO[0], "image_id": 1}]
    return {"coco_karpathy_test.json": rows}


def _unquoted() -> Files:
    return {"flickr8k_test_karpathy.txt": f"image,caption\n1.jpg,{TWO[0]}, red\n2.jpg,{TWO[1]}\n"}


def _tokens() -> Files:
    return {"Flickr8k.token.txt": f"a.png#0\t{TWO[0]}\na.png#1\t{TWO[1]}\nb.jpg#0\t{TWO[1]}\n"}


def _eqben_videos() -> Files:
    frame = {"image0": "a.png", "image1": "b.png", "caption0": [TWO[0], "x"], "caption1": [TWO[1]]}
    return {"eqbenag.json": {"v.mp4": {"cup": [frame] * 2}}, "eqbengebc.json": {"v": [{**frame, "caption1": "y"}]}}


def _index() -> Files:
    return {**_zeroshot(), "test.txt": "t.zip@a.png 0\nt.zip@b.jpg 0,1\n"}


def _index_json() -> Files:
    index = {
        "images": [{"id": 1, "file_name": "a.png", "zip_file": "t.zip"}, {"id": 2, "file_name": "b.jpg"}],
        "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 2, "category_id": 2}],
        "categories": [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}],
    }
    return {**_zeroshot(), "test.json": index}


def _spec() -> Files:
    from compclip.benchmarks import spec

    text = [{"query": "a.png", "keys": list(TWO), "label": 0}, {"query": "b.jpg", "keys": list(TWO), "label": 1}]
    image = [{"query": TWO[0], "keys": ["a.png", "b.jpg"], "label": 0}]
    return {f"{subset}/{name}": rows for subset in spec.SUBSETS
            for name, rows in ((spec.FILES["i2t"], text), (spec.FILES["t2i"], image))}  # fmt: skip


def _sugarcrepe() -> Files:
    row = {"filename": "a.png", "caption": TWO[0], "negative_caption": TWO[1]}
    return {f"{subset}.json": {"0": row, "1": {**row, "filename": "b.jpg"}} for subset in sugarcrepe.SUBSETS}


def _sugarcrepe_pp() -> Files:
    row = {"filename": "a.png", "caption": TWO[0], "caption2": "on a table a red cup", "negative_caption": TWO[1]}
    return {f"{subset}.json": [{"id": n, **row} for n in range(2)] for subset in sugarcrepe_pp.SUBSETS}


def _svo() -> Files:
    rows = "a man runs,1,2,True,False,False\na dog sits,2,1,False,True,False\na cat,1,2,False,False,True\n"
    return {"svo_probes.csv": "sentence,pos_image_id,neg_image_id,subj_neg,verb_neg,obj_neg\n" + rows}


def _urban1k() -> Files:
    return {"caption/1.txt": f"{TWO[0]}\n", "caption/2.txt": TWO[1]}


def _valse() -> Files:
    row = {"image_file": "a.png", "dataset": "coco", "caption": TWO[0], "foil": TWO[1], "mturk": {"caption": 3}}
    return {f"{piece}.json": {"0": row, "1": {**row, "mturk": {"caption": 1}}} for piece in valse.PIECES}


def _vismin() -> Files:
    row = {"image_0": "a.png", "image_1": "b.jpg", "text_0": TWO[0], "text_1": TWO[1], "category": "object"}
    answers = [f"{n},{vismin.STRAIGHT['Text']},{vismin.STRAIGHT['Image']},object" for n in range(2)]
    return {"test.jsonl": [row | {"id": n} for n in range(2)],
            vismin.SOLUTIONS[0]: "\n".join(["id,Text,Image,category", *answers]) + "\n"}  # fmt: skip


def _vl_checklist() -> Files:
    rows = [["a.png", {"POS": [TWO[0]], "NEG": [TWO[1]]}]] * 2
    return {
        file: rows
        for sources in vl_checklist.TASKS.values()
        for task_files in sources.values()
        for file in task_files.values()
    }


def _whatsup() -> Files:
    controlled = [{"image_path": "data/controlled_images/a.png", "caption_options": list(TWO)}]
    return {file: controlled if name.startswith("Controlled") else [[1, *TWO], ["2", *TWO]]
            for name, file in whatsup.FILES.items()}  # fmt: skip


def _winoground() -> Files:
    rows = [{"id": n, "image_0": "a", "image_1": "b.jpg", "caption_0": TWO[0], "caption_1": TWO[1]} for n in range(2)]
    return {"examples.jsonl": rows}


def _zeroshot() -> Files:
    return {"classnames.txt": "red cup\ntable\n", "zeroshot_classification_templates.txt": "a photo of a {c}.\n{c}\n"}


BENCHMARKS: dict[str, Callable[[], Files]] = {
    "auto_comp": _auto_comp, "bla": _bla, "cc_neg": _cc_neg, "cola_single": _cola_single, "colorfoil": _colorfoil,
    "dci": _dci, "fg_ovd": _fg_ovd, "genai_bench": _genai_bench, "nlvr": _nlvr, "nlvr2": _nlvr2, "sdci": _sdci,
    "aro": _aro, "bivlc": _bivlc, "coco_counterfactuals": _counterfactuals, "cola": _cola, "colorswap": _colorswap,
    "crepe": _crepe, "docci": _docci, "eqben": _eqben, "half_truths": _half_truths, "hard_positives": _hard_positives,
    "imagecode": _imagecode, "imageinwords": _imageinwords, "mmvp_vlm": _mmvp_vlm, "negbench": _negbench,
    "retrieval": _karpathy, "sharegpt4v": _sharegpt4v, "spec": _spec, "sugarcrepe": _sugarcrepe,
    "sugarcrepe_pp": _sugarcrepe_pp, "svo_probes": _svo, "urban1k": _urban1k, "valse": _valse, "vismin": _vismin,
    "vl_checklist": _vl_checklist, "whatsup": _whatsup, "winoground": _winoground, "zeroshot": _zeroshot,
}  # fmt: skip
# Other layouts of some of them: the module, files, and the split that it takes to read them.
LAYOUTS: dict[str, tuple[str, Callable[[], Files], str]] = {
    "retrieval_coco": ("retrieval", _coco, ""), "retrieval_flickr": ("retrieval", _flickr, ""),
    "retrieval_lavis": ("retrieval", _lavis, ""), "retrieval_unquoted": ("retrieval", _unquoted, ""),
    "retrieval_tokens": ("retrieval", _tokens, ""), "eqben_videos": ("eqben", _eqben_videos, ""),
    "docci_csv": ("docci", _docci_csv, ""), "docci_flair": ("docci", _flair("annotations/test_annotations.json"), ""),
    "imageinwords_flair": ("imageinwords", _flair("finegrained_annotations.json"), ""),
    "urban1k_flair": ("urban1k", _flair("annotations/annotations.json"), ""),
    "zeroshot_index": ("zeroshot", _index, "test.txt"), "zeroshot_index_json": ("zeroshot", _index_json, "test.json"),
}  # fmt: skip
SOURCES: dict[str, tuple[str, Callable[[], Files]]] = {
    "coco": ("captions.json", _coco),
    "flickr8k": ("captions.txt", _flickr),
    "karpathy": ("dataset.json", lambda: _karpathy("train")),
    "img2dataset": ("", lambda: {"a.txt": TWO[0], "b.txt": TWO[1]}),
}
# Where else a benchmark's pictures lie, below its folder of pictures.
PLACES = {
    "genai_bench": tuple(f"{model}/{n:05d}.jpeg" for model in genai_bench.MODELS for n in range(2)),
    "nlvr": tuple(f"0/dev-7-{n}-{order}.png" for n in range(2) for order in range(6)),
    "nlvr2": tuple(f"dev-7-{n}-img{side}.png" for n in range(2) for side in range(2)),
    "eqben": tuple(f"{subset}/{name}" for subset in eqben.SUBTASKS for name in ("a.png", "b.jpg")),
    "imagecode": tuple(f"{name}/img{i}.jpg" for name in ("open-images-1", "video-1") for i in range(10)),
    "imageinwords": tuple(f"{place}/1.jpg" for place in imageinwords.SETS.values()),
    "mmvp_vlm": ("Orientation/1.jpg", "Orientation/2.jpg", "Camera Perspective/3.jpg", "Camera Perspective/4.jpg"),
    "zeroshot": ("red_cup/a.png", "table/b.jpg"),
}
