"""Checkpoint x benchmarks -> results/<benchmark>.json.

compclip evaluate --method NAME                                   all cells of a method: its stage
compclip evaluate --cell NAME                                     one cell of the grid
compclip evaluate --checkpoint F [--benchmarks a b] [--out DIR]   any open_clip checkpoint, a table on stdout
compclip evaluate --results DIR --compare FILE [--within POINTS]  numbers of ours against somebody's
compclip evaluate --vqascore M [--benchmarks a b] [--out DIR]     VQAScore by a generative model
compclip evaluate --census NAME                                   count a benchmark: the stage benchmark@NAME

Outside of a project, benchmarks lie where `compclip fetch` puts them (`compclip list benchmarks`), or where
benchmarks.NAME.path=FOLDER and benchmarks.NAME.images=FOLDER say.
F is a folder in open_clip's format, a weights file with --model, or MODEL::TAG; M a folder in transformers' format, or
URL::NAME of an OpenAI-compatible endpoint. Parameters follow as key=value.
Cells are scored into results/<method>/<backbone-data-seed>/; what somebody scored already is taken over.
--compare FILE goes with --checkpoint, --vqascore and --cell too; exit code 1 where a number is off by more than
--within.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base import safe_names
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import check_output_folder, read_json, read_mapping
from compclip.base.safe_names import SafeName
from compclip.config.benchmark_groups import expand_groups
from compclip.config.grid import PRETRAINED, Cell
from compclip.config.plan import reading
from compclip.evaluate import result_store
from compclip.runs import run_folder as folders
from compclip.runs.run_folder import Published

if TYPE_CHECKING:
    from compclip.config.sections import Params
    from compclip.evaluate.number_comparison import OurNumber

PARAMS = "params.yaml"
PLAN = Path("plan/evaluate")


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Evaluate a method, a cell or a checkpoint as the arguments say; 0, 1 where a cell failed, or UserError."""
    args, overrides = _arguments(argv)
    if args.method:
        return _evaluate_method(safe_names.parse_name(args.method, "--method"), root)
    if args.results:
        from compclip.evaluate import number_comparison

        return _print_comparison(number_comparison.numbers_of_folder(Path(args.results)), args)
    from compclip.config import read

    params = read.load_params(_find_params(args), overrides)
    if args.census:
        return _census(params, safe_names.parse_name(args.census, "--census"), root)
    documents = _evaluate_cell(params, args.cell, root) if args.cell else _score_checkpoint(params, args)
    if not args.compare:
        return 0
    from compclip.evaluate import number_comparison

    return _print_comparison(number_comparison.numbers_of_documents(documents), args)


def _find_params(args: argparse.Namespace) -> str | Path:
    """Return the file of parameters; a checkpoint needs no project where its benchmarks are named."""
    if not args.benchmarks or not (args.checkpoint or args.vqascore):
        return args.params
    from compclip.config import project_files

    return project_files.find_params(args.params)


