"""The same pictures and captions in many forms; each writer is given a folder, the pictures' folder, and the texts."""

import csv
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.data.reading import put, put_lines

Texts = dict[str, list[str]]
TEXTS: Texts = {"a": ["A dog."], "b": ["A cat.", "It sleeps."], "c/007": ["A train, two\nbridges."]}
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_pictures(folder: Path, texts: Texts = TEXTS) -> Path:
    """A picture a name, of different sizes and colours."""
    for number, name in enumerate(texts):
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + number, 10), (number, 0, 0)).save(path)
    return folder


def list_rows(texts: Texts, picture: str, caption: str) -> list[dict[str, str]]:
    return [{picture: f"{name}.png", caption: text} for name, captions in texts.items() for text in captions]


def make_inside(pictures: Path, texts: Texts) -> pa.Table:
    """A table with the pictures inside and a list of captions, as the hub has them."""
    cells = [{"bytes": (pictures / f"{name}.png").read_bytes(), "path": f"{name}.png"} for name in texts]
    return pa.table({"image": pa.array(cells, PICTURE), "caption": list(texts.values())})


def write_csv(path: Path, records: list[dict[str, str]], separator: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(records)


def write_stream(path: Path, content: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema) as writer:
        writer.write_table(content, max_chunksize=2)


def open_clip_csv(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    write_csv(path / "t.csv", list_rows(texts, "filepath", "title"), "\t")


def absolute_jsonl(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    put_lines(path / "t.jsonl", [{"image_path": str(pictures / f"{n}.png"), "text": t} for n, t in texts.items()])


def two_columns_parquet(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    records = [{"image": f"{n}.png", "one": t[0], "two": t[1] if t[1:] else None} for n, t in texts.items()]
    pq.write_table(pa.Table.from_pylist(records), path / "t.parquet")


def inside_parquet(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    pq.write_table(make_inside(pictures, texts), path / "t.parquet", row_group_size=2)


def inside_arrow(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    write_stream(path / "t.arrow", make_inside(pictures, texts))


def shards(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    content = make_inside(pictures, texts)
    (path / "data").mkdir()
    for number in range(2):
        pq.write_table(content.slice(2 * number, 2), path / "data" / f"train-{number:05d}-of-00002.parquet")
    pq.write_table(content.slice(0, 1), path / "data" / "test-00000-of-00001.parquet")


def saved(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    write_stream(path / "data-00000-of-00001.arrow", make_inside(pictures, texts))
    put(path / "state.json", json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))


def saved_splits(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    saved(path / "train", pictures, texts)
    saved(path / "test", pictures, dict(list(texts.items())[:1]))
    put(path / "dataset_dict.json", json.dumps({"splits": ["train", "test"]}))


def imagefolder(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    shutil.copytree(pictures, path / "train")
    records = list_rows(texts, "file_name", "text")
    write_csv(path / "train" / "metadata.csv", records)
    write_csv(path / "test" / "metadata.csv", records[:1])


def texts_beside(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    shutil.copytree(pictures, path, dirs_exist_ok=True)
    for name, captions in texts.items():
        put(path / f"{name}.TXT", "\n".join(text.replace("\n", " ") for text in captions))


def json_beside(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    shutil.copytree(pictures, path, dirs_exist_ok=True)
    for name, captions in texts.items():
        put(path / f"{name}.Json", json.dumps({"id": 7, "caption": captions if captions[1:] else captions[0]}))
    put(path / "notes.json", "{}")


def metadata_beside(path: Path, pictures: Path, texts: Texts = TEXTS) -> None:
    shutil.copytree(pictures, path, dirs_exist_ok=True)
    put_lines(path / "metadata.jsonl", [{"file_name": f"{n}.png", "text": t} for n, t in texts.items()])
