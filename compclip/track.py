"""MLflow as a view over the run directories: `python -m compclip.track [--rebuild]`; the only importer of mlflow.

One experiment for each backbone and data set, one MLflow run for each cell. Without an option, adds what is missing and
replaces what changed; --rebuild makes the store anew. Files are the truth: nothing is read back from MLflow.
"""

from __future__ import annotations

import argparse
import fcntl
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.errors import UserError, entry
from compclip.files import fingerprint, write_json
from compclip.report.collect import Result, read_config, read_curve, read_environment, read_result
from compclip.report.details import flatten

if TYPE_CHECKING:
    from mlflow.entities import Metric

    from mlflow import MlflowClient

DEFAULT_URI = "sqlite:///mlflow/mlflow.db"
PREFIX = "compclip"
LIMIT = 500  # characters of a parameter
CHECKPOINT_MIB = 64
NOT_LOGGED = {"step", "time"}


@dataclass(frozen=True)
class Record:
    """One run directory as it goes to MLflow; `content` is a hash of its files without the checkpoint's."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    curve: list[dict[str, Any]]
    results: list[Result]
    content: str

    @property
    def cell(self) -> dict[str, Any]:
        return self.config["cell"]

    @property
    def experiment(self) -> str:
        return f"{PREFIX}: {self.cell['backbone']}, {self.cell['data']}"

    @property
    def end(self) -> float:
        """Seconds since the epoch: the last logged step, or when the files were written."""
        return self.curve[-1]["time"] if self.curve else (self.path / "config.yaml").stat().st_mtime


def main(argv: list[str]) -> int:
    """The `track` command."""
    parser = argparse.ArgumentParser(prog="python -m compclip.track", description=__doc__.splitlines()[0])
    parser.add_argument("--rebuild", action="store_true", help="make the store anew from the run directories")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the run directories")
    parser.add_argument("--uri", help=f"tracking URI; default: MLFLOW_TRACKING_URI or {DEFAULT_URI}")
    parser.add_argument("--checkpoint-mib", type=float, default=CHECKPOINT_MIB, metavar="MIB",
                        help="upload checkpoints up to this size; larger ones are named in a tag")  # fmt: skip
    args = parser.parse_args(argv)
    records = read(args.runs)
    done = (rebuild if args.rebuild else sync)(records, store_uri(args.uri), args.checkpoint_mib)
    print(f"{store_uri(args.uri)}: " + ", ".join(f"{done[k]} {k}" for k in ("added", "replaced", "unchanged")))
    if done["skipped"]:
        print(f"{done['skipped']} values that are not finite numbers were left out")
    return 0


def store_uri(given: str | None) -> str:
    """The tracking URI: the one given, MLFLOW_TRACKING_URI, or the SQLite file of the checkout."""
    uri = given or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    if "://" not in uri or uri.startswith("file:"):
        raise UserError(f"uri={uri!r}: MLflow 3 keeps no file store; give sqlite:///FILE or a server's http:// address")
    return uri


def database(uri: str) -> Path | None:
    """The SQLite file of a URI; None for a server or another database."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def read(runs: Path) -> list[Record]:
    """Every finished run directory, sorted by name; one without config.yaml is no run yet.

    Raises UserError where there is none.
    """
    paths = sorted(p.parent for p in runs.glob("*/config.yaml"))
    if not paths:
        raise UserError(f"{runs}: holds no run; train one with `dvc repro` or give --runs")
    return [_record(path) for path in paths]


def _record(path: Path) -> Record:
    config = read_config(path)
    if missing := [k for k in ("method", "backbone", "data", "seed") if k not in (config.get("cell") or {})]:
        raise UserError(f"{path / 'config.yaml'}: no cell.{missing[0]}; remove the run and train it again")
    scored = [read_result(p) for p in results(path)]
    return Record(path, config, read_environment(path), read_curve(path), scored, content(path))


def results(path: Path) -> list[Path]:
    """The result files of a run, one a benchmark; summary.json repeats their metrics."""
    return sorted(p for p in (path / "results").glob("*.json") if p.name != "summary.json")


def content(path: Path) -> str:
    """A hash of a run's files without its checkpoint's, which follows from the others."""
    parts = [path / n for n in ("config.yaml", "metrics.jsonl", "environment.json") if (path / n).is_file()]
    return fingerprint(*parts, *results(path))