def _evaluate_method(method: SafeName, root: Path) -> int:
    """Score the cells of a method, as its plan has them."""
    path = root / PLAN / f"{method}.json"
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro plan` first, or `dvc repro evaluate@{method}`")
    with reading(path):
        document = read_mapping(path)
        grid_cells = [Cell(**item["cell"]) for item in document["cells"].values()]
        task = result_store.task_from_plan(document, root)
    outcome = result_store.publish_results(grid_cells, task)
    print(f"{method}: {len(grid_cells)} cells, {outcome.scored} runs scored", flush=True)
    for name, reason in outcome.failed.items():
        print(f"error: {name}: {reason}", file=sys.stderr)
    return 1 if outcome.failed else 0


def _census(params: Params, name: SafeName, root: Path) -> int:
    from compclip.config import columns
    from compclip.evaluate import census

    if name not in params.benchmarks:
        raise unknown("benchmark", name, params.benchmarks, "benchmarks")
    report_metrics, scorers = columns.select_metrics(params, name), params.evaluate.scorers
    print(json.dumps(census.write_census(name, params.benchmarks[name], root, report_metrics, scorers)))
    return 0


def _print_comparison(ours: Mapping[str, OurNumber], args: argparse.Namespace) -> int:
    """Print a table of our numbers against theirs; return 1 where one is further off than allowed."""
    from compclip.evaluate import number_comparison

    comparison = number_comparison.compare_numbers(ours, number_comparison.read_numbers(args.compare))
    print(number_comparison.comparison_table(comparison))
    far = comparison.beyond(args.within) if args.within is not None else []
    for line in far:
        print(f"error: {line.metric}: {line.difference:+.2f} points, more than {args.within:g}", file=sys.stderr)
    return 1 if far else 0


def _evaluate_cell(params: Params, name: str, root: Path) -> dict[str, dict]:
    """Score one cell, publish its results where it was trained, and print a table of its numbers."""
    from compclip.config import grid
    from compclip.evaluate import score

    cell = grid.resolve(params, name).cell
    published, checkpoint = Published(root, cell), str(result_store.find_checkpoint(cell, root))
    benchmark_names = params.evaluate.benchmarks
    if cell.method == PRETRAINED and not published.trained.environment.is_file():
        loaded = score.load_benchmarks(params.benchmarks, benchmark_names, params.evaluate.scoring)
        documents = score.score_checkpoint(score.checkpoint_at(checkpoint, device=score.device()), loaded)
        result_store.write_documents(documents, published.results)
    else:
        outcome = result_store.publish_results([cell], result_store.task_from_params(params, root))
        if outcome.failed:
            raise UserError(f"{name}: {outcome.failed[name]}")
        results = outcome.results[name]
        documents = {n: read_json(folders.result_path(results, SafeName(n, "benchmark"))) for n in benchmark_names}
    print(score.metric_table(documents))
    return documents


def _score_checkpoint(params: Params, args: argparse.Namespace) -> dict[str, dict]:
    """Score a checkpoint, or a generative model, that is no cell."""
    from compclip.evaluate import score, vqa
    from compclip.model import backbone

    out, device = check_output_folder(args.out) if args.out else None, args.device or score.device()
    backbone.check_device(device, args.activation)
    benchmark_names = expand_groups(args.benchmarks, params.benchmarks) or params.evaluate.benchmarks
    checkpoint = None
    if not (args.vqascore or args.loader):  # a checkpoint that is not there is said before benchmarks are read
        checkpoint = score.checkpoint_at(args.checkpoint, args.model, device, args.tokenizer, args.activation)
    loaded = score.load_benchmarks(params.benchmarks, benchmark_names, params.evaluate.scoring)
    if checkpoint:
        documents = score.score_checkpoint(checkpoint, loaded)
    elif args.vqascore:
        words = {"question": args.question, "answer": args.answer, "score": args.score}
        documents = vqa.vqascore_documents(args.vqascore, loaded, device, words, args.api_key_env)
    else:
        from compclip.evaluate import foreign_models

        model = foreign_models.load_model(args.loader, args.checkpoint, device)
        documents = foreign_models.score_model(model, loaded, {"path": args.checkpoint, "loader": args.loader})
    score.print_warnings(documents)
    numbers = {name: {"metrics": d["metrics"], "counts": d["counts"]} for name, d in documents.items()}
    print(json.dumps(numbers, indent=1) if args.json else score.metric_table(documents))
    if out:
        result_store.write_documents(documents, out)
    return documents


def _arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Arguments, and the key=value parameters among them (also those that follow --benchmarks)."""
    parser = argparse.ArgumentParser(
        prog="compclip evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--method", default="", help="a method of the grid, name or name.variant: all its cells")
    which.add_argument("--cell", default="", help="a cell of the grid")
    which.add_argument("--checkpoint", default="", help="folder, weights file or MODEL::TAG")
    which.add_argument("--results", default="", help="a folder of results, for --compare")
    which.add_argument("--vqascore", default="", help="folder of an image-to-text model, or URL::NAME")
    which.add_argument("--census", default="", help="a benchmark of params.yaml")
    parser.add_argument("--model", default="", help="open_clip architecture of a weights file")
    parser.add_argument("--loader", default="", help="of a model that is not open_clip's: `compclip list models`")
    parser.add_argument("--tokenizer", default="", help="folder of a tokenizer, or clip: a stand-in")
    parser.add_argument("--activation", default="", help="gelu or quickgelu, of a weights file that does not tell")
    parser.add_argument("--question", default="", help="of --vqascore, {} for the text; default: the authors'")
    parser.add_argument("--answer", default="", help="whose likelihood is the score of --vqascore; default: Yes")
    parser.add_argument(
        "--score", default="", help="of --vqascore: answer_likelihood or first_token; default: the authors'"
    )
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key of an endpoint")
    parser.add_argument(
        "--benchmarks",
        nargs="+",
        default=[],
        help="names or groups (comp, zeroshot, retrieval, long), with --checkpoint or --vqascore; "
        "default: evaluate.benchmarks",
    )
    parser.add_argument("--json", action="store_true", help="with --checkpoint or --vqascore: print JSON, no table")
    parser.add_argument("--params", default=PARAMS, help="the file that holds the grid")
    parser.add_argument("--out", default="", help="folder for the results of --checkpoint or --vqascore")
    parser.add_argument("--device", default="", help="cuda:1, cpu; default: cuda, which is all GPUs; else cpu")
    parser.add_argument("--compare", default="", metavar="FILE", help="numbers of somebody's: JSON or CSV")
    parser.add_argument("--within", type=float, metavar="POINTS", help="with --compare: how far off a number may be")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="parameters to override")
    args = parser.parse_intermixed_args(argv)
    overrides = [a for a in (*args.overrides, *args.benchmarks) if "=" in a]
    args.benchmarks = [a for a in args.benchmarks if "=" not in a]
    _check_given(args, overrides)
    return args, overrides


def _check_given(args: argparse.Namespace, overrides: list[str]) -> None:
    """Raise UserError for options that do not go together; a cell's results are replaced as a whole."""
    if bool(args.results) > bool(args.compare) or (args.within is not None and not args.compare):
        raise UserError("--results and --within: are for --compare; give --compare FILE")
    if args.compare and (args.method or args.census):
        raise UserError(
            f"--compare {args.compare}: needs one checkpoint's numbers; give --results FOLDER or --cell NAME"
        )
    for option, value in (("--benchmarks", args.benchmarks), ("--out", args.out)):
        if args.cell and value:
            raise UserError(
                f"--cell {args.cell}: is scored on evaluate.benchmarks of params.yaml into its own folder; "
                f"leave out {option}, or give --checkpoint FOLDER instead of --cell"
            )
    if args.method and (value := [*args.benchmarks, args.out, *overrides]) != [""]:
        raise UserError(f"--method {args.method}: is scored as plan/ has it; leave out {next(filter(None, value))}")


if __name__ == "__main__":
    sys.exit(entry(main))
