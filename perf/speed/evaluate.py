"""Evaluation against others' code on the same weights and files: seconds of wall time and CPU, and the scores.

    python -m perf.speed.evaluate [--parts sugarcrepe_pp checkpoints] [--rounds 3] [--threads 2] [--share 1.0]

clip_benchmark: SugarCrepe (its records whose pictures are at hand) and Flickr8k retrieval with a random ViT-B/32, by
CLIP_benchmark's own datasets and metrics, float32, batches of 64; it is installed for this alone (`pip install
clip_benchmark`). sugarcrepe_pp: against a loop that encodes each pair that is compared, a sample of the records
scaled up. checkpoints: ten models of the scenes in one process, as in a stage, against a process for each, in a project
whose scenes are made (--project). A part that lacks something says so and is left out.

Rounds are interleaved; each figure is the median. `--share` takes a part of the pictures for a quick look. Real files
are looked for in COMPCLIP_SHARED_DATA. The last line is a JSON document.

Takes 20 minutes a round, less with `--share`; needs Flickr8k's and SugarCrepe's files, and clip_benchmark for its part.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from compclip.base.errors import UserError
from compclip.base.files import read_json, write_atomic, write_json
from compclip.benchmarks import retrieval, sugarcrepe, sugarcrepe_pp
from compclip.benchmarks._files import spread_evenly
from compclip.config.sections import BenchmarkSection as Section
from compclip.config.sections import Scoring
from compclip.evaluate import benchmark_module, score
from compclip.evaluate.benchmark import Benchmark
from compclip.model import backbone
from compclip.model.clip_model import ClipModel

MODEL, BATCH, CHECKPOINTS = "ViT-B-32", 64, 10
SCENES = ("sugarcrepe", "sugarcrepe_pp", "winoground", "hard_positives", "retrieval")


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and CPU seconds, those of ended children included, and what came of it."""
    began, cpu_before = time.perf_counter(), _cpu()
    result = work()
    return time.perf_counter() - began, _cpu() - cpu_before, result


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def compared(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int, scale: float = 1.0) -> dict[str, Any]:
    """Both in turns; `scale` is how much more than they did they would have had to do."""
    timings = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    pairs = {"wall": 0, "cpu": 1}
    seconds = {f"{kind}_s": [[round(a[i], 2), round(b[i] * scale, 2)] for a, b in timings] for kind, i in pairs.items()}
    ratios = {f"{kind}_ratio": round(median(scale * b[i] / a[i] for a, b in timings), 2) for kind, i in pairs.items()}
    return seconds | ratios | {"ours": timings[-1][0][2], "theirs": timings[-1][1][2]}


def at_hand(folder: Path, names: Path, out: Path) -> Path:
    """SugarCrepe's or SugarCrepe++'s files with the records whose pictures are there."""
    existing = set(os.listdir(names))
    for file in sorted(folder.glob("*.json")):
        rows = read_json(file)
        if isinstance(rows, list):
            matching: Any = [row for row in rows if row["filename"] in existing]
        else:
            matching = {key: row for key, row in rows.items() if row["filename"] in existing}
        if matching:
            write_json(out / file.name, matching)
    return out


def flickr(folder: Path, out: Path, share: float) -> tuple[Path, Path]:
    """Flickr8k's captions as we read them, and as CLIP_benchmark does, which knows of no quotes."""
    with open(folder / "captions.txt", encoding="utf-8", newline="") as file:
        rows = [(row["image"], row["caption"]) for row in csv.DictReader(file)]
    pictures = sorted({image for image, _ in rows})
    chosen_pictures = set(pictures[: max(BATCH, round(len(pictures) * share))])
    rows = [row for row in rows if row[0] in chosen_pictures]
    theirs = "".join(f"{image},{caption}\n" for image, caption in rows)
    write_atomic(out / "theirs.txt", "image,caption\n" + theirs)
    quoted = "".join('{},"{}"\n'.format(image, caption.replace('"', '""')) for image, caption in rows)
    write_atomic(out / "captions.txt", "image,caption\n" + quoted)
    return out / "captions.txt", out / "theirs.txt"