def sync(records: Sequence[Record], uri: str, checkpoint_mib: float = CHECKPOINT_MIB) -> Counter[str]:
    """Add the runs that the store lacks and replace those whose files changed; counts what was done."""
    with _store(uri) as client:
        done = _sync(client, records, _artifacts(uri), checkpoint_mib)
    _stamp(records, uri)
    return done


def rebuild(records: Sequence[Record], uri: str, checkpoint_mib: float = CHECKPOINT_MIB) -> Counter[str]:
    """Make the store from the files alone: a new database takes the old one's place only when it is complete.

    On a server the runs are deleted and logged again; runs that others logged there stay.
    """
    file = database(uri)
    if file is None:
        with _store(uri) as client:
            for run in _tracked(client).values():
                client.delete_run(run.info.run_id)
            done = _sync(client, records, None, checkpoint_mib)
        _stamp(records, uri)
        return done
    with _lock(file):
        done = _rebuild_file(records, file, checkpoint_mib)
    _stamp(records, uri)
    return done


def _rebuild_file(records: Sequence[Record], file: Path, checkpoint_mib: float) -> Counter[str]:
    artifacts = _artifacts(f"sqlite:///{file}", fresh=True)
    fresh = file.with_name(f"{file.stem}.{artifacts.name}.db")
    fresh.unlink(missing_ok=True)
    with _store(f"sqlite:///{fresh}") as client:
        done = _sync(client, records, artifacts, checkpoint_mib)
    os.replace(fresh, file)
    fresh.with_suffix(".lock").unlink()
    for old in artifacts.parent.iterdir():
        if old != artifacts:
            shutil.rmtree(old)
    return done


def _artifacts(uri: str, fresh: bool = False) -> Path | None:
    """The artifact folder of a SQLite store. Rebuilding takes a new number: the old store stays whole until the end."""
    file = database(uri)
    if file is None:
        return None
    root = (file.parent / "artifacts").absolute()
    last = max((int(p.name) for p in root.glob("[0-9]*")), default=0)
    return root / f"{max(last + fresh, 1):04d}"


def stamp(uri: str) -> Path:
    """The file that names what the store holds: a run's name and the hash of its files."""
    return (database(uri) or Path("mlflow/mlflow.db")).with_name("synced.json")


def _stamp(records: Sequence[Record], uri: str) -> None:
    write_json(stamp(uri), {r.path.name: r.content for r in records})


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """One writer at a time; the next one waits."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file.with_suffix(".lock"), "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _store(uri: str) -> Iterator[MlflowClient]:
    """A client, its database made if need be; errors of MLflow become one line."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # the default waits minutes for an absent server
    from mlflow.exceptions import MlflowException

    from mlflow import MlflowClient

    file = database(uri)
    try:
        if file is None:
            yield MlflowClient(uri)
        else:
            with _lock(file):
                yield MlflowClient(uri)
    except MlflowException as error:
        raise UserError(f"uri={uri}: {error.message}; check it, or make the store anew with --rebuild") from error


def _sync(client: MlflowClient, records: Sequence[Record], artifacts: Path | None, limit: float) -> Counter[str]:
    known, done = _tracked(client), Counter()
    for record in records:
        old = known.get(record.path.name)
        if old and old.info.status == "FINISHED" and old.data.tags.get("content") == record.content:
            done["unchanged"] += 1
            continue
        if old:  # its files changed, or the process that logged it was killed
            client.delete_run(old.info.run_id)
        done["skipped"] += _log(client, record, _experiment(client, record.experiment, artifacts), limit)
        done["replaced" if old else "added"] += 1
    return done


def _tracked(client: MlflowClient) -> dict[str, Any]:
    """Our runs in the store by name."""
    found = client.search_experiments(filter_string=f"name LIKE '{PREFIX}: %'")
    ids, runs, token = [e.experiment_id for e in found], [], None
    while ids:
        page = client.search_runs(ids, filter_string="tags.content != ''", max_results=1000, page_token=token)
        runs, token = runs + list(page), page.token
        if not token:
            break
    return {run.info.run_name: run for run in runs}


