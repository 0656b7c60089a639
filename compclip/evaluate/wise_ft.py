"""WiSE-FT (Wortsman et al., 2022): the models on the line from the pretrained weights to fine-tuned ones.

python -m compclip wise_ft --cell NAME          every metric at every wise_ft.alphas, into runs/<cell>/wise_ft.json
python -m compclip wise_ft --pretrained A --tuned B --alpha 0.5 --out F          one of them, in open_clip's format

A and B are what `compclip.evaluate --checkpoint` takes; B may be the adapter folder of a LoRA run on A. On a LoRA run
the line scales the adapter's update. FSC-CLIP's released code scales both factors, and so the update by alpha squared:
the same curve, with other points on it.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compclip.base.errors import UserError, entry
from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.config.sections import Cell, Params
from compclip.evaluate import cells, score
from compclip.evaluate.benchmark import Benchmark
from compclip.model import backbone, lora
from compclip.model.backbone import Model
from compclip.runs.folder import Published

FILE = "wise_ft.json"
ADDED = {"logit_bias"}  # what a run may have that its backbone lacks


def interpolate(pretrained: Mapping[str, Tensor], tuned: Mapping[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """(1 - alpha) pretrained + alpha tuned: at 0 and 1 exactly the ends, and exactly as it was where nothing moved.

    Integer buffers and an added bias are the tuned model's. Raises UserError for another architecture.
    """
    differ = (set(pretrained) ^ set(tuned)) - (ADDED - set(pretrained))
    differ |= {k for k in set(pretrained) & set(tuned) if pretrained[k].shape != tuned[k].shape}
    if differ:
        raise UserError(
            f"wise_ft: two architectures: {len(differ)} tensors differ, as {min(differ)!r}; give the "
            "checkpoint that the tuned one was trained from"
        )
    moving = [k for k, v in tuned.items() if k in pretrained and v.is_floating_point()]
    return {**tuned, **{k: torch.lerp(pretrained[k], tuned[k], alpha) for k in moving}}


def line(pretrained: Model, tuned: Model, alphas: Sequence[float]) -> Iterator[tuple[float, Model]]:
    """The models on the line, one after the other in `tuned` itself."""
    if pretrained.model_cfg.get("quick_gelu", False) != tuned.model_cfg.get("quick_gelu", False):
        raise UserError(
            f"wise_ft: {pretrained.source} and {tuned.source} differ in quick_gelu; give the checkpoint "
            "that the tuned one was trained from"
        )
    start, end = ({k: v.clone() for k, v in m.clip.state_dict().items()} for m in (pretrained, tuned))
    for alpha in alphas:
        tuned.clip.load_state_dict(interpolate(start, end, alpha))
        yield alpha, tuned


def points(
    pretrained: Model,
    tuned: Model,
    alphas: Sequence[float],
    benchmarks: Mapping[str, Benchmark],
    batch_size: int = 256,
    threads: int = 2,
) -> Iterator[dict]:
    """{"alpha", "metrics": {"benchmark/metric": value}} for each model on the line."""
    for alpha, model in line(pretrained, tuned, alphas):
        scored = score.outcomes(model, benchmarks, batch_size, threads)
        metrics = {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}
        yield {"alpha": alpha, "metrics": metrics}


def of_cell(params: Params, cell: Cell, root: Path, device: str) -> dict:
    """The document of runs/<cell>/wise_ft.json."""
    if cell.method == cells.PRETRAINED:
        raise UserError(f"{cell.name}: is the pretrained model; give a cell of a method that was trained")
    start, asked, wanted = time.perf_counter(), params.evaluate, params.wise_ft
    base, own = root / "models" / cell.backbone, cells.checkpoint(cell, root)
    benchmarks = score.load(params.benchmarks, wanted.benchmarks or asked.benchmarks).benchmarks
    models = [backbone.load(path, device=device) for path in (base, own)]
    found = []
    for point in points(*models, wanted.alphas, benchmarks, asked.batch_size, asked.threads):
        found.append(point)
        print(f"{cell.name}: alpha {point['alpha']:g} ({len(found)} of {len(wanted.alphas)})", flush=True)
    return {
        "cell": cell.name,
        "seconds": round(time.perf_counter() - start, 3),
        "checkpoints": {str(p): backbone.weights_fingerprint(p) for p in (base, own)},
        "benchmarks": {name: b.fingerprint() for name, b in benchmarks.items()},
        "points": found,
    }


def table(document: Mapping[str, Any]) -> str:
    """One line a metric, one column an alpha."""
    found = document["points"]
    head = f"{'metric':<44}" + "".join(f"{p['alpha']:>7.2g}" for p in found)
    return "\n".join(
        [head, *(f"{name:<44}" + "".join(f"{p['metrics'][name]:>7.3f}" for p in found) for name in found[0]["metrics"])]
    )


def between(pretrained: str, tuned: str, alpha: float, model: str = "") -> Model:
    """The model at `alpha` between two checkpoints; `tuned` may be an adapter folder."""
    base = backbone.load(pretrained, model)
    if not (Path(tuned) / lora.CONFIG).is_file():
        return next(line(base, backbone.load(tuned, model), [alpha]))[1]
    lora.load(base.clip, tuned)
    lora.merge(base.clip, alpha)
    return base


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Score a cell's line, or write one model of a line; 0, or UserError."""
    args = _arguments(argv)
    backbone.check(args.device)
    if args.cell:
        params = read.load(args.params, args.overrides)
        document = of_cell(params, grid.resolve(params, args.cell).cell, root, args.device)
        write_json(Published(root, grid.resolve(params, args.cell).cell).line, document)
        print(table(document))
        return 0
    between(args.pretrained, args.tuned, args.alpha, args.model).save(args.out)
    print(f"{args.out}: alpha {args.alpha:g} between {args.pretrained} and {args.tuned}")
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m compclip wise_ft", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cell", default="", help="a cell of the grid; writes runs/<cell>/wise_ft.json")
    which.add_argument("--pretrained", default="", help="folder, weights file or MODEL::TAG")
    parser.add_argument("--tuned", default="", help="a checkpoint trained from it, or the adapter folder of one")
    parser.add_argument("--alpha", type=float, help="0: pretrained, 1: tuned; beyond is allowed")
    parser.add_argument("--out", default="", help="folder to write, in open_clip's format")
    parser.add_argument("--model", default="", help="open_clip architecture of weights files")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="parameters to override")
    args = parser.parse_args(argv)
    (_check_cell if args.cell else _check_pair)(args)
    return args


def _check_cell(args: argparse.Namespace) -> None:
    given = {"--tuned": args.tuned, "--alpha": args.alpha, "--out": args.out, "--model": args.model}
    for option in (option for option, value in given.items() if value not in ("", None)):
        raise UserError(
            f"--cell {args.cell}: is scored at wise_ft.alphas of params.yaml into its own folder; leave "
            f"out {option}, or give --pretrained instead of --cell"
        )


def _check_pair(args: argparse.Namespace) -> None:
    if not (args.tuned and args.out) or args.alpha is None:
        raise UserError("--pretrained: needs --tuned, --alpha and --out as well")
    if not math.isfinite(args.alpha):
        raise UserError(f"--alpha {args.alpha}: must be a finite number, as 0.5; 0 is pretrained, 1 is tuned")


if __name__ == "__main__":
    sys.exit(entry(main))
