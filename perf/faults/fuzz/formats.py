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


def _lines(header: str, *rows: str) -> str:
    return "\n".join([header, *rows]) + "\n"


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


def _flair(file: str) -> Files:
    rows = [{"image_id": n, "image": f"{n}.jpg", "caption": text} for n, text in enumerate(TWO, 1)]
    return {file: {"annotations": rows}}


def _karpathy(split: str) -> Files:
    sentences = [{"raw": text} for text in TWO]
    images = [{"filename": name, "filepath": "", "split": split, "sentences": sentences} for name in ("a.png", "b.jpg")]
    return {"dataset.json": {"images": images}}


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


ZEROSHOT = {"classnames.txt": "red cup\ntable\n", "zeroshot_classification_templates.txt": "a photo of a {c}.\n{c}\n"}
PAIR = {"image_0": "a", "image_1": "b.jpg", "caption_0": TWO[0], "caption_1": TWO[1]}
WINOGROUND = [{"id": n, **PAIR} for n in range(2)]
IMAGES = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.jpg"}]
COCO = {"captions.json": {
    "images": IMAGES, "annotations": [{"image_id": i, "caption": text} for i in (1, 2) for text in TWO],
}}  # fmt: skip
FLICKR = {"captions.txt": _lines("image,caption", f"a.png,{TWO[0]}", f"b.jpg,{TWO[1]}")}
FRAME = {"image0": "a.png", "image1": "b.png", "caption0": [TWO[0], "x"], "caption1": [TWO[1]]}
VISMIN = {"image_0": "a.png", "image_1": "b.jpg", "text_0": TWO[0], "text_1": TWO[1], "category": "object"}
ANSWER = f"{vismin.STRAIGHT['Text']},{vismin.STRAIGHT['Image']},object"
INDEX = {
    "images": [IMAGES[0] | {"zip_file": "t.zip"}, IMAGES[1]],
    "annotations": [{"image_id": n, "category_id": n} for n in (1, 2)],
    "categories": [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}],
}
LAVIS = [{"image": "folder/a.png", "caption": list(TWO)}, {"image": "b.jpg", "caption": TWO[0], "image_id": 1}]
TURNS = [{"from": "human", "value": "Describe."}, {"from": "gpt", "value": TWO[0]}]
CREPE = _lines("image_id,caption,hard_negs,x,y,width,height", "1,a red cup,\"['a grey cup', 'a red hat']\",0,0,5,5",
               "2,a cup,\"{'a hat'}\",1,1,4,4")  # fmt: skip
COLA = [["x/a.png", {"cup": ["red"]}, [1, 0], [1, 1]], ["b.jpg", {}, [0, 1], [1, 1]]]
DCI = {f"annotations/{n}.json": {"image": name, "short_caption": TWO[0], "extra_caption": f"{TWO[1]}. A hat."}
       for n, name in enumerate(("a.png", "b.jpg"))}  # fmt: skip
MODELS = {name: [5, 4, n % 5] for n, name in enumerate(genai_bench.MODELS)}
KINDS = ("Orientation", "Camera Perspective")

