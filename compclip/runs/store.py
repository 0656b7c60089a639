"""Where runs live: store/<run key>/, or a folder that a team shares, named by COMPCLIP_STORE.

What is finished there can be read only, since links in everybody's checkouts are the same files.

A cell of the grid, a trial of a sweep and a run of another checkout with equal keys are one run. What is finished is
published by links: runs/<method>/<backbone-data-seed>/.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_mapping, update, update_json
from compclip.base.names import Name
from compclip.config.cell import Cell
from compclip.runs.folder import Folder, Inputs, Published, Trained, near_made

if TYPE_CHECKING:
    from compclip.config.sections import Run

VARIABLE = "COMPCLIP_STORE"
PLAN, KEYS, TRAINED = Path("plan/train"), Path("keys"), Path("trained")


class _Stored(NamedTuple):
    cell: Cell
    key: str
    resolved: Mapping[str, Any]
    data_fingerprint: str
    folder: Folder
    root: Path
    text: str = ""


class StoredRun(_Stored):
    """A cell, its run key, and the run's folder in the store of a project.

    `resolved`: as config.yaml has it; `text`: that file's, where the plan has made it.
    """

    @property
    def name(self) -> str:
        """The cell's."""
        return self.cell.name

    @property
    def threads(self) -> int:
        """Those that compute, and those that make batches."""
        return self.resolved["train"]["threads"] + self.resolved["train"]["workers"]

    @property
    def published(self) -> Published:
        """The cell's files beside the store."""
        return Published(self.root, self.cell)

    @functools.cached_property
    def run(self) -> Run:
        """The run with its parameters as dataclasses."""
        from compclip.config import documents

        return documents.from_plain(self.resolved, str(self.published.trained.config))

    @property
    def finished(self) -> bool:
        """Whether training is through, here or in published files of the same key, which then go to the store."""
        return self.folder.finished or self._adopted()

    def _adopted(self) -> bool:
        trained = self.published.trained
        if trained.run_key != self.key:
            return False
        adopt(trained, self.folder)
        return True

    def config_text(self) -> str:
        """The cell's config.yaml."""
        if self.text:
            return self.text
        from compclip.config.written import plain_yaml

        return plain_yaml(self.resolved)

    def publish(self) -> None:
        """Link the finished files to the cell's place; its config.yaml is the cell's own.

        Raises UserError where they cannot be written, or where not all of the run is its own.
        """
        self.folder.check()
        trained, final = self.published.trained, self.folder.final
        if shared():
            links.protect(final.path)
        update(trained.config, self.config_text())
        for part, place in zip(final.parts[1:], trained.parts[1:], strict=True):
            links.place(part, place)
        if shared():
            from compclip.runs import users

            users.note(self.folder, self.root)


def shared() -> bool:
    """Whether the store may be that of several projects."""
    return bool(os.environ.get(VARIABLE))


def place(root: Path) -> Path:
    """The store of a project: the folder that COMPCLIP_STORE names, or its own."""
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_absolute():
        raise UserError(f"{VARIABLE}={named!r}: must be an absolute path, the same for everyone who shares the store")
    return Path(named) if named else root / "store"


def folder(run_key: str, root: Path = Path(".")) -> Folder:
    """A run's folder by its key. Raises UserError for a key that is none, which files of others may give."""
    return Folder(place(root) / Name(run_key, "run key"))


def adopt(trained: Trained, into: Folder) -> None:
    """Take published files into the store, which does not have their run: a checkout may have pulled them."""
    into.make()
    for part, own in zip(trained.parts, into.final.parts, strict=True):
        links.place(part, own)


def folders(root: Path = Path(".")) -> list[Folder]:
    """Every run of the store, sorted by key."""
    return [run for run in map(Folder, sorted(place(root).glob("*"))) if os.path.lexists(run.lock)]


def of(run: Run, root: Path = Path(".")) -> StoredRun:
    """The place of any run, in the grid or not. Raises UserError for inputs that were not made yet."""
    from compclip.base import plugins
    from compclip.config import wanted
    from compclip.runs import key

    method = plugins.find(plugins.METHODS, run.method_name)
    reads, near = getattr(method, "reads", None), wanted.neighbours(run.method_name, run.method)
    found = inputs(Inputs(root, run.cell), reads(run.method) if reads else {}, near)
    run_key = key.of(run.plain, getattr(method, "TRAINS", True), found.all, _code(run.method_name))
    return StoredRun(run.cell, run_key, run.plain, found.data, folder(run_key, root), root)


