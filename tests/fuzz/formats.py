"""Small valid files of every benchmark and source, in the official formats: {file: value or text}, and pictures."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from compclip.benchmarks import cola_single, genai_bench, imageinwords, mmvp_vlm, sharegpt4v, vismin

Files = Mapping[str, Any]
TWO = ("a red cup on a table", "a table on a red cup")
PICTURES = ("a.png", "b.jpg", "1.jpg", "2.jpg")
MASK = "iVBORw0KGgoAAAANSUhEUgAAAlgAAAEs"  # the head of a PNG of 600 x 300


def write(folder: Path, files: Files) -> None:
    """Write the files of a format below a folder: values as JSON or JSON lines, texts as they are."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
            continue
        lines = content if name.endswith(".jsonl") else [content]
        path.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, lines)))


def pictures(folder: Path, names: tuple[str, ...] = PICTURES) -> None:
    """Small pictures of different colours."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + number, 6), (40 * number % 256, 90, 20)).save(folder / name)


def _cola_single() -> Files:
    rows = [["x/a.png", {"cup": ["red"]}, [1, 0], [1, 1]], ["b.jpg", {}, [0, 1], [1, 1]]]
    return {file: {"labels": list(TWO), "data": rows} for file in cola_single.FILES.values()}


def _dci() -> Files:
    rows = [
        {"image": name, "short_caption": TWO[0], "extra_caption": f"{TWO[1]}. A hat."} for name in ("a.png", "b.jpg")
    ]
    splits = {"train": ["0.json"], "valid": [], "test": ["1.json"]}
    return {"splits.json": splits} | {f"annotations/{n}.json": row for n, row in enumerate(rows)}


def _genai_bench() -> Files:
    models = {name: [5, 4, n % 5] for n, name in enumerate(genai_bench.MODELS)}
    prompts = {f"{n:05d}": {"prompt": text, "models": models} for n, text in enumerate(TWO)}
    return {genai_bench.FILE: prompts, genai_bench.SKILLS_FILE: {"basic": [0, 1], "counting": [1]}}


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


def _crepe() -> Files:
    header = "image_id,caption,hard_negs,x,y,width,height\n"
    row = "1,a red cup,\"['a grey cup', 'a red hat']\",0,0,5,5\n2,a cup,\"{'a hat'}\",1,1,4,4\n"
    return {f"{kind}/prod_vg_hard_negs_{kind}_complexity_{n}.csv": header + row
            for kind in ("atom", "swap", "negate") for n in range(4, 13)}  # fmt: skip


def _docci_csv() -> Files:
    lines = (f"test_{n},a.png,{TWO[0]}. {TWO[1]}.,test" for n in range(2))
    return {"docci.csv": "\n".join(["example_id,image_file,description,split", *lines]) + "\n"}


def _flair(file: str) -> Callable[[], Files]:
    rows = [{"image_id": n, "image": f"{n}.jpg", "caption": text} for n, text in enumerate(TWO, 1)]
    return lambda: {file: {"annotations": rows}}


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


def _urban1k() -> Files:
    return {"caption/1.txt": f"{TWO[0]}\n", "caption/2.txt": TWO[1]}


def _vismin() -> Files:
    row = {"image_0": "a.png", "image_1": "b.jpg", "text_0": TWO[0], "text_1": TWO[1], "category": "object"}
    answers = [f"{n},{vismin.STRAIGHT['Text']},{vismin.STRAIGHT['Image']},object" for n in range(2)]
    return {"test.jsonl": [row | {"id": n} for n in range(2)],
            vismin.SOLUTIONS[0]: "\n".join(["id,Text,Image,category", *answers]) + "\n"}  # fmt: skip


def _winoground() -> Files:
    rows = [{"id": n, "image_0": "a", "image_1": "b.jpg", "caption_0": TWO[0], "caption_1": TWO[1]} for n in range(2)]
    return {"examples.jsonl": rows}


def _zeroshot() -> Files:
    return {"classnames.txt": "red cup\ntable\n", "zeroshot_classification_templates.txt": "a photo of a {c}.\n{c}\n"}


def _inside(write_table: Callable[[pa.Table, Any], None]) -> bytes:
    """A table with a picture inside."""
    content = io.BytesIO()
    Image.new("RGB", (8, 6)).save(content, "PNG")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = [{"bytes": content.getvalue(), "path": f"{n}.png"} for n in range(2)]
    file = io.BytesIO()
    write_table(pa.table({"image": pa.array(cells, kind), "caption": TWO}), file)
    return file.getvalue()


def _write_stream(table: pa.Table, file: io.BytesIO) -> None:
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def _saved() -> Files:
    return {"state.json": {"_data_files": [{"filename": "data.arrow"}]}, "data.arrow": _inside(_write_stream)}


# Beside those of `official_files`: files that are large, or that it takes several of.
BENCHMARKS: dict[str, Callable[[], Files]] = {
    "cola_single": _cola_single, "crepe": _crepe, "dci": _dci, "genai_bench": _genai_bench, "imageinwords": _imageinwords,
    "mmvp_vlm": _mmvp_vlm, "retrieval": _karpathy, "sdci": _sdci, "sharegpt4v": _sharegpt4v, "urban1k": _urban1k,
    "vismin": _vismin, "zeroshot": _zeroshot,
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
    "folder": ("", lambda: {"a.json": {"caption": TWO[0]}, "b.json": {"caption": list(TWO)}}),
    "table": ("t.csv", lambda: {"t.csv": f'image,caption\na.png,"{TWO[0]}"\nb.jpg,{TWO[1]}\na.png,{TWO[1]}\n'}),
    "table:jsonl": ("t.jsonl", lambda: {"t.jsonl": [{"image": "a.png", "text": TWO}, {"image": 7, "text": TWO[0]}]}),
    "table:parquet": ("t.parquet", lambda: {"t.parquet": _inside(pq.write_table)}),
    "huggingface": ("", lambda: {"metadata.csv": f"file_name,text\na.png,{TWO[0]}\nb.jpg,{TWO[1]}\n"}),
    "huggingface:arrow": ("", _saved),
}
