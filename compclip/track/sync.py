"""Bring the MLflow store up to date with the entries: add, replace what changed, leave the rest; or log all again."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.base.names import Name
from compclip.base.surrogates import repaired
from compclip.config import grid as config_grid
from compclip.config import read
from compclip.track import entries as track_entries
from compclip.track import overall, reading, sqlite, store, studies
from compclip.track.entries import Presentation
from compclip.track.reading import Memory
from compclip.track.writer import Source, Writer

CHECKPOINT_MIB = 64.0
PROJECT = "COMPCLIP_PROJECT"
PROJECT_FILE = Path("mlflow/project.json")


def own_project(given: str = "", root: Path = Path()) -> Name:
    """Return the first word of our experiments' names: `given`, COMPCLIP_PROJECT, or the name of the folder `root`.

    A folder gets its name once: its own and six random digits, so that two checkouts that log to one server differ.
    Raises UserError for what is no name: it stands in filters, addresses and folders.
    """
    if given or os.environ.get(PROJECT):
        return Name(given or os.environ[PROJECT], "--project" if given else PROJECT)
    file = root / PROJECT_FILE
    if name := _folder_project(root):
        return name
    with store.lock(file.with_suffix(".lock")):
        if name := _folder_project(root):  # of a process that was faster
            return name
        word = re.sub(r"[^\w.+-]", "_", root.resolve().name, flags=re.ASCII)[:40].lstrip(".+-") or "compclip"
        name = Name(f"{word}-{secrets.token_hex(3)}", str(file))
        write_json(file, {"project": name, "folder": repaired(str(root.resolve()))})
    print(f"{file}: the project of this folder is {name}; {PROJECT} gives another name", file=sys.stderr)
    return name


def _folder_project(root: Path) -> Name | None:
    """Return the stored name; None where there is none yet, or where the folder is a copy of the one that was named."""
    file = root / PROJECT_FILE
    if not file.is_file():
        return None
    state = read_mapping(file)
    origin = Path(str(state.get("folder", ""))) / PROJECT_FILE
    is_copy = origin.is_file() and not origin.samefile(file) and read_mapping(origin) == state
    return None if is_copy else Name(state.get("project", ""), f"{file}: project")


def source(
    params_path: str | Path = read.DEFAULT, root: Path = Path(), where: Path = Path("studies"),
    project: str = "", checkpoint_mib: float = CHECKPOINT_MIB, memory: Path | None = None,
) -> Source:  # fmt: skip
    """Read runs and studies; `memory`: what earlier calls read. Raises UserError where there is neither."""
    params, known = read.load(params_path), Memory(memory)
    cells = [known.brief(*place) for place in reading.published(root)]
    sweeps = studies.read_all(where, known)
    known.keep()
    if not cells and not sweeps:
        raise UserError(f"{root}: holds no run; train one with `dvc repro` or give --root")
    project = own_project(project, root)
    names = frozenset(c.name for c in config_grid.cells(params))
    inside = [b.run for b in cells if b.run.cell.name in names]
    every = [b.run for b in (*cells, *(t.run for s in sweeps for t in s.trials if t.run))]
    experiment = track_entries.experiment(project, (), params.grid.backbones, params.grid.data)
    columns = overall.columns(inside or every, params.report.columns)
    how = Presentation(experiment, names, project, columns, checkpoint_mib)
    made = track_entries.of_cells(cells, how)
    grid = tuple((b.run, e.scores) for b, e in zip(cells, made, strict=True) if e.at_home)
    made += [e for s in sweeps for e in track_entries.of_study(s, how)]
    return Source(tuple(made), tuple(cells), how, tuple(params.grid.methods), True, grid)


def study(folder: Path, uri: str | None = None, params_path: str | Path = read.DEFAULT) -> Counter[str]:
    """Bring one study and its trials up to date, as the driver of a sweep does after its trials' files are written."""
    params, address = read.load(params_path), store.store_uri(uri)
    known = Memory(memory(address))
    found = studies.read(folder, known)
    known.keep()
    columns = overall.columns([t.run.run for t in found.trials if t.run], params.report.columns)
    how = Presentation("", frozenset(), own_project("", folder.parent.parent), columns)
    return update(Source(tuple(track_entries.of_study(found, how)), (), how, whole=False), address)


def memory(uri: str) -> Path:
    """The file that keeps what was read of the runs."""
    return store.beside(uri, "read.jsonl")


def update(made: Source, uri: str, anew: bool = False) -> Counter[str]:
    """Add the runs that the store lacks and replace those whose files changed; counts what was done.

    `anew` logs every run again and removes what the project has there besides. What others have in the store stays,
    also what they log meanwhile: the database is never replaced, only rows that carry the project's tag are deleted.
    """
    with _writer(uri, made, _artifacts(uri)) as writer:
        if anew and (count := sum(map(len, writer.known.values()))):
            print(
                f"{made.how.project} has {count} runs there; they are removed as their files are logged again",
                flush=True,
            )
        done = _update(writer, made, anew)
        _stamp(writer, made, uri)
    return done


def rebuild(made: Source, uri: str) -> Counter[str]:
    """Make the project's part of the store anew from the files alone. A file that is no database is set aside."""
    if file := store.database(uri):
        with store.lock(file.with_suffix(".lock")):
            sqlite.check(file)
    return update(made, uri, anew=True)


@contextmanager
def _writer(uri: str, made: Source, artifacts: Path | None) -> Iterator[Writer]:
    with store.client(uri) as client:
        from compclip.track.models import Template

        template = Template(store.beside(uri, "template").absolute())
        try:
            yield Writer(client, made.how.project, artifacts, template)
        finally:
            template.close()


def _artifacts(uri: str) -> Path | None:
    """The folder of artifacts; None for a server, which keeps them itself. Rebuilds took a new number once."""
    if store.is_server(uri):
        return None
    root = store.beside(uri, "artifacts").absolute()
    return root / f"{max((int(p.name) for p in root.glob('[0-9]*') if p.name.isdecimal()), default=1):04d}"


def stamp(uri: str) -> Path:
    """The file that names what the store holds: a run's name and the hash of its files."""
    return store.beside(uri, "synced.json")


def _stamp(writer: Writer, made: Source, uri: str) -> None:
    if made.whole:
        write_json(store.beside(uri, "view.json"), {"experiment": writer.experiment(made.how.experiment)})
        write_json(stamp(uri), {brief.name: brief.content for brief in made.cells})


def _update(writer: Writer, made: Source, anew: bool) -> Counter[str]:
    for entry in made.entries:
        writer.bring(entry, anew)
    if anew:
        writer.clear()
    if made.grid:
        writer.finish(made)
    if made.whole:
        writer.drop_empty()
    return writer.done
