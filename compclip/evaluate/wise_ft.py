"""WiSE-FT (Wortsman et al., 2022): the models on the line from the pretrained weights to fine-tuned ones.

compclip evaluate wise_ft --method NAME    every line of a method, and in the same pass those of others that are due
compclip evaluate wise_ft --pretrained A --tuned B --alpha 0.5 --out F
                                           one model, in open_clip's format

A line is results/_wise_ft/<method>/<backbone-data-seed>.json. A and B are what `compclip evaluate --checkpoint` takes;
B may be the adapter folder of a LoRA run on A, whose update is scaled by alpha.
"""

# Ends of a line are not scored once more where the evaluation of both cells was that of the line. FSC-CLIP's released
# code scales both factors of LoRA, and so the update by alpha squared: the same curve, with other points on it. A head
# that stays with the model goes from what does nothing, as the identity of a linear map, to the trained one; one
# without such a start is the trained one at every alpha.

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base import code_hash, plugins, safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import check_output_folder, fingerprint, read_mapping, write_json
from compclip.base.safe_names import SafeName
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.plan import reading
from compclip.config.sections import BenchmarkSection as Section
from compclip.config.sections import Scoring
from compclip.evaluate import benchmark_module, result_store
from compclip.evaluate.benchmark_module import LoadedBenchmarks
from compclip.runs import gpus, run_store
from compclip.runs.run_folder import Published

if TYPE_CHECKING:
    from compclip.evaluate.embed import PreparedPictures
    from compclip.model.clip_model import ClipModel

PLAN = Path("plan") / "wise_ft"
FARTHEST = 1e6  # of --alpha on both sides: float32 holds what becomes of any weight


@dataclass(frozen=True)
class LineTask:
    """What is scored on a line, and how; lines of one task share what was read and prepared for it."""

    alphas: list[float]
    benchmarks: Mapping[str, Section]
    how: Scoring

    @functools.cached_property
    def loaded(self) -> LoadedBenchmarks:
        """The benchmarks."""
        return benchmark_module.load_benchmarks(self.benchmarks, list(self.benchmarks), self.how)

    @functools.cached_property
    def pictures(self) -> PreparedPictures:
        """Their pictures, as far as there is room for them."""
        from compclip.evaluate.embed import CACHE_BYTES, PreparedPictures

        return PreparedPictures(CACHE_BYTES)


def read_plan(method: SafeName, root: Path) -> tuple[LineTask, list[Cell]]:
    """Read what the plan asks of a method: the task, and the cells that have a line. Raises UserError without one."""
    path = root / PLAN / f"{method}.json"
    if not path.is_file():
        raise UserError(f"{path}: no such plan; name the method in wise_ft.methods and run `compclip repro plan`")
    with reading(path):
        plan = read_mapping(path)
        sections = {name: Section(**section) for name, section in plan["benchmarks"].items()}
        task = LineTask(plan["alphas"], sections, Scoring(**plan["how"]))
        return task, [Cell(**item["cell"]) for item in plan["cells"].values()]


def bring_line(cell: Cell, task: LineTask, root: Path, device: str) -> tuple[dict, bool]:
    """Return the document of a cell's line, and whether it was scored now, as nothing equal was there.

    A line that is there costs no import of torch.

    Raises UserError for a cell that has no line, or was not trained yet.
    """
    if cell.method == PRETRAINED:
        raise UserError(f"{cell.name}: is the pretrained model; give a cell of a method that was trained")
    ends = result_store.find_backbone(cell, root), result_store.find_checkpoint(cell, root)
    out = Published(root, cell).line
    modules = sorted({plugins.locate_plugin(plugins.BENCHMARKS, module) for module in task.loaded.module_of.values()})
    made_of = {
        "checkpoints": {str(p.relative_to(root)): fingerprint(p) for p in ends},
        "benchmarks": task.loaded.fingerprints,
        "alphas": task.alphas,
        "how": task.how.recorded(),
        "code": code_hash.hash_code("compclip.evaluate.score", *modules),
    }
    old = read_mapping(out) if out.is_file() else {}
    if made_of.items() <= old.items():
        return old, False
    from compclip.evaluate import score
    from compclip.model import backbone, heads

    start = time.perf_counter()
    evaluation = result_store.EvaluationTask(task.benchmarks, task.how, str(made_of["code"]), root)
    metrics_at = _metrics_of_ends(cell, task.alphas, evaluation)
    if heads.has_head(ends[1]) or not _are_prepared_alike(*ends):  # the start is another than the pretrained cell
        metrics_at.pop(0.0, None)
    device = device or score.device()
    inner = [alpha for alpha in task.alphas if alpha not in metrics_at]
    if inner:
        pretrained, tuned = (backbone.load(path, device=device) for path in ends)
        loaded = task.loaded
        devices = gpus.list_devices(device)
        line = score.score_line(
            pretrained, tuned, inner, loaded.benchmarks, loaded.how, devices=devices, pictures=task.pictures
        )
        for count, point in enumerate(line, start=1):
            metrics_at[point["alpha"]] = point["metrics"]
            print(f"{cell.name}: alpha {point['alpha']:g} ({count} of {len(inner)})", flush=True)
    points = [{"alpha": alpha, "metrics": metrics_at[alpha]} for alpha in task.alphas]
    seconds = round(time.perf_counter() - start, 3)
    document = {"cell": cell.name, "seconds": seconds, **made_of, "points": points}
    write_json(out, document)
    return document, True


