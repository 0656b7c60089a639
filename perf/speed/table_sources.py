"""Measure the source `table`: start and memory by number of rows, and pictures a second beside other loaders.

    python -m perf.speed.table_sources [--rows 100000 1000000] [--pictures 2000] [--folder FOLDER]

Rows name pictures (CSV, Parquet), or hold small ones (Parquet, Arrow); a fresh process reads all samples of each table.
Then pictures are decoded in random order by us, and by open_clip's CsvDataset and the package datasets where these
are installed. The last line printed is a JSON document; exit code 1 where reading takes more than 300 MiB.

Takes 4 minutes with 1e6 rows; needs 2 GB of disk; `datasets` for a line of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from compclip.base.errors import entry
from compclip.config.sections import Data
from compclip.data import images
from compclip.prepare.sources import table
from perf.speed import process_memory

CAPTION = "A brown dog runs over the wet grass beside an old wooden fence, and two children look after it."
TABLES = ("t.csv", "t.parquet", "inside.parquet", "inside.arrow")
OTHERS = {"open_clip": "webdataset", "datasets": "datasets"}  # and the package that its loader needs
SMALL = 2000  # bytes of a picture where only reading a table is measured
GROUP = 100  # rows of a row group, as the hub has them for pictures
MEMORY_MIB = 300.0
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_tables(folder: Path, pictures: list[bytes], rows: int) -> None:
    """Write the same rows four ways, a thousand at a time; `pictures` come again and again."""
    schema = pa.schema([("image", pa.string()), ("caption", pa.string())])
    schema_inside = pa.schema([("image", PICTURE), ("caption", pa.string())])
    with (
        open(folder / "t.csv", "w", encoding="utf-8") as text,
        pq.ParquetWriter(folder / "t.parquet", schema) as plain,
        pq.ParquetWriter(folder / "inside.parquet", schema_inside) as parquet,
        pa.OSFile(str(folder / "inside.arrow"), "wb") as file,
        pa.ipc.new_stream(file, schema_inside) as arrow,
    ):
        text.write("filepath\ttitle\n")
        for start in range(0, rows, 1000):
            numbers = range(start, min(start + 1000, rows))
            names = [f"{number:08d}.jpg" for number in numbers]
            captions = [f"{CAPTION} {number}" for number in numbers]
            cells = [{"bytes": pictures[number % len(pictures)], "path": names[number - start]} for number in numbers]
            text.writelines(f"{folder / name}\t{caption}\n" for name, caption in zip(names, captions, strict=True))
            plain.write_table(pa.table([names, captions], schema=schema))
            inside = pa.table([pa.array(cells, PICTURE), captions], schema=schema_inside)
            parquet.write_table(inside, row_group_size=GROUP)
            arrow.write_table(inside)


def read_table(path: str) -> dict[str, Any]:
    """Seconds until the first sample and to the end, and memory above the imports."""
    cfg = Data(source="table", path=path, images=str(Path(path).parent))
    start = time.perf_counter()
    with process_memory.peak() as peak:
        parts = table.parts(cfg)
        samples = table.records(cfg, Counter(), *parts)
        next(samples)
        first_s = time.perf_counter() - start
        count = 1 + sum(1 for _ in samples)
    seconds = time.perf_counter() - start
    return {"samples": count, "first_s": round(first_s, 2), "all_s": round(seconds, 2), "peak_mib": peak["mib"]}


def decode(way: str, folder: str, count: int) -> dict[str, Any]:
    """Pictures a second in random order, decoded to RGB, and memory above the imports."""
    order = list(range(count))
    random.Random(0).shuffle(order)
    with process_memory.peak() as peak:
        load = open_loader(way, folder)
        start = time.perf_counter()
        for number in order:
            load(number)
        seconds = time.perf_counter() - start
    return {"pictures_a_s": round(count / seconds, 1), "peak_mib": peak["mib"]}


def open_loader(way: str, folder: str) -> Any:
    """The function that gives a picture by its number."""
    if way == "open_clip":
        from open_clip_train.data import CsvDataset

        texts = {"img_key": "filepath", "caption_key": "title", "tokenizer": lambda captions: captions}
        dataset = CsvDataset(f"{folder}/t.csv", lambda picture: picture.convert("RGB"), **texts)
        return dataset.__getitem__
    if way == "datasets":
        import datasets

        rows = datasets.Dataset.from_file(f"{folder}/inside.arrow").cast_column("image", datasets.Image())
        return lambda number: rows[number]["image"].convert("RGB")
    cfg = Data(source="table", path=f"{folder}/{way}", images=folder)
    places = [sample.picture for sample in table.records(cfg, Counter(), *table.parts(cfg))]
    return lambda number: images.load_image(places[number])


def make_pictures(count: int) -> list[bytes]:
    """JPEGs of noise that is smooth enough for a photograph's size, about 30 KB each."""
    generator = np.random.default_rng(0)
    pictures = []
    for _ in range(count):
        small = Image.fromarray(generator.integers(0, 255, (48, 64, 3), np.uint8))
        file = io.BytesIO()
        small.resize((640, 480)).save(file, "JPEG")
        pictures.append(file.getvalue())
    return pictures


def main(argv: list[str]) -> int:
    """Measure reading, then decoding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--folder", help="for the tables, in place of a temporary one")
    args = parser.parse_args(argv)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        for rows in args.rows:
            write_tables(folder, [bytes(SMALL)], rows)
            for file in TABLES:
                figures[f"{rows} {file}"] = process_memory.call_in_fresh_process(read_table, str(folder / file))
        pictures = make_pictures(min(args.pictures, 500))
        write_tables(folder, pictures, args.pictures)
        for number in range(args.pictures):
            (folder / f"{number:08d}.jpg").write_bytes(pictures[number % len(pictures)])
        others = [way for way, package in OTHERS.items() if importlib.util.find_spec(package)]
        for way in [*TABLES, *others]:
            figures[way] = process_memory.call_in_fresh_process(decode, way, str(folder), args.pictures)
    print(json.dumps(figures))
    return int(any(figure["peak_mib"] > MEMORY_MIB for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(entry(main))
