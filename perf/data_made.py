"""Made data for `data.py`: tars of 70-word captions as img2dataset writes them, and their annotated shards.

One tar is written member by member and one shard really analysed. The others are these with other numbers at the end of
every caption: as long, and for spaCy the same sentence, so that texts differ and columns have the same format.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.data import annotate, shards
from compclip.data.prepared import Prepared
from compclip.data.work import Work
from perf import annotation

ROWS = 10_000  # samples of a tar
END = re.compile(rb"Its number is (\d{8})\.")
SIDE = 32  # pixels of a made picture


def captions(count: int) -> list[str]:
    """Captions of 70 words and more, each with its number at the end."""
    made = annotation.captions(annotation.lines(None), count, 0)
    return [f"{text.rstrip('. ')}. Its number is {i:08d}." for i, text in enumerate(made)]


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
            parts = {"jpg": raw, "json": json.dumps(noted).encode(), "txt": caption.encode()}
            for suffix, content in parts.items():
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


def renumbered(raw: bytes | memoryview, more: int) -> bytes:
    """The same bytes with every number at the end of a caption raised."""
    found = [(m.start(1), int(m.group(1)) + more) for m in END.finditer(raw)]
    made = np.frombuffer(raw, np.uint8).copy()
    places, numbers = np.array(found, np.int64).reshape(-1, 2).T
    for digit in range(8):
        made[places + digit] = ord("0") + numbers // 10 ** (7 - digit) % 10
    return made.tobytes()


@dataclass(frozen=True)
class Renumbered:
    """A shard's annotations with other numbers: `array` as of `Columns`."""

    first: pa.StructArray
    more: int

    def array(self) -> pa.StructArray:
        """The columns; all but the texts are those of the shard that was analysed."""
        names = [field.name for field in self.first.type]
        columns = {name: self.first.field(name) for name in names}
        _, offsets, data = columns["text"].buffers()
        text = pa.py_buffer(renumbered(memoryview(data), self.more))
        columns["text"] = pa.StringArray.from_buffers(len(self.first), offsets, text)
        return pa.StructArray.from_arrays(list(columns.values()), names=names)


def annotated(made: Work, rows: int) -> None:
    """Every shard of a work whose first one is made, of that one's columns. Raises ValueError where texts differ."""
    first, facts = made.items[0], read_mapping(made.facts(made.items[0]))
    columns = shards.read_batch(made.shard(first), "annotate", mapped=True)["captions"].values
    for number, item in enumerate(made.items[1:], 1):
        samples = shards.load(Path(item.given["samples"]))
        found = Renumbered(columns, number * rows)
        if [c for s in samples for c in s.captions] != found.array().field("text").to_pylist():
            raise ValueError(f"{item.name}: its captions are not those of the first shard with other numbers")
        shards.write_batch(made.shard(item), annotate.batch(samples, [1] * len(samples), found))
        about = shards.described(made.shard(item), item.name, len(samples), len(samples))
        told = {"samples": about.samples, "captions": about.captions, "bytes": about.bytes, "sha256": about.sha256}
        write_json(made.facts(item), facts | {"shard": told})


def repeated(data: Path, out: Path, count: int) -> None:
    """A data set of `count` shards, all of them links to one that is there, without what shards have in common."""
    source = Prepared(data)
    one = source.manifest.shards[0]
    (out / shards.SHARDS).mkdir(parents=True)
    listed = [shards.Shard(shards.file_name(i), one.samples, one.captions, one.bytes, one.sha256) for i in range(count)]
    for shard in listed:
        (out / shards.SHARDS / f"{shard.name}.arrow").hardlink_to(data / shards.SHARDS / f"{one.name}.arrow")
    shards.write_manifest(out / shards.MANIFEST, shards.Manifest(tuple(listed)))
