"""The options that commands share which score a model on benchmarks, and what they print and write."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, unknown
from compclip.base.files import check_output_folder
from compclip.base.messages import format_share
from compclip.base.shared_folders import make_folder
from compclip.config.columns import expand_groups
from compclip.model import backbone
from compclip.model.model_config import RANDOM
from compclip.runs import run_folder, run_store
from compclip.runs.run_folder import RunFolder, Trained

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.config.sections import Params
    from compclip.evaluate.score import LoadedBenchmarks, ScoredCheckpoint


def add_options(parser: CommandParser) -> None:
    """Add what is scored, where and how, and the parameters that follow as key=value."""
    parser.add_argument(
        "--benchmarks",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names, or groups: comp, zeroshot, retrieval, long; default: the grid's",
    )
    parser.add_json()
    parser.add_grid("parameters to override")
    parser.add_argument("--out", default="", help="folder for result files")
    parser.add_argument("--device", default="", help="as cuda:1; default: all GPUs, else cpu")


def parse(parser: CommandParser, argv: Sequence[str], *lists: str) -> tuple[argparse.Namespace, list[str]]:
    """Parse arguments; key=value among them, also behind an option of several values (`lists`), are parameters."""
    args = parser.parse_intermixed_args(argv)
    overrides = list(args.overrides)
    for name in ("benchmarks", *lists):
        values = getattr(args, name)
        overrides += [value for value in values if _is_parameter(value)]
        setattr(args, name, [value for value in values if not _is_parameter(value)])
    return args, overrides


def _is_parameter(value: str) -> bool:
    """Return whether an argument is key=value; a path that has an equals sign is there, or begins as a path does."""
    return "=" in value and not (value.startswith(("/", ".")) or Path(value).exists())


def load_params(args: argparse.Namespace, overrides: Sequence[str]) -> Params:
    """Load params.yaml; where benchmarks are named no project is needed."""
    from compclip.config import project_files, read

    path = project_files.find_params(args.params) if args.benchmarks else args.params
    return read.load_params(path, overrides)


def load_benchmarks(params: Params, args: argparse.Namespace) -> LoadedBenchmarks:
    """Read the benchmarks that the arguments name, or those of `evaluate.benchmarks`."""
    from compclip.evaluate import score

    names = expand_groups(args.benchmarks, params.benchmarks) or params.evaluate.benchmarks
    return score.load_benchmarks(params.benchmarks, names, params.evaluate.scoring)


def check_output(args: argparse.Namespace) -> Path | None:
    """Return the folder to write; None where none is named. Raises UserError for what is no folder."""
    return check_output_folder(args.out) if args.out else None


def numbers_as_json(documents: Mapping[str, dict]) -> dict[str, Any]:
    """Return metrics, their 95 % intervals over pictures, and counts by benchmark."""
    from compclip.evaluate.compare import compute_intervals

    return {
        name: {"metrics": d["metrics"], "intervals": compute_intervals(d), "counts": d["counts"]}
        for name, d in documents.items()
    }


def print_documents(documents: Mapping[str, dict], as_json: bool, warnings: bool = True) -> None:
    """Print one model's numbers, and on stderr what was left out."""
    from compclip.evaluate import score

    if warnings:
        score.print_warnings(documents)
    print(json.dumps(numbers_as_json(documents), indent=1) if as_json else score.metric_table(documents))


def print_several(documents_by_name: Mapping[str, Mapping[str, dict] | UserError], as_json: bool) -> None:
    """Print the numbers of several models, a row each; what one ended in goes to stderr."""
    from compclip.evaluate import score

    scored = {name: documents for name, documents in documents_by_name.items() if not isinstance(documents, UserError)}
    for name, documents in documents_by_name.items():
        if isinstance(documents, UserError):
            print(f"error: {name}: {documents}", file=sys.stderr)
    for documents in list(scored.values())[:1]:  # all were scored on the same files
        score.print_warnings(documents)
    if as_json:
        print(json.dumps({name: numbers_as_json(documents) for name, documents in scored.items()}, indent=1))
    else:
        print(table_of_several(scored))


def table_of_several(documents_by_name: Mapping[str, Mapping[str, dict]]) -> str:
    """Return a block a benchmark: its metrics in percent, cosines as they are, and a row a model."""
    width = max((len(name) for name in documents_by_name), default=0)
    first: Mapping[str, dict] = next(iter(documents_by_name.values()), {})
    lines = []
    for benchmark, document in first.items():
        metrics = list(document["metrics"])
        width = max(width, len(benchmark))
        lines.append(f"{benchmark:<{width}}  " + "  ".join(f"{metric:>7}" for metric in metrics))
        for name, documents in documents_by_name.items():
            values = documents[benchmark]["metrics"]
            texts = (f"{format_share(values[m], m in document['scores']):>{max(7, len(m))}}" for m in metrics)
            lines.append(f"{name:<{width}}  " + "  ".join(texts))
    return "\n".join(lines)