def _experiment(client: MlflowClient, name: str, artifacts: Path | None) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return found.experiment_id
    folder = name.removeprefix(f"{PREFIX}: ").replace(", ", "-")
    note = "One run for each cell of the grid. Made from the run directories by `python -m compclip.track`."
    tags = {"mlflow.note.content": note, "mlflow.experimentKind": "custom_model_development"}
    return client.create_experiment(name, (artifacts / folder).as_uri() if artifacts else None, tags)


def _log(client: MlflowClient, record: Record, experiment: str, limit: float) -> int:
    """Log one run directory; gives the number of values left out because they are not finite."""
    start = round(1000 * (record.end - float(record.environment.get("seconds") or 0.0)))
    run = client.create_run(experiment, start, tags(record, limit), record.path.name).info.run_id
    metrics, skipped = _metrics(record)
    _log_in_batches(client, run, metrics, params(record.config))
    for name in ("config.yaml", "metrics.jsonl", "environment.json", "results", "checkpoint"):
        _upload(client, run, record.path / name, limit if name == "checkpoint" else math.inf)
    client.set_terminated(run, "FINISHED", round(1000 * record.end))
    return skipped


def tags(record: Record, limit: float = CHECKPOINT_MIB) -> dict[str, str]:
    """What to filter and group by, machine facts, and a description to read."""
    facts, cell = record.environment, record.cell
    found = {k: str(cell[k]) for k in ("method", "backbone", "data", "seed")}
    found |= {k: str(facts.get(k) or "") for k in ("run_key", "git_commit", "device")}
    found["checkpoint"] = str(record.path / "checkpoint")
    found["checkpoint_uploaded"] = str(_mib(record.path / "checkpoint") <= limit).lower()
    found |= {"content": record.content, "mlflow.source.name": "python -m compclip.train"}
    found |= {"mlflow.source.git.commit": found["git_commit"].rstrip("+")}
    return found | {"mlflow.note.content": _note(record)}


def _note(record: Record) -> str:
    cell = record.cell
    head = f"**{cell['method']}** on {cell['data']}, from {cell['backbone']}, seed {cell['seed']}."
    lines = [f"| {r.benchmark}/{m} | {v:.4f} |" for r in record.results for m, v in r.metrics.items() if "/" not in m]
    table = "\n".join(["| metric | value |", "| --- | ---: |", *lines]) if lines else "Not evaluated yet."
    return f"{head} Files: `{record.path}`.\n\n{table}"


def params(config: dict[str, Any]) -> dict[str, str]:
    """The resolved configuration with dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    found = {key.removeprefix("cell."): str(value) for key, value in flatten(config).items()
             if value != {}}
    return {k: v if len(v) <= LIMIT else v[: LIMIT - 1] + "…" for k, v in found.items()}


def _metrics(record: Record) -> tuple[list[Metric], int]:
    """Loss curves as train/<term> with the file's own steps and times, results as <benchmark>/<metric>."""
    from mlflow.entities import Metric

    values = [*_curve_values(record.curve), *_result_values(record)]
    kept = [Metric(k, float(v), round(1000 * t), s) for k, v, t, s in values if _finite(v)]
    return kept, len(values) - len(kept)


def _curve_values(curve: Iterable[dict[str, Any]]) -> Iterator[tuple[str, Any, float, int]]:
    for line in curve:
        for key, value in line.items():
            if key not in NOT_LOGGED:
                yield f"train/{key}", value, line["time"], line["step"]


def _result_values(record: Record) -> Iterator[tuple[str, Any, float, int]]:
    for result in record.results:
        for metric, value in result.metrics.items():
            yield f"{result.benchmark}/{metric}", value, record.end, 0


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _log_in_batches(client: MlflowClient, run: str, metrics: list[Metric], values: dict[str, str]) -> None:
    from mlflow.entities import Param

    found = [Param(k, v) for k, v in values.items()]
    for i in range(0, len(found), 100):
        client.log_batch(run, params=found[i : i + 100])
    for i in range(0, len(metrics), 1000):
        client.log_batch(run, metrics=metrics[i : i + 1000])


def _upload(client: MlflowClient, run: str, path: Path, limit: float) -> None:
    if path.is_file():
        client.log_artifact(run, str(path))
    elif path.is_dir() and _mib(path) <= limit:
        client.log_artifacts(run, str(path), path.name)


def _mib(folder: Path) -> float:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 2**20


if __name__ == "__main__":
    sys.exit(entry(main))
