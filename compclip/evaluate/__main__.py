"""Score checkpoints, or the grid's runs, on benchmarks.

compclip evaluate --checkpoint F [F ...]  any checkpoints, a table on stdout
compclip evaluate --method | --cell NAME  runs of the grid, into results/

F is a folder in open_clip's format, a weights file with --model, MODEL::TAG, or a run's folder: runs/<method>/<cell>
or store/<run key>, also while it trains. --out writes each into its own folder. Outside of a project, benchmarks lie
where `compclip fetch` puts them, or where benchmarks.NAME.path=FOLDER and benchmarks.NAME.images=FOLDER say. Results
that the store has are not computed again. Finished runs of other methods are scored in the same pass.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import messages, safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_mapping, read_recorded
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.plan import reading
from compclip.evaluate import result_store, scoring_options
from compclip.runs import run_folder as folders
from compclip.runs import run_store
from compclip.runs.run_folder import Published, RunFolder

if TYPE_CHECKING:
    from compclip.config.sections import Params

PLAN = Path("plan/evaluate")


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Evaluate a method, a cell or checkpoints as the arguments say; 0, 1 where one failed, or UserError."""
    args, overrides = scoring_options.parse(_parser(), argv, "checkpoint")
    _check_given(args, overrides)
    if args.method:
        return _evaluate_method(safe_names.parse_name(args.method, "--method"), root)
    if args.checkpoint:
        return _score_checkpoints(args, overrides, root)
    from compclip.config import read

    params = read.load_params(args.params, overrides)
    if args.census:
        return _census(params, safe_names.parse_name(args.census, "--census"), root)
    documents = _evaluate_cell(params, args.cell, root)
    scoring_options.print_documents(documents, args.json, warnings=False)
    return 0


def _evaluate_method(method: SafeName, root: Path) -> int:
    """Score the cells of a method, as its plan has them."""
    path = root / PLAN / f"{method}.json"
    if not path.is_file():
        raise run_store.absent_plan(path, "plan", f"evaluate@{method}", root)
    with reading(path):
        document = read_mapping(path)
        grid_cells = [Cell(**item["cell"]) for item in document["cells"].values()]
        task = result_store.task_from_plan(document, root)
        snapshots = result_store.snapshots_from_plan(document)
    list_other_runs = functools.partial(_list_other_runs, method, document, root)
    outcome = result_store.publish_results(grid_cells, task, list_other_runs, snapshots)
    ahead = f"; {outcome.scored_ahead} of other methods in the same pass" if outcome.scored_ahead else ""
    counts = f"{format_count(len(grid_cells), 'cell')}, {format_count(outcome.scored, 'run')} scored"
    print(f"{method}: {counts}{ahead}", flush=True)
    for name, reason in outcome.failed.items():
        print(f"error: {name}: {reason}", file=sys.stderr)
    return 1 if outcome.failed else 0


def _list_other_runs(method: SafeName, plan: Mapping[str, Any], root: Path) -> list[RunFolder]:
    """Return other methods' runs, as `keys` wrote them, and their snapshots, that are to be scored as this method's."""
    folders_of_runs: list[RunFolder] = []
    for path in sorted((root / PLAN).glob("*.json")):
        other_plan = read_mapping(path)
        if path.stem != method and all(other_plan[name] == plan[name] for name in ("benchmarks", "how", "code")):
            with contextlib.suppress(UserError):  # no keys yet: its own stages say so
                for run in run_store.load_planned(SafeName(path.stem, "method"), root):
                    folders_of_runs += map(run.folder.snapshot, (*run.shares, folders.END))
    return folders_of_runs


def _census(params: Params, name: SafeName, root: Path) -> int:
    from compclip.config import columns

    if name not in params.benchmarks:
        raise unknown("benchmark", name, params.benchmarks, "benchmarks")
    report_metrics = columns.select_metrics(params, name)
    section = params.benchmarks[name]
    messages.print_counts(result_store.write_census(name, section, root, report_metrics))
    return 0


def _evaluate_cell(params: Params, name: str, root: Path) -> dict[str, dict]:
    """Score one cell, publish its results where it was trained, and return them."""
    from compclip.config import grid
    from compclip.evaluate import benchmark_module, score

    run = grid.resolve(params, name)
    cell = run.cell
    published = Published(root, cell)
    checkpoint = str(result_store.find_checkpoint(cell, root))
    benchmark_names = params.evaluate.benchmarks
    if cell.method == PRETRAINED and not published.trained.environment.is_file():
        loaded = benchmark_module.load_benchmarks(params.benchmarks, benchmark_names, params.evaluate.scoring)
        documents = score.score_checkpoint(score.checkpoint_at(checkpoint, device=score.device()), loaded)
        result_store.write_documents(documents, published.results)
    else:
        task = result_store.task_from_params(params, root)
        snapshots = result_store.snapshots_from_run(run, params)
        outcome = result_store.publish_results([cell], task, snapshots=snapshots)
        if outcome.failed:
            raise UserError(f"{name}: {outcome.failed[name]}")
        results = outcome.results[name]
        documents = {n: read_recorded(folders.result_path(results, SafeName(n, "benchmark"))) for n in benchmark_names}
    return documents