# --- the model behind a checkpoint ----------------------------------------------------------------------------------
# The model behind what a person calls a checkpoint: also a run's folder, finished or still under way.
#
# runs/<method>/<cell> and a finished store/<run key> stand for the checkpoint in them. Of a run that trains, its
# newest step_*.safetensors is read into the model that its own configuration builds, with its adapter merged and its
# weights averaged as at the end; the trainer is left alone.


WORK = Path(".work")  # below a project's root
MODELS = Path("models")


@contextlib.contextmanager
def open_checkpoints(
    refs: Sequence[str], root: Path = Path("."), model: str = "", device: str = "cpu", tokenizer: str = "",
    activation: str = "", choice: str = "",
) -> Iterator[dict[str, ScoredCheckpoint]]:  # fmt: skip
    """Give the checkpoints that `refs` stand for, by reference; weights of unfinished runs are there for the block.

    Raises UserError, with close names, for what is not there.
    """
    from compclip.evaluate import score

    with contextlib.ExitStack() as stack:
        checkpoints = {}
        for ref in dict.fromkeys(refs):
            folder, step = _locate(ref, root, stack)
            checkpoint = score.checkpoint_at(folder, model, device, tokenizer, activation, choice)
            made_with = {**checkpoint.made_with, "path": ref, **({"step": str(step)} if step else {})}
            checkpoints[ref] = replace(checkpoint, made_with=made_with)
        yield checkpoints


def _locate(ref: str, root: Path, stack: contextlib.ExitStack) -> tuple[str, int]:
    """Return a reference that `backbone.load` takes, and of a run under way the step that it is of, else 0."""
    folder = Path(ref)
    check_there(ref, root)
    if (folder / "final").is_dir() and RunFolder(folder).finished:
        return str(RunFolder(folder).final.checkpoint), 0
    if Trained(folder).config.is_file() and Trained(folder).checkpoint.is_dir():
        return str(Trained(folder).checkpoint), 0
    snapshot_checkpoint = run_folder.SnapshotResults(
        root / run_folder.RESULTS / folder.parent.name / folder.name
    ).checkpoint
    if Trained(folder).config.is_file() and snapshot_checkpoint.is_dir():
        return str(snapshot_checkpoint), 0
    if RunFolder(folder).lock.exists() or RunFolder(folder).checkpoints():
        return _write_unfinished(RunFolder(folder), root, stack)
    return ref, 0


def check_there(ref: str, root: Path = Path(".")) -> None:
    """Raise UserError, with close names, for a path that is not there and an unknown tag; hubs are not asked."""
    if "::" in ref:
        _check_tag(*ref.split("::", 1))
    if "::" in ref or ref.startswith(("hf-hub:", "local-dir:")) or Path(ref).exists():
        return
    close_names = get_close_matches(ref, _list_names(ref, root), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, close_names))}?" if close_names else ""
    raise UserError(f"checkpoint {ref!r}: {backbone.ABSENT}{hint}")


def _check_tag(name: str, tag: str) -> None:
    """Raise UserError for weights that open_clip does not list of one of its models."""
    import open_clip

    tags = [*open_clip.list_pretrained_tags_by_model(name), RANDOM]
    if tag and tags[1:] and tag.lower().replace("-", "_") not in tags and not Path(tag).exists():
        raise unknown("weights", tag, tags, f"checkpoint {name}")


def _list_names(ref: str, root: Path) -> list[str]:
    """List what a mistyped reference may have meant: what lies beside it, models, runs, and open_clip's models."""
    import open_clip

    parent = Path(ref).parent
    neighbours = [*parent.glob("*")] if parent.is_dir() else []
    runs = run_folder.published_folders(root / run_folder.RUNS)
    pretrained = [f"{name}::{tag}" for name, tag in open_clip.list_pretrained()]
    return [*map(str, [*neighbours, *(root / MODELS).glob("*"), *runs]), *pretrained]


def _write_unfinished(folder: RunFolder, root: Path, stack: contextlib.ExitStack) -> tuple[str, int]:
    """Write the model of a run's newest checkpoint into a folder that is there until `stack` closes."""
    from compclip.train import saved_model

    if not folder.checkpoints():
        raise UserError(f"{folder.path}: has no checkpoint yet; wait for the first (`compclip status`)")
    run = _read_run(folder, root)
    model, step, steps = saved_model.load_model(run, root, folder)
    make_folder(root / WORK)
    temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=root / WORK, prefix="unfinished-")))
    saved_model.save_model(run, root, model, temporary / "checkpoint")
    messages.note(f"{folder.path}: not finished: scored as of step {step} of {steps}")
    return str(temporary / "checkpoint"), step


def _read_run(folder: RunFolder, root: Path) -> Run:
    """Return the parameters of an unfinished run: those that it was sent with, else its cell's of the grid."""
    from compclip.config import grid, read

    if folder.run.is_file():
        return grid.read_run(folder.run)
    for run in grid.resolve_all(read.load_params(root / read.DEFAULT)):
        with contextlib.suppress(UserError):  # inputs of another cell that were not made yet
            if run_store.locate_run(run, root).key == folder.key:
                return run
    raise UserError(f"{folder.path}: not finished, and no cell of params.yaml; evaluate it in its own project")
