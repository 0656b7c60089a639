"""The hosts of the first hour on this machine: archives in official layouts, a hub with random weights, a catalogue.

Of what `compclip fetch` reads nothing is replaced but addresses, sizes and checksums; HF_ENDPOINT names the hub.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from compclip.base.files import read_json
from compclip.config.sections import World
from compclip.fetch.catalogue import load_catalogue
from compclip.scenes import generate
from tests.fetch import file_server, hub_server
from tests.tiny_project import TINY

ABSENT = "000000999999.jpg"  # of a made record: SugarCrepe has pictures that are not at hand
PICTURES = 24  # of each split at most
ABSENT_RECORDS = 5  # of each file of a benchmark
WORLD = World(train=1, retrieval=24, records=4, per_class=1, processes=1)
BENCHMARKS = ("sugarcrepe", "sugarcrepe_pp")
MODEL = "ViT-B-32-quickgelu"
Bodies = dict[str, bytes]


def make_photographs(folder: Path) -> Path:
    """Write drawings as if they were COCO's photographs, with captions and benchmarks, in the layout of shared data."""
    from PIL import Image

    world = folder / "world"
    generate.generate(WORLD, world)
    names = {path.name: f"{number:012d}.jpg" for number, path in enumerate(sorted((world / "test").iterdir()), 1)}
    pictures = folder / "coco" / "val2017"
    pictures.mkdir(parents=True)
    for drawing, name in names.items():
        Image.open(world / "test" / drawing).convert("RGB").save(pictures / name)
    images = read_json(world / "retrieval" / "dataset.json")["images"]
    rows = [(names[image["filename"]], sentence["raw"]) for image in images for sentence in image["sentences"]]
    records = read_json(world / "sugarcrepe" / "add_att.json").values()
    rows += [(names[record["filename"]], record["caption"]) for record in records]
    _write_captions(folder / "coco" / "annotations", rows)
    names["sugarcrepe_00000.png"] = ABSENT
    for benchmark in BENCHMARKS:
        (folder / benchmark).mkdir()
        for path in (world / benchmark).glob("*_*.json"):
            text = path.read_text(encoding="utf-8")
            for drawing, name in names.items():
                text = text.replace(drawing, name)
            (folder / benchmark / path.name).write_text(text, encoding="utf-8")
    return folder


def _write_captions(folder: Path, rows: list[tuple[str, str]]) -> None:
    """Write pairs of picture and caption as COCO's file."""
    folder.mkdir()
    names = dict.fromkeys(name for name, _ in rows)
    images = [
        {"id": int(Path(name).stem), "file_name": name, "height": 64, "width": 64, "license": 4} for name in names
    ]
    captions = [
        {"id": number, "image_id": int(Path(name).stem), "caption": text} for number, (name, text) in enumerate(rows)
    ]
    content = {"info": {}, "licenses": [], "images": images, "annotations": captions}
    (folder / "captions_val2017.json").write_text(json.dumps(content), encoding="utf-8")


def official_files(source: Path, tiny: bool) -> dict[str, Bodies]:
    """Return the files of each entry of the catalogue: the photographs of SugarCrepe play val2017, others train2017."""
    records = [read_json(path) for path in sorted((source / "sugarcrepe").glob("*.json"))]
    scored = {record["filename"] for subset in records for record in subset.values()}
    pictures = sorted((source / "coco" / "val2017").iterdir())
    splits = {
        "train2017": [path for path in pictures if path.name not in scored][:PICTURES],
        "val2017": [path for path in pictures if path.name in scored][:PICTURES],
    }
    present = {path.name for path in splits["val2017"]}
    benchmarks = {
        name: {path.name: _select_records(read_json(path), present) for path in (source / name).glob("*.json")}
        for name in BENCHMARKS
    }
    captions = read_json(source / "coco" / "annotations" / "captions_val2017.json")
    annotations = {"annotations/instances_val2017.json": b"{}"}  # the official archive has more than captions
    for split, paths in splits.items():
        annotations[f"annotations/captions_{split}.json"] = _select_captions(captions, {path.name for path in paths})
    archives = {
        f"coco_{split}": {f"{split}.zip": _zip({f"{split}/{path.name}": path.read_bytes() for path in paths})}
        for split, paths in splits.items()
    }
    return {
        **archives, **benchmarks,
        "coco_captions2017": {"annotations_trainval2017.zip": _zip(annotations)},
        "vit_b_32_openai": _weights(tiny),
    }  # fmt: skip


def _select_records(records: dict[str, dict] | list[dict], present: set[str]) -> bytes:
    """Return a benchmark's file with a few of the records whose pictures are absent: all would take an hour."""
    entries = list(records.items()) if isinstance(records, dict) else list(enumerate(records))
    absent = [key for key, record in entries if record["filename"] not in present][:ABSENT_RECORDS]
    chosen = [(key, record) for key, record in entries if record["filename"] in present or key in absent]
    return json.dumps(dict(chosen) if isinstance(records, dict) else [record for _, record in chosen]).encode()


def _select_captions(captions: dict[str, Any], names: set[str]) -> bytes:
    images = [image for image in captions["images"] if image["file_name"] in names]
    ids = {image["id"] for image in images}
    rows = [row for row in captions["annotations"] if row["image_id"] in ids]
    return json.dumps(captions | {"images": images, "annotations": rows}).encode()


def _zip(members: Bodies) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def _weights(tiny: bool) -> Bodies:
    """Return random weights in the hub's layout."""
    import open_clip
    import torch
    from safetensors.torch import save

    torch.manual_seed(0)
    model_cfg = TINY if tiny else open_clip.get_model_config(MODEL)
    config = {"model_cfg": model_cfg, "preprocess_cfg": {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28]}}
    weights = {name: value.contiguous() for name, value in open_clip.CLIP(**model_cfg).state_dict().items()}
    return {"open_clip_config.json": json.dumps(config).encode(), "open_clip_model.safetensors": save(weights)}


@contextlib.contextmanager
def serve(catalogue: Path, files: Mapping[str, Bodies]) -> Iterator[str]:
    """Serve the files of entries, and have the catalogue name them; gives the address, which plays the hub as well."""
    offers = load_catalogue(catalogue)
    raw = yaml.safe_load(catalogue.read_text(encoding="utf-8"))
    with file_server.serve() as server:
        for entry, bodies in files.items():
            offer = offers[entry]
            for name, section in raw[entry]["files"].items():
                section |= _describe(bodies[name], section)
            if offer.section.hub:
                _add_repository(server, raw[entry], {offer.address(name): body for name, body in bodies.items()})
                continue
            for name in offer.files:
                server.bodies[urlsplit(offer.address(name)).path] = bodies[name]
            raw[entry]["http"] = server.url + urlsplit(offer.section.http).path
        catalogue.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
        yield server.url


def _describe(body: bytes, section: dict[str, Any]) -> dict[str, Any]:
    """Return size and checksum of a file where the catalogue has them."""
    values = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return {key: value for key, value in values.items() if key in section}


def _add_repository(server: file_server.Files, section: dict[str, Any], bodies: Bodies) -> None:
    name = section["hub"].removeprefix("datasets/")
    kind = "models" if name == section["hub"] else "datasets"
    hub_server.repository(server, name, bodies, kind, revision=section.get("revision", "main"))
