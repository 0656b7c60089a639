"""Write data for `data_scale.py`: tars of 70-word captions as img2dataset writes them, and their annotated shards.

One tar is written member by member and one shard really analysed. The others are these with other numbers at the end of
every caption: as long, and for spaCy the same sentence, so that texts differ and columns have the same format.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from PIL import Image

from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.data import shard_files
from compclip.data.prepared_dataset import PreparedDataset
from compclip.prepare import annotate_shards, shard_writer
from compclip.prepare.shard_work import ShardWork
from perf.speed import annotation

ROWS = 10_000  # samples of a tar
END = re.compile(rb"Its number is (\d{8})\.")
SIDE = 32  # pixels of a made picture
LIST = "data/regions.jsonl"


def captions(count: int) -> list[str]:
    """Captions of 70 words and more, each with its number at the end."""
    texts = annotation.captions(annotation.lines(None), count, 0)
    return [f"{text.rstrip('. ')}. Its number is {i:08d}." for i, text in enumerate(texts)]


def picture(colour: int = 0) -> bytes:
    """A small JPEG."""
    raw = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), (colour % 256, colour // 256 % 256, 99)).save(raw, "JPEG")
    return raw.getvalue()


def tar(path: Path, samples: Iterable[tuple[str, bytes, str]]) -> None:
    """A tar of keys with their pictures and captions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as file:
        for key, raw, caption in samples:
            noted = {"caption": caption, "url": f"https://a.org/{key}.jpg", "key": key, "status": "success"}
            members = {"jpg": raw, "json": json.dumps(noted).encode(), "txt": caption.encode()}
            for suffix, content in members.items():
                info = tarfile.TarInfo(f"{key}.{suffix}")
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))


def tars(folder: Path, count: int, rows: int) -> None:
    """So many tars of so many samples: the same pictures, no caption twice."""
    texts = captions(rows)
    tar(folder / "00000.tar", ((f"{i:09d}", picture(), text) for i, text in enumerate(texts)))
    template = (folder / "00000.tar").read_bytes()
    for number in range(1, count):
        write_atomic(folder / f"{number:05d}.tar", renumbered(template, number * rows))


def table(folder: Path, rows: int) -> None:
    """A CSV of so many pictures beside it, with the captions of `tars`."""
    folder.mkdir(parents=True)
    with open(folder / "t.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["filepath", "title"])
        for i, text in enumerate(captions(rows)):
            name = f"{i:09d}.jpg"
            (folder / name).write_bytes(picture())
            writer.writerow([name, text])


def region_list(path: Path, samples: int, regions: int) -> None:
    """A list of so many regions of so many samples; the tars have the keys of the first one's."""
    with open(path, "w", encoding="utf-8") as file:
        for i in range(samples):
            region_rows = [
                {
                    "box": [j / regions, 0.1, (j + 1) / regions, 0.9],
                    "caption": f"a red cup on table {j} of sample {i}",
                    "negatives": [f"a {colour} cup on table {j} of sample {i}" for colour in ("blue", "green")],
                }
                for j in range(regions)
            ]
            file.write(json.dumps({"key": f"{i:09d}", "regions": region_rows}) + "\n")


def renumbered(raw: bytes | memoryview, offset: int) -> bytes:
    """The same bytes with every number at the end of a caption raised."""
    places_and_numbers = [(m.start(1), int(m.group(1)) + offset) for m in END.finditer(raw)]
    digits = np.frombuffer(raw, np.uint8).copy()
    places, numbers = np.array(places_and_numbers, np.int64).reshape(-1, 2).T
    for digit in range(8):
        digits[places + digit] = ord("0") + numbers // 10 ** (7 - digit) % 10
    return digits.tobytes()


@dataclass(frozen=True)
class Renumbered:
    """A shard's annotations with other numbers: `array` as of `Columns`."""

    first: pa.StructArray
    offset: int

    def array(self) -> pa.StructArray:
        """The columns; all but the texts are those of the shard that was analysed."""
        names = [field.name for field in self.first.type]
        columns = {name: self.first.field(name) for name in names}
        _, offsets, data = columns["text"].buffers()
        text = pa.py_buffer(renumbered(memoryview(data), self.offset))
        columns["text"] = pa.StringArray.from_buffers(len(self.first), offsets, text)
        return pa.StructArray.from_arrays(list(columns.values()), names=names)


def annotated(work: ShardWork, rows: int) -> None:
    """Every shard of a work whose first one is made, of that one's columns. Raises ValueError where texts differ."""
    first, facts = work.items[0], read_mapping(work.facts_path(work.items[0]))
    columns = shard_files.read_batch(work.shard_path(first), "annotate", mapped=True)["captions"].values
    for number, item in enumerate(work.items[1:], 1):
        samples = shard_writer.load_samples(Path(item.inputs["samples"]))
        columns_of_shard = Renumbered(columns, number * rows)
        if [c for s in samples for c in s.captions] != columns_of_shard.array().field("text").to_pylist():
            raise ValueError(f"{item.name}: its captions are not those of the first shard with other numbers")
        shard_writer.write_batch(
            work.shard_path(item), annotate_shards.build_batch(samples, [1] * len(samples), cast(Any, columns_of_shard))
        )
        about = shard_writer.describe_shard(work.shard_path(item), item.name, len(samples), len(samples))
        description = {
            "samples": about.samples,
            "captions": about.captions,
            "bytes": about.bytes,
            "sha256": about.sha256,
        }
        write_json(work.facts_path(item), facts | {"shard": description})


def repeated(data: Path, out: Path, count: int) -> None:
    """A data set of `count` shards, all of them links to one that is there, without what shards have in common."""
    source = PreparedDataset(data)
    original = source.manifest.shards[0]
    (out / shard_files.SHARDS).mkdir(parents=True)
    links = [
        shard_files.Shard(
            shard_writer.shard_name(i), original.samples, original.captions, original.bytes, original.sha256
        )
        for i in range(count)
    ]
    for shard in links:
        (out / shard_files.SHARDS / f"{shard.name}.arrow").hardlink_to(
            data / shard_files.SHARDS / f"{original.name}.arrow"
        )
    shard_writer.write_manifest(out / shard_files.MANIFEST, shard_files.Manifest(tuple(links)))