def clip_benchmark(data: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """SugarCrepe and Flickr8k, ours against CLIP_benchmark's."""
    if importlib.util.find_spec("clip_benchmark") is None:
        raise UserError("clip_benchmark: not installed; `pip install --no-deps clip_benchmark` where this runs")
    coco = data / "coco" / "val2017"
    files = at_hand(data / "sugarcrepe", coco, folder / "sugarcrepe")
    captions, theirs_file = flickr(data / "flickr8k", folder / "flickr8k", args.share)
    pictures = data / "flickr8k" / "Images"
    names = ",".join(sorted(file.stem for file in files.glob("*.json")))
    loaded = {
        "sugarcrepe": sugarcrepe.load(files, coco, names),
        "flickr8k": retrieval.load(captions, pictures),
    }
    model, how = backbone.create(MODEL, seed=0), Scoring(threads=args.threads)
    ours = lambda: _ours(model, loaded, how)  # noqa: E731
    figures = compared(ours, lambda: _theirs(model, files, coco, theirs_file, pictures), args.rounds)
    return figures | {"differ": differing(figures.pop("ours"), figures.pop("theirs"))}


def _ours(model: ClipModel, loaded: dict[str, Benchmark], how: Scoring) -> dict[str, float]:
    scored = score.score_model(model, loaded, how)
    return {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}


def _theirs(model: ClipModel, files: Path, coco: Path, captions: Path, pictures: Path) -> dict[str, float]:
    from clip_benchmark.datasets.builder import image_captions_collate_fn
    from clip_benchmark.datasets.flickr import Flickr
    from clip_benchmark.datasets.sugar_crepe import SugarCrepe
    from clip_benchmark.metrics import image_caption_selection, zeroshot_retrieval

    def loader(dataset: Any) -> Any:
        options = {"batch_size": BATCH, "num_workers": 2, "collate_fn": image_captions_collate_fn}
        return torch.utils.data.DataLoader(dataset, shuffle=False, **options)

    model.clip.eval()
    metrics = {}
    for file in sorted(files.glob("*.json")):
        data = SugarCrepe(str(coco), str(file), transform=model.transform)
        result = image_caption_selection.evaluate(model.clip, loader(data), model.tokenize, "cpu", amp=False)
        metrics[f"sugarcrepe/{file.stem}"] = result["text_acc"]
    data = Flickr(str(pictures), str(captions), transform=model.transform)
    ks = list(retrieval.KS)
    result = zeroshot_retrieval.evaluate(model.clip, loader(data), model.tokenize, "cpu", amp=False, recall_k_list=ks)
    for k in ks:
        metrics[f"flickr8k/i2t_recall_at_{k}"] = result[f"text_retrieval_recall@{k}"]
        metrics[f"flickr8k/t2i_recall_at_{k}"] = result[f"image_retrieval_recall@{k}"]
    return metrics


def differing(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, list[float]]:
    """Our and their value of each metric that both have and that differ beyond float32."""
    both = {name: [round(ours[name], 6), round(value, 6)] for name, value in theirs.items()}
    return {name: pair for name, pair in both.items() if abs(pair[0] - pair[1]) > 1e-5}


def pairs(data: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """SugarCrepe++, ours against a loop over pairs."""
    coco = data / "coco" / "val2017"
    files = at_hand(data / "sugarcrepe_pp", coco, folder / "sugarcrepe_pp")
    loaded = sugarcrepe_pp.load(files, coco, ",".join(sorted(file.stem for file in files.glob("*.json"))))
    model, how = backbone.create(MODEL, seed=0), Scoring(threads=args.threads)
    sample = spread_evenly(loaded.records, args.sample)
    figures = compared(
        lambda: len(score.score_model(model, {"sugarcrepe_pp": loaded}, how)),
        lambda: sum(_pair_by_pair(model, sample)),
        args.rounds,
        scale=len(loaded) / len(sample),
    )
    return {name: value for name, value in figures.items() if name not in ("ours", "theirs")} | {"records": len(loaded)}


def _pair_by_pair(model: ClipModel, records: Any) -> Iterator[bool]:
    """Both tasks of each record: six pairs, of a picture and a text or of two texts, each encoded by itself."""
    from PIL import Image

    def picture(path: str) -> Any:
        return model.clip.encode_image(model.transform(Image.open(path))[None], normalize=True)

    def text(line: str) -> Any:
        return model.clip.encode_text(model.tokenize([line]), normalize=True)

    model.clip.eval()
    for record in records:
        with torch.no_grad():
            p1, p2, n = ((picture(record.images[0]) * text(line)).sum() for line in record.texts)
            text_1, text_2, negative = record.texts
            text_similarity, negative_1, negative_2 = (
                (text(a) * text(b)).sum() for a, b in ((text_1, text_2), (text_1, negative), (text_2, negative))
            )
        yield bool(p1 > n and p2 > n and text_similarity > negative_1 and text_similarity > negative_2)


def checkpoints(project: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Ten models of the scenes scored together, against each scored alone: whole processes."""
    world, start = project / "data" / "scenes_world", project / "models" / "scenes"
    for required in (world, start):
        if not required.is_dir():
            raise UserError(f"{required}: not there; `compclip repro look backbone` makes it")
    refs = [str(ref) for ref in _make_variants(start, folder)]
    figures = compared(
        lambda: _process(world, refs, args.threads),
        lambda: _processes(world, refs, args.threads),
        args.rounds,
    )
    shares = {f"{kind}_share": round(1 / figures[f"{kind}_ratio"], 3) for kind in ("wall", "cpu")}
    return {name: value for name, value in figures.items() if name not in ("ours", "theirs")} | shares


def _process(world: Path, refs: list[str], threads: int) -> None:
    words = ["--world", str(world), "--threads", str(threads), "--score", *refs]
    subprocess.run([sys.executable, "-m", "perf.speed.evaluate", *words], check=True, stdout=subprocess.DEVNULL)


def _processes(world: Path, refs: list[str], threads: int) -> None:
    for ref in refs:
        _process(world, [ref], threads)


def score_together(world: Path, refs: list[str], threads: int) -> None:
    """What a stage does with checkpoints: all of them on the scenes' benchmarks. Raises UserError where one fails."""
    pictures = {name: world / ("winoground/images" if name == "winoground" else "test") for name in SCENES}
    sections = {name: Section(path=str(world / name), images=str(images)) for name, images in pictures.items()}
    loaded = benchmark_module.load_benchmarks(sections, list(sections), Scoring(threads=threads))
    for _, scores in score.score_checkpoints([score.checkpoint_at(ref) for ref in refs], loaded):
        if isinstance(scores, UserError):
            raise scores


def _make_variants(start: Path, folder: Path) -> Iterator[Path]:
    """Checkpoints that differ a little from one."""
    model = backbone.load(start)
    for number in range(CHECKPOINTS):
        torch.manual_seed(number)
        for weight in model.clip.parameters():
            weight.data.mul_(1 + 1e-3 * torch.randn(()))
        model.save(folder / str(number))
        yield folder / str(number)


PARTS = {"clip_benchmark": clip_benchmark, "sugarcrepe_pp": pairs, "checkpoints": checkpoints}


def main(argv: list[str]) -> int:
    """Measure each part that can be; print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=sorted(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sample", type=int, default=40, help="records of the loop over pairs")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--project", type=Path, default=Path("."))
    parser.add_argument("--world", type=Path, help="of --score")
    parser.add_argument("--score", nargs="+", help="checkpoints to score on the scenes, and nothing else")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    if args.score:
        score_together(args.world, args.score, args.threads)
        return 0
    data, figures = os.environ.get("COMPCLIP_SHARED_DATA", ""), {}
    for name in args.parts:
        if name != "checkpoints" and not data:
            print(f"{name}: left out: COMPCLIP_SHARED_DATA names no folder of real files", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="evaluate-") as folder:
            try:
                where = args.project if name == "checkpoints" else Path(data)
                figures[name] = PARTS[name](where, Path(folder), args)
            except UserError as error:
                print(f"{name}: left out: {error}", file=sys.stderr)
        print(json.dumps({name: figures.get(name)}), file=sys.stderr, flush=True)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