# Beside those of `official_files`: files that are large, or that it takes several of.
BENCHMARKS: dict[str, Files] = {
    "cola_single": {file: {"labels": list(TWO), "data": COLA} for file in cola_single.FILES.values()},
    "crepe": {f"{kind}/prod_vg_hard_negs_{kind}_complexity_{n}.csv": CREPE
              for kind in ("atom", "swap", "negate") for n in range(4, 13)},
    "dci": {"splits.json": {"train": ["0.json"], "valid": [], "test": ["1.json"]}} | DCI,
    "genai_bench": {genai_bench.FILE: {f"{n:05d}": {"prompt": text, "models": MODELS} for n, text in enumerate(TWO)},
                    genai_bench.SKILLS_FILE: {"basic": [0, 1], "counting": [1]}},
    "imageinwords": {f"{name}/data.jsonl": [{"image": "1", "IIW": f"{TWO[0]}. {TWO[1]}."}] for name in imageinwords.SETS},
    "mmvp_vlm": {mmvp_vlm.FILE: _lines(",".join(mmvp_vlm.COLUMNS), *(
        f"{2 * n + i + 1},{kind},{TWO[i]}" for n, kind in enumerate(KINDS) for i in (0, 1)))},
    "retrieval": _karpathy("test"), "sdci": _sdci(),
    "sharegpt4v": {sharegpt4v.FILES[0]: [{"image": "sam/images/a.png", "conversations": TURNS}] * 1000},
    "urban1k": {"caption/1.txt": f"{TWO[0]}\n", "caption/2.txt": TWO[1]},
    "vismin": {"test.jsonl": [VISMIN | {"id": n} for n in range(2)],
               vismin.SOLUTIONS[0]: _lines("id,Text,Image,category", *(f"{n},{ANSWER}" for n in range(2)))},
    "zeroshot": ZEROSHOT,
}  # fmt: skip
# Other layouts of some of them: the module, files, and the split that it takes to read them.
LAYOUTS: dict[str, tuple[str, Files, str]] = {
    "retrieval_coco": ("retrieval", COCO, ""), "retrieval_flickr": ("retrieval", FLICKR, ""),
    "retrieval_lavis": ("retrieval", {"coco_karpathy_test.json": LAVIS}, ""),
    "retrieval_unquoted": ("retrieval", {
        "flickr8k_test_karpathy.txt": _lines("image,caption", f"1.jpg,{TWO[0]}, red", f"2.jpg,{TWO[1]}")}, ""),
    "retrieval_tokens": ("retrieval", {
        "Flickr8k.token.txt": _lines(f"a.png#0\t{TWO[0]}", f"a.png#1\t{TWO[1]}", f"b.jpg#0\t{TWO[1]}")}, ""),
    "eqben_videos": ("eqben", {
        "eqbenag.json": {"v.mp4": {"cup": [FRAME] * 2}}, "eqbengebc.json": {"v": [{**FRAME, "caption1": "y"}]}}, ""),
    "docci_csv": ("docci", {"docci.csv": _lines("example_id,image_file,description,split", *(
        f"test_{n},a.png,{TWO[0]}. {TWO[1]}.,test" for n in range(2)))}, ""),
    "docci_flair": ("docci", _flair("annotations/test_annotations.json"), ""),
    "imageinwords_flair": ("imageinwords", _flair("finegrained_annotations.json"), ""),
    "urban1k_flair": ("urban1k", _flair("annotations/annotations.json"), ""),
    "zeroshot_index": ("zeroshot", {**ZEROSHOT, "test.txt": "t.zip@a.png 0\nt.zip@b.jpg 0,1\n"}, "test.txt"),
    "zeroshot_index_json": ("zeroshot", {**ZEROSHOT, "test.json": INDEX}, "test.json"),
}  # fmt: skip
SOURCES: dict[str, tuple[str, Files]] = {
    "coco": ("captions.json", COCO), "flickr8k": ("captions.txt", FLICKR), "karpathy": ("dataset.json", _karpathy("train")),
    "img2dataset": ("", {"a.txt": TWO[0], "b.txt": TWO[1]}),
    "folder": ("", {"a.json": {"caption": TWO[0]}, "b.json": {"caption": list(TWO)}}),
    "table": ("t.csv", {"t.csv": f'image,caption\na.png,"{TWO[0]}"\nb.jpg,{TWO[1]}\na.png,{TWO[1]}\n'}),
    "table:jsonl": ("t.jsonl", {"t.jsonl": [{"image": "a.png", "text": TWO}, {"image": 7, "text": TWO[0]}]}),
    "table:parquet": ("t.parquet", {"t.parquet": _inside(pq.write_table)}),
    "huggingface": ("", {"metadata.csv": _lines("file_name,text", f"a.png,{TWO[0]}", f"b.jpg,{TWO[1]}")}),
    "huggingface:arrow": ("", {
        "state.json": {"_data_files": [{"filename": "data.arrow"}]}, "data.arrow": _inside(_write_stream)}),
}  # fmt: skip
