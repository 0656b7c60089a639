"""Does each form of one's own data lead to a page in two commands, without an edit?

    python -m perf.faults.own_starts [--pictures 200] [--only csv tars] [--folder F]

Lays out the same photographs (`COMPCLIP_SHARED_DATA`) in ten forms, and for each calls `compclip init NAME --data FORM
--model MODEL` and `compclip repro` as a reader would. The model is small: the embedded scenes' in open_clip's folder
layout, so that a form takes two minutes on two cores; `file` is the start with a file of weights, open_clip's smallest
ViT at random (a name of open_clip's with its tag is played by `perf.faults.first_hour`). Prints a row a start:
commands, edits, wall seconds of both, pictures trained on and tested, and whether the page names the reader's own
test. Exit code 1 where a start has no such page, meets the drawings, or trains on a held-out picture.

Takes 2 minutes a form on idle cores; needs photographs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

from compclip.config import read
from perf.checkout import ROOT

MOST_LINES = 12  # of `compclip init`
SHARED = Path(os.environ.get("COMPCLIP_SHARED_DATA", ROOT.parent / "shared" / "data"))
Captions = Mapping[str, list[str]]  # of each picture, by its file's name


def read_captions(count: int) -> Captions:
    """Return the captions of the first pictures of Flickr8k's folder."""
    captions: dict[str, list[str]] = {}
    with (SHARED / "flickr8k/captions.txt").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            captions.setdefault(row["image"], []).append(row["caption"])
    return dict(list(captions.items())[:count])


def read_picture(name: str) -> bytes:
    """Return a picture's bytes."""
    return (SHARED / "flickr8k/Images" / name).read_bytes()


def copy_pictures(folder: Path, captions: Captions) -> Path:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True)
    for name in captions:
        (folder / name).write_bytes(read_picture(name))
    return folder


def write_table(folder: Path, captions: Captions, separator: str) -> Path:
    """Write a row a caption."""
    copy_pictures(folder / "photos", captions)
    path = folder / f"mine.{'tsv' if separator == chr(9) else 'csv'}"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(["filepath", "title"])
        writer.writerows([name, text] for name, texts in captions.items() for text in texts)
    return path


def write_texts(folder: Path, captions: Captions) -> Path:
    """Write a text beside each picture."""
    copy_pictures(folder / "beside", captions)
    for name, texts in captions.items():
        (folder / "beside" / name).with_suffix(".txt").write_text(texts[0])
    return folder / "beside"


def write_parquet(folder: Path, captions: Captions) -> Path:
    """Write pictures and captions into one table."""
    rows = []
    for name, texts in captions.items():
        rows.append({"image": {"bytes": read_picture(name), "path": name}, "caption": texts})
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "mine.parquet", row_group_size=20)
    return folder / "mine.parquet"


def write_karpathy(folder: Path, captions: Captions) -> Path:
    """Write Karpathy's JSON, of which every fifth picture is a test."""
    images = []
    for number, (name, texts) in enumerate(captions.items()):
        split = "test" if number % 5 == 0 else "train"
        images.append({"filename": name, "split": split, "sentences": [{"raw": text} for text in texts]})
    copy_pictures(folder / "images", captions)
    (folder / "dataset_mine.json").write_text(json.dumps({"images": images}))
    return folder


def write_tars(folder: Path, captions: Captions) -> str:
    """Write two tars as img2dataset does, named by braces."""
    folder.mkdir(parents=True)
    names = list(captions)
    for number in range(2):
        with tarfile.open(folder / f"{number:05}.tar", "w") as tar:
            for key, name in enumerate(names[number::2]):
                for ending, raw in (("jpg", read_picture(name)), ("txt", captions[name][0].encode())):
                    info = tarfile.TarInfo(f"{key:09}.{ending}")
                    info.size = len(raw)
                    tar.addfile(info, io.BytesIO(raw))
    return f"{folder}/{{00000..00001}}.tar"


def write_imagefolder(folder: Path, captions: Captions) -> Path:
    """Write the hub's imagefolder."""
    copy_pictures(folder / "train", captions)
    with (folder / "train/metadata.jsonl").open("w") as file:
        for name, texts in captions.items():
            print(json.dumps({"file_name": name, "text": texts[0]}), file=file)
    return folder / "train"


