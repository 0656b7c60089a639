"""Bring the MLflow store up to date with the entries: add, replace what changed, leave the rest; or make it anew."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import beside, write_json
from compclip.base.names import Name
from compclip.config import grid as config_grid
from compclip.config import read
from compclip.track import entries as track_entries
from compclip.track import overall, reading, sqlite, store, studies
from compclip.track.entries import Presentation
from compclip.track.reading import Memory
from compclip.track.writer import Source, Writer

CHECKPOINT_MIB = 64.0
PROJECT = "COMPCLIP_PROJECT"


def own_project(given: str = "") -> Name:
    """The first word of our experiments' names; COMPCLIP_PROJECT tells users of one server apart.

    Raises UserError for what is no name: it stands in filters, addresses and folders.
    """
    return Name(given or os.environ.get(PROJECT) or "compclip", "--project" if given else PROJECT)


def source(
    params_path: str | Path = read.DEFAULT, root: Path = Path(), where: Path = Path("studies"),
    project: str = "", checkpoint_mib: float = CHECKPOINT_MIB, memory: Path | None = None,
) -> Source:  # fmt: skip
    """Read runs and studies; `memory`: what earlier calls read. Raises UserError where there is neither."""
    project = own_project(project)
    params, known = read.load(params_path), Memory(memory)
    cells = [known.brief(*place) for place in reading.published(root)]
    sweeps = studies.read_all(where, known)
    known.keep()
    if not cells and not sweeps:
        raise UserError(f"{root}: holds no run; train one with `dvc repro` or give --root")
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
    how = Presentation("", frozenset(), own_project(), columns)
    return update(Source(tuple(track_entries.of_study(found, how)), (), how, whole=False), address)


def memory(uri: str) -> Path:
    """The file that keeps what was read of the runs."""
    return store.beside(uri, "read.jsonl")


def update(made: Source, uri: str) -> Counter[str]:
    """Add the runs that the store lacks and replace those whose files changed; counts what was done."""
    with _writer(uri, made, _artifacts(uri)) as writer:
        done = _update(writer, made)
        _stamp(writer, made, uri)
    return done


def rebuild(made: Source, uri: str) -> Counter[str]:
    """Make the store from the files alone: a new database takes the old one's place only when it is complete.

    On a server, and where others logged into the same file, our runs are deleted and logged again; theirs stay.
    """
    file = store.database(uri)
    if file is not None:
        with store.lock(file.with_suffix(".lock")):
            if sqlite.alone(file, made.how.project):
                return _rebuild_file(made, file)
        print(f"{file}: holds what {made.how.project} did not log; its own runs are made anew beside that", flush=True)
    with _writer(uri, made, _artifacts(uri)) as writer:
        writer.clear()
        done = _update(writer, made)
        _stamp(writer, made, uri)
    return done


def _rebuild_file(made: Source, file: Path) -> Counter[str]:
    artifacts, fresh = _artifacts(f"sqlite:///{file}", fresh=True), beside(file, "new")
    gone = [one for path in (file, *sqlite.left(file)) for one in sqlite.artifacts(path)]  # also of killed rebuilds
    with _writer(f"sqlite:///{fresh}", made, artifacts) as writer:
        done = _update(writer, made)
        _stamp(writer, made, f"sqlite:///{file}")
    sqlite.install(fresh, file)
    for path in sqlite.left(file):
        path.unlink()
    _remove_files(gone, artifacts.parent)
    return done


def _remove_files(gone: Iterable[sqlite.Artifacts], artifacts: Path) -> None:
    from compclip.track import models

    for one in gone:
        models.remove_files(one.uri, artifacts, one.id)


@contextmanager
def _writer(uri: str, made: Source, artifacts: Path | None) -> Iterator[Writer]:
    with store.client(uri) as client:
        from compclip.track.models import Template

        template = Template(store.beside(uri, "template").absolute())
        try:
            yield Writer(client, made.how.project, artifacts, template)
        finally:
            template.close()


def _artifacts(uri: str, fresh: bool = False) -> Path | None:
    """The folder of artifacts; None for a server, which keeps them itself. Rebuilding a SQLite store takes a new
    number: the old store stays whole until the end."""
    if store.is_server(uri):
        return None
    root = store.beside(uri, "artifacts").absolute()
    last = max((int(p.name) for p in root.glob("[0-9]*") if p.name.isdecimal()), default=0)
    return root / f"{max(last + fresh, 1):04d}"


def stamp(uri: str) -> Path:
    """The file that names what the store holds: a run's name and the hash of its files."""
    return store.beside(uri, "synced.json")


def _stamp(writer: Writer, made: Source, uri: str) -> None:
    if made.whole:
        write_json(store.beside(uri, "view.json"), {"experiment": writer.experiment(made.how.experiment)})
        write_json(stamp(uri), {brief.name: brief.content for brief in made.cells})


def _update(writer: Writer, made: Source) -> Counter[str]:
    for entry in made.entries:
        writer.bring(entry)
    if made.grid:
        writer.finish(made)
    if made.whole:
        writer.drop_empty()
    return writer.done
