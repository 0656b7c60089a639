"""The model behind what a person calls a checkpoint: also a run's folder, finished or still under way.

runs/<method>/<cell> and a finished store/<run key> stand for the checkpoint in them. Of a run that trains, its newest
step_*.safetensors is read into the model that its own configuration builds, with its adapter merged and its weights
averaged as at the end; the trainer is left alone.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base import messages
from compclip.base.errors import UserError, unknown
from compclip.base.shared_folders import make_folder
from compclip.model import backbone
from compclip.model.model_config import RANDOM
from compclip.runs import run_folder, run_store
from compclip.runs.run_folder import RunFolder, Trained

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.evaluate.score import ScoredCheckpoint

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
    snapshots = run_folder.SnapshotResults(root / run_folder.RESULTS / folder.parent.name / folder.name)
    for checkpoint in (Trained(folder).checkpoint, snapshots.checkpoint):
        if Trained(folder).config.is_file() and checkpoint.is_dir():
            return str(checkpoint), 0
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