def _are_prepared_alike(first: Path, second: Path) -> bool:
    """Return whether checkpoints prepare pictures in one way."""
    from compclip.model import clip_model

    first_config = read_mapping(first / clip_model.CONFIG)
    return bool(first_config["preprocess_cfg"] == read_mapping(second / clip_model.CONFIG)["preprocess_cfg"])


def _metrics_of_ends(
    cell: Cell, alphas: Sequence[float], evaluation: result_store.EvaluationTask
) -> dict[float, dict[str, float]]:
    """Return the metrics at 0 and 1 where the pretrained cell and this one were scored as the line is."""
    ends = {0.0: Cell(PRETRAINED, *cell[1:]), 1.0: cell}
    metrics_at = {}
    for alpha, end in ends.items():
        metrics = result_store.find_metrics(evaluation, end) if alpha in alphas else None
        if metrics is not None:
            metrics_at[alpha] = metrics
    return metrics_at


def bring_lines(method: SafeName, root: Path, device: str) -> None:
    """Score all lines of a method, as its plan asks, and in the same pass those of others that are due.

    Raises UserError when the others are done, where some of the method's own failed.
    """
    task, method_cells = read_plan(method, root)
    failed = []
    for cell in (*_list_other_cells(method, task, root), *method_cells):
        try:
            was_scored = bring_line(cell, task, root, device)[1]
            print(f"{cell.name}: {'made' if was_scored else 'made of the same before'}", flush=True)
        except UserError as error:
            if cell in method_cells:
                failed.append(cell.name)
            print(f"{cell.name}: {error}", file=sys.stderr)
    if failed:
        raise UserError(f"wise_ft: {len(failed)} of {len(method_cells)} lines failed (see above): {', '.join(failed)}")


def _list_other_cells(method: SafeName, task: LineTask, root: Path) -> list[Cell]:
    """List the cells of other methods that have a line of the same task, and are trained as `keys` wrote."""
    trained = {run.cell for run in run_store.list_planned(root) if run.published.trained.run_key == run.key}
    cells: list[Cell] = []
    for path in sorted((root / PLAN).glob("*.json")):
        other_task, other_cells = read_plan(SafeName(path.stem, "method"), root)
        if path.stem != method and other_task == task:
            cells += filter(trained.__contains__, other_cells)
    return cells


def model_between(pretrained: str, tuned: str, alpha: float, model: str = "") -> ClipModel:
    """Return the model at `alpha` between two checkpoints; `tuned` may be an adapter folder.

    Raises UserError for the adapter of a checkpoint with a head, which is no part of it.
    """
    from compclip.evaluate import score
    from compclip.model import backbone, heads, lora

    checkpoint = Path(tuned).absolute().parent
    if (Path(tuned) / lora.CONFIG).is_file() and heads.has_head(checkpoint):
        raise UserError(f"--tuned {tuned}: an adapter alone, whose checkpoint has a head as well; give {checkpoint}")
    base = backbone.load(pretrained, model)
    if not (Path(tuned) / lora.CONFIG).is_file():
        return next(score.models_on_line(base, backbone.load(tuned, model), [alpha]))[0]
    lora.load_adapter(base.clip, tuned)
    lora.merge(base.clip, alpha)
    return base


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Score the lines of a method, or write one model of a line; 0, or UserError."""
    args = _arguments(argv)
    if args.device:
        from compclip.model import backbone

        backbone.check_device(args.device)
    if args.method:
        bring_lines(safe_names.parse_name(args.method, "--method"), root, args.device)
    else:
        out = check_output_folder(args.out)
        model_between(args.pretrained, args.tuned, args.alpha, args.model).save(out)
        print(f"{args.out}: alpha {args.alpha:g} between {args.pretrained} and {args.tuned}")
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip evaluate wise_ft", description=__doc__, example="--method fsc_clip")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--method", default="", help="a method of wise_ft.methods, whose lines are brought up to date")
    which.add_argument("--pretrained", default="", help="folder, weights file or MODEL::TAG")
    parser.add_argument("--tuned", default="", help="a checkpoint trained from it, or the adapter folder of one")
    parser.add_argument("--alpha", type=float, help="0: pretrained, 1: tuned; beyond is allowed")
    parser.add_argument("--out", default="", help="folder to write, in open_clip's format")
    parser.add_argument("--model", default="", help="open_clip architecture of weights files")
    parser.add_argument("--device", default="", help="cpu, or cuda:1; by default all GPUs where there are any")
    args = parser.parse_args(argv)
    one_model = {"--tuned": args.tuned, "--alpha": args.alpha, "--out": args.out, "--model": args.model}
    fault = ""
    if args.method:
        for option, value in one_model.items():
            if value not in ("", None):
                fault = f"--method {args.method}: is scored as its plan asks; leave out {option}, or give --pretrained"
                break
    elif not (args.tuned and args.out) or args.alpha is None:
        fault = "--pretrained: needs --tuned, --alpha and --out as well"
    elif not abs(args.alpha) <= FARTHEST:  # true of NaN
        fault = f"--alpha {args.alpha}: must be a number of at most {FARTHEST:g}, as 0.5; 0 is pretrained, 1 is tuned"
    if fault:
        raise UserError(fault)
    return args


if __name__ == "__main__":
    sys.exit(entry(main))
