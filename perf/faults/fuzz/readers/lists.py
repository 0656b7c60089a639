"""Lists that others released, of captions, pictures and boxes, and what is made of them."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.safe_names import SafeName
from compclip.config.released_lists import Captions, ReleasedRewrites, Texts
from compclip.config.sections import Data
from compclip.prepare import caption_join, rewrite_shards, shard_stages, stored_lists
from perf.faults.fuzz import formats
from perf.faults.fuzz.reader import Make, Reader
from perf.faults.fuzz.readers.data import write_with_pictures

ROWS = [
    {"url": f"http://a/{n}.jpg", "key": f"00000000{n}", "c": f"{t}, picture {n}"} for n, t in enumerate(formats.TWO)
]
CSV = "url,key,c\n" + "".join(f'{row["url"]},{row["key"]},"{row["c"]}"\n' for row in ROWS)
LISTED = "title,n\n" + "".join(f'{text},"{[text, "other"]}"\n' for text in ("one", "two", "three"))
DENSE: formats.Files = {"x/a.json": formats.TWO, "x/b.json": {"caption": formats.TWO}}
FILES: formats.Files = {"x.csv": CSV, "x.tsv": CSV.replace(",", "\t"), "x.jsonl": ROWS}
VARIATIONS = [
    {"key": row["key"], "v": [json.dumps({"itm_score": [0.5, 0.75], "captions": [text]}) for text in formats.TWO]}
    for row in ROWS
]
HP = [f"{text} and more" for text in formats.TWO] * 2
NEGATIVES = [
    {"key": "a", "made": ["b.png", "a.png"]}, {"key": "b", "made": "a.png"}, {"key": "c", "made": "nothing.png"},
]  # fmt: skip
REGIONS = [
    {"key": "a", "regions": [{"box": [0.0, 0.1, 0.5, 0.9], "caption": ["a dog", "the dog"], "negatives": ["a cat"]},
                             {"box": [1.0, 2.0, 30.0, 40.0], "caption": ["a tree"], "negatives": []}]},
    {"key": "b", "regions": []},
]  # fmt: skip
SOURCE, CAPTIONS = formats.SOURCES["karpathy"]


def readers() -> Iterator[Reader]:
    """Each format of a list, released hard positives, and lists that are joined to the samples of a source."""
    for name, content in FILES.items():
        yield Reader(f"list:{name[2:]}", _list_files({name: content}), _joined(name))
    write_parquet = lambda folder: pq.write_table(pa.Table.from_pylist(ROWS), folder / "x.parquet")  # noqa: E731
    yield Reader("list:parquet", write_parquet, _joined("x.parquet"))
    yield Reader("texts:literals", _list_files({"n.csv": LISTED}), _texts_joined("n.csv", "caption", "n", lists=True))
    yield Reader("texts:folder", _list_files(DENSE), _texts_joined("x", "key", "caption"), ("x/*",))
    yield Reader("texts:variations", _list_files({"v.jsonl": VARIATIONS}), _varied)
    yield Reader("list:rewrites", write_with_pictures({**formats.COCO, "s.jsonl": HP}), _rewritten, ("files/*",))
    options = {"file": "files/n.jsonl", "on": "key", "column": "made", "images": "pictures"}
    with_negatives = write_with_pictures({**CAPTIONS, "n.jsonl": NEGATIVES})
    yield Reader("negative_images", with_negatives, _recaptioned(negative_images=options), ("files/n.jsonl",))
    for suffix in ("json", "jsonl", "parquet"):
        options = {"file": f"files/r.{suffix}", "on": "key", "column": "regions", "negatives": "negatives"}
        yield Reader(f"regions:{suffix}", _write_regions(suffix), _recaptioned(regions=options), (f"files/r.{suffix}",))


def _list_files(files: formats.Files) -> Make:
    return lambda folder: formats.write(folder, files)


def _joined(name: str) -> Callable[[random.Random], object]:
    def join_captions(_: random.Random) -> object:
        captions = caption_join.open_list(Captions(name, "url", column=["c"]), Path("index"))
        return captions.find([row["url"] for row in ROWS])

    return join_captions


def _texts_joined(name: str, on: str, column: str, lists: bool = False) -> Callable[[random.Random], object]:
    def join_texts(_: random.Random) -> object:
        texts = caption_join.open_list(Texts(name, on, column=[column], lists=lists), Path("index"))
        return texts.find(["one", "a", "b"])

    return join_texts


def _varied(_: random.Random) -> object:
    texts = caption_join.open_list(Texts("v.jsonl", "key", column=["v"]), Path("index"))
    variations = texts.find([row["key"] for row in ROWS])
    return [stored_lists.pack_variation(record) for records in variations for record in records or ()]


def _rewritten(_: random.Random) -> object:
    released = ReleasedRewrites("files/captions.json", swap="files/s.jsonl")
    return rewrite_shards.open_released(released, Path("index"))(formats.TWO)


def _write_regions(suffix: str) -> Make:
    def make(folder: Path) -> None:
        write_with_pictures(CAPTIONS)(folder)
        if suffix == "parquet":
            pq.write_table(pa.Table.from_pylist(REGIONS), folder / "files/r.parquet")
        else:
            formats.write(folder / "files", {f"r.{suffix}": REGIONS})

    return make


def _recaptioned(**lists: Any) -> Callable[[random.Random], object]:
    data = Data("karpathy", f"files/{SOURCE}", "pictures", captioner="none", **lists)
    return lambda _: shard_stages.run_stage("recaption", SafeName("x", "data"), data)