def _score_checkpoints(args: argparse.Namespace, overrides: Sequence[str], root: Path) -> int:
    """Score checkpoints that are no cells, print their numbers and write results; 1 where one of several failed."""
    params = scoring_options.load_params(args, overrides)
    from compclip.evaluate import score
    from compclip.evaluate.comparable_numbers import find_comparable
    from compclip.model import backbone

    out = scoring_options.check_output(args)
    device = args.device or score.device()
    backbone.check_device(device, args.activation)
    score_all = _score_foreign if args.loader else _score_own
    outcomes = dict(score_all(params, args, device, root))
    scored = {ref: outcomes[ref] for ref in dict.fromkeys(args.checkpoint)}
    errors = [outcome for outcome in scored.values() if isinstance(outcome, UserError)]
    if len(errors) == len(scored):
        raise errors[0]
    first = scored[args.checkpoint[0]]
    published = {}
    for ref, documents in scored.items():
        published[ref] = {} if isinstance(documents, UserError) else find_comparable(ref, args.model, documents)
    if len(scored) == 1 and not isinstance(first, UserError):
        scoring_options.print_documents(first, args.json, published=published[args.checkpoint[0]])
    else:
        scoring_options.print_several(scored, args.json)
    if out:
        _write_results(scored, published, out)
    return 1 if errors else 0


def _score_own(
    params: Params, args: argparse.Namespace, device: str, root: Path
) -> Iterator[tuple[str, dict[str, dict] | UserError]]:
    """Yield the results, or the error, of each of open_clip's checkpoints and runs' folders."""
    from compclip.evaluate import run_checkpoints, score

    how = (args.model, device, args.tokenizer, args.activation, args.weights)
    with run_checkpoints.open_checkpoints(args.checkpoint, root, *how) as checkpoints:
        loaded = scoring_options.load_benchmarks(params, args)
        if len(checkpoints) == 1:
            [(ref, checkpoint)] = checkpoints.items()
            yield ref, score.score_checkpoint(checkpoint, loaded)
            return
        for checkpoint, outcome in score.score_checkpoints(list(checkpoints.values()), loaded):
            yield checkpoint.made_with["path"], outcome


def _score_foreign(
    params: Params, args: argparse.Namespace, device: str, root: Path
) -> Iterator[tuple[str, dict[str, dict] | UserError]]:
    """Yield the results, or the error, of each model that a plug-in opens."""
    from compclip.evaluate import foreign_models

    loaded = scoring_options.load_benchmarks(params, args)
    for ref in dict.fromkeys(args.checkpoint):
        try:
            model = foreign_models.load_model(args.loader, ref, device)
            yield ref, foreign_models.score_model(model, loaded, {"path": ref, "loader": args.loader})
        except UserError as error:
            yield ref, error


def _write_results(
    scored: Mapping[str, dict[str, dict] | UserError], published: Mapping[str, scoring_options.Published], out: Path
) -> None:
    """Write the results of one checkpoint, and a page of them, into `out`; of several each into a folder there.

    That folder is named after the checkpoint.
    """
    names: dict[str, str] = {}
    for ref, documents in scored.items():
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", ref).strip("._") or "checkpoint"
        names[ref] = name if name not in names.values() else f"{name}-{len(names) + 1}"
        if not isinstance(documents, UserError):
            folder = out / names[ref] if len(scored) > 1 else out
            result_store.write_documents(documents, folder)
            scoring_options.write_page(ref, documents, published[ref], folder)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="compclip evaluate",
        description=__doc__,
        usage="%(prog)s (--checkpoint F ... | --cell NAME | --method NAME) [options] [key=value ...]",
        example="--checkpoint ViT-B-32::openai --benchmarks sugarcrepe",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--method", default="", help="a method of the grid: all its cells")
    which.add_argument("--cell", default="", help="a cell of the grid")
    which.add_argument("--checkpoint", nargs="+", default=[], metavar="F", help="folders, weights files, MODEL::TAG")
    which.add_argument("--census", default="", help="a benchmark to count")
    parser.add_argument("--model", default="", help="open_clip architecture of a weights file")
    parser.add_argument("--loader", default="", help="one of `compclip list models`")
    parser.add_argument("--tokenizer", default="", help="folder of a tokenizer, or clip: a stand-in")
    parser.add_argument("--activation", default="", metavar="NAME", help="gelu or quickgelu, of a weights file")
    parser.add_argument("--weights", default="", metavar="NAME", help="as ema: which weights of a file with several")
    scoring_options.add_options(parser)
    return parser


def _check_given(args: argparse.Namespace, overrides: list[str]) -> None:
    """Raise UserError for options that do not go together; a cell's results are replaced as a whole."""
    for option, value in (("--benchmarks", args.benchmarks), ("--out", args.out)):
        if args.cell and value:
            raise UserError(
                f"--cell {args.cell}: is scored on evaluate.benchmarks of params.yaml into its own folder; "
                f"leave out {option}, or give --checkpoint FOLDER instead of --cell"
            )
    if args.weights and not (args.checkpoint and args.model):
        raise UserError(f"--weights {args.weights}: is of a weights file; give --checkpoint FILE and --model NAME")
    if args.method and (value := [*args.benchmarks, args.out, *overrides]) != [""]:
        raise UserError(f"--method {args.method}: is scored as plan/ has it; leave out {next(filter(None, value))}")


if __name__ == "__main__":
    sys.exit(entry(main))