@functools.cache
def _code(method: str) -> str:
    from compclip.runs import key

    return key.code_of(method)


def planned(method: Name, root: Path = Path(".")) -> list[StoredRun]:
    """The cells of a method as the stages `plan` and `keys` left them. Raises UserError where these did not run."""
    plan, keys = (root / folder / f"{method}.json" for folder in (PLAN, KEYS))
    for path, stage in ((plan, "plan"), (keys, "keys")):
        if not path.is_file():
            raise UserError(f"{path}: not there; run `dvc repro {stage}` first, or `dvc repro train@{method}`")
    resolved, found = read_mapping(plan), read_mapping(keys)
    try:
        texts = resolved["texts"]
        return [_planned(run, texts[name], found[name], root) for name, run in resolved["cells"].items()]
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{plan}, {keys}: not as their stages wrote them ({error!r}); run `dvc repro keys`") from error


def write_trained(method: Name, cells: Iterable[StoredRun], root: Path = Path(".")) -> None:
    """Write trained/<method>.json, the fingerprint of what is published of each cell.

    The stages behind training depend on it: DVC would walk all runs again for each of them.
    """
    found = {stored.name: stored.published.trained for stored in cells}
    made = {name: trained.fingerprint for name, trained in found.items() if trained.environment.is_file()}
    update_json(root / TRAINED / f"{method}.json", made)


def _planned(resolved: Mapping[str, Any], text: str, made: Mapping[str, str], root: Path) -> StoredRun:
    cell = Cell(**resolved["cell"])
    return StoredRun(cell, made["key"], resolved, made["data"], folder(made["key"], root), root, text)


def keys(plan: Mapping[str, Any], root: Path) -> dict[str, dict[str, str]]:
    """What the stage `keys` writes of a method's plan: each cell's run key, and the fingerprint of its data."""
    from compclip.runs import key

    made = {}
    for name, run in plan["cells"].items():
        reads, near = plan.get("reads", {}).get(name, {}), name in plan["near"]
        found = inputs(Inputs(root, Cell(**run["cell"])), reads, near)
        made[name] = {"key": key.of(run, plan["trains"], found.all, plan["code"]), "data": found.data}
    return made


class Fingerprints(NamedTuple):
    """Of a run's data, and of data and backbone together."""

    data: str
    all: str


def inputs(given: Inputs, reads: Mapping[str, str] | None = None, near: bool = False) -> Fingerprints:
    """The contents that a run depends on; `reads` are its method's own, with what brings each; `near`: neighbours too.

    Raises UserError for what was not made, or fetched, yet.
    """
    for path, stage in ((given.manifest, "annotate"), (given.backbone, "backbone")):
        if not path.exists():
            raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    more = {given.root / path: fix for path, fix in (reads or {}).items()}
    for path, fix in more.items():
        if not path.exists():
            raise UserError(f"{path}: not there; {fix}")
    own = (given.manifest, *sorted(given.backbone.iterdir()), *more)
    data, every = _current((given.manifest,)), _current(own)
    return Fingerprints(data, _current((*own, _neighbours(given, every))) if near else every)


def _neighbours(given: Inputs, every: str) -> Path:
    """Those of a run. Raises UserError where they are of other data, or of another backbone."""
    if not given.near.is_file() or near_made(given.root).get(given.pair, {}).get("inputs") != every:
        raise UserError(
            f"{given.near}: not there, or of other data; run `dvc repro neighbours`, or for a method outside of the "
            f"grid `python -m compclip.train.neighbours --data {given.cell.data} --backbone {given.cell.backbone}`"
        )
    return given.near


def _current(paths: Iterable[Path]) -> str:
    """Read once for all runs of a process that share them, as long as they do not change."""
    files = [f for path in paths for f in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return _fingerprint(tuple(paths), tuple((f, s.st_mtime_ns, s.st_size) for f in files if (s := f.stat())))


@functools.lru_cache
def _fingerprint(paths: tuple[Path, ...], _stamp: tuple) -> str:
    return fingerprint(*paths)


def sent(run_key: str, root: Path = Path(".")) -> StoredRun:
    """The run of a job that was sent. Raises UserError where there is none, or where its key is no longer this one."""
    from compclip.config import documents

    path = folder(run_key, root).run
    if not path.is_file():
        raise UserError(f"{path}: no such run; give the key of one that was sent")
    stored = of(documents.from_yaml(path), root)
    if stored.key != run_key:
        raise UserError(
            f"{path.parent}: code or data changed since it was submitted (its key is now {stored.key}); "
            "undo that, or launch again"
        )
    return stored
