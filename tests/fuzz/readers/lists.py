"""Lists that others released: captions and texts by a key, and pictures and boxes beside the samples of a source."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.safe_names import SafeName
from tests.fuzz import formats
from tests.fuzz.reader import Make, Reader
from tests.fuzz.readers.data import _with_pictures

ROWS = [
    {"url": f"http://a/{n}.jpg", "key": f"00000000{n}", "c": f"{text}, picture {n}"}
    for n, text in enumerate(formats.TWO)
]
CSV = "url,key,c\n" + "".join(f'{row["url"]},{row["key"]},"{row["c"]}"\n' for row in ROWS)
LISTED = "title,n\n" + "".join(f'{text},"{[text, "other"]}"\n' for text in ("one", "two", "three"))
DENSE: dict[str, str | list | dict] = {"x/a.json": formats.TWO, "x/b.json": {"caption": formats.TWO}}
FILES: dict[str, str | list] = {"x.csv": CSV, "x.tsv": CSV.replace(",", "\t"), "x.jsonl": ROWS}
LIST = [{"key": "a", "made": ["b.png", "a.png"]}, {"key": "b", "made": "a.png"}, {"key": "c", "made": "nothing.png"}]
NEGATIVES = {"file": "files/n.jsonl", "on": "key", "column": "made", "images": "pictures"}
BOXES = [
    {"key": "a", "regions": [{"box": [0.0, 0.1, 0.5, 0.9], "caption": ["a dog", "the dog"], "negatives": ["a cat"]},
                             {"box": [1.0, 2.0, 30.0, 40.0], "caption": ["a tree"], "negatives": []}]},
    {"key": "b", "regions": []},
]  # fmt: skip
REGIONS = {"on": "key", "column": "regions", "negatives": "negatives"}


def readers() -> Iterator[Reader]:
    """Each format of a list."""
    for name, content in FILES.items():
        yield Reader(f"list:{name[2:]}", _list_files({name: content}), _joined(name))
    yield Reader(
        "list:parquet",
        lambda folder: pq.write_table(pa.Table.from_pylist(ROWS), folder / "x.parquet"),
        _joined("x.parquet"),
    )
    yield Reader("texts:literals", _list_files({"n.csv": LISTED}), _beside("n.csv", "caption", "n", lists=True))
    yield Reader("texts:folder", _list_files(DENSE), _beside("x", "key", "caption"), ("x/*",))
    negatives = _write_beside("n.jsonl", LIST)
    yield Reader("negative_images", negatives, _recaptioned(negative_images=NEGATIVES), ("files/n.jsonl",))
    for suffix in ("json", "jsonl", "parquet"):
        regions = REGIONS | {"file": f"files/r.{suffix}"}
        boxes = _write_beside(f"r.{suffix}", BOXES)
        yield Reader(f"regions:{suffix}", boxes, _recaptioned(regions=regions), (f"files/r.{suffix}",))


def _list_files(files: formats.Files) -> Make:
    return lambda folder: formats.write(folder, files)


def _joined(name: str) -> Callable[[random.Random], object]:
    def join_captions(_: random.Random) -> object:
        from compclip.config.released_lists import Captions
        from compclip.prepare import caption_join

        captions = caption_join.open_list(Captions(name, "url", ["c"]), Path("index"))
        return captions.find([row["url"] for row in ROWS])

    return join_captions


def _beside(name: str, on: str, column: str, **more: bool) -> Callable[[random.Random], object]:
    def join_texts(_: random.Random) -> object:
        from compclip.config.released_lists import Texts
        from compclip.prepare import caption_join

        texts = caption_join.open_list(Texts(name, on, [column], **more), Path("index"))
        return texts.find(["one", "a", "b"])

    return join_texts


def _write_beside(name: str, rows: list[dict]) -> Make:
    """A source of pictures, and rows beside it."""

    def make(folder: Path) -> None:
        _with_pictures(lambda: formats._karpathy("train"))(folder)
        if name.endswith("parquet"):
            pq.write_table(pa.Table.from_pylist(rows), folder / "files" / name)
        else:
            formats.write(folder / "files", {name: rows})

    return make


def _recaptioned(**options: object) -> Callable[[random.Random], object]:
    def recaption(_: random.Random) -> object:
        from compclip.config.sections import Data
        from compclip.prepare import shard_stages

        data = Data("karpathy", "files/dataset.json", "pictures", captioner="none", **options)
        return shard_stages.run_stage("recaption", SafeName("x", "data"), data)

    return recaption