def write_coco(folder: Path, captions: Captions) -> Path:
    """Write COCO's captions."""
    copy_pictures(folder / "pictures", captions)
    images = [{"id": number, "file_name": name} for number, name in enumerate(captions)]
    annotations = []
    for number, texts in enumerate(captions.values()):
        annotations += [{"image_id": number, "caption": text} for text in texts]
    (folder / "captions_mine.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    return folder


def write_flickr8k(folder: Path, captions: Captions) -> Path:
    """Write Flickr8k's own layout."""
    copy_pictures(folder / "Images", captions)
    with (folder / "captions.txt").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption"])
        writer.writerows([name, text] for name, texts in captions.items() for text in texts)
    return folder


FORMS: dict[str, Callable[[Path, Captions], Path | str]] = {
    "csv": lambda folder, captions: write_table(folder, captions, ","),
    "tsv": lambda folder, captions: write_table(folder, captions, "\t"),
    "texts": write_texts,
    "parquet": write_parquet,
    "karpathy": write_karpathy,
    "tars": write_tars,
    "imagefolder": write_imagefolder,
    "coco": write_coco,
    "flickr8k": write_flickr8k,
}


def write_model(folder: Path) -> Path:
    """Write the scenes' small model as a folder of open_clip's."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((ROOT / "experiments/backbones/scenes.json").read_text())
    preprocess = {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": preprocess}))
    weights = load_file(ROOT / "experiments/backbones/scenes.fp16.safetensors")
    save_file(
        {name: tensor.to(torch.float32) for name, tensor in weights.items()}, folder / "open_clip_model.safetensors"
    )
    return folder


def write_weights(path: Path) -> Path:
    """Write a file of weights that names no architecture: a state dict of open_clip's smallest ViT."""
    import open_clip

    torch.manual_seed(0)
    torch.save(open_clip.create_model("ViT-S-32-alt").state_dict(), path)
    return path


def run_command(cwd: Path, *words: str) -> tuple[str, float]:
    """Run `compclip` as a reader does; return what it printed and its wall seconds. Raises SystemExit."""
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "compclip", *words], cwd=cwd, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if process.returncode:
        print(process.stdout[-2000:], process.stderr[-2000:], sep="\n", file=sys.stderr)
        raise SystemExit(f"compclip {' '.join(words)}: exit code {process.returncode}")
    return process.stdout, time.monotonic() - started


def check_project(project: Path, names: list[str]) -> list[str]:
    """Return what is wrong with a finished project: drawings, a held-out picture in training, another page."""
    faults = []
    if (project / "data/scenes_world").exists():
        faults.append("drawings were made")
    page = project / "reports/index.html"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    faults += [f"the page does not name {name}" for name in names if name not in text]
    for path in (project / "data/overlaps").glob("*.json"):
        shared = {name: counts for name, counts in json.loads(path.read_text()).items() if counts}
        faults += [f"{path.stem} trains on pictures of {name}" for name in shared]
    return faults


def start(name: str, folder: Path, arguments: list[str]) -> bool:
    """Play one start and print its row; return whether all is well."""
    printed, init_s = run_command(folder, "init", name, *arguments)
    project = folder / name
    tests = list(read.load_params(project / "params.yaml").evaluate.benchmarks)
    _, repro_s = run_command(project, "repro")
    faults = check_project(project, tests)
    faults += [f"{len(printed.splitlines())} lines printed"] if len(printed.splitlines()) > MOST_LINES else []
    trained = sum(json.loads(path.read_text())["samples"] for path in project.glob("data/*/manifest.json"))
    state = "; ".join(faults) or "a page of its own"
    print(
        f"{name:<12} 2 commands, 0 edits {init_s:6.0f} s {repro_s:6.0f} s {trained:6} trained on  {state}", flush=True
    )
    return not faults


def main(argv: list[str] | None = None) -> int:
    """Play all starts; 1 where one is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[*FORMS, "mix", "file"])
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    args = parser.parse_args(argv)
    folder = args.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    captions = read_captions(args.pictures)
    small_model = write_model(folder / "small_model")
    good = True
    for name in args.only:
        for former in (name, f"{name}_data"):
            shutil.rmtree(folder / former, ignore_errors=True)
        names = {"mix": ["csv", "tars"], "file": ["csv"]}.get(name, [name])
        model = write_weights(folder / "mine.pt") if name == "file" else small_model
        data = []
        for form in names:
            data += ["--data", str(FORMS[form](folder / f"{name}_data" / form, captions))]
        good &= start(name, folder, [*data, "--model", str(model)])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
